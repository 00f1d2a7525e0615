/* SPDX-License-Identifier: MIT */
/* File-order rows to x8, AVX2: 16 bytes of 8 rows at a time are two 4 x 4 transpositions of 32-bit
 * units, one in each half of the vectors. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

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

static void pack_field(uint8_t *dst, const uint8_t *row, size_t row_bytes, size_t bytes,
                       size_t unit)
{
    size_t i = 0;
    if (unit == 4)
        for (; i + 16 <= bytes; i += 16) transpose4(dst + 8 * i, row + i, row_bytes);
    for (; i < bytes; i += unit) {
        for (size_t lane = 0; lane < 8; lane++) {
            const uint8_t *src = row + lane * row_bytes + i;
            uint8_t *to = dst + 8 * i + lane * unit;
            if (unit == 4) memcpy(to, src, 4);
            else if (unit == 2) memcpy(to, src, 2);
            else *to = *src;
        }
    }
}

static void pack(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes, size_t n_rows,
                 size_t n_cols)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = n_cols / t->block;
    for (; n_rows >= 8; n_rows -= 8, rows += 8 * row_bytes) {
        for (size_t b = 0; b < n_blocks; b++) {
            const uint8_t *block = rows + b * t->block_bytes;
            for (size_t f = 0; f < t->n_x8; f++) {
                const struct sm_x8_field *x = &t->x8[f];
                pack_field(dst, block + x->offset, row_bytes, x->bytes, x->unit);
                dst += 8 * (size_t)x->bytes;
            }
        }
    }
    if (n_rows) sm_x8_pack(type, dst, rows, row_bytes, n_rows, n_cols);
}

#define X(ID)                                                                                      \
    static void pack_##ID(uint8_t *dst, const uint8_t *rows, size_t row_bytes, size_t n_rows,      \
                          size_t n_cols)                                                           \
    {                                                                                              \
        pack(SM_##ID, dst, rows, row_bytes, n_rows, n_cols);                                       \
    }
SM_X8_FORMATS(X)
#undef X

void sm_pack_fill_avx2(struct sm_kern *k)
{
#define X(ID) k->pack_x8[SM_##ID] = pack_##ID;
    SM_X8_FORMATS(X)
#undef X
}

#endif
