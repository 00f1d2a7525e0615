/* SPDX-License-Identifier: MIT */
/* Products of many tokens by SMMLA, two rows x 8 columns with 8 columns x two tokens each.
 * 256 columns of a group are taken apart once, into a tile in the first-level cache with the rows
 * in pairs; the tile then meets every token of a batch, four at a time. A token alone gains
 * nothing: its products are those of the dotprod level. */
#ifndef SM_MUL_MM_H
#define SM_MUL_MM_H

#include "kern/arm/util_neon.h"

#if defined(SM_HAVE_NEON) && defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
#define SM_HAVE_MM 1

enum {
    MM_COLS = 256,
    MM_TOK = 4,
    MM_BATCH = 128 /* tokens whose activations stay in the second-level cache for all rows */
};

struct mm_tile {
    size_t n;                     /* columns */
    uint8x16_t a[MM_COLS / 8][4]; /* signed codes of 8 columns: rows 0 1, 2 3, 4 5, 6 7 */
    int32x4_t sub[16][4];         /* scales of a run, of rows 0 0 1 1, 2 2 3 3, ... */
    struct u8x32 min[4];
    struct f32x8 d[8], m[8]; /* of 256 columns or of each 32 */
};

/* 16 columns to steps a[0] and a[1]. */
SM_INLINE void mm_put(uint8x16_t (*a)[4], const struct units4 *u)
{
    SM_UNROLL for (int i = 0; i < 2; i++) {
        SM_UNROLL for (int half = 0; half < 2; half++) {
            const uint32x4_t c = vreinterpretq_u32_u8(u->c[4 * i + half]);
            const uint32x4_t d = vreinterpretq_u32_u8(u->c[4 * i + 2 + half]);
            a[i][2 * half] = vreinterpretq_u8_u32(vzip1q_u32(c, d));
            a[i][2 * half + 1] = vreinterpretq_u8_u32(vzip2q_u32(c, d));
        }
    }
}
SM_INLINE void mm_put_scale(int32x4_t sub[4], struct i32x8 s)
{
    sub[0] = vzip1q_s32(s.lo, s.lo), sub[1] = vzip2q_s32(s.lo, s.lo);
    sub[2] = vzip1q_s32(s.hi, s.hi), sub[3] = vzip2q_s32(s.hi, s.hi);
}

/* Sums of four tokens: [i][p] has rows 2i, 2i + 1 with tokens 2p, 2p + 1: r0t0 r0t1 r1t0 r1t1. */
struct mm_sums {
    int32x4_t s[4][2];
};
SM_INLINE struct mm_sums mm_zero(void)
{
    struct mm_sums sum;
    SM_UNROLL for (int i = 0; i < 4; i++) sum.s[i][0] = sum.s[i][1] = vdupq_n_s32(0);
    return sum;
}
/* n steps of 8 columns; r: the tokens, `at`: their column. */
SM_INLINE void mm_add(struct mm_sums *sum, const uint8x16_t (*a)[4], const int n,
                      const struct act_row r[MM_TOK], size_t at)
{
    SM_UNROLL for (int k = 0; k < n; k++) {
        const size_t col = at + 8 * (size_t)k;
        int8x16_t b[2];
        SM_UNROLL for (int p = 0; p < 2; p++)
            b[p] = vcombine_s8(vld1_s8(r[2 * p].q + col), vld1_s8(r[2 * p + 1].q + col));
        SM_UNROLL for (int i = 0; i < 4; i++) {
            const int8x16_t c = vreinterpretq_s8_u8(a[k][i]);
            sum->s[i][0] = vmmlaq_s32(sum->s[i][0], c, b[0]);
            sum->s[i][1] = vmmlaq_s32(sum->s[i][1], c, b[1]);
        }
    }
}
/* The eight rows of token t. */
SM_INLINE struct i32x8 mm_token(const struct mm_sums *sum, const int t)
{
    const int32x4_t s0 = sum->s[0][t / 2], s1 = sum->s[1][t / 2], s2 = sum->s[2][t / 2];
    const int32x4_t s3 = sum->s[3][t / 2];
    if (t & 1) return (struct i32x8){vuzp2q_s32(s0, s1), vuzp2q_s32(s2, s3)};
    return (struct i32x8){vuzp1q_s32(s0, s1), vuzp1q_s32(s2, s3)};
}

/* Fills the tile from the blocks at w with tile->n columns. */
typedef void (*mm_fill_fn)(struct mm_tile *tile, const uint8_t *w);
/* The tile, from column col on, against four tokens r, added to their sums at y. */
typedef void (*mm_dots_fn)(float *const y[MM_TOK], const struct mm_tile *tile,
                           const struct act_row r[MM_TOK], size_t col);

/* One group with a batch of tokens. */
SM_INLINE void mm_group(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x, size_t tok,
                        size_t n_tok, size_t bytes, mm_fill_fn fill, mm_dots_fn dots)
{
    struct mm_tile tile;
    for (size_t t = 0; t < n_tok; t++) store8(y + t * ldy, f32x8_zero());
    for (size_t col = 0; col < x->n_cols; col += MM_COLS, w += bytes) {
        tile.n = x->n_cols - col < MM_COLS ? x->n_cols - col : MM_COLS;
        fill(&tile, w);
        for (size_t t = 0; t < n_tok; t += MM_TOK) {
            struct act_row r[MM_TOK];
            float *to[MM_TOK], spare[8] = {0};
            for (size_t i = 0; i < MM_TOK; i++) { /* the last token stands in for missing ones */
                const bool live = t + i < n_tok;
                r[i] = act_row(x, tok + (live ? t + i : n_tok - 1));
                to[i] = live ? y + (t + i) * ldy : spare;
            }
            dots(to, &tile, r, col);
        }
    }
}

/* The product; `bytes` of a group hold 256 columns. */
SM_INLINE void mul_mm(float *y, size_t ldy, const uint8_t *w, size_t n_groups,
                      const struct sm_acts *x, size_t bytes, mm_fill_fn fill, mm_dots_fn dots)
{
    const size_t stride = x->n_cols * bytes / MM_COLS;
    for (size_t tok = 0, n; tok < x->n_tok; tok += n) {
        n = x->n_tok - tok < MM_BATCH ? x->n_tok - tok : MM_BATCH;
        for (size_t g = 0; g < n_groups; g++)
            mm_group(y + tok * ldy + 8 * g, ldy, w + g * stride, x, tok, n, bytes, fill, dots);
    }
}

/* Defines the i8mm kernel of a format; `block_bytes` hold `cols` columns of a row. */
#define SM_MUL_MM(fmt, cols, block_bytes, fill, dots)                                              \
    SM_MUL_X8_DECL(sm_mul_##fmt##_i8mm)                                                            \
    {                                                                                              \
        if (x->n_tok == 1) sm_mul_##fmt##_dotprod(y, ldy, w, n_groups, x);                         \
        else mul_mm(y, ldy, w, n_groups, x, (block_bytes) * 8 * 256 / (cols), fill, dots);         \
    }                                                                                              \
    struct mm_##fmt##_semicolon

#endif
#endif
