/* SPDX-License-Identifier: MIT */
#include "tok/merge_heap.h"

#include <stdlib.h>
#include <string.h>

bool sm_merge_begin(struct sm_merge *m, size_t n_pos)
{
    m->n = 0;
    m->n_pos = n_pos;
    if (n_pos > m->cap_pos) {
        free(m->len);
        m->cap_pos = 0;
        m->len = malloc(n_pos * 2 * sizeof *m->len); /* n_pos < 2^32 */
        if (!m->len) return false;
        m->cap_pos = n_pos;
    }
    m->back = m->len + m->cap_pos;
    memset(m->len, 0, n_pos * sizeof *m->len);
    return true;
}

void sm_merge_free(struct sm_merge *m)
{
    free(m->heap);
    free(m->len);
}

bool sm_merge_append(struct sm_merge *m, uint64_t candidate)
{
    if (m->n == m->cap) {
        const size_t cap = m->cap < 64 ? 64 : m->cap + m->cap / 2;
        uint64_t *heap = realloc(m->heap, cap * sizeof *heap);
        if (!heap) return false;
        m->heap = heap;
        m->cap = cap;
    }
    m->heap[m->n++] = candidate;
    return true;
}

static void sift_down(uint64_t *heap, size_t n, size_t i)
{
    const uint64_t v = heap[i];
    for (size_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && heap[child + 1] < heap[child]) child++;
        if (heap[child] >= v) break;
        heap[i] = heap[child];
    }
    heap[i] = v;
}

void sm_merge_order(struct sm_merge *m)
{
    for (size_t i = m->n / 2; i-- > 0;) sift_down(m->heap, m->n, i);
}

bool sm_merge_push(struct sm_merge *m, uint64_t candidate)
{
    if (!sm_merge_append(m, candidate)) return false;
    size_t i = m->n - 1;
    for (size_t up; i > 0 && m->heap[up = (i - 1) / 2] > candidate; i = up)
        m->heap[i] = m->heap[up];
    m->heap[i] = candidate;
    return true;
}

uint64_t sm_merge_pop(struct sm_merge *m)
{
    const uint64_t top = m->heap[0];
    m->heap[0] = m->heap[--m->n];
    if (m->n > 1) sift_down(m->heap, m->n, 0);
    return top;
}
