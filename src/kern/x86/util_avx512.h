/* SPDX-License-Identifier: MIT */
/* Vectors of the AVX-512 kernels (F, BW, VL, DQ, VNNI): the 8 rows of one x8 group in the low half,
 * those of the next group in the high half. The names are those of util_avxvnni.h, so that
 * mul_tile.h, mul_tile_k.h and mul_tile_32.h are written once. Static inline only. */
#ifndef SM_UTIL_AVX512_H
#define SM_UTIL_AVX512_H

#include "base/bits.h"
#include "kern/x8_tile.h"

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) &&                      \
    defined(__AVX512DQ__) && defined(__AVX512VNNI__) && defined(__FMA__) && defined(__F16C__)
#define SM_HAVE_AVX512 1
#define SM_HAVE_TILE 1
#include <immintrin.h>

typedef __m512i vi;
typedef __m512 vf;
/* Groups in a vector; tokens that meet a unit at once. */
enum { V_GROUPS = 2, V_TOK = 8 };

SM_INLINE __m256i load256(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
SM_INLINE __m128i load128(const void *p) { return _mm_loadu_si128((const __m128i *)p); }
SM_INLINE __m256i load128x2(const uint8_t *p0, const uint8_t *p1)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(p0)), load128(p1), 1);
}

/* The unit of both groups at byte `at` of their blocks. */
SM_INLINE vi v_unit(const uint8_t *const w[2], size_t at)
{
    return _mm512_inserti64x4(_mm512_castsi256_si512(load256(w[0] + at)), load256(w[1] + at), 1);
}
/* Rows of 2 bytes and of 1 byte, zero-extended; of f16. */
SM_INLINE vi v_unit16(const uint8_t *const w[2], size_t at)
{
    return _mm512_cvtepu16_epi32(load128x2(w[0] + at, w[1] + at));
}
SM_INLINE vi v_unit8(const uint8_t *const w[2], size_t at)
{
    const __m128i lo = _mm_loadl_epi64((const __m128i *)(const void *)(w[0] + at));
    const __m128i hi = _mm_loadl_epi64((const __m128i *)(const void *)(w[1] + at));
    return _mm512_cvtepu8_epi32(_mm_unpacklo_epi64(lo, hi));
}
SM_INLINE vf v_unit_f16(const uint8_t *const w[2], size_t at)
{
    return _mm512_cvtph_ps(load128x2(w[0] + at, w[1] + at));
}

