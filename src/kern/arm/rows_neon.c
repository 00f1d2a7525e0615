/* SPDX-License-Identifier: MIT */
/* sum16 products of float rows, NEON: the partial sums are four registers; a tail adds to its own
 * partial sums only. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include <math.h>

enum kind { ROW_F32, ROW_F16, ROW_BF16 };

SM_INLINE size_t size_of(const enum kind kind) { return kind == ROW_F32 ? 4 : 2; }

SM_INLINE float32x4_t load4(const uint8_t *w, const enum kind kind)
{
    if (kind == ROW_F32) return vreinterpretq_f32_u8(vld1q_u8(w));
    const uint8x8_t v = vld1_u8(w);
    if (kind == ROW_F16) return vcvt_f32_f16(vreinterpret_f16_u8(v));
    return vreinterpretq_f32_u32(vshll_n_u16(vreinterpret_u16_u8(v), 16));
}

SM_INLINE float load1(const uint8_t *w, const enum kind kind)
{
    if (kind == ROW_F32) return sm_ldf32(w);
    const uint16_t v = sm_ld16(w);
    return kind == ROW_F16 ? sm_f32_of_f16(v) : sm_f32_of_bits((uint32_t)v << 16);
}

/* The last n % 16 terms onto the partial sums, then folded. */
static inline float finish(struct f32x16 sums, const uint8_t *w, const float *x, size_t n,
                           const enum kind kind)
{
    float p[16];
    if (n == 0) return fold16(sums);
    store16(p, sums);
    for (size_t i = 0; i < n; i++) p[i] = fmaf(load1(w + i * size_of(kind), kind), x[i], p[i]);
    return fold16(load16(p));
}

/* n_r rows with n_t tokens. */
SM_INLINE void tile(float *y, size_t ldy, const uint8_t *w, size_t n, const float *x, size_t ldx,
                    const int n_r, const int n_t, const enum kind kind)
{
    const size_t size = size_of(kind), row = n * size;
    struct f32x16 sums[2][2];
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++) sums[r][t] = f32x16_zero();
    }
    size_t i = 0;
    for (; i + 16 <= n; i += 16) {
        SM_UNROLL for (int j = 0; j < 4; j++) {
            SM_UNROLL for (int r = 0; r < n_r; r++) {
                const float32x4_t v =
                    load4(w + (size_t)r * row + (i + 4 * (size_t)j) * size, kind);
                SM_UNROLL for (int t = 0; t < n_t; t++) {
                    const float32x4_t a = vld1q_f32(x + (size_t)t * ldx + i + 4 * (size_t)j);
                    sums[r][t].v[j] = vfmaq_f32(sums[r][t].v[j], v, a);
                }
            }
        }
    }
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++)
            y[(size_t)t * ldy + (size_t)r] =
                finish(sums[r][t], w + (size_t)r * row + i * size, x + (size_t)t * ldx + i, n - i,
                       kind);
    }
}

SM_INLINE void mul_rows(float *y, size_t ldy, const uint8_t *w, size_t n_rows, size_t n,
                        const float *x, size_t ldx, size_t n_tok, const enum kind kind)
{
    const size_t row = n * size_of(kind);
    size_t r = 0;
    for (; r + 2 <= n_rows; r += 2) {
        size_t t = 0;
        for (; t + 2 <= n_tok; t += 2)
            tile(y + t * ldy + r, ldy, w + r * row, n, x + t * ldx, ldx, 2, 2, kind);
        if (t < n_tok) tile(y + t * ldy + r, ldy, w + r * row, n, x + t * ldx, ldx, 2, 1, kind);
    }
    if (r < n_rows)
        for (size_t t = 0; t < n_tok; t++)
            tile(y + t * ldy + r, ldy, w + r * row, n, x + t * ldx, ldx, 1, 1, kind);
}

void sm_mul_rows_f32_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F32);
}

void sm_mul_rows_f16_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F16);
}

void sm_mul_rows_bf16_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                           const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_BF16);
}

float sm_dot_neon(const float *a, const float *b, size_t n)
{
    float y;
    tile(&y, 1, (const uint8_t *)(const void *)a, n, b, n, 1, 1, ROW_F32);
    return y;
}

#endif
