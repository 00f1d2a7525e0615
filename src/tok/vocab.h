/* SPDX-License-Identifier: MIT */
/* The tables of a tokeniser. Built once (vocab_load.c), read-only afterwards.
 *
 * For the 151,936 tokens and 151,387 merges of Qwen3: texts 1.1 MB, their starts 0.3 MB, kinds
 * 0.15 MB, index by text 0.8 MB, merges 1.6 MB. */
#ifndef SM_TOK_VOCAB_H
#define SM_TOK_VOCAB_H

#include "base/bits.h"
#include "tok/split.h"
#include "tok/tok.h"

#define SM_TOK_ID_BITS 21u /* a pair of ids and a rank fill 64 bits */
#define SM_TOK_RANK_BITS 22u
#define SM_TOK_NONE ((1u << SM_TOK_ID_BITS) - 1) /* never an id */
#define SM_TOK_MAX_MERGES ((1u << SM_TOK_RANK_BITS) - 1)
#define SM_TOK_NO_RANK UINT32_MAX
/* Longest bytes of one token: thrice that (each byte a U+FFFD) and a held character fit in
 * SM_TOK_PIECE_MAX. */
#define SM_TOK_BYTES_MAX 1360u
/* Longest text of one: each byte a character of up to three bytes. Those of 16 tokens together stay
 * below 2^16 (sm_tok.start). */
#define SM_TOK_TEXT_MAX (3 * SM_TOK_BYTES_MAX)
_Static_assert(16 * SM_TOK_TEXT_MAX <= UINT16_MAX, "starts of texts have 16 bits");

/* Bits of sm_tok.kind: the type as in the file, and what was found out about the token. */
enum { SM_TOK_NORMAL = 1, SM_TOK_UNKNOWN, SM_TOK_CONTROL, SM_TOK_USER, SM_TOK_UNUSED, SM_TOK_BYTE };
#define SM_TOK_TYPE 7u
#define SM_TOK_END 8u     /* ends a generation */
#define SM_TOK_RSTRIP 16u /* takes the ASCII white space behind it */

struct sm_tok {
    bool spm; /* else byte-level BPE */
    bool add_bos, add_eos, add_space;
    bool add_bos_given; /* by the file: a change of the rule does not change it */
    bool cut_at_space;  /* SPM: no token goes from something else into a U+2581 */
    int32_t bos, eos, unknown;
    uint32_t n_vocab;
    uint32_t text_max; /* bytes of the longest text */
    const char *pre;   /* static */
    const struct sm_split_rule *rule;

    char *text;      /* [text_bytes] texts as in the file, one behind the other */
    uint32_t text_bytes;
    uint32_t *base;  /* [n_vocab / 16 + 1] where the text of each 16th token starts */
    uint16_t *start; /* [n_vocab + 1] where a text starts, from its base */
    uint8_t *kind;   /* [n_vocab] */

    uint32_t *slot; /* [n_slot] index by text: low id_bits the id, above them a part of the hash */
    uint32_t n_slot;
    unsigned id_bits;

    uint64_t *pair;   /* [n_pair] left id, right id, rank; all ones: empty */
    uint32_t *merged; /* [n_merge] id that the merge of a rank makes, or NULL: */
    uint32_t first_merged; /* it is this plus the rank (modulo 2^32), as in most vocabularies */
    uint32_t n_pair, n_merge;
    uint32_t *priority;    /* SPM: [n_vocab] the score as an integer, lower goes first */
    uint32_t byte_id[256]; /* token of a byte, SM_TOK_NONE: there is none */

    uint32_t *special; /* [n_special] tokens found by their text in the input, by text */
    uint32_t n_special;
    uint32_t special_first[257]; /* those whose text starts with byte b: [b] .. [b + 1] - 1 */
    size_t memory;               /* bytes held */
};

/* Where the text of a token starts; of n_vocab: where the last one ends. */
static inline uint32_t sm_vocab_start(const struct sm_tok *t, uint32_t id)
{
    return t->base[id / 16] + t->start[id];
}
static inline const char *sm_vocab_text(const struct sm_tok *t, uint32_t id, uint32_t *n)
{
    const uint32_t start = sm_vocab_start(t, id);
    *n = sm_vocab_start(t, id + 1) - start;
    return t->text + start;
}
static inline unsigned sm_vocab_type(const struct sm_tok *t, uint32_t id)
{
    return t->kind[id] & SM_TOK_TYPE;
}