SM_INLINE vi v_zero(void) { return _mm512_setzero_si512(); }
SM_INLINE vf v_zero_f(void) { return _mm512_setzero_ps(); }
SM_INLINE vi v_set8(int x) { return _mm512_set1_epi8((char)x); }
SM_INLINE vi v_set16(int x) { return _mm512_set1_epi16((short)x); }
SM_INLINE vi v_set32(int x) { return _mm512_set1_epi32(x); }
SM_INLINE vf v_set_f(float x) { return _mm512_set1_ps(x); }
SM_INLINE vi v_splat32(const void *p) { return _mm512_set1_epi32((int)sm_ld32(p)); }
SM_INLINE vi v_table(const void *p) { return _mm512_broadcast_i32x4(load128(p)); }
SM_INLINE vi v_and(vi a, vi b) { return _mm512_and_si512(a, b); }
SM_INLINE vi v_or(vi a, vi b) { return _mm512_or_si512(a, b); }
SM_INLINE vi v_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
#ifdef __clang__ /* its counts of shifts within 16 bits have another type than those of gcc */
typedef unsigned count16;
#else
typedef int count16;
#endif
/* Shifts within 16 bits; the caller masks the bits that crossed a byte. */
SM_INLINE vi v_shr(vi v, int n) { return _mm512_srli_epi16(v, (count16)n); }
SM_INLINE vi v_shl(vi v, int n) { return _mm512_slli_epi16(v, (count16)n); }
SM_INLINE vi v_shl32(vi v, int n) { return _mm512_slli_epi32(v, (unsigned)n); }
SM_INLINE vi v_shr32(vi v, int n) { return _mm512_srli_epi32(v, (unsigned)n); }
SM_INLINE vi v_sar32(vi v, int n) { return _mm512_srai_epi32(v, (unsigned)n); }
SM_INLINE vi v_sar16(vi v, int n) { return _mm512_srai_epi16(v, (count16)n); }
SM_INLINE vi v_shlv32(vi v, vi n) { return _mm512_sllv_epi32(v, n); }
SM_INLINE vi v_add8(vi a, vi b) { return _mm512_add_epi8(a, b); }
SM_INLINE vi v_sub8(vi a, vi b) { return _mm512_sub_epi8(a, b); }
SM_INLINE vi v_min8(vi a, vi b) { return _mm512_min_epu8(a, b); }
/* 1 where unsigned a > b, else 0. */
SM_INLINE vi v_above8(vi a, vi b)
{
    return _mm512_min_epu8(_mm512_subs_epu8(a, b), _mm512_set1_epi8(1));
}
SM_INLINE vi v_mul16(vi a, vi b) { return _mm512_mullo_epi16(a, b); }
SM_INLINE vi v_high16(vi a, vi b) { return _mm512_mulhi_epu16(a, b); }
SM_INLINE vi v_add32(vi a, vi b) { return _mm512_add_epi32(a, b); }
SM_INLINE vi v_sub32(vi a, vi b) { return _mm512_sub_epi32(a, b); }
SM_INLINE vi v_mul32(vi a, vi b) { return _mm512_mullo_epi32(a, b); }
/* a where x < y as int32, else b */
SM_INLINE vi v_if_less32(vi x, vi y, vi a, vi b)
{
    return _mm512_mask_blend_epi32(_mm512_cmplt_epi32_mask(x, y), b, a);
}
/* sum + four products of unsigned and signed bytes; + two of 16-bit numbers. */
SM_INLINE vi v_dp8(vi sum, vi u, vi a) { return _mm512_dpbusd_epi32(sum, u, a); }
SM_INLINE vi v_dp16(vi sum, vi a, vi b) { return _mm512_dpwssd_epi32(sum, a, b); }
SM_INLINE vf v_float(vi v) { return _mm512_cvtepi32_ps(v); }
SM_INLINE vf v_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
SM_INLINE vf v_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
SM_INLINE vf v_as_float(vi v) { return _mm512_castsi512_ps(v); }
SM_INLINE vf v_negate(vf v) { return _mm512_xor_ps(v, _mm512_set1_ps(-0.0f)); }
/* Each lane's bytes by `sel`: four byte numbers 0..3, or 0x80 for a zero. */
SM_INLINE vi v_bytes(vi v, uint32_t sel)
{
    const vi lanes = _mm512_broadcast_i32x4(_mm_setr_epi32(0, 0x04040404, 0x08080808, 0x0c0c0c0c));
    return _mm512_shuffle_epi8(v, _mm512_or_si512(lanes, _mm512_set1_epi32((int)sel)));
}
SM_INLINE vi v_lookup(vi table, vi index) { return _mm512_shuffle_epi8(table, index); }
/* The halves to two places; both: the high one too. */
SM_INLINE void v_store(float *lo, float *hi, vf v, bool both)
{
    _mm256_storeu_ps(lo, _mm512_castps512_ps256(v));
    if (both) _mm256_storeu_ps(hi, _mm512_extractf32x8_ps(v, 1));
}

SM_TILE_FORMATS(SM_NAME_DECL, avx512)
void sm_mul_rows_f32_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                            const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_f16_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                            const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_bf16_avx512(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                             const float *x, size_t ldx, size_t n_tok);
void sm_attn_chunk_f32_avx512(const struct sm_attn_chunk *c);
void sm_attn_chunk_f16_avx512(const struct sm_attn_chunk *c);
void sm_attn_chunk_q8_0_avx512(const struct sm_attn_chunk *c);
void sm_attn_tile_f32_avx512(const struct sm_attn_tile *a);
void sm_attn_tile_f16_avx512(const struct sm_attn_tile *a);
void sm_attn_tile_q8_0_avx512(const struct sm_attn_tile *a);

#endif
#endif
