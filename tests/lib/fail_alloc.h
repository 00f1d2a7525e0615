/* SPDX-License-Identifier: MIT */
/* Counting and failing allocations. Works in programs that are linked with the linker's --wrap for
 * these functions; tests/meson.build does so for tests whose name ends in _alloc. Seen are calls
 * from the library and the tests, not those inside libc. Thread-safe.
 *
 *   for (uint64_t n = 1;; n++) {
 *       alloc_fail_at(n);
 *       st = thing_new(...);
 *       if (!alloc_failed()) break;            all of them succeeded: done
 *       TAP_OK(st == SMOL_NOMEM, ...); no leak: alloc_live() as before
 *   }
 *   alloc_fail_at(0); */
#ifndef SM_TESTS_FAIL_ALLOC_H
#define SM_TESTS_FAIL_ALLOC_H

#include <stdbool.h>
#include <stdint.h>

/* The n-th allocation from now fails, once (0: none); also zeroes alloc_count. */
void alloc_fail_at(uint64_t n);
/* True when the planned failure has happened. */
bool alloc_failed(void);
/* Allocations since the last alloc_fail_at. Frees are not counted. */
uint64_t alloc_count(void);
/* Blocks and mappings that are held now. */
int64_t alloc_live(void);

#endif
