/* SPDX-License-Identifier: MIT */
/* Text to ids: cut at special tokens, encode what is between them, add begin and end. */
#include "tok/vocab.h"

#include <stdlib.h>

bool sm_ids_grow(struct sm_ids *ids)
{
    const size_t cap = ids->cap < 32 ? 32 : ids->cap + ids->cap / 2;
    int32_t *p = realloc(ids->p, cap * sizeof *p);
    if (!p) return false;
    ids->p = p;
    ids->cap = cap;
    return true;
}

/* A part of the input: text, or one special token. */
struct part {
    size_t at, n;
    uint32_t id; /* SM_TOK_NONE: text */
};
struct parts {
    struct part *p;
    size_t n, cap;
};

static bool put_part(struct parts *parts, size_t at, size_t n, uint32_t id)
{
    if (n == 0) return true;
    if (parts->n == parts->cap) {
        const size_t cap = parts->cap < 16 ? 16 : parts->cap + parts->cap / 2;
        struct part *p = realloc(parts->p, cap * sizeof *p);
        if (!p) return false;
        parts->p = p;
        parts->cap = cap;
    }
    parts->p[parts->n++] = (struct part){at, n, id};
    return true;
}

/* With SM_TOK_PARSE_SPECIAL all special tokens are looked for, else those the file calls
 * user-defined. */
static bool is_wanted(const struct sm_tok *t, uint32_t id, unsigned flags)
{
    return (flags & SM_TOK_PARSE_SPECIAL) || sm_vocab_type(t, id) == SM_TOK_USER;
}

/* First of special[lo .. hi-1], all alike in their first `depth` bytes, whose next byte is at least
 * c. Texts that end there come before all others. */
static uint32_t first_with(const struct sm_tok *t, uint32_t lo, uint32_t hi, uint32_t depth,
                           unsigned c)
{
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        uint32_t n;
        const char *p = sm_vocab_text(t, t->special[mid], &n);
        if (n <= depth || (uint8_t)p[depth] < c) lo = mid + 1;
        else hi = mid;
    }
    return lo;
}

/* Mark in `seen` each special token that starts at text[0]; narrows the sorted list byte by byte.
 */
static bool look_at(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                    uint8_t *seen)
{
    uint32_t lo = t->special_first[(uint8_t)text[0]], hi = t->special_first[(uint8_t)text[0] + 1];
    bool found = false;
    for (uint32_t depth = 1; lo < hi; depth++) {
        uint32_t len;
        (void)sm_vocab_text(t, t->special[lo], &len);
        if (len == depth && is_wanted(t, t->special[lo], flags)) {
            seen[lo] = 1;
            found = true;
        }
        if (depth == n) break;
        const unsigned c = (uint8_t)text[depth];
        lo = first_with(t, lo, hi, depth, c);
        hi = first_with(t, lo, hi, depth, c + 1);
    }
    return found;
}

