/* SPDX-License-Identifier: MIT */
/* What merging of long pieces needs: a heap of candidate pairs, and spans over positions.
 *
 * A candidate is priority << 32 | position of its left part, so the smallest is the next one and
 * ties go to the left. Candidates are never removed when they become stale: whoever takes one out
 * looks whether the pair at its position still has that priority.
 *
 * A piece of n positions starts as spans of one or more positions. len[i] is the length of the span
 * that starts at i (0: none does), back[i] that of the span that ends at i. */
#ifndef SM_TOK_MERGE_HEAP_H
#define SM_TOK_MERGE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sm_merge {
    uint64_t *heap;
    size_t n, cap;
    uint16_t *len, *back;
    size_t n_pos, cap_pos;
};

/* Room for n_pos positions, all of length 0, and an empty heap. false: no memory. */
bool sm_merge_begin(struct sm_merge *m, size_t n_pos);
void sm_merge_free(struct sm_merge *m);

/* Append without order; sm_merge_order makes a heap of what was appended. */
bool sm_merge_append(struct sm_merge *m, uint64_t candidate);
void sm_merge_order(struct sm_merge *m);
bool sm_merge_push(struct sm_merge *m, uint64_t candidate);
uint64_t sm_merge_pop(struct sm_merge *m); /* n > 0 */

static inline void sm_merge_span(struct sm_merge *m, size_t at, size_t len)
{
    m->len[at] = (uint16_t)len;
    m->back[at + len - 1] = (uint16_t)len;
}
/* Join the span at `at` with the one behind it. */
static inline void sm_merge_join(struct sm_merge *m, size_t at)
{
    const size_t next = at + m->len[at], len = (size_t)m->len[at] + m->len[next];
    m->len[next] = 0;
    sm_merge_span(m, at, len);
}
/* Start of the span before the one at `at`, SIZE_MAX: there is none. */
static inline size_t sm_merge_before(const struct sm_merge *m, size_t at)
{
    return at == 0 ? SIZE_MAX : at - m->back[at - 1];
}
/* Start of the span behind the one at `at`, n_pos: there is none. */
static inline size_t sm_merge_behind(const struct sm_merge *m, size_t at)
{
    return at + m->len[at];
}

#endif
