/* SPDX-License-Identifier: MIT */
/* sum16 products of float rows, AVX2: partial sums 0..7 and 8..15 in two registers; a tail adds to
 * its own partial sums only. Several rows or tokens at once hide the latency of the fma chain. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include <math.h>

enum kind { ROW_F32, ROW_F16, ROW_BF16 };

SM_INLINE size_t size_of(const enum kind kind) { return kind == ROW_F32 ? 4 : 2; }

SM_INLINE __m256 load8(const uint8_t *w, const enum kind kind)
{
    if (kind == ROW_F32) return _mm256_loadu_ps((const float *)(const void *)w);
    if (kind == ROW_F16) return load8_f16(w);
    const __m256i v = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)w));
    return _mm256_castsi256_ps(_mm256_slli_epi32(v, 16));
}

SM_INLINE float load1(const uint8_t *w, const enum kind kind)
{
    if (kind == ROW_F32) return sm_ldf32(w);
    const uint16_t v = sm_ld16(w);
    return kind == ROW_F16 ? sm_f32_of_f16(v) : sm_f32_of_bits((uint32_t)v << 16);
}

/* The last n % 16 terms onto the partial sums, then folded. */
static inline float finish(__m256 lo, __m256 hi, const uint8_t *w, const float *x, size_t n,
                           const enum kind kind)
{
    float p[16];
    if (n == 0) return fold16(lo, hi);
    _mm256_storeu_ps(p, lo);
    _mm256_storeu_ps(p + 8, hi);
    for (size_t i = 0; i < n; i++) p[i] = fmaf(load1(w + i * size_of(kind), kind), x[i], p[i]);
    return fold16(_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8));
}

struct sums { __m256 lo[4][2], hi[4][2]; };

/* 16 columns of n_r rows with n_t tokens. */
SM_INLINE void columns(struct sums *s, const uint8_t *w, size_t row, const float *x, size_t ldx,
                       const int n_r, const int n_t, const enum kind kind)
{
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        const uint8_t *p = w + (size_t)r * row;
        const __m256 w0 = load8(p, kind), w1 = load8(p + 8 * size_of(kind), kind);
        SM_UNROLL for (int t = 0; t < n_t; t++) {
            const float *a = x + (size_t)t * ldx;
            s->lo[r][t] = _mm256_fmadd_ps(w0, _mm256_loadu_ps(a), s->lo[r][t]);
            s->hi[r][t] = _mm256_fmadd_ps(w1, _mm256_loadu_ps(a + 8), s->hi[r][t]);
        }
    }
}

/* n_r rows with n_t tokens. A token alone waits for memory: whole cache lines of each row. */
SM_INLINE void tile(float *y, size_t ldy, const uint8_t *w, size_t n, const float *x, size_t ldx,
                    const int n_r, const int n_t, const enum kind kind)
{
    const size_t size = size_of(kind), row = n * size, step = n_t == 1 ? 64 : 16;
    struct sums s;
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++) s.lo[r][t] = s.hi[r][t] = _mm256_setzero_ps();
    }
    size_t i = 0;
    for (; i + step <= n; i += step) {
        SM_UNROLL for (size_t k = i; k < i + step; k += 16)
            columns(&s, w + k * size, row, x + k, ldx, n_r, n_t, kind);
    }
    for (; step > 16 && i + 16 <= n; i += 16)
        columns(&s, w + i * size, row, x + i, ldx, n_r, n_t, kind);
    SM_UNROLL for (int r = 0; r < n_r; r++) {
        SM_UNROLL for (int t = 0; t < n_t; t++)
            y[(size_t)t * ldy + (size_t)r] =
                finish(s.lo[r][t], s.hi[r][t], w + (size_t)r * row + i * size,
                       x + (size_t)t * ldx + i, n - i, kind);
    }
}

SM_INLINE void mul_rows(float *y, size_t ldy, const uint8_t *w, size_t n_rows, size_t n,
                        const float *x, size_t ldx, size_t n_tok, const enum kind kind)
{
    const size_t row = n * size_of(kind);
    size_t r = 0;
    for (; r + 4 <= n_rows; r += 4) {
        const uint8_t *p = w + r * row;
        size_t t = 0;
        for (; t + 2 <= n_tok; t += 2) {
            tile(y + t * ldy + r, ldy, p, n, x + t * ldx, ldx, 2, 2, kind);
            tile(y + t * ldy + r + 2, ldy, p + 2 * row, n, x + t * ldx, ldx, 2, 2, kind);
        }
        if (t < n_tok) tile(y + t * ldy + r, ldy, p, n, x + t * ldx, ldx, 4, 1, kind);
    }
    for (; r < n_rows; r++)
        for (size_t t = 0; t < n_tok; t++)
            tile(y + t * ldy + r, ldy, w + r * row, n, x + t * ldx, ldx, 1, 1, kind);
}

void sm_mul_rows_f32_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F32);
}

void sm_mul_rows_f16_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_F16);
}

void sm_mul_rows_bf16_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                           const float *x, size_t ldx, size_t n_tok)
{
    mul_rows(y, ldy, w, n_rows, n_cols, x, ldx, n_tok, ROW_BF16);
}

float sm_dot_avx2(const float *a, const float *b, size_t n)
{
    float y;
    tile(&y, 1, (const uint8_t *)(const void *)a, n, b, n, 1, 1, ROW_F32);
    return y;
}

#endif
