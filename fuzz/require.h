/* SPDX-License-Identifier: MIT */
/* What every fuzz target needs: its entry, and an assertion that also holds without debugging. */
#ifndef SM_FUZZ_REQUIRE_H
#define SM_FUZZ_REQUIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Else say what does not hold, and abort. */
#define require(holds) require_that(holds, #holds)
#define require_that(holds, what) require_at(holds, what, __FILE__, __LINE__)
static inline void require_at(bool holds, const char *what, const char *file, int line)
{
    if (holds) return;
    fprintf(stderr, "%s:%d: %s\n", file, line, what);
    abort();
}

#endif
