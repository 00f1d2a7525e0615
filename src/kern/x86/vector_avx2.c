/* SPDX-License-Identifier: MIT */
/* Vector steps of the layers, AVX2. Each element is computed alone, so a tail may be done in a
 * padded copy or by the scalar form. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include <math.h>

/* n < 8 floats and zeros. */
static inline __m256 load_tail(const float *x, size_t n)
{
    float p[8] = {0};
    for (size_t i = 0; i < n; i++) p[i] = x[i];
    return _mm256_loadu_ps(p);
}
static inline void store_tail(float *y, __m256 v, size_t n)
{
    float p[8];
    _mm256_storeu_ps(p, v);
    for (size_t i = 0; i < n; i++) y[i] = p[i];
}

float sm_rms_norm_avx2(float *y, const float *x, const float *w, size_t n, float eps)
{
    const float s = sm_dot_avx2(x, x, n);
    const float r = 1.0f / sqrtf(s / (float)n + eps);
    const __m256 r8 = _mm256_set1_ps(r);
    size_t i = 0;
    if (w) {
        for (; i + 8 <= n; i += 8) {
            const __m256 v = _mm256_mul_ps(_mm256_loadu_ps(x + i), r8);
            _mm256_storeu_ps(y + i, _mm256_mul_ps(v, _mm256_loadu_ps(w + i)));
        }
        for (; i < n; i++) y[i] = (x[i] * r) * w[i];
    } else {
        for (; i + 8 <= n; i += 8)
            _mm256_storeu_ps(y + i, _mm256_mul_ps(_mm256_loadu_ps(x + i), r8));
        for (; i < n; i++) y[i] = x[i] * r;
    }
    return s;
}

SM_INLINE __m256 silu_mul8(__m256 g, __m256 u) { return _mm256_mul_ps(gate8(g, g), u); }

void sm_silu_mul_avx2(float *h, const float *g, const float *u, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(h + i, silu_mul8(_mm256_loadu_ps(g + i), _mm256_loadu_ps(u + i)));
    if (i < n)
        store_tail(h + i, silu_mul8(load_tail(g + i, n - i), load_tail(u + i, n - i)), n - i);
}

void sm_axpy_avx2(float *y, float w, const float *x, size_t n)
{
    const __m256 w8 = _mm256_set1_ps(w);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i,
                         _mm256_fmadd_ps(w8, _mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
    for (; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}

void sm_add_avx2(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(y + i, _mm256_add_ps(_mm256_loadu_ps(y + i), _mm256_loadu_ps(x + i)));
    for (; i < n; i++) y[i] = y[i] + x[i];
}

void sm_join_avx2(float *o, float keep, const float *x, float part, size_t n)
{
    const __m256 a = _mm256_set1_ps(keep), b = _mm256_set1_ps(part);
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(o + i, _mm256_fmadd_ps(_mm256_loadu_ps(x + i), b,
                                                _mm256_mul_ps(_mm256_loadu_ps(o + i), a)));
    for (; i < n; i++) o[i] = fmaf(x[i], part, o[i] * keep);
}

void sm_exp_avx2(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(y + i, exp8(_mm256_loadu_ps(x + i)));
    if (i < n) store_tail(y + i, exp8(load_tail(x + i, n - i)), n - i);
}

/* (a, b) -> (fma(a, c, -(b * s)), fma(a, s, b * c)) */
SM_INLINE void rotate8(__m256 *a, __m256 *b, __m256 c, __m256 s)
{
    const __m256 x = *a, y = *b;
    *a = _mm256_fmsub_ps(x, c, _mm256_mul_ps(y, s));
    *b = _mm256_fmadd_ps(x, s, _mm256_mul_ps(y, c));
}
static inline void rotate1(float *pa, float *pb, float c, float s)
{
    const float a = *pa, b = *pb;
    *pa = fmaf(a, c, -(b * s));
    *pb = fmaf(a, s, b * c);
}

void sm_rope_half_avx2(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    size_t j = 0;
    for (; j + 8 <= half; j += 8) {
        __m256 a = _mm256_loadu_ps(x + j), b = _mm256_loadu_ps(x + half + j);
        rotate8(&a, &b, _mm256_loadu_ps(cs + j), _mm256_loadu_ps(cs + half + j));
        _mm256_storeu_ps(x + j, a);
        _mm256_storeu_ps(x + half + j, b);
    }
    for (; j < half; j++) rotate1(x + j, x + half + j, cs[j], cs[half + j]);
}

void sm_rope_adjacent_avx2(float *x, const float *cs, size_t n_rot)
{
    /* Pairs 0 1 4 5 | 2 3 6 7 come out of the shuffle of two vectors; the same order of the cosines
     * is made by a 64-bit permutation. */
    const size_t half = n_rot / 2;
    size_t j = 0;
    for (; j + 8 <= half; j += 8) {
        const __m256 u = _mm256_loadu_ps(x + 2 * j), v = _mm256_loadu_ps(x + 2 * j + 8);
        __m256 a = _mm256_shuffle_ps(u, v, 0x88), b = _mm256_shuffle_ps(u, v, 0xdd);
        const __m256d c = _mm256_castps_pd(_mm256_loadu_ps(cs + j));
        const __m256d s = _mm256_castps_pd(_mm256_loadu_ps(cs + half + j));
        rotate8(&a, &b, _mm256_castpd_ps(_mm256_permute4x64_pd(c, 0xd8)),
                _mm256_castpd_ps(_mm256_permute4x64_pd(s, 0xd8)));
        _mm256_storeu_ps(x + 2 * j, _mm256_unpacklo_ps(a, b));
        _mm256_storeu_ps(x + 2 * j + 8, _mm256_unpackhi_ps(a, b));
    }
    for (; j < half; j++) rotate1(x + 2 * j, x + 2 * j + 1, cs[j], cs[half + j]);
}

#endif
