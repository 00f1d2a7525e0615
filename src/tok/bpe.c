/* SPDX-License-Identifier: MIT */
/* Byte-level BPE: cut into pieces, then in each piece the adjacent pair with the lowest rank is
 * merged again and again, the leftmost of equals first. */
#include "tok/merge_heap.h"
#include "tok/vocab.h"

#include <stdlib.h>

/* Up to here a scan for the lowest rank beats a heap. */
#define SMALL 64u

/* Pieces of a text repeat: what the last ones gave is kept by their bytes. English is encoded two
 * to three times as fast with it. */
#define WORD_BYTES 16u
#define WORD_IDS 5u
#define N_WORDS 2048u         /* 88 KiB, a power of two */
#define WORDS_FROM_BYTES 4096 /* shorter texts do without */
struct word {
    uint64_t key[2]; /* the bytes, zeroes behind them */
    uint8_t n, n_ids;
    int32_t id[WORD_IDS];
};

struct job {
    const struct sm_tok *t;
    struct sm_ids *ids;
    struct word *word;     /* [N_WORDS], NULL: none */
    struct sm_merge merge; /* long pieces */
    uint32_t *id;          /* [id_cap] per position of a long piece */
    size_t id_cap;
};

static bool put(struct job *j, uint32_t id)
{
    return id == SM_TOK_NONE ? sm_ids_put_unknown(j->ids, j->t) : sm_ids_put(j->ids, id);
}

