/* SPDX-License-Identifier: MIT */
/* SPM: spaces become U+2581, then the adjacent pair of symbols whose text together is the token of
 * the highest score is joined again and again, the leftmost of equals first. What is no token at
 * the end becomes the tokens of its bytes. */
#include "tok/merge_heap.h"
#include "tok/vocab.h"

#include <stdlib.h>

static const char SPACE[] = "\xe2\x96\x81";

/* Up to so many symbols a scan for the best pair beats a heap. */
#define SMALL 48u

struct job {
    const struct sm_tok *t;
    struct sm_ids *ids;
    char *text; /* the segment being merged, spaces replaced */
    size_t n, cap;
    struct sm_merge merge; /* long segments */
    uint32_t *pair;        /* [pair_cap] token of the span at a position and the next, NONE */
    size_t pair_cap;
};

/* Length of the symbol at p by its first byte, cut at the end of the text. */
static size_t symbol(const char *p, size_t left)
{
    const uint8_t b = (uint8_t)*p;
    const size_t n = b < 0xc0 ? 1 : b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    return n < left ? n : left;
}

/* A symbol at the end: a token, or its bytes. */
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

/* Symbol i is text[at[i] .. at[i + 1] - 1]; pair[i] is the token of it and the next one. */
static bool merge_small(struct job *j, size_t n)
{
    const struct sm_tok *t = j->t;
    uint32_t at[SMALL + 1], pair[SMALL];
    at[0] = 0;
    for (size_t i = 0; i < n; i++)
        at[i + 1] = at[i] + (uint32_t)symbol(j->text + at[i], j->n - at[i]);
    for (size_t i = 0; i + 1 < n; i++)
        pair[i] = sm_vocab_find(t, j->text + at[i], at[i + 2] - at[i]);
    while (n > 1) {
        size_t best = n;
        for (size_t i = 0; i + 1 < n; i++)
            if (pair[i] != SM_TOK_NONE &&
                (best == n || t->priority[pair[i]] < t->priority[pair[best]]))
                best = i;
        if (best == n) break;
        n--;
        for (size_t i = best + 1; i <= n; i++) at[i] = at[i + 1];
        for (size_t i = best + 1; i + 1 < n; i++) pair[i] = pair[i + 1];
        if (best > 0)
            pair[best - 1] = sm_vocab_find(t, j->text + at[best - 1], at[best + 1] - at[best - 1]);
        if (best + 1 < n)
            pair[best] = sm_vocab_find(t, j->text + at[best], at[best + 2] - at[best]);
    }
    for (size_t i = 0; i < n; i++)
        if (!put_symbol(j, j->text + at[i], at[i + 1] - at[i])) return false;
    return true;
}

static bool reserve(struct job *j, size_t n)
{
    if (n > j->pair_cap) {
        free(j->pair);
        j->pair_cap = 0;
        j->pair = malloc(n * sizeof *j->pair);
        if (!j->pair) return false;
        j->pair_cap = n;
    }
    return sm_merge_begin(&j->merge, n);
}

/* Look the pair at `at` up. Its candidate, UINT64_MAX: it is no token. */
static uint64_t look(struct job *j, size_t at)
{
    const struct sm_merge *m = &j->merge;
    const size_t next = sm_merge_behind(m, at);
    j->pair[at] = SM_TOK_NONE;
    if (next == m->n_pos) return UINT64_MAX;
    const uint32_t id = sm_vocab_find(j->t, j->text + at, (size_t)m->len[at] + m->len[next]);
    j->pair[at] = id;
    return id == SM_TOK_NONE ? UINT64_MAX : (uint64_t)j->t->priority[id] << 32 | at;
}

static bool offer(struct job *j, size_t at)
{
    const uint64_t c = look(j, at);
    return c == UINT64_MAX || sm_merge_push(&j->merge, c);
}

static bool merge_long(struct job *j)
{
    struct sm_merge *m = &j->merge;
    const size_t n = j->n;
    if (!reserve(j, n)) return false;
    for (size_t i = 0; i < n; i += m->len[i]) sm_merge_span(m, i, symbol(j->text + i, n - i));
    for (size_t i = 0; i < n; i += m->len[i]) {
        const uint64_t c = look(j, i);
        if (c != UINT64_MAX && !sm_merge_append(m, c)) return false;
    }
    sm_merge_order(m);
    while (m->n > 0) {
        const uint64_t top = sm_merge_pop(m);
        const size_t at = (uint32_t)top;
        const uint32_t id = m->len[at] ? j->pair[at] : SM_TOK_NONE;
        if (id == SM_TOK_NONE || j->t->priority[id] != top >> 32) continue;
        sm_merge_join(m, at);
        const size_t before = sm_merge_before(m, at);
        if ((before != SIZE_MAX && !offer(j, before)) || !offer(j, at)) return false;
    }
    for (size_t i = 0; i < n; i += m->len[i])
        if (!put_symbol(j, j->text + i, m->len[i])) return false;
    return true;
}

/* Merge the segment j->text[0 .. n-1]. */
static bool merge_segment(struct job *j)
{
    size_t symbols = 0;
    for (size_t i = 0; i < j->n && symbols <= SMALL; symbols++) i += symbol(j->text + i, j->n - i);
    const bool good = symbols <= SMALL ? merge_small(j, symbols) : merge_long(j);
    j->n = 0;
    return good;
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
    free(j.pair);
    free(j.text);
    return good;
}
