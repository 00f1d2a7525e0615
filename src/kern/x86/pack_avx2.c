/* SPDX-License-Identifier: MIT */
/* File-order rows to x8, AVX2: 16 bytes of 8 rows at a time are two 4 x 4 transpositions of 32-bit
 * units, one in each half of the vectors. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include "kern/x8_pack.h"

SM_INLINE __m256i two_rows(const uint8_t *row, size_t row_bytes)
{
    const __m128i lo = _mm_loadu_si128((const __m128i *)(const void *)row);
    const __m128i hi = _mm_loadu_si128((const __m128i *)(const void *)(row + 4 * row_bytes));
    return _mm256_inserti128_si256(_mm256_castsi128_si256(lo), hi, 1);
}

/* Units 0..3 of 8 rows: 128 bytes. */
SM_INLINE void transpose4(uint8_t *dst, const uint8_t *row, size_t row_bytes)
{
    const __m256i r0 = two_rows(row, row_bytes), r1 = two_rows(row + row_bytes, row_bytes);
    const __m256i r2 = two_rows(row + 2 * row_bytes, row_bytes);
    const __m256i r3 = two_rows(row + 3 * row_bytes, row_bytes);
    const __m256i a = _mm256_unpacklo_epi32(r0, r1), b = _mm256_unpacklo_epi32(r2, r3);
    const __m256i c = _mm256_unpackhi_epi32(r0, r1), d = _mm256_unpackhi_epi32(r2, r3);
    storeu(dst, _mm256_unpacklo_epi64(a, b));
    storeu(dst + 32, _mm256_unpackhi_epi64(a, b));
    storeu(dst + 64, _mm256_unpacklo_epi64(c, d));
    storeu(dst + 96, _mm256_unpackhi_epi64(c, d));
}

void sm_pack_x8_avx2(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                     size_t n_rows, size_t n_cols)
{
    x8_pack(type, dst, rows, row_bytes, n_rows, n_cols, transpose4);
}

#endif
