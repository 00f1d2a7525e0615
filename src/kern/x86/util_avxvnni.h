/* SPDX-License-Identifier: MIT */
/* Vectors of the AVX-VNNI kernels: the 8 rows of one x8 group. The names are those of
 * util_avx512.h, so that mul_tile*.h are written once. Static inline only. */
#ifndef SM_UTIL_AVXVNNI_H
#define SM_UTIL_AVXVNNI_H

#include "base/bits.h"
#include "kern/x8_tile.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__) && defined(__AVXVNNI__)
#define SM_HAVE_AVXVNNI 1
#define SM_HAVE_TILE 1
#include <immintrin.h>

typedef __m256i vi;
typedef __m256 vf;
enum { V_GROUPS = 1, V_TOK = 4 };

SM_INLINE __m128i load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
SM_INLINE vi v_unit(const uint8_t *const w[1], size_t at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)(w[0] + at));
}
SM_INLINE vi v_unit16(const uint8_t *const w[1], size_t at)
{
    return _mm256_cvtepu16_epi32(load128(w[0] + at));
}
SM_INLINE vi v_unit8(const uint8_t *const w[1], size_t at)
{
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(w[0] + at)));
}
SM_INLINE vf v_unit_f16(const uint8_t *const w[1], size_t at)
{
    return _mm256_cvtph_ps(load128(w[0] + at));
}

SM_INLINE vi v_zero(void) { return _mm256_setzero_si256(); }
SM_INLINE vf v_zero_f(void) { return _mm256_setzero_ps(); }
SM_INLINE vi v_set8(int x) { return _mm256_set1_epi8((char)x); }
SM_INLINE vi v_set16(int x) { return _mm256_set1_epi16((short)x); }
SM_INLINE vi v_set32(int x) { return _mm256_set1_epi32(x); }
SM_INLINE vf v_set_f(float x) { return _mm256_set1_ps(x); }
SM_INLINE vi v_splat32(const void *p) { return _mm256_set1_epi32((int)sm_ld32(p)); }
SM_INLINE vi v_table(const void *p) { return _mm256_broadcastsi128_si256(load128(p)); }
SM_INLINE vi v_and(vi a, vi b) { return _mm256_and_si256(a, b); }
SM_INLINE vi v_or(vi a, vi b) { return _mm256_or_si256(a, b); }
SM_INLINE vi v_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
SM_INLINE vi v_shr(vi v, int n) { return _mm256_srli_epi16(v, n); }
SM_INLINE vi v_shl(vi v, int n) { return _mm256_slli_epi16(v, n); }
SM_INLINE vi v_shl32(vi v, int n) { return _mm256_slli_epi32(v, n); }
SM_INLINE vi v_shr32(vi v, int n) { return _mm256_srli_epi32(v, n); }
SM_INLINE vi v_sar32(vi v, int n) { return _mm256_srai_epi32(v, n); }
SM_INLINE vi v_sar16(vi v, int n) { return _mm256_srai_epi16(v, n); }
SM_INLINE vi v_shlv32(vi v, vi n) { return _mm256_sllv_epi32(v, n); }
SM_INLINE vi v_add8(vi a, vi b) { return _mm256_add_epi8(a, b); }
SM_INLINE vi v_sub8(vi a, vi b) { return _mm256_sub_epi8(a, b); }
SM_INLINE vi v_min8(vi a, vi b) { return _mm256_min_epu8(a, b); }
SM_INLINE vi v_above8(vi a, vi b)
{
    return _mm256_min_epu8(_mm256_subs_epu8(a, b), _mm256_set1_epi8(1));
}
SM_INLINE vi v_mul16(vi a, vi b) { return _mm256_mullo_epi16(a, b); }
SM_INLINE vi v_high16(vi a, vi b) { return _mm256_mulhi_epu16(a, b); }
SM_INLINE vi v_add32(vi a, vi b) { return _mm256_add_epi32(a, b); }
SM_INLINE vi v_sub32(vi a, vi b) { return _mm256_sub_epi32(a, b); }
SM_INLINE vi v_mul32(vi a, vi b) { return _mm256_mullo_epi32(a, b); }
SM_INLINE vi v_if_less32(vi x, vi y, vi a, vi b)
{
    return _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi32(y, x));
}
SM_INLINE vi v_dp8(vi sum, vi u, vi a) { return _mm256_dpbusd_avx_epi32(sum, u, a); }
SM_INLINE vi v_dp16(vi sum, vi a, vi b) { return _mm256_dpwssd_avx_epi32(sum, a, b); }
SM_INLINE vf v_float(vi v) { return _mm256_cvtepi32_ps(v); }
SM_INLINE vf v_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
SM_INLINE vf v_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
SM_INLINE vf v_as_float(vi v) { return _mm256_castsi256_ps(v); }
SM_INLINE vf v_negate(vf v) { return _mm256_xor_ps(v, _mm256_set1_ps(-0.0f)); }
SM_INLINE vi v_bytes(vi v, uint32_t sel)
{
    const vi lanes = _mm256_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c, 0, 0x04040404,
                                       0x08080808, 0x0c0c0c0c);
    return _mm256_shuffle_epi8(v, _mm256_or_si256(lanes, _mm256_set1_epi32((int)sel)));
}
SM_INLINE vi v_lookup(vi table, vi index) { return _mm256_shuffle_epi8(table, index); }
/* There is one group: the high place stays as it is. */
SM_INLINE void v_store(float *lo, float *hi, vf v, bool both)
{
    (void)hi;
    (void)both;
    _mm256_storeu_ps(lo, v);
}

SM_TILE_FORMATS(SM_NAME_DECL, avxvnni)

#endif
#endif
