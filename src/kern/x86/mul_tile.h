/* SPDX-License-Identifier: MIT */
/* The loop of all x8 products with a byte dot-product instruction, written once for the vectors of
 * util_avx512.h and util_avxvnni.h (one of them is included before this file).
 *
 * 256 columns of the rows of a vector are taken apart once, into a tile in the first-level cache:
 * units of four unsigned codes in column order, and scales. The tile then meets every token of a
 * batch, V_TOK at a time: one broadcast of four activations and one instruction for each unit. A
 * format is only the function that fills the tile. A token alone needs none: its units go straight
 * into the sums (struct sink). The sums of a batch stay in `acc`, so that each row's float steps
 * follow each other in the order of docs/arithmetic.md section 4.
 *
 * Where the products of this folder are:
 *   mul_tile_k.h, mul_tile_32.h      the formats of AVX-512 and AVX-VNNI: unpack_<format>, and at
 *                                    the end the kernels' names, sm_mul_<format>_<acts>_<isa>
 *   mul_{k,32}_{avx512,avxvnni}.c    the same, compiled for the one and the other
 *   mul_{k,32,tq,iq}_avx2.c          AVX2, which has no such instruction
 *   rows_*.c                         F32, F16, BF16
 *   fill_*.c                         which of them a level takes for a format */
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

/* Where units go as they are taken apart: into the tile, or, for a token alone, at once into sums
 * of `run` columns each. Without a scale (run 256) four sums, so that they need not wait for each
 * other.
 */
struct sink {
    bool to_tile;
    vi *u;           /* the tile's units */
    const int8_t *q; /* activations of the columns */
    vi *sum;
    int run;
};
#define N_SUMS(cols, run) ((run) == 256 ? 4 : (cols) / (run))
SM_INLINE void put(const struct sink *s, int k, vi v)
{
    if (s->to_tile) {
        s->u[k] = v;
    } else {
        vi *sum = s->sum + (s->run == 256 ? k & 3 : 4 * k / s->run);
        *sum = v_dp8(*sum, v, v_splat32(s->q + 4 * k));
    }
}

/* Fill the tile from the blocks at w (one pointer for each group); n_steps: columns / 32. */
typedef void (*unpack_fn)(struct tile *tile, const uint8_t *const *w, unsigned n_steps);

/* The tile against tokens tok .. tok + n_tok - 1 from column col on. */
typedef void (*dots_fn)(const struct tile *w, const struct sm_acts *x, size_t tok, size_t n_tok,
                        size_t col, unsigned n_steps, vf *acc);

/* Defines what a kind of format does with units: dots_<kind> from `body` (w, x, tok, col, n_steps,
 * acc, n_tok, ...), which is inlined with n_tok = V_TOK, 2 and 1, and finish_<kind> from `finish`
 * (acc, w, sums, x, col, n_steps, ...) for a token alone, whose sums are of `run` columns. */
#define SM_DOTS(kind, run, body, finish, ...)                                                      \
    enum { RUN_##kind = (run) };                                                                   \
    static __attribute__((noinline)) void dots_##kind(const struct tile *w,                        \
                                                      const struct sm_acts *x, size_t tok,         \
                                                      size_t n_tok, size_t col,                    \
                                                      unsigned n_steps, vf *acc)                   \
    {                                                                                              \
        for (; n_tok >= V_TOK; n_tok -= V_TOK, tok += V_TOK, acc += V_TOK)                         \
            body(w, x, tok, col, n_steps, acc, V_TOK, __VA_ARGS__);                                \
        for (; n_tok >= 2; n_tok -= 2, tok += 2, acc += 2)                                         \
            body(w, x, tok, col, n_steps, acc, 2, __VA_ARGS__);                                    \
        if (n_tok) body(w, x, tok, col, n_steps, acc, 1, __VA_ARGS__);                             \
    }                                                                                              \
    SM_INLINE vf finish_##kind(vf acc, const struct tile *w, const vi *sums,                       \
                               const struct sm_acts *x, size_t col, unsigned n_steps)              \
    {                                                                                              \
        return finish(acc, w, sums, x, col, n_steps, __VA_ARGS__);                                 \
    }                                                                                              \
    struct kind##_semicolon

/* Ask for the weights of the tile after this one, `ahead` bytes further on in each group: the
 * tokens take long enough for them to arrive. Prompts of qwen3-1.7b in Q4_K, in waves of 64 and
 * 128 tokens, were 10 and 5 % slower without (Zen 5). */
