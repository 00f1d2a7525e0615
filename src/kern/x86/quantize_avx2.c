/* SPDX-License-Identifier: MIT */
/* Floats to 8-bit codes and to the KV formats, AVX2 (docs/arithmetic.md sections 3 and 5). */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#define INF_BITS 0x7f800000u

/* The largest magnitude as bits. */
SM_INLINE uint32_t largest(const float *x, size_t n)
{
    const __m256i mask = _mm256_set1_epi32(0x7fffffff);
    __m256i a = _mm256_setzero_si256(), b = a;
    for (size_t i = 0; i < n; i += 16) {
        a = _mm256_max_epi32(a, _mm256_and_si256(loadu(x + i), mask));
        b = _mm256_max_epi32(b, _mm256_and_si256(loadu(x + i + 8), mask));
    }
    a = _mm256_max_epi32(a, b);
    __m128i c = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0x4e));
    c = _mm_max_epi32(c, _mm_shuffle_epi32(c, 0xb1));
    return (uint32_t)_mm_cvtsi128_si32(c);
}

SM_INLINE __m256i code8(const float *x, __m256 inv)
{
    return _mm256_cvtps_epi32(_mm256_mul_ps(_mm256_loadu_ps(x), inv)); /* to nearest even */
}
/* 32 codes in order. */
SM_INLINE __m256i code32(const float *x, __m256 inv)
{
    const __m256i ab = _mm256_packs_epi32(code8(x, inv), code8(x + 8, inv));
    const __m256i cd = _mm256_packs_epi32(code8(x + 16, inv), code8(x + 24, inv));
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    return _mm256_permutevar8x32_epi32(_mm256_packs_epi16(ab, cd), order);
}

SM_INLINE void quantize(const float *x, size_t n, int8_t *q, float *d, int16_t *s,
                        const size_t block)
{
    const __m256i one8 = _mm256_set1_epi8(1), one16 = _mm256_set1_epi16(1);
    for (; n >= block; n -= block, x += block, q += block, s += block / 16) {
        const uint32_t bits = largest(x, block);
        const float a = sm_f32_of_bits(bits);
        if (bits >= INF_BITS || a < 0x1p-100f) {
            *d++ = bits >= INF_BITS ? sm_f32_of_bits(0x7fc00000u) : 0.0f;
            memset(q, 0, block);
            memset(s, 0, block / 16 * sizeof *s);
            continue;
        }
        *d++ = a / 127.0f;
        const __m256 inv = _mm256_set1_ps(127.0f / a);
        for (size_t i = 0; i < block; i += 32) {
            const __m256i c = code32(x + i, inv);
            storeu(q + i, c);
            __m256i sum = _mm256_madd_epi16(_mm256_maddubs_epi16(one8, c), one16);
            sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
            sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
            s[i / 16] = (int16_t)_mm256_extract_epi32(sum, 0);
            s[i / 16 + 1] = (int16_t)_mm256_extract_epi32(sum, 4);
        }
    }
}

void sm_quantize_32_avx2(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, q, d, s, 32);
}

void sm_quantize_256_avx2(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, q, d, s, 256);
}

void sm_kv_store_f16_avx2(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
        const __m128i h = _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT);
        _mm_storeu_si128((__m128i *)(void *)(p + 2 * i), h);
    }
    for (; i < n; i++) sm_st16(p + 2 * i, sm_f16_of_f32(x[i]));
}

void sm_kv_store_q8_0_avx2(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    for (; n >= 32; n -= 32, x += 32, p += 34) {
        const uint32_t bits = largest(x, 32);
        const float a = sm_f32_of_bits(bits);
        if (bits >= INF_BITS || a < 127 * 0x1p-24f) {
            sm_st16(p, bits >= INF_BITS ? 0x7e00 : 0);
            memset(p + 2, 0, 32);
            continue;
        }
        sm_st16(p, sm_f16_of_f32(a / 127.0f));
        storeu(p + 2, code32(x, _mm256_set1_ps(127.0f / a)));
    }
}

#endif
