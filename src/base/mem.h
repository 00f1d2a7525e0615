/* SPDX-License-Identifier: MIT */
/* Memory: zeroed aligned blocks for what lives as long as a model, and an arena laid out before
 * anything is allocated. Thread rule: sm_mem_* is thread-safe, an arena belongs to one thread. */
#ifndef SM_BASE_MEM_H
#define SM_BASE_MEM_H

#include "base/status.h"

#define SM_ALIGN ((size_t)64) /* one cache line, one AVX-512 vector */

/* Round up to a multiple of a power of two. */
static inline size_t sm_round_up(size_t n, size_t to) { return (n + to - 1) & ~(to - 1); }
static inline uint64_t sm_round_up64(uint64_t n, uint64_t to) { return (n + to - 1) & ~(to - 1); }

/* false when a*b or a+b does not fit; the result is written only on success. */
SM_NODISCARD static inline int sm_mul_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
SM_NODISCARD static inline int sm_add_ok(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

/* Zeroed, 64-byte aligned (page-aligned and hugepage-friendly from 1 MiB). NULL when out of
 * memory or n == 0. Free with sm_mem_free(p, n): the same n. Bytes held are counted. */
SM_NODISCARD void *sm_mem_new(size_t n);
void sm_mem_free(void *p, size_t n);
/* Bytes currently held by sm_mem_new, all threads. */
size_t sm_mem_held(void);

/* An arena is filled twice by the same code: first with base == NULL, when sm_arena_take only
 * counts and returns NULL, then for real with a block of the counted size. */
struct sm_arena {
    uint8_t *base;   /* NULL while counting */
    size_t used;     /* bytes handed out, a multiple of SM_ALIGN */
    size_t capacity; /* ignored while counting */
};
/* n bytes, 64-byte aligned. Asserts on overflow of a real arena: the plan was wrong. A size that
 * does not fit in memory at all counts as the largest possible. */
void *sm_arena_take(struct sm_arena *a, size_t n);
void *sm_arena_take_n(struct sm_arena *a, size_t size, size_t count);
#define SM_ARENA_NEW(a, type, count) ((type *)sm_arena_take_n((a), sizeof(type), (size_t)(count)))

#endif
