/* SPDX-License-Identifier: MIT */
/* What the x8 products of all instruction sets share: rows of activations and the loop over groups
 * and tokens. Always inlined: nothing here becomes a function of its own. */
#ifndef SM_X8_TILE_H
#define SM_X8_TILE_H

#include "kern/kern.h"

#define SM_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define SM_UNROLL _Pragma("clang loop unroll(full)")
#else
#define SM_UNROLL _Pragma("GCC unroll 16")
#endif

/* The activations of one token, at its first block. */
struct act_row {
    const int8_t *q;
    const float *d;
    const int16_t *s;
};
SM_INLINE struct act_row act_row(const struct sm_acts *x, size_t tok)
{
    const size_t n = x->n_cols;
    return (struct act_row){x->q + tok * n, x->d + tok * (n / x->block), x->s + tok * (n / 16)};
}

/* Ask for the cache lines of `bytes` bytes, `ahead` of w; they need not exist. */
SM_INLINE void fetch_block(const uint8_t *w, size_t ahead, const int bytes)
{
    SM_UNROLL for (int i = 0; i < bytes; i += 64)
        __builtin_prefetch((const void *)((uintptr_t)w + ahead + (unsigned)i), 0, 3);
}

/* Most tokens that share one unpacking of the weights. */
#define SM_TOK_MAX 8

/* Defines the kernel `name`, which runs `group` (float *y, size_t ldy, const uint8_t *w, const
 * struct sm_acts *x, size_t tok, int n_tok) over all groups. `group` is always inlined, once with
 * the constant n_tok 1, once for tiles of 2 to SM_TOK_MAX tokens; its loops over tokens are
 * innermost. The tiles of a group follow each other while its weights are in the cache; the next
 * group is asked for meanwhile. */
#define SM_MUL_X8_DRIVER(name, group, block_weights, block_bytes)                                  \
    void name(float *y, size_t ldy, const uint8_t *w, size_t n_groups, const struct sm_acts *x)    \
    {                                                                                              \
        const size_t stride = (size_t)x->n_cols / (block_weights) * (block_bytes) * 8;             \
        for (size_t g = 0; g < n_groups; g++, w += stride, y += 8) {                               \
            for (size_t i = 0; x->n_tok > 1 && i < stride; i += 64)                                \
                fetch_block(w, stride + i, 64);                                                    \
            for (size_t t = 0, n; t < x->n_tok; t += n) {                                          \
                n = x->n_tok - t < SM_TOK_MAX ? x->n_tok - t : SM_TOK_MAX;                         \
                if (n == 1) group(y + t * ldy, ldy, w, x, t, 1);                                   \
                else group(y + t * ldy, ldy, w, x, t, (int)n);                                     \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    struct name##_semicolon

/* Declares a kernel of this form. */
#define SM_MUL_X8_DECL(name)                                                                       \
    void name(float *y, size_t ldy, const uint8_t *w, size_t n_groups, const struct sm_acts *x)

/* The products of every level: X(format, name). Q1_0 has one kernel for all levels of ARM. */
#define SM_COMMON_FORMATS(X, isa)                                                                  \
    X(Q2_K, sm_mul_q2k_q8k_##isa) X(Q3_K, sm_mul_q3k_q8k_##isa) X(Q4_K, sm_mul_q4k_q8k_##isa)      \
    X(Q5_K, sm_mul_q5k_q8k_##isa) X(Q6_K, sm_mul_q6k_q8k_##isa) X(TQ1_0, sm_mul_tq10_q8k_##isa)    \
    X(TQ2_0, sm_mul_tq20_q8k_##isa)                                                                \
    X(Q4_0, sm_mul_q40_q8_##isa) X(Q4_1, sm_mul_q41_q8_##isa) X(Q5_0, sm_mul_q50_q8_##isa)         \
    X(Q5_1, sm_mul_q51_q8_##isa) X(Q8_0, sm_mul_q80_q8_##isa) X(IQ4_NL, sm_mul_iq4nl_q8_##isa)     \
    X(MXFP4, sm_mul_mxfp4_q8_##isa) X(Q2_0, sm_mul_q20_q8_##isa)
#define SM_BIT_FORMATS(X, isa) X(Q1_0, sm_mul_q10_q8_##isa)
/* Those that SMMLA helps with many tokens. */
#define SM_MM_FORMATS(X, isa)                                                                      \
    X(Q2_K, sm_mul_q2k_q8k_##isa) X(Q4_K, sm_mul_q4k_q8k_##isa) X(Q6_K, sm_mul_q6k_q8k_##isa)      \
    X(Q4_0, sm_mul_q40_q8_##isa) X(Q4_1, sm_mul_q41_q8_##isa) X(Q5_0, sm_mul_q50_q8_##isa)         \
    X(Q5_1, sm_mul_q51_q8_##isa) X(Q8_0, sm_mul_q80_q8_##isa) X(IQ4_NL, sm_mul_iq4nl_q8_##isa)     \
    X(MXFP4, sm_mul_mxfp4_q8_##isa)
/* Those of the x86 levels; those that AVX2 alone has: gathers gain nothing from wider vectors. */
#define SM_TILE_FORMATS(X, isa)                                                                    \
    SM_COMMON_FORMATS(X, isa) SM_BIT_FORMATS(X, isa) X(IQ4_XS, sm_mul_iq4xs_q8k_##isa)
#define SM_GRID_FORMATS(X, isa)                                                                    \
    X(IQ2_XXS, sm_mul_iq2xxs_q8k_##isa) X(IQ2_XS, sm_mul_iq2xs_q8k_##isa)                          \
    X(IQ2_S, sm_mul_iq2s_q8k_##isa) X(IQ3_XXS, sm_mul_iq3xxs_q8k_##isa)                            \
    X(IQ3_S, sm_mul_iq3s_q8k_##isa) X(IQ1_S, sm_mul_iq1s_q8k_##isa)                                \
    X(IQ1_M, sm_mul_iq1m_q8k_##isa)
/* Defines the kernel `name`: sm_<name>_avx2 for one token, sm_<name>_<isa> for more. */
#define SM_ONE_BY_AVX2(name, isa)                                                                  \
    SM_MUL_X8_DECL(sm_##name##_avx2);                                                              \
    static SM_MUL_X8_DECL(name)                                                                    \
    {                                                                                              \
        (x->n_tok == 1 ? sm_##name##_avx2 : sm_##name##_##isa)(y, ldy, w, n_groups, x);            \
    }
#define SM_NAME_DECL(id, name) SM_MUL_X8_DECL(name);
#define SM_NAME_FILL(id, name) k->mul_x8[SM_##id] = name;

#endif
