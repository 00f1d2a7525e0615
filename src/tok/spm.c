/* SPDX-License-Identifier: MIT */
/* SPM: spaces become U+2581, then the adjacent pair of symbols whose text together is the token of
 * the highest score is joined again and again, the leftmost of equals first. What is no token at
 * the end becomes the tokens of its bytes. */
#include "tok/merge_heap.h"
#include "tok/vocab.h"

#include <stdlib.h>

static const char SPACE[] = "\xe2\x96\x81";

struct job {
    const struct sm_tok *t;
    struct sm_ids *ids;
    struct sm_merge merge;
    char *text; /* the segment being merged, spaces replaced */
    size_t n, cap;
};

/* Length of the symbol at p by its first byte, cut at the end of the text. */
static size_t symbol(const char *p, size_t left)
{
    const uint8_t b = (uint8_t)*p;
    const size_t n = b < 0xc0 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    return n < left ? n : left;
}

/* Candidate of the span at `at` and the one behind it, UINT64_MAX: together they are no token. */
static uint64_t candidate(const struct job *j, size_t at)
{
    const struct sm_merge *m = &j->merge;
    const size_t next = sm_merge_behind(m, at);
    if (next == m->n_pos) return UINT64_MAX;
    const uint32_t id = sm_vocab_find(j->t, j->text + at, (size_t)m->len[at] + m->len[next]);
    return id == SM_TOK_NONE ? UINT64_MAX : (uint64_t)j->t->priority[id] << 32 | at;
}

static bool offer(struct job *j, size_t at)
{
    const uint64_t c = candidate(j, at);
    return c == UINT64_MAX || sm_merge_push(&j->merge, c);
}

static bool put_symbol(struct job *j, const char *p, size_t n)
{
    const uint32_t id = sm_vocab_find(j->t, p, n);
    if (id != SM_TOK_NONE) return sm_ids_put(j->ids, id);
    for (size_t i = 0; i < n; i++) {
        const uint32_t byte = j->t->byte_id[(uint8_t)p[i]];
        if (byte != SM_TOK_NONE ? !sm_ids_put(j->ids, byte) : !sm_ids_put_unknown(j->ids, j->t))
            return false;
    }
    return true;
}

/* Merge the segment j->text[0 .. n-1]. */
static bool merge_segment(struct job *j)
{
    struct sm_merge *m = &j->merge;
    const size_t n = j->n;
    if (n == 0) return true;
    if (!sm_merge_begin(m, n)) return false;
    for (size_t i = 0; i < n; i += m->len[i]) sm_merge_span(m, i, symbol(j->text + i, n - i));
    for (size_t i = 0; i < n; i += m->len[i]) {
        const uint64_t c = candidate(j, i);
        if (c != UINT64_MAX && !sm_merge_append(m, c)) return false;
    }
    sm_merge_order(m);
    while (m->n > 0) {
        const uint64_t top = sm_merge_pop(m);
        const size_t at = (uint32_t)top;
        if (m->len[at] == 0 || candidate(j, at) != top) continue;
        sm_merge_join(m, at);
        const size_t before = sm_merge_before(m, at);
        if ((before != SIZE_MAX && !offer(j, before)) || !offer(j, at)) return false;
    }
    for (size_t i = 0; i < n; i += m->len[i])
        if (!put_symbol(j, j->text + i, m->len[i])) return false;
    j->n = 0;
    return true;
}

static bool append(struct job *j, const char *p, size_t n)
{
    if (j->cap - j->n < n) {
        const size_t cap = j->cap + j->cap / 2 + 256;
        char *text = realloc(j->text, cap);
        if (!text) return false;
        j->text = text;
        j->cap = cap;
    }
    memcpy(j->text + j->n, p, n);
    j->n += n;
    return true;
}

/* Replace spaces and cut the text into segments. Symbols are those of the replaced text: a stray
 * lead byte before a space takes a part of its U+2581 along. */
static bool encode(struct job *j, const char *text, size_t n, bool space)
{
    bool in_space = true; /* the last symbol was a space, or there is none */
    size_t end = 0;       /* of the symbol that the next byte belongs to, in j->text */
    if (space && !append(j, SPACE, 3)) return false;
    for (size_t i = 0; i < n; i++) {
        const bool blank = text[i] == ' ';
        if (j->n >= end) {
            const bool is_space = blank || (n - i >= 3 && !memcmp(text + i, SPACE, 3));
            if (is_space && !in_space && j->t->cut_at_space && !merge_segment(j)) return false;
            in_space = is_space;
            end = j->n + (blank ? 3 : symbol(text + i, SIZE_MAX));
        }
        if (!append(j, blank ? SPACE : text + i, blank ? 3 : 1)) return false;
    }
    return merge_segment(j);
}

bool sm_spm_encode(const struct sm_tok *t, const char *text, size_t n, bool space,
                   struct sm_ids *ids)
{
    struct job j = {.t = t, .ids = ids};
    const bool good = n == 0 || encode(&j, text, n, space);
    sm_merge_free(&j.merge);
    free(j.text);
    return good;
}
