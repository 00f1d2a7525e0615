/* SPDX-License-Identifier: MIT */
#include "tok/vocab.h"

#include "base/mem.h"

#define EMPTY UINT32_MAX

void *sm_vocab_take(struct sm_tok *t, size_t count, size_t size, smol_status *st, smol_error *err)
{
    uint64_t bytes = 0;
    void *p = NULL;
    if (*st != SMOL_OK) return NULL;
    if (count == 0) count = 1;
    if (sm_mul_ok(count, size, &bytes) && bytes <= SIZE_MAX) p = sm_mem_new((size_t)bytes);
    if (!p) {
        *st = SM_FAIL(err, NOMEM, "no memory for a tokeniser table of %llu bytes",
                      (unsigned long long)bytes);
        return NULL;
    }
    t->memory += (size_t)bytes;
    return p;
}

static void give(void *p, size_t count, size_t size) { sm_mem_free(p, (count ? count : 1) * size); }

void sm_vocab_release(struct sm_tok *t)
{
    give(t->text, t->text_bytes, 1);
    give(t->base, (size_t)t->n_vocab / 16 + 1, sizeof *t->base);
    give(t->start, (size_t)t->n_vocab + 1, sizeof *t->start);
    give(t->kind, t->n_vocab, 1);
    give(t->slot, t->n_slot, sizeof *t->slot);
    give(t->pair, t->n_pair, sizeof *t->pair);
    give(t->merged, t->n_merge, sizeof *t->merged);
    give(t->priority, t->n_vocab, sizeof *t->priority);
    give(t->special, t->n_special, sizeof *t->special);
}

/* Eight bytes at a time: multiply, then fold the high half into the low one. */
static inline uint64_t hash_text(const char *p, size_t n)
{
    uint64_t h = n * 0x9e3779b97f4a7c15u;
    for (; n >= 8; p += 8, n -= 8) {
        h = (h ^ sm_ld64(p)) * 0xd6e8feb86659fd93u;
        h ^= h >> 32;
    }
    uint64_t rest = 0;
    if (n >= 4) {
        rest = sm_ld32(p) | (uint64_t)sm_ld32(p + n - 4) << 32;
    } else if (n > 0) {
        rest = (uint64_t)(uint8_t)p[0] << 16 | (uint64_t)(uint8_t)p[n / 2] << 8 | (uint8_t)p[n - 1];
    }
    h = (h ^ rest) * 0xd6e8feb86659fd93u;
    h ^= h >> 32;
    return h * 0xd6e8feb86659fd93u;
}

static inline uint32_t first_slot(const struct sm_tok *t, uint64_t h)
{
    return (uint32_t)(((h >> 32) * t->n_slot) >> 32);
}
/* The part of the hash that is kept beside the id (never all ones together with the id). */
static inline uint32_t tag_of(const struct sm_tok *t, uint64_t h)
{
    return (uint32_t)h << t->id_bits;
}

static bool same(const struct sm_tok *t, uint32_t id, const char *text, size_t n)
{
    uint32_t len;
    const char *p = sm_vocab_text(t, id, &len);
    return len == n && !memcmp(p, text, n);
}

/* The slot that holds the text, or the empty one where it belongs. */
static uint32_t *locate(const struct sm_tok *t, const char *text, size_t n, uint32_t *tag)
{
    const uint64_t h = hash_text(text, n);
    const uint32_t ids = (1u << t->id_bits) - 1;
    *tag = tag_of(t, h);
    for (uint32_t i = first_slot(t, h);;) {
        const uint32_t slot = t->slot[i];
        if (slot == EMPTY) return &t->slot[i];
        if ((slot & ~ids) == *tag && same(t, slot & ids, text, n)) return &t->slot[i];
        if (++i == t->n_slot) i = 0;
    }
}

uint32_t sm_vocab_find(const struct sm_tok *t, const char *text, size_t n)
{
    uint32_t tag;
    if (n == 0 || n > t->text_max) return SM_TOK_NONE;
    const uint32_t slot = *locate(t, text, n, &tag);
    return slot == EMPTY ? SM_TOK_NONE : slot & ((1u << t->id_bits) - 1);
}

