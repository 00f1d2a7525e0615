/* SPDX-License-Identifier: MIT */
/* The table of kernels. docs/arithmetic.md says what each computes, bit for bit; kern/ref/ is the
 * plain implementation, the ISA folders override entry by entry. A table is read-only after
 * sm_kern_init, so several may live side by side (tests, --cpu). No kernel allocates or fails. */
#ifndef SM_KERN_H
#define SM_KERN_H

#include "cpu/cpu.h" /* enum sm_level */
#include "quant/quant.h"

/* Quantised activations of n_tok row vectors, rows packed without gaps.
 * q [n_tok][n_cols]; d [n_tok][n_cols / block]; s [n_tok][n_cols / 16] sums of 16 codes.
 * All three 64-byte aligned at the start; rows are n_cols codes apart. */
struct sm_acts {
    int8_t *q;
    float *d;
    int16_t *s;
    uint32_t n_tok;
    uint32_t n_cols; /* a multiple of block */
    uint32_t block;  /* 32 or 256 */
};

/* y[t * ldy + 8 * g + lane] for g < n_groups: the product of the 8 rows of each x8 group with each
 * of the x->n_tok activation rows. w: first group; y has room for 8 * n_groups floats a token. */
typedef void (*sm_mul_x8_fn)(float *y, size_t ldy, const uint8_t *w, size_t n_groups,
                             const struct sm_acts *x);