/* ---- vocab_index.c: texts to ids, pairs of ids to ranks ---- */

/* A zeroed table of the tokeniser, counted in t->memory; NULL and *st NOMEM when there is none. */
void *sm_vocab_take(struct sm_tok *t, size_t count, size_t size, smol_status *st, smol_error *err);
void sm_vocab_release(struct sm_tok *t); /* all tables */
/* Index all texts; two equal ones are FORMAT. Empty ones are left out. */
SM_NODISCARD smol_status sm_vocab_index(struct sm_tok *t, smol_error *err);
/* Id of a text, SM_TOK_NONE: there is none. */
uint32_t sm_vocab_find(const struct sm_tok *t, const char *text, size_t n);
/* Store the merges of a string array. */
SM_NODISCARD smol_status sm_vocab_merges(struct sm_tok *t, const struct sm_kv *kv, smol_error *err);

static inline uint32_t sm_vocab_pair_slot(const struct sm_tok *t, uint64_t key)
{
    return (uint32_t)(((key * 0x9e3779b97f4a7c15u >> 32) * t->n_pair) >> 32);
}
/* Rank of the merge of two ids (or SM_TOK_NONE), SM_TOK_NO_RANK: there is none. */
static inline uint32_t sm_vocab_rank(const struct sm_tok *t, uint32_t left, uint32_t right)
{
    const uint64_t key = (uint64_t)left << SM_TOK_ID_BITS | right;
    for (uint32_t i = sm_vocab_pair_slot(t, key);;) {
        const uint64_t slot = t->pair[i];
        if (slot == UINT64_MAX) return SM_TOK_NO_RANK; /* looks like the pair of two NONE, too */
        if (slot >> SM_TOK_RANK_BITS == key)
            return (uint32_t)(slot & ((1u << SM_TOK_RANK_BITS) - 1));
        if (++i == t->n_pair) i = 0;
    }
}

/* Id that the merge of a rank makes. */
static inline uint32_t sm_vocab_merged(const struct sm_tok *t, uint32_t rank)
{
    return t->merged ? t->merged[rank] : t->first_merged + rank;
}

/* ---- vocab_special.c: tokens with a meaning of their own ---- */

/* Ids of begin, end and unknown, what ends a generation, types that the text overrides, and the
 * list of tokens to look for in the input. */
SM_NODISCARD smol_status sm_vocab_special(struct sm_tok *t, const struct sm_gguf *g,
                                          smol_error *err);

/* ---- byte alphabet of byte-level BPE ---- */

/* The code point that stands for a byte. */
static inline uint32_t sm_alphabet_of(uint8_t b)
{
    if (b <= 0x20) return 0x100u + b;
    if (b >= 0x7f && b <= 0xa0) return 0x121u + (b - 0x7fu);
    return b == 0xad ? 0x143u : b;
}
/* The byte that a code point stands for, -1: none. */
static inline int sm_alphabet_byte(uint32_t c)
{
    if (c >= 0x100 && c <= 0x120) return (int)(c - 0x100);
    if (c >= 0x121 && c <= 0x142) return (int)(c - 0x121 + 0x7f);
    if (c == 0x143) return 0xad;
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xff && c != 0xad) ? (int)c : -1;
}

/* ---- growing list of ids and the two ways to fill it ---- */

struct sm_ids {
    int32_t *p; /* malloc'ed */
    size_t n, cap;
};
/* false: no memory. */
bool sm_ids_grow(struct sm_ids *ids);
static inline bool sm_ids_put(struct sm_ids *ids, uint32_t id)
{
    if (ids->n == ids->cap && !sm_ids_grow(ids)) return false;
    ids->p[ids->n++] = (int32_t)id;
    return true;
}
/* The unknown token when there is one. */
static inline bool sm_ids_put_unknown(struct sm_ids *ids, const struct sm_tok *t)
{
    return t->unknown < 0 || sm_ids_put(ids, (uint32_t)t->unknown);
}

/* Text without special tokens. false: no memory. */
SM_NODISCARD bool sm_bpe_encode(const struct sm_tok *t, const char *text, size_t n,
                                struct sm_ids *ids);
SM_NODISCARD bool sm_spm_encode(const struct sm_tok *t, const char *text, size_t n, bool space,
                                struct sm_ids *ids);

#endif