static bool encode_small(struct job *j, const uint8_t *p, size_t n)
{
    const struct sm_tok *t = j->t;
    uint32_t id[SMALL], rank[SMALL];
    for (size_t i = 0; i < n; i++) id[i] = t->byte_id[p[i]];
    for (size_t i = 0; i + 1 < n; i++) rank[i] = sm_vocab_rank(t, id[i], id[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (rank[i] < rank[best]) best = i;
        if (rank[best] == SM_TOK_NO_RANK) break;
        id[best] = sm_vocab_merged(t, rank[best]);
        n--;
        for (size_t i = best + 1; i < n; i++) {
            id[i] = id[i + 1];
            rank[i - 1] = rank[i];
        }
        if (best > 0) rank[best - 1] = sm_vocab_rank(t, id[best - 1], id[best]);
        if (best + 1 < n) rank[best] = sm_vocab_rank(t, id[best], id[best + 1]);
    }
    for (size_t i = 0; i < n; i++)
        if (!put(j, id[i])) return false;
    return true;
}

static bool reserve(struct job *j, size_t n)
{
    if (n > j->id_cap) {
        free(j->id);
        j->id_cap = 0;
        j->id = malloc(n * sizeof *j->id);
        if (!j->id) return false;
        j->id_cap = n;
    }
    return sm_merge_begin(&j->merge, n);
}

static uint32_t rank_at(const struct job *j, size_t at)
{
    const size_t next = sm_merge_behind(&j->merge, at);
    return next == j->merge.n_pos ? SM_TOK_NO_RANK : sm_vocab_rank(j->t, j->id[at], j->id[next]);
}

static bool offer(struct job *j, size_t at)
{
    const uint32_t rank = rank_at(j, at);
    return rank == SM_TOK_NO_RANK || sm_merge_push(&j->merge, (uint64_t)rank << 32 | at);
}

static bool encode_long(struct job *j, const uint8_t *p, size_t n)
{
    struct sm_merge *m = &j->merge;
    if (!reserve(j, n)) return false;
    for (size_t i = 0; i < n; i++) {
        j->id[i] = j->t->byte_id[p[i]];
        sm_merge_span(m, i, 1);
    }
    for (size_t i = 0; i + 1 < n; i++) {
        const uint32_t rank = rank_at(j, i);
        if (rank != SM_TOK_NO_RANK && !sm_merge_append(m, (uint64_t)rank << 32 | i)) return false;
    }
    sm_merge_order(m);
    while (m->n > 0) {
        const uint64_t top = sm_merge_pop(m);
        const size_t at = (uint32_t)top;
        const uint32_t rank = (uint32_t)(top >> 32);
        if (m->len[at] == 0 || rank_at(j, at) != rank) continue;
        j->id[at] = sm_vocab_merged(j->t, rank);
        sm_merge_join(m, at);
        const size_t before = sm_merge_before(m, at);
        if ((before != SIZE_MAX && !offer(j, before)) || !offer(j, at)) return false;
    }
    for (size_t i = 0; i < n; i = sm_merge_behind(m, i))
        if (!put(j, j->id[i])) return false;
    return true;
}

/* The token whose text is the piece in the byte alphabet. */
static uint32_t find_whole(const struct sm_tok *t, const uint8_t *p, size_t n)
{
    char text[SM_TOK_TEXT_MAX + 4];
    size_t used = 0;
    if (n > t->text_max) return SM_TOK_NONE;
    for (size_t i = 0; i < n && used <= t->text_max; i++)
        used += sm_utf8_put(text + used, sm_alphabet_of(p[i]));
    return sm_vocab_find(t, text, used);
}

static bool encode_new(struct job *j, const uint8_t *p, size_t n)
{
    if (j->t->rule->whole) {
        const uint32_t id = find_whole(j->t, p, n);
        if (id != SM_TOK_NONE) return sm_ids_put(j->ids, id);
    }
    return n <= SMALL ? encode_small(j, p, n) : encode_long(j, p, n);
}

static bool encode_piece(void *arg, const uint8_t *p, size_t n)
{
    struct job *j = arg;
    if (n == 1) return put(j, j->t->byte_id[p[0]]);
    if (n > WORD_BYTES || !j->word) return encode_new(j, p, n);
    uint64_t key[2] = {0, 0};
    memcpy(key, p, n);
    const uint64_t h = (key[0] ^ key[1] * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;
    struct word *w = &j->word[h >> 32 & (N_WORDS - 1)];
    const size_t before = j->ids->n;
    if (w->n == n && w->key[0] == key[0] && w->key[1] == key[1]) {
        for (unsigned i = 0; i < w->n_ids; i++)
            if (!sm_ids_put(j->ids, (uint32_t)w->id[i])) return false;
        return true;
    }
    if (!encode_new(j, p, n)) return false;
    const size_t n_ids = j->ids->n - before;
    if (n_ids <= WORD_IDS) {
        *w = (struct word){.key = {key[0], key[1]}, .n = (uint8_t)n, .n_ids = (uint8_t)n_ids};
        for (size_t i = 0; i < n_ids; i++) w->id[i] = j->ids->p[before + i];
    }
    return true;
}

/* A copy in which each byte that starts no well-formed sequence is U+FFFD. */
static uint8_t *repair(const uint8_t *p, size_t n, size_t *n_out)
{
    uint8_t *copy = malloc(3 * n); /* n < 2^31 */
    size_t used = 0;
    for (size_t i = 0; copy && i < n;) {
        const unsigned len = sm_utf8_length(p + i, n - i, true);
        if (len > 0) memcpy(copy + used, p + i, len);
        else memcpy(copy + used, "\xef\xbf\xbd", 3);
        used += len > 0 ? len : 3;
        i += len > 0 ? len : 1;
    }
    *n_out = used;
    return copy;
}

bool sm_bpe_encode(const struct sm_tok *t, const char *text, size_t n, struct sm_ids *ids)
{
    struct job j = {.t = t, .ids = ids};
    const uint8_t *p = (const uint8_t *)text;
    uint8_t *copy = NULL;
    if (sm_utf8_valid(p, n) < n) {
        copy = repair(p, n, &n);
        if (!copy) return false;
        p = copy;
    }
    if (n >= WORDS_FROM_BYTES) j.word = calloc(N_WORDS, sizeof *j.word);
    const bool good = sm_split_text(t->rule, p, n, encode_piece, &j);
    sm_merge_free(&j.merge);
    free(j.word);
    free(j.id);
    free(copy);
    return good;
}