/* y[t * ldy + r] = sum16 of row r (file order, F32/F16/BF16, n_cols long) with x + t * ldx. */
typedef void (*sm_mul_rows_fn)(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                               const float *x, size_t ldx, size_t n_tok);
/* One row vector of n floats to codes, scales and sums of 16. */
typedef void (*sm_quantize_fn)(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
/* File-order rows to x8 groups, as sm_x8_pack. */
typedef void (*sm_pack_x8_fn)(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                              size_t n_rows, size_t n_cols);

/* One chunk of attention for the n_q query heads that share one key/value head. Positions
 * first..last-1 (0 <= first < last <= 256, position mod 256) are visible. k and v point at position
 * 0 of the chunk; strides in bytes. Writes m[h], l[h], o[h * ldo .. + dv] of this chunk alone. */
struct sm_attn_chunk {
    const float *q; /* [n_q] rows of dk floats, ldq apart */
    size_t ldq;
    const void *k, *v;
    size_t k_stride, v_stride;
    uint32_t n_q, first, last, dk, dv;
    float scale;
    float *m, *l, *o;
    size_t ldo;
};
typedef void (*sm_attn_chunk_fn)(const struct sm_attn_chunk *c);

/* The same chunk for n_tok neighbouring tokens of a prompt: c.q is that of the first token, the
 * next one's is tok_q floats on; token t sees positions first[t] .. last[t] - 1 (c.first, c.last
 * are not used), none when first[t] >= last[t]: then its results are not written. Results of token
 * t and head h have the number t * n_q + h. */
#define SM_ATTN_TOK 4u
struct sm_attn_tile {
    struct sm_attn_chunk c;
    size_t tok_q;
    uint32_t n_tok; /* at most SM_ATTN_TOK */
    uint32_t first[SM_ATTN_TOK], last[SM_ATTN_TOK];
};
typedef void (*sm_attn_tile_fn)(const struct sm_attn_tile *t);

/* Causal convolution of n channels over n_tok tokens (docs/arithmetic.md section 5). x points at
 * the row taps - 1 before the first token's; w is [n][taps]. y may be x + (taps - 1) * ldx: tokens
 * are computed from the last to the first. */
#define SM_MAX_TAPS 8u
struct sm_conv {
    float *y;
    const float *x;
    size_t ldy, ldx;
    const float *w;
    uint32_t n_tok, n, taps;
    bool silu;
};

/* The delta rule for up to SM_DELTA_ROWS value rows of one head over n_tok tokens, in order; s is
 * [dk][SM_DELTA_ROWS], lane = value row, 64-byte aligned. q, k (dk floats), v (n_rows), beta and g
 * (one factor, or dk when per_key) of token t are t * ld floats further, o (n_rows; may be NULL)
 * t * ld_o. What the lanes of s beyond n_rows hold is not specified. */
#define SM_DELTA_ROWS 32u
struct sm_delta_tile {
    float *s;
    const float *q, *k, *v, *g, *beta;
    float *o;
    size_t ld, ld_o;
    uint32_t n_tok, dk, n_rows;
    bool per_key;
};

enum sm_kv_type { SM_KV_F32, SM_KV_F16, SM_KV_Q8_0, SM_KV_COUNT };

struct sm_kern {
    const char *level; /* name of the highest level in use: "ref", "avx2", "neon", … */
    sm_mul_x8_fn mul_x8[SM_TYPE_COUNT];   /* by weight type; NULL where not an x8 format */
    sm_pack_x8_fn pack_x8;                /* any x8 format */
    sm_mul_rows_fn mul_rows[SM_TYPE_COUNT]; /* SM_F32, SM_F16, SM_BF16 only */
    sm_quantize_fn quantize_32, quantize_256;
    /* sum16 of a[i] * b[i] */
    float (*dot)(const float *a, const float *b, size_t n);
    /* y = rms_norm(x) * w; returns the sum of squares (not finite: the caller reports it). w may be
     * NULL (all ones are not multiplied in). y may be x. */
    float (*rms_norm)(float *y, const float *x, const float *w, size_t n, float eps);
    /* h[i] = silu(g[i]) * u[i]; h may be g or u */
    void (*silu_mul)(float *h, const float *g, const float *u, size_t n);
    /* h[i] = u[i] / (1 + exp(-g[i])); h may be g or u */
    void (*sigmoid_mul)(float *h, const float *g, const float *u, size_t n);
    void (*conv)(const struct sm_conv *c);
    void (*delta_tile)(const struct sm_delta_tile *d);
    /* y[i] = fma(w, x[i], y[i]) */
    void (*axpy)(float *y, float w, const float *x, size_t n);
    /* y[i] = y[i] + x[i] */
    void (*add)(float *y, const float *x, size_t n);
    /* y[i] = exp(x[i]) */
    void (*exp)(float *y, const float *x, size_t n);
    /* Rotate one head in place: pairs (x[j], x[j + n_rot/2]) or (x[2j], x[2j+1]); cs holds n_rot/2
     * cosines then n_rot/2 sines. */
    void (*rope_half)(float *x, const float *cs, size_t n_rot);
    void (*rope_adjacent)(float *x, const float *cs, size_t n_rot);
    sm_attn_chunk_fn attn_chunk[SM_KV_COUNT];
    sm_attn_tile_fn attn_tile[SM_KV_COUNT]; /* NULL where a level has none */
    /* o[i] = fma(x[i], part, o[i] * keep): joins two chunks of attention */
    void (*join)(float *o, float keep, const float *x, float part, size_t n);
    /* n floats to the KV format at dst (F16: 2n bytes; Q8_0: n/32 blocks of f16 d + 32 codes). */
    void (*kv_store[SM_KV_COUNT])(void *dst, const float *x, size_t n);
};

/* Fill k from ref, then from every level whose bit is set in `levels`, ascending. */
void sm_kern_init(struct sm_kern *k, uint32_t levels);
/* Name of the level that the kernel for matrices of a format comes from when `levels` are in use;
 * NULL: the format is no matrix. */
const char *sm_kern_matrix_level(uint32_t levels, uint32_t type);

/* Fill functions of the ISA files; each returns false and changes nothing when it was compiled
 * without its instruction set. Declared here, called by sm_kern_init only. */
void sm_kern_fill_ref(struct sm_kern *k);
bool sm_kern_fill_avx2(struct sm_kern *k);
bool sm_kern_fill_avxvnni(struct sm_kern *k);
bool sm_kern_fill_avx512(struct sm_kern *k);
bool sm_kern_fill_neon(struct sm_kern *k);
bool sm_kern_fill_dotprod(struct sm_kern *k);
bool sm_kern_fill_i8mm(struct sm_kern *k);

#endif
