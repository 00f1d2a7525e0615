/* SPDX-License-Identifier: MIT */
/* Heap sort. */
#include "base/sort.h"

static void swap(uint32_t *a, uint32_t *b)
{
    const uint32_t t = *a;
    *a = *b;
    *b = t;
}

static void sift_down(uint32_t *v, size_t root, size_t n, sm_before_fn before, const void *arg)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(arg, v[child], v[child + 1])) child++;
        if (!before(arg, v[root], v[child])) return;
        swap(&v[root], &v[child]);
    }
}

void sm_sort_u32(uint32_t *v, size_t n, sm_before_fn before, const void *arg)
{
    for (size_t i = n / 2; i-- > 0;) sift_down(v, i, n, before, arg);
    for (size_t last = n; last-- > 1;) {
        swap(&v[0], &v[last]);
        sift_down(v, 0, last, before, arg);
    }
}
