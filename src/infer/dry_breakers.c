/* SPDX-License-Identifier: MIT */
#include "infer/dry_breakers_int.h"

#include <stdlib.h>
#include <string.h>

void sm_dry_breakers_free(struct sm_dry_breakers *b)
{
    if (!b) return;
    free(b->entry);
    free(b->tail);
    free(b);
}

size_t sm_dry_breakers_memory(const struct sm_dry_breakers *b)
{
    return sizeof *b + b->capacity * sizeof *b->entry + b->tail_capacity * sizeof *b->tail;
}

smol_status sm_dry_breakers_add(struct sm_dry_breakers *b, int32_t head, const int32_t *tail,
                                size_t n, smol_error *err)
{
    if (n > SM_BREAKER_TAIL) n = SM_BREAKER_TAIL;
    if (b->n == b->capacity) {
        const size_t more = b->capacity ? 2 * b->capacity : 256;
        void *p = realloc(b->entry, more * sizeof *b->entry);
        if (!p) return SM_FAIL(err, NOMEM, "no memory for sequence breakers");
        b->entry = p;
        b->capacity = more;
    }
    if (b->n_tail + n > b->tail_capacity) {
        const size_t more = 2 * b->tail_capacity + 4 * SM_BREAKER_TAIL;
        void *p = realloc(b->tail, more * sizeof *b->tail);
        if (!p) return SM_FAIL(err, NOMEM, "no memory for sequence breakers");
        b->tail = p;
        b->tail_capacity = more;
    }
    if (n) memcpy(b->tail + b->n_tail, tail, n * sizeof *tail);
    b->entry[b->n++] = (struct sm_breaker){.head = head, .n_tail = (uint32_t)n};
    b->n_tail += n;
    return SMOL_OK;
}

static int compare(const void *x, const void *y)
{
    const struct sm_breaker *a = x, *b = y;
    if (a->head != b->head) return a->head < b->head ? -1 : 1;
    if (a->n_tail != b->n_tail) return a->n_tail < b->n_tail ? -1 : 1;
    return a->n_tail ? memcmp(a->tail, b->tail, a->n_tail * sizeof *a->tail) : 0;
}

void sm_dry_breakers_finish(struct sm_dry_breakers *b)
{
    size_t at = 0, n = 0;
    for (size_t i = 0; i < b->n; i++) {
        b->entry[i].tail = b->tail + at;
        at += b->entry[i].n_tail;
    }
    if (b->n) qsort(b->entry, b->n, sizeof *b->entry, compare);
    for (size_t i = 0; i < b->n; i++)
        if (n == 0 || compare(&b->entry[n - 1], &b->entry[i]) != 0) b->entry[n++] = b->entry[i];
    b->n = n;
}

smol_status sm_dry_breakers_of_ids(struct sm_dry_breakers **out, const int32_t *ids,
                                   const size_t *start, size_t n_sequences, smol_error *err)
{
    smol_status st = SMOL_OK;
    struct sm_dry_breakers *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return SM_FAIL(err, NOMEM, "no memory for sequence breakers");
    for (size_t i = 0; i < n_sequences; i++) {
        const size_t n = start[i + 1] - start[i];
        if (n == 0 || n > 1 + SM_BREAKER_TAIL) {
            st = SM_FAIL(err, ARG, "a sequence breaker of %zu tokens; 1 to %u are possible", n,
                         1 + SM_BREAKER_TAIL);
            goto out;
        }
        SM_TRY_OUT(st, sm_dry_breakers_add(b, ids[start[i]], ids + start[i] + 1, n - 1, err));
    }
    sm_dry_breakers_finish(b);
    *out = b;
    b = NULL;
out:
    sm_dry_breakers_free(b);
    return st;
}

size_t sm_dry_breakers_find(const struct sm_dry_breakers *b, int32_t head,
                            const struct sm_breaker **first)
{
    size_t lo = 0, hi = b->n, n = 0;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (b->entry[mid].head < head) lo = mid + 1;
        else hi = mid;
    }
    while (lo + n < b->n && b->entry[lo + n].head == head) n++;
    *first = b->entry + lo;
    return n;
}
