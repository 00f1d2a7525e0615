/* SPDX-License-Identifier: MIT */
/* Sums of 16 partial sums (docs/arithmetic.md section 2): dot products and rows of floats. */
#include "base/bits.h"
#include "kern/ref/ref.h"
#include <math.h>

float sm_dot_ref(const float *a, const float *b, size_t n)
{
    float p[16] = {0};
    for (size_t i = 0; i < n; i++) p[i % 16] = fmaf(a[i], b[i], p[i % 16]);
    return sm_ref_fold16(p);
}

static float dot_f16(const uint8_t *w, const float *x, size_t n)
{
    float p[16] = {0};
    for (size_t i = 0; i < n; i++)
        p[i % 16] = fmaf(sm_f32_of_f16(sm_ld16(w + 2 * i)), x[i], p[i % 16]);
    return sm_ref_fold16(p);
}

static float dot_bf16(const uint8_t *w, const float *x, size_t n)
{
    float p[16] = {0};
    for (size_t i = 0; i < n; i++)
        p[i % 16] = fmaf(sm_f32_of_bits((uint32_t)sm_ld16(w + 2 * i) << 16), x[i], p[i % 16]);
    return sm_ref_fold16(p);
}

void sm_mul_rows_f32_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                         const float *x, size_t ldx, size_t n_tok)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t t = 0; t < n_tok; t++)
            y[t * ldy + r] = sm_dot_ref((const float *)w + r * n_cols, x + t * ldx, n_cols);
}

void sm_mul_rows_f16_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                         const float *x, size_t ldx, size_t n_tok)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t t = 0; t < n_tok; t++)
            y[t * ldy + r] = dot_f16((const uint8_t *)w + 2 * r * n_cols, x + t * ldx, n_cols);
}

void sm_mul_rows_bf16_ref(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok)
{
    for (size_t r = 0; r < n_rows; r++)
        for (size_t t = 0; t < n_tok; t++)
            y[t * ldy + r] = dot_bf16((const uint8_t *)w + 2 * r * n_cols, x + t * ldx, n_cols);
}
