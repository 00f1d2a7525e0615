/* SPDX-License-Identifier: MIT */
/* The plain kernels: docs/arithmetic.md in C, one function per entry of struct sm_kern. Contracts
 * are those of kern/kern.h. They use no vector code and no feature of the CPU; fmaf may be a call
 * into libm, which is slow and has the same bits. */
#ifndef SM_KERN_REF_H
#define SM_KERN_REF_H

#include "kern/kern.h"

/* Formats held as x8: X(type id, file-name part) */
#define SM_REF_X8_LIST(X)                                                                          \
    X(Q4_0, q4_0) X(Q4_1, q4_1) X(Q5_0, q5_0) X(Q5_1, q5_1) X(Q8_0, q8_0)                          \
    X(Q1_0, q1_0) X(Q2_0, q2_0) X(IQ4_NL, iq4_nl) X(MXFP4, mxfp4)                                  \
    X(Q2_K, q2_k) X(Q3_K, q3_k) X(Q4_K, q4_k) X(Q5_K, q5_k) X(Q6_K, q6_k)                          \
    X(TQ1_0, tq1_0) X(TQ2_0, tq2_0) X(IQ4_XS, iq4_xs)                                              \
    X(IQ2_XXS, iq2_xxs) X(IQ2_XS, iq2_xs) X(IQ2_S, iq2_s)                                          \
    X(IQ3_XXS, iq3_xxs) X(IQ3_S, iq3_s) X(IQ1_S, iq1_s) X(IQ1_M, iq1_m)

/* The product of any x8 format; `type` is a format of the list. */
void sm_mul_x8_ref(uint32_t type, float *y, size_t ldy, const uint8_t *w, size_t n_groups,
                   const struct sm_acts *x);

void sm_mul_rows_f32_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                         const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_f16_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                         const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_bf16_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok);

void sm_quantize_32_ref(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
void sm_quantize_256_ref(const float *x, size_t n, int8_t *q, float *d, int16_t *s);

float sm_dot_ref(const float *a, const float *b, size_t n);
float sm_rms_norm_ref(float *y, const float *x, const float *w, size_t n, float eps);
void sm_silu_mul_ref(float *h, const float *g, const float *u, size_t n);
void sm_sigmoid_mul_ref(float *h, const float *g, const float *u, size_t n);
void sm_conv_ref(const struct sm_conv *c);
void sm_delta_tile_ref(const struct sm_delta_tile *d);
void sm_axpy_ref(float *y, float w, const float *x, size_t n);
void sm_add_ref(float *y, const float *x, size_t n);
void sm_join_ref(float *o, float keep, const float *x, float part, size_t n);
void sm_exp_ref(float *y, const float *x, size_t n);
void sm_rope_half_ref(float *x, const float *cs, size_t n_rot);
void sm_rope_adjacent_ref(float *x, const float *cs, size_t n_rot);

void sm_attn_chunk_f32_ref(const struct sm_attn_chunk *c);
void sm_attn_chunk_f16_ref(const struct sm_attn_chunk *c);
void sm_attn_chunk_q8_0_ref(const struct sm_attn_chunk *c);
void sm_kv_store_f32_ref(void *dst, const float *x, size_t n);
void sm_kv_store_f16_ref(void *dst, const float *x, size_t n);
void sm_kv_store_q8_0_ref(void *dst, const float *x, size_t n);

/* p[0] after folding 16 partial sums (docs/arithmetic.md section 2); p is used up. */
static inline float sm_ref_fold16(float p[16])
{
    for (int width = 8; width; width /= 2)
        for (int k = 0; k < width; k++) p[k] = p[k] + p[k + width];
    return p[0];
}

#endif