SM_INLINE void fetch_tile(const uint8_t *const at[2], size_t ahead, size_t bytes)
{
    for (int k = 0; k < V_GROUPS; k++)
        for (size_t i = 0; i < bytes; i += 64) fetch_block(at[k], ahead + i, 64);
}

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
                /* the last one of these groups: on to the next groups */
                fetch_tile(at, rest > TILE_COLS ? bytes : bytes + (V_GROUPS - 1) * stride, bytes);
                dots(&tile, x, tok, n, col, n_steps, acc);
                at[0] += bytes, at[1] += bytes;
            }
            for (size_t t = 0; t < n; t++) {
                float *out = y + (tok + t) * ldy + 8 * g;
                v_store(out, out + 8, acc[t], live > 1);
            }
        }
    }
}

/* Blocks that are fetched ahead of their use: of two streams that are read in turns hardware
 * foresees too little (Q4_0 on a Zen 5: 77 % of what memory gives, 90 to 105 with this). One stream
 * needs no help. */
#define FETCH_BLOCKS(bytes) (V_GROUPS > 1 ? (bytes) < 1024 ? 4096 / (bytes) + 1 : 1 : 0)
/* The block of each group that follows in `ahead` bytes; behind the weights nothing comes of it. */
SM_INLINE void fetch_blocks(const uint8_t *const at[2], const int bytes, size_t ahead)
{
    for (int k = 0; V_GROUPS > 1 && k < V_GROUPS; k++) fetch_block(at[k], ahead, bytes);
}

/* Kernel `name`: `bytes` of a group hold a block of `cols` columns of 8 rows. unpack: the call that
 * takes n_steps of 32 columns apart, from `at` into `t` and `s`. */
#define SM_MUL_TILES(name, cols, bytes, unpack, kind)                                              \
    static __attribute__((noinline)) void name##_fill(struct tile *t, const uint8_t *const *at,    \
                                                      unsigned n_steps)                            \
    {                                                                                              \
        const struct sink all = {.to_tile = true, .u = t->u}, *s = &all;                           \
        (void)n_steps;                                                                             \
        unpack;                                                                                    \
    }                                                                                              \
    static void name##_one(float *y, const uint8_t *w, size_t n_groups, const struct sm_acts *x)   \
    {                                                                                              \
        const size_t n_cols = x->n_cols, stride = n_cols / (cols) * (bytes);                       \
        const size_t half = (n_groups + V_GROUPS - 1) / V_GROUPS; /* two long streams */           \
        const uint8_t *at[2];                                                                      \
        at[0] = w;                                                                                 \
        at[1] = w + half * stride;                                                                 \
        for (size_t g = 0; g < half; g++) {                                                        \
            const bool both = g + half < n_groups;                                                 \
            vf acc = v_zero_f();                                                                   \
            if (!both) at[1] = at[0]; /* a group alone is computed twice */                        \
            for (size_t col = 0; col < n_cols; col += (cols), at[0] += (bytes), at[1] += (bytes)) {\
                enum { n_steps = (cols) / 32, n_sums = N_SUMS(cols, RUN_##kind) };                 \
                struct tile tile, *t = &tile;                                                      \
                vi sums[n_sums];                                                                   \
                const struct sink one = {.q = x->q + col, .sum = sums, .run = RUN_##kind};         \
                const struct sink *s = &one;                                                       \
                SM_UNROLL for (int i = 0; i < n_sums; i++) sums[i] = v_zero();                     \
                fetch_blocks(at, (bytes), FETCH_BLOCKS(bytes) * (bytes));                          \
                unpack;                                                                            \
                acc = finish_##kind(acc, t, sums, x, col, n_steps);                                \
            }                                                                                      \
            v_store(y + 8 * g, y + 8 * (g + half), acc, both);                                     \
        }                                                                                          \
    }                                                                                              \
    void name(float *y, size_t ldy, const uint8_t *w, size_t n_groups, const struct sm_acts *x)    \
    {                                                                                              \
        if (x->n_tok == 1) name##_one(y, w, n_groups, x);                                          \
        else mul_tiles(y, ldy, w, n_groups, x, 256 / (cols) * (bytes), name##_fill, dots_##kind);  \
    }                                                                                              \
    struct name##_semicolon

#endif
#endif
