/* SPDX-License-Identifier: MIT */
/* The plain kernels: docs/arithmetic.md in C, one function per entry of struct sm_kern. Contracts
 * are those of kern/kern.h. They use no vector code and no feature of the CPU; fmaf may be a call
 * into libm, which is slow and has the same bits. */
#ifndef SM_KERN_REF_H
#define SM_KERN_REF_H

#include "kern/kern.h"

/* The product of any x8 format; `type` is one of SM_TILE_FORMATS or SM_GRID_FORMATS (x8_tile.h). */
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
