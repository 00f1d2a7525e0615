/* SPDX-License-Identifier: MIT */
/* The loop of all x8 products with a byte dot-product instruction, written once for the vectors of
 * util_avx512.h and util_avxvnni.h (one of them is included before this file).
 *
 * 256 columns of the rows of a vector are taken apart once, into a tile in the first-level cache:
 * units of four unsigned codes in column order, and scales. The tile then meets every token of a
 * batch, V_TOK at a time: one broadcast of four activations and one instruction for each unit. A
 * format is only the function that fills the tile. The sums of a batch stay in `acc`, so that each
 * row's float steps follow each other in the order of docs/arithmetic.md section 4. */
#ifndef SM_MUL_TILE_H
#define SM_MUL_TILE_H

#ifdef SM_HAVE_TILE

enum {
    TILE_COLS = 256,
    /* Tokens whose sums are kept while a row passes: 8 KiB of them, and activations that stay in
     * the second-level cache for all rows of a call. */
    TILE_BATCH = 128
};

struct tile {
    vi u[TILE_COLS / 4]; /* unsigned codes */
    vi sub[16];          /* integer scales of runs of 16 or groups of 32 */
    vi pair[8];          /* what multiplies the sums S of two runs, as two 16-bit numbers */
    vf d[8], m[8];       /* scale and factor of the minima, of 256 columns or of each 32 */
};

/* Fill the tile from the blocks at w (one pointer for each group); n_steps: columns / 32. */
typedef void (*unpack_fn)(struct tile *tile, const uint8_t *const *w, unsigned n_steps);

/* The tile against tokens tok .. tok + n_tok - 1 from column col on. */
typedef void (*dots_fn)(const struct tile *w, const struct sm_acts *x, size_t tok, size_t n_tok,
                        size_t col, unsigned n_steps, vf *acc);

/* Defines dots function `name` from `body` (w, x, tok, col, n_steps, acc, n_tok), which is inlined
 * with n_tok = V_TOK and 1. */
#define SM_DOTS(name, body, ...)                                                                   \
    static __attribute__((noinline)) void name(const struct tile *w, const struct sm_acts *x,      \
                                               size_t tok, size_t n_tok, size_t col,               \
                                               unsigned n_steps, vf *acc)                          \
    {                                                                                              \
        for (; n_tok >= V_TOK; n_tok -= V_TOK, tok += V_TOK, acc += V_TOK)                         \
            body(w, x, tok, col, n_steps, acc, V_TOK, __VA_ARGS__);                                \
        for (; n_tok >= 2; n_tok -= 2, tok += 2, acc += 2)                                         \
            body(w, x, tok, col, n_steps, acc, 2, __VA_ARGS__);                                    \
        if (n_tok) body(w, x, tok, col, n_steps, acc, 1, __VA_ARGS__);                             \
    }                                                                                              \
    struct name##_semicolon

/* The product; `bytes` of a group hold 256 columns of 8 rows. */
static void mul_tiles(float *y, size_t ldy, const uint8_t *w, size_t n_groups,
                      const struct sm_acts *x, size_t bytes, unpack_fn unpack, dots_fn dots)
{
    const size_t n_cols = x->n_cols, stride = n_cols * bytes / TILE_COLS;
    struct tile tile;
    vf acc[TILE_BATCH];
    for (size_t tok = 0, n; tok < x->n_tok; tok += n) {
        n = x->n_tok - tok < TILE_BATCH ? x->n_tok - tok : TILE_BATCH;
        for (size_t g = 0; g < n_groups; g += V_GROUPS) {
            const size_t live = n_groups - g;
            const uint8_t *at[2];
            at[0] = w + g * stride;
            at[1] = live > 1 ? at[0] + stride : at[0]; /* a group alone is computed twice */
            for (size_t t = 0; t < n; t++) acc[t] = v_zero_f();
            for (size_t col = 0; col < n_cols; col += TILE_COLS) {
                const size_t rest = n_cols - col;
                const unsigned n_steps = rest < TILE_COLS ? (unsigned)rest / 32 : TILE_COLS / 32;
                unpack(&tile, at, n_steps);
                dots(&tile, x, tok, n, col, n_steps, acc);
                at[0] += bytes, at[1] += bytes;
            }
            for (size_t t = 0; t < n; t++) v_store(y + (tok + t) * ldy + 8 * g, acc[t], live);
        }
    }
}

/* Kernel `name`. */
#define SM_MUL_TILES(name, bytes, unpack, dots)                                                    \
    void name(float *y, size_t ldy, const uint8_t *w, size_t n_groups, const struct sm_acts *x)    \
    {                                                                                              \
        mul_tiles(y, ldy, w, n_groups, x, bytes, unpack, dots);                                    \
    }                                                                                              \
    struct name##_semicolon

/* sum over the 16 runs of 256 columns of pair * S. */
SM_INLINE vi dot_sums(const vi pair[8], const int16_t *s)
{
    vi sum = v_zero();
    SM_UNROLL for (int i = 0; i < 8; i++) sum = v_dp16(sum, pair[i], v_splat32(s + 2 * i));
    return sum;
}

#endif
#endif
