/* SPDX-License-Identifier: MIT */
/* Making models up: a shape (numbers of an architecture), the list of its tensors, and blocks of
 * random weights of the right scale. Shared by cmd_synth.c and synth_*.c only.
 *
 * Scales: a norm's output has RMS 1, a matrix of n_in columns has weights of variance 1 / n_in, so
 * that its output has RMS 1 too; what a layer adds to the residual stream has `drift` times the
 * length that the stream has there. */
#ifndef SM_TOOLS_SYNTH_H
#define SM_TOOLS_SYNTH_H

#include "base/status.h"
#include "quant/quant.h"

#include <stdbool.h>

/* ---- shapes -------------------------------------------------------------------------------- */

struct synth_shape {
    const char *name, *arch, *pre; /* pre: split rule of the made-up vocabulary */
    const char *types;             /* default mix */
    uint32_t layers, next;         /* main stack; next-token blocks behind it */
    uint32_t embd, ff, heads, kv_heads, head_dim, rot, vocab, ctx;
    double rope_base, eps;
    uint32_t tied;
    /* experts; 0 experts: a dense model */
    uint32_t dense, experts, used, expert_ff, shared, groups, groups_used, gating, weights_norm;
    double weights_scale;
    /* rotary scaling; factor 0: none */
    double yarn_factor, yarn_log;
    uint32_t yarn_ctx;
    /* recurrent and latent mixers */
    uint32_t interval;                       /* qwen35, bailingmoe3: every n-th block attends */
    uint32_t conv, state, key_groups, value_heads; /* taps, head width, key and value heads */
    uint32_t q_rank, kv_rank, value_dim;     /* MLA; head_dim is the part of a head not rotated */
    uint32_t window;                         /* gpt-oss */
    uint64_t attends;                        /* lfm2moe: bit i: block i attends */
};

/* "NAME", "NAME,key=value,…" or "arch=NAME,key=value,…". The strings point into static tables. */
SM_NODISCARD smol_status synth_shape_read(struct synth_shape *out, const char *text,
                                          smol_error *err);
/* Names of the shapes, and of the keys; NULL past the last. */
const char *synth_shape_name(unsigned i);
const char *synth_shape_key(unsigned i);

/* ---- formats ------------------------------------------------------------------------------- */

enum synth_class { /* what a matrix is for; `rest` in a mix names all but the experts */
    SYNTH_EMBD, SYNTH_HEAD, SYNTH_ATTN, SYNTH_FFN, SYNTH_SHARED, SYNTH_EXPERTS, SYNTH_CLASSES
};
struct synth_mix {
    uint32_t type[SYNTH_CLASSES];
    uint32_t more[SYNTH_CLASSES]; /* for value and down matrices of some layers; else = type */
};
/* "q4_k", "q4_k_m", "experts=q2_k,rest=q4_k,head=q6_k"; later words win. */
SM_NODISCARD smol_status synth_mix_read(struct synth_mix *out, const char *text, smol_error *err);
/* The format of a matrix of rows of n_cols weights: the mix's, or the nearest whose blocks fit. */
uint32_t synth_mix_type(const struct synth_mix *m, enum synth_class c, bool more, uint64_t n_cols);

/* ---- tensors ------------------------------------------------------------------------------- */

enum synth_fill {
    SYNTH_RANDOM,   /* zero mean, deviation `std` */
    SYNTH_ROWS,     /* the embedding: as RANDOM, but the first blocks of all rows are the same */
    SYNTH_TEXT,     /* as RANDOM, with zero rows at the end: control tokens are never likely */
    SYNTH_TIED,     /* ROWS and TEXT together */
    SYNTH_AROUND,   /* F32: mean plus deviation */
    SYNTH_SIGNS,    /* F32: mean or -mean */
    SYNTH_ROUTER    /* F32 rows of deviation `std` that also look at the constant first columns */
};
struct synth_tensor {
    char name[64];
    uint32_t type, n_dims;
    uint64_t dim[4];
    enum synth_fill fill;
    float mean, std;
    float skew;         /* ROUTER: deviation of the experts' popularity, times the stream's RMS */
    uint32_t constant;  /* ROWS, TIED, ROUTER: columns of the stream that no token changes */
    uint32_t zero_rows; /* of each matrix, at its start: outputs that leave those columns alone */
};
#define SYNTH_CONTROLS 8u /* control tokens at the end of the vocabulary */

struct synth_list {
    struct synth_tensor *v;
    size_t n, room;
};
struct synth_settings {
    double skew, drift;
    uint64_t seed;
};
/* All tensors of the shape in file order; free v with free(). */
SM_NODISCARD smol_status synth_list_make(struct synth_list *out, const struct synth_shape *s,
                                         const struct synth_mix *m,
                                         const struct synth_settings *set, smol_error *err);

/* ---- bytes --------------------------------------------------------------------------------- */

struct sm_gguf_writer;
/* <arch>.* and tokenizer.* keys. */
SM_NODISCARD smol_status synth_keys_write(struct sm_gguf_writer *w, const struct synth_shape *s,
                                          const char *mix, smol_error *err);
SM_NODISCARD smol_status synth_vocab_write(struct sm_gguf_writer *w, const struct synth_shape *s,
                                           smol_error *err);

/* How to make the blocks of one tensor; read-only once made, shared by the threads. */
struct synth_maker {
    const struct synth_tensor *t;
    const struct sm_traits *traits;
    uint64_t seed, blocks_per_row, n_rows, n_blocks;
    uint16_t scale, minimum;  /* bits of d and of the minimum's factor */
    uint8_t scale_byte;       /* MXFP4 */
    uint8_t *constant;        /* ROWS: the bytes that all rows begin with */
    uint64_t n_constant;      /* blocks of them */
    float *look;              /* ROUTER: direction of the constant columns */
    float uniform[4096];      /* plain types: values by 12 random bits */
};
/* `embd` is the embedding's maker, needed for ROUTER; NULL otherwise. */
SM_NODISCARD smol_status synth_maker_init(struct synth_maker *m, const struct synth_tensor *t,
                                          const struct synth_maker *embd, uint64_t seed,
                                          smol_error *err);
void synth_maker_free(struct synth_maker *m);
/* Blocks first .. first + n - 1 in file order at out. `first` is a multiple of SYNTH_RUN: the bytes
 * do not depend on how the tensor is cut. */
#define SYNTH_RUN 4096u
void synth_maker_fill(const struct synth_maker *m, uint64_t first, uint64_t n, uint8_t *out);

/* xoshiro256++ (Blackman, Vigna), seeded by splitmix64. */
struct synth_rng { uint64_t s[4]; };
void synth_rng_seed(struct synth_rng *r, uint64_t seed, uint64_t stream);
uint64_t synth_rng_next(struct synth_rng *r);
/* Approximately normal, deviation 1: a sum of twelve uniform numbers. */
float synth_rng_normal(struct synth_rng *r);

#endif
