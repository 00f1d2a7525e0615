/* SPDX-License-Identifier: MIT */
#include "base/mem.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define BIG_BYTES ((size_t)1 << 20)

static atomic_size_t held;

void *sm_mem_new(size_t n)
{
    void *p = NULL;
    if (n == 0 || n > SIZE_MAX / 2) return NULL; /* no object is larger */
    if (posix_memalign(&p, n >= BIG_BYTES ? 4096 : SM_ALIGN, n)) return NULL;
    memset(p, 0, n); /* touched here, so that nothing faults or fails later */
    atomic_fetch_add(&held, n);
    return p;
}

void sm_mem_free(void *p, size_t n)
{
    if (!p) return;
    atomic_fetch_sub(&held, n);
    free(p);
}

size_t sm_mem_held(void) { return atomic_load(&held); }

void *sm_arena_take_n(struct sm_arena *a, size_t size, size_t count)
{
    const size_t at = a->used;
    size_t n = 0;
    if (__builtin_mul_overflow(size, count, &n) || n > SIZE_MAX - SM_ALIGN ||
        __builtin_add_overflow(at, sm_round_up(n, SM_ALIGN), &a->used))
        a->used = SIZE_MAX & ~(SM_ALIGN - 1); /* more than any budget grants */
    if (!a->base) return NULL;
    assert(a->used <= a->capacity);
    return a->base + at;
}

void *sm_arena_take(struct sm_arena *a, size_t n) { return sm_arena_take_n(a, n, 1); }
