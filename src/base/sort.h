/* SPDX-License-Identifier: MIT */
/* Sorting of numbers whose order needs a table beside them, for lists that came from files: no
 * extra memory, no recursion, n log n whatever the order was. Pure, any thread. */
#ifndef SM_BASE_SORT_H
#define SM_BASE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* True when a goes before b. */
typedef bool (*sm_before_fn)(const void *arg, uint32_t a, uint32_t b);

/* Sort v[n]; equal ones end up in any order, always the same. */
void sm_sort_u32(uint32_t *v, size_t n, sm_before_fn before, const void *arg);

#endif
