/* SPDX-License-Identifier: MIT */
/* exp of docs/arithmetic.md section 7 and the fold of sum16, AVX-512. Static inline only. */
#ifndef SM_EXP_AVX512_H
#define SM_EXP_AVX512_H

#include "kern/x86/util_avx512.h"

#ifdef SM_HAVE_AVX512

SM_INLINE __m512 exp16(__m512 x)
{
    const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
    const __m512 v = x;
    x = _mm512_max_ps(x, _mm512_set1_ps(-104.0f));
    x = _mm512_min_ps(x, _mm512_set1_ps(89.0f));
    const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(x, _mm512_set1_ps(0x1.715476p0f)),
                                          _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.62e400p-1f), x);
    r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0x1.7f7d1cp-20f), r);
    __m512 p = _mm512_set1_ps(0x1.a01a02p-13f);
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.6c16c2p-10f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.111112p-7f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555556p-5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0x1.555556p-3f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(0.5f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.0f));
    const __m512i k = _mm512_cvtps_epi32(n), k1 = _mm512_srai_epi32(k, 1);
    const __m512i k2 = _mm512_sub_epi32(k, k1), bias = _mm512_set1_epi32(127);
    const __m512i s1 = _mm512_slli_epi32(_mm512_add_epi32(k1, bias), 23);
    const __m512i s2 = _mm512_slli_epi32(_mm512_add_epi32(k2, bias), 23);
    p = _mm512_mul_ps(_mm512_mul_ps(p, _mm512_castsi512_ps(s1)), _mm512_castsi512_ps(s2));
    return _mm512_mask_mov_ps(p, nan, v);
}

/* Lane k + width is added to lane k: 8, 4, 2, 1. */
SM_INLINE float fold16(__m512 p)
{
    const __m256 a = _mm256_add_ps(_mm512_castps512_ps256(p), _mm512_extractf32x8_ps(p, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_shuffle_ps(q, q, 1)));
}

#endif
#endif
