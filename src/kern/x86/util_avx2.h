/* SPDX-License-Identifier: MIT */
/* Helpers of the AVX2 kernels. Static inline only: this code is compiled with -mavx2 -mfma -mf16c
 * and must not leak into files that are not. */
#ifndef SM_UTIL_AVX2_H
#define SM_UTIL_AVX2_H

#include "base/bits.h"
#include "kern/x8_tile.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SM_HAVE_AVX2 1
#include <immintrin.h>

SM_INLINE __m256i loadu(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
SM_INLINE void storeu(void *p, __m256i v) { _mm256_storeu_si256((__m256i *)p, v); }
/* Eight f16 to f32: exact. */
SM_INLINE __m256 load8_f16(const void *p)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
SM_INLINE __m256i splat32(const void *p) { return _mm256_set1_epi32((int32_t)sm_ld32(p)); }
SM_INLINE __m256i and8(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi8((char)mask));
}
/* Shifts within 16 bits; the caller masks the bits that crossed a byte. */
SM_INLINE __m256i shr(__m256i v, int n) { return _mm256_srli_epi16(v, n); }
SM_INLINE __m256i shl(__m256i v, int n) { return _mm256_slli_epi16(v, n); }

/* Byte i of each 32-bit lane, zero-extended, in both 16-bit halves of the lane. */
SM_INLINE __m256i pair_u8(__m256i v, int i)
{
    const int one = (int)(0x80008000u | (uint32_t)i << 16 | (uint32_t)i);
    const int step = 0x00040004;
    const __m256i idx = _mm256_setr_epi32(one, one + step, one + 2 * step, one + 3 * step, one,
                                          one + step, one + 2 * step, one + 3 * step);
    return _mm256_shuffle_epi8(v, idx);
}
/* Bytes i and i + 1 of each 32-bit lane, zero-extended, as its two 16-bit halves. */
SM_INLINE __m256i two_u8(__m256i v, int i)
{
    const int one = (int)(0x80008000u | (uint32_t)(i + 1) << 16 | (uint32_t)i);
    const int step = 0x00040004;
    const __m256i idx = _mm256_setr_epi32(one, one + step, one + 2 * step, one + 3 * step, one,
                                          one + step, one + 2 * step, one + 3 * step);
    return _mm256_shuffle_epi8(v, idx);
}
/* The same for signed bytes: the byte goes to the high half of its 16 bits, then down. */
SM_INLINE __m256i pair_s8(__m256i v, int i)
{
    const int one = (int)(0x00800080u | (uint32_t)i << 24 | (uint32_t)i << 8);
    const int step = 0x04000400;
    const __m256i idx = _mm256_setr_epi32(one, one + step, one + 2 * step, one + 3 * step, one,
                                          one + step, one + 2 * step, one + 3 * step);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, idx), 8);
}
SM_INLINE __m256i two_s8(__m256i v, int i)
{
    const int one = (int)(0x00800080u | (uint32_t)(i + 1) << 24 | (uint32_t)i << 8);
    const int step = 0x04000400;
    const __m256i idx = _mm256_setr_epi32(one, one + step, one + 2 * step, one + 3 * step, one,
                                          one + step, one + 2 * step, one + 3 * step);
    return _mm256_srai_epi16(_mm256_shuffle_epi8(v, idx), 8);
}

/* acc + the sums of pairs of 16-bit products. */
SM_INLINE __m256i add_madd(__m256i acc, __m256i a, __m256i b)
{
    return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b));
}
/* w signed (-128..127), a within +-127: sums of two products, at most 2 * 128 * 127 = 32,512. */
SM_INLINE __m256i maddubs_signed(__m256i w, __m256i a)
{
    return _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(a, w));
}

/* One float step of a row: acc = fma(d_a, d * (float)i, acc). */
SM_INLINE __m256 step(__m256 acc, __m256 d, __m256i i, float d_a)
{
    const __m256 t = _mm256_mul_ps(d, _mm256_cvtepi32_ps(i));
    return _mm256_fmadd_ps(_mm256_set1_ps(d_a), t, acc);
}
/* With a minimum: t = fma(m, (float)sum, d * (float)i). */
SM_INLINE __m256 step_min(__m256 acc, __m256 d, __m256i i, __m256 m, __m256i sum, float d_a)
{
    __m256 t = _mm256_mul_ps(d, _mm256_cvtepi32_ps(i));
    t = _mm256_fmadd_ps(m, _mm256_cvtepi32_ps(sum), t);
    return _mm256_fmadd_ps(_mm256_set1_ps(d_a), t, acc);
}
/* The sign bit only; what the file calls dmin is subtracted. */
SM_INLINE __m256 negate(__m256 v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }

/* sum16 from its partial sums 0..7 and 8..15: folded 8, 4, 2, 1. */
SM_INLINE float fold16(__m256 lo, __m256 hi)
{
    const __m256 p = _mm256_add_ps(lo, hi);
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(p), _mm256_extractf128_ps(p, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    q = _mm_add_ss(q, _mm_shuffle_ps(q, q, 1));
    return _mm_cvtss_f32(q);
}

/* exp of docs/arithmetic.md section 7, eight at a time. */
SM_INLINE __m256 exp8(__m256 x)
{
    const __m256 nan = _mm256_cmp_ps(x, x, _CMP_UNORD_Q), v = x;
    x = _mm256_max_ps(x, _mm256_set1_ps(-104.0f));
    x = _mm256_min_ps(x, _mm256_set1_ps(89.0f));
    const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(0x1.715476p0f)),
                                     _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m256 r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.62e400p-1f), x);
    r = _mm256_fnmadd_ps(n, _mm256_set1_ps(0x1.7f7d1cp-20f), r);
    __m256 p = _mm256_set1_ps(0x1.a01a02p-13f);
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.6c16c2p-10f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.111112p-7f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555556p-5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0x1.555556p-3f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(0.5f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    p = _mm256_fmadd_ps(p, r, _mm256_set1_ps(1.0f));
    const __m256i k = _mm256_cvtps_epi32(n), k1 = _mm256_srai_epi32(k, 1);
    const __m256i k2 = _mm256_sub_epi32(k, k1), bias = _mm256_set1_epi32(127);
    const __m256i s1 = _mm256_slli_epi32(_mm256_add_epi32(k1, bias), 23);
    const __m256i s2 = _mm256_slli_epi32(_mm256_add_epi32(k2, bias), 23);
    p = _mm256_mul_ps(_mm256_mul_ps(p, _mm256_castsi256_ps(s1)), _mm256_castsi256_ps(s2));
    return _mm256_blendv_ps(p, v, nan);
}

SM_INLINE __m256 gate8(__m256 g, __m256 u)
{
    const __m256 e = exp8(_mm256_xor_ps(g, _mm256_set1_ps(-0.0f)));
    return _mm256_div_ps(u, _mm256_add_ps(_mm256_set1_ps(1.0f), e));
}

/* Kernels of the AVX2 files, put into the table by fill_avx2.c. */
SM_TILE_FORMATS(SM_NAME_DECL, avx2)
SM_GRID_FORMATS(SM_NAME_DECL, avx2)

void sm_mul_rows_f32_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_f16_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_bf16_avx2(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                           const float *x, size_t ldx, size_t n_tok);
float sm_dot_avx2(const float *a, const float *b, size_t n);
float sm_rms_norm_avx2(float *y, const float *x, const float *w, size_t n, float eps);
void sm_silu_mul_avx2(float *h, const float *g, const float *u, size_t n);
void sm_sigmoid_mul_avx2(float *h, const float *g, const float *u, size_t n);
void sm_conv_avx2(const struct sm_conv *c);
void sm_delta_tile_avx2(const struct sm_delta_tile *d);
void sm_axpy_avx2(float *y, float w, const float *x, size_t n);
void sm_add_avx2(float *y, const float *x, size_t n);
void sm_join_avx2(float *o, float keep, const float *x, float part, size_t n);
void sm_exp_avx2(float *y, const float *x, size_t n);
void sm_rope_half_avx2(float *x, const float *cs, size_t n_rot);
void sm_rope_adjacent_avx2(float *x, const float *cs, size_t n_rot);
void sm_quantize_32_avx2(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
void sm_quantize_256_avx2(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
void sm_kv_store_f16_avx2(void *dst, const float *x, size_t n);
void sm_kv_store_q8_0_avx2(void *dst, const float *x, size_t n);
void sm_attn_chunk_f32_avx2(const struct sm_attn_chunk *c);
void sm_attn_chunk_f16_avx2(const struct sm_attn_chunk *c);
void sm_attn_chunk_q8_0_avx2(const struct sm_attn_chunk *c);
void sm_pack_x8_avx2(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                     size_t n_rows, size_t n_cols);

#endif /* SM_HAVE_AVX2 */
#endif