/* Longest first, then by id. */
static int by_length(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    if (x->n != y->n) return x->n < y->n ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* The special tokens that occur in the text at all, longest first. Usually none. */
static bool list_occurring(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                           struct parts *out)
{
    if (t->n_special == 0) return true;
    uint8_t *seen = calloc(t->n_special, 1);
    bool good = seen != NULL, any = false;
    for (size_t i = 0; good && i < n; i++) {
        const uint8_t b = (uint8_t)text[i];
        if (t->special_first[b] < t->special_first[b + 1])
            any |= look_at(t, text + i, n - i, flags, seen);
    }
    for (uint32_t i = 0; good && any && i < t->n_special; i++) {
        uint32_t len;
        (void)sm_vocab_text(t, t->special[i], &len);
        if (seen[i]) good = put_part(out, 0, len, t->special[i]);
    }
    if (out->n > 1) qsort(out->p, out->n, sizeof *out->p, by_length);
    free(seen);
    return good;
}

/* Cut one part of text at each occurrence of one special token; a control token must not contain a
 * byte that is marked in `typed` (NULL: none is). */
static bool cut_part(const struct sm_tok *t, const char *text, const uint8_t *typed,
                     struct part part, uint32_t id, struct parts *out)
{
    uint32_t len;
    const char *want = sm_vocab_text(t, id, &len);
    size_t at = part.at, from = part.at; /* text not yet put out, and where to look on */
    const size_t end = part.at + part.n;
    const bool anywhere = !typed || sm_vocab_type(t, id) == SM_TOK_USER;
    while (end - from >= len) {
        const char *hit = memmem(text + from, end - from, want, len);
        if (!hit) break;
        const size_t begin = (size_t)(hit - text);
        if (!anywhere && memchr(typed + begin, 1, len)) {
            from = begin + 1;
            continue;
        }
        if (!put_part(out, at, begin - at, SM_TOK_NONE) || !put_part(out, begin, len, id))
            return false;
        at = begin + len;
        while ((t->kind[id] & SM_TOK_RSTRIP) && at < end &&
               (text[at] == ' ' || (text[at] >= '\t' && text[at] <= '\r')))
            at++;
        from = at;
    }
    return put_part(out, at, end - at, SM_TOK_NONE);
}

/* Each special token cuts every part of text that longer ones have left. */
static bool cut_at_special(const struct sm_tok *t, const char *text, const uint8_t *typed, size_t n,
                           unsigned flags, struct parts *parts)
{
    struct parts special = {0};
    bool good = put_part(parts, 0, n, SM_TOK_NONE) && list_occurring(t, text, n, flags, &special);
    for (size_t i = 0; good && i < special.n; i++) {
        struct parts next = {0};
        for (size_t k = 0; good && k < parts->n; k++) {
            const struct part p = parts->p[k];
            good = p.id == SM_TOK_NONE ? cut_part(t, text, typed, p, special.p[i].id, &next)
                                       : put_part(&next, p.at, p.n, p.id);
        }
        free(parts->p);
        *parts = next;
    }
    free(special.p);
    return good;
}

static bool encode_parts(const struct sm_tok *t, const char *text, const struct parts *parts,
                         struct sm_ids *ids)
{
    bool first = true; /* of the text, or behind a special token */
    for (size_t i = 0; i < parts->n; i++) {
        const struct part p = parts->p[i];
        bool good;
        if (p.id != SM_TOK_NONE) good = sm_ids_put(ids, p.id);
        else if (t->spm) good = sm_spm_encode(t, text + p.at, p.n, first && t->add_space, ids);
        else good = sm_bpe_encode(t, text + p.at, p.n, ids);
        if (!good) return false;
        first = p.id != SM_TOK_NONE;
    }
    return true;
}

smol_status sm_tok_encode(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                          int32_t **ids, size_t *n_ids, smol_error *err)
{
    return sm_tok_encode_typed(t, text, NULL, n, flags, ids, n_ids, err);
}

smol_status sm_tok_encode_typed(const struct sm_tok *t, const char *text, const uint8_t *typed,
                                size_t n, unsigned flags, int32_t **out, size_t *n_ids,
                                smol_error *err)
{
    struct parts parts = {0};
    struct sm_ids ids = {0};
    *out = NULL;
    *n_ids = 0;
    if (n > INT32_MAX / 3)
        return SM_FAIL(err, LIMIT, "text of %zu bytes: at most %d can be tokenised at once", n,
                       INT32_MAX / 3);
    bool good = true;
    const bool begin = (flags & SM_TOK_ADD_SPECIAL) && sm_tok_add_bos(t);
    if (begin) good = sm_ids_put(&ids, (uint32_t)t->bos);
    good = good && cut_at_special(t, text, typed, n, flags, &parts);
    /* a text that brings its own begin token keeps that one */
    if (good && begin && parts.n > 0 && parts.p[0].id == (uint32_t)t->bos) ids.n = 0;
    good = good && encode_parts(t, text, &parts, &ids);
    if (good && (flags & SM_TOK_ADD_SPECIAL) && sm_tok_add_eos(t))
        good = sm_ids_put(&ids, (uint32_t)t->eos);
    good = good && (ids.p || sm_ids_grow(&ids)); /* never NULL on success */
    free(parts.p);
    if (!good) {
        free(ids.p);
        return SM_FAIL(err, NOMEM, "no memory to tokenise a text of %zu bytes", n);
    }
    *out = ids.p;
    *n_ids = ids.n;
    return SMOL_OK;
}