smol_status sm_vocab_index(struct sm_tok *t, smol_error *err)
{
    smol_status st = SMOL_OK;
    t->id_bits = 1;
    while (t->n_vocab >> t->id_bits) t->id_bits++; /* so that all ones is no id */
    t->n_slot = t->n_vocab + t->n_vocab / 4 + 8;   /* four fifths full */
    t->slot = sm_vocab_take(t, t->n_slot, sizeof *t->slot, &st, err);
    if (st != SMOL_OK) return st;
    memset(t->slot, 0xff, t->n_slot * sizeof *t->slot);
    for (uint32_t id = 0; id < t->n_vocab; id++) {
        uint32_t n, tag;
        const char *text = sm_vocab_text(t, id, &n);
        if (n == 0) continue;
        uint32_t *slot = locate(t, text, n, &tag);
        if (*slot != EMPTY)
            return SM_FAIL(err, FORMAT, "vocabulary: token %u has the same text as token %u", id,
                           *slot & ((1u << t->id_bits) - 1));
        *slot = tag | id;
    }
    return SMOL_OK;
}

/* Most results of merges are numbered in the order of the merges: try the next id first. */
static uint32_t find_near(const struct sm_tok *t, const char *text, size_t n, uint32_t guess)
{
    if (guess < t->n_vocab && same(t, guess, text, n)) return guess;
    return sm_vocab_find(t, text, n);
}

static void add_pair(struct sm_tok *t, uint64_t key, uint32_t rank)
{
    uint32_t i = sm_vocab_pair_slot(t, key);
    for (; t->pair[i] != UINT64_MAX; i = i + 1 == t->n_pair ? 0 : i + 1)
        if (t->pair[i] >> SM_TOK_RANK_BITS == key) return; /* listed twice: the first counts */
    t->pair[i] = key << SM_TOK_RANK_BITS | rank;
}

/* Note that the merge of `rank` makes `result`: a table is kept from the first one on that does not
 * follow the others in order. */
static smol_status add_result(struct sm_tok *t, uint32_t rank, uint32_t result, bool first,
                              smol_error *err)
{
    smol_status st = SMOL_OK;
    if (first) t->first_merged = result - rank;
    if (!t->merged && result == t->first_merged + rank) return SMOL_OK;
    if (!t->merged) {
        t->merged = sm_vocab_take(t, t->n_merge, sizeof *t->merged, &st, err);
        if (st != SMOL_OK) return st;
        for (uint32_t r = 0; r < rank; r++) t->merged[r] = t->first_merged + r;
    }
    t->merged[rank] = result;
    return SMOL_OK;
}

/* "LEFT RIGHT", cut at the first space behind the first byte. A merge whose parts or result are no
 * tokens can never be used (no real vocabulary has one) and is left out. */
static smol_status add_merge(struct sm_tok *t, struct sm_str s, uint32_t rank, uint32_t *guess,
                             smol_error *err)
{
    char both[2 * SM_TOK_BYTES_MAX + 8];
    const char *space = s.n > 1 ? memchr(s.p + 1, ' ', s.n - 1) : NULL;
    if (!space || s.n - 1 > t->text_max || s.n - 1 > sizeof both) return SMOL_OK;
    const size_t n = (size_t)(space - s.p);
    const uint32_t left = sm_vocab_find(t, s.p, n);
    const uint32_t right = sm_vocab_find(t, space + 1, s.n - n - 1);
    if (left == SM_TOK_NONE || right == SM_TOK_NONE) return SMOL_OK;
    memcpy(both, s.p, n);
    memcpy(both + n, space + 1, s.n - n - 1);
    const uint32_t result = find_near(t, both, s.n - 1, *guess);
    if (result == SM_TOK_NONE) return SMOL_OK;
    SM_TRY(add_result(t, rank, result, *guess == 0, err)); /* 0: none was kept yet */
    *guess = result + 1;
    add_pair(t, (uint64_t)left << SM_TOK_ID_BITS | right, rank);
    return SMOL_OK;
}

smol_status sm_vocab_merges(struct sm_tok *t, const struct sm_kv *kv, smol_error *err)
{
    smol_status st = SMOL_OK;
    struct sm_str s;
    uint64_t cursor = 0;
    uint32_t guess = 0;
    if (kv->count > SM_TOK_MAX_MERGES)
        return SM_FAIL_AT(err, LIMIT, kv->at, "vocabulary has %llu merges, at most %u are possible",
                          (unsigned long long)kv->count, SM_TOK_MAX_MERGES);
    t->n_merge = (uint32_t)kv->count;
    t->n_pair = t->n_merge + t->n_merge / 3 + 8; /* three quarters full */
    t->pair = sm_vocab_take(t, t->n_pair, sizeof *t->pair, &st, err);
    if (st != SMOL_OK) return st;
    memset(t->pair, 0xff, t->n_pair * sizeof *t->pair);
    for (uint32_t rank = 0; rank < t->n_merge && sm_gguf_next_str(kv, &cursor, &s); rank++)
        SM_TRY(add_merge(t, s, rank, &guess, err));
    return SMOL_OK;
}
