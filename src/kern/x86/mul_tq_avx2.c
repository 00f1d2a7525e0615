/* SPDX-License-Identifier: MIT */
/* Products of TQ1_0, TQ2_0 and IQ4_XS with 256-wide activation blocks, AVX2. A 32-bit lane is an
 * output row; |a| <= 127 in all the bounds below. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include "quant/codes.h"

/* Four units of small unsigned codes against 16 activations, in int16. */
SM_INLINE __m256i dot4(const __m256i u[4], const int8_t *a)
{
    const __m256i p0 = _mm256_maddubs_epi16(u[0], splat32(a));
    const __m256i p1 = _mm256_maddubs_epi16(u[1], splat32(a + 4));
    const __m256i p2 = _mm256_maddubs_epi16(u[2], splat32(a + 8));
    const __m256i p3 = _mm256_maddubs_epi16(u[3], splat32(a + 12));
    return _mm256_add_epi16(_mm256_add_epi16(p0, p1), _mm256_add_epi16(p2, p3));
}

/* The sum of a block's 256 codes in every lane. */
SM_INLINE __m256i sum_of_runs(const int16_t *s)
{
    __m256i v = _mm256_madd_epi16(loadu(s), _mm256_set1_epi16(1));
    v = _mm256_add_epi32(v, _mm256_permute2x128_si256(v, v, 1));
    v = _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
    return _mm256_add_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
}

/* TQ2_0, x8: d, codes 16 units. q = u - 1. Bits 2-3 and 6-7 are used in place, 4 times too large.
 * int16: all 32 units of plain codes 32 * 2 * 3 * 127 = 24,384; 8 units of the others 8 * 2 * 12 *
 * 127 = 24,384. */
SM_INLINE void group_tq20(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                          size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    const __m256i one = _mm256_set1_epi16(1);
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 66 * 8) {
        __m256i s1[SM_TOK_MAX], i4[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) s1[t] = i4[t] = _mm256_setzero_si256();
        for (int he = 0; he < 4; he++) { /* half of 128, even or odd runs of 16 */
            const uint8_t *v = w + 16 + 128 * he;
            const int at = 64 * (he & 2) + 16 * (he & 1);
            __m256i u[4][4];
            SM_UNROLL for (int j = 0; j < 4; j++) {
                const __m256i n = loadu(v + 32 * j), m = shr(n, 4);
                u[0][j] = and8(n, 3), u[1][j] = and8(n, 12);
                u[2][j] = and8(m, 3), u[3][j] = and8(m, 12);
            }
            for (int t = 0; t < n_tok; t++) {
                const int8_t *a = r[t].q + at;
                const __m256i p = _mm256_add_epi16(dot4(u[0], a), dot4(u[2], a + 64));
                const __m256i z = _mm256_add_epi16(dot4(u[1], a + 32), dot4(u[3], a + 96));
                s1[t] = _mm256_add_epi16(s1[t], p);
                i4[t] = add_madd(i4[t], z, one);
            }
        }
        const __m256 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            const __m256i off = _mm256_sub_epi32(_mm256_srai_epi32(i4[t], 2), sum_of_runs(r[t].s));
            acc[t] = step(acc[t], d, add_madd(off, s1[t], one), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_tq20_q8k_avx2, group_tq20, 256, 66);

/* The first base-3 digit of bytes held less 128: (t >= 86) + (t >= 171), since digit = 3t >> 8. */
SM_INLINE __m256i digit(__m256i v)
{
    const __m256i a = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(85 - 128));
    const __m256i b = _mm256_cmpgt_epi8(v, _mm256_set1_epi8(170 - 128));
    return _mm256_abs_epi8(_mm256_add_epi8(a, b));
}
/* 3t mod 256, still less 128: 3 * (t - 128) = 3t - 128 mod 256. */
SM_INLINE __m256i next_digit(__m256i v) { return _mm256_add_epi8(v, _mm256_add_epi8(v, v)); }

/* TQ1_0, x8: d, codes 12 units of five digits, 1 unit of four. q = digit - 1. A whole block fits
 * int16: 64 * 2 * 2 * 127 = 32,512. */
SM_INLINE void group_tq10(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                          size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    const __m256i one = _mm256_set1_epi16(1), top = _mm256_set1_epi8(-128);
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 54 * 8) {
        __m256i sum[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        for (int c = 0; c < 3; c++) { /* bytes 16c .. 16c + 15: 32n + i, or 160 + 16n + i */
            __m256i v[4], u[4];
            SM_UNROLL for (int j = 0; j < 4; j++)
                v[j] = _mm256_xor_si256(loadu(w + 16 + 128 * c + 32 * j), top);
            for (int n = 0; n < 5; n++) {
                const int at = c < 2 ? 32 * n + 16 * c : 160 + 16 * n;
                SM_UNROLL for (int j = 0; j < 4; j++) {
                    u[j] = digit(v[j]);
                    v[j] = next_digit(v[j]);
                }
                for (int t = 0; t < n_tok; t++)
                    sum[t] = _mm256_add_epi16(sum[t], dot4(u, r[t].q + at));
            }
        }
        __m256i v = _mm256_xor_si256(loadu(w + 16 + 384), top), u[4];
        SM_UNROLL for (int n = 0; n < 4; n++) { /* 240 + 4n + i */
            u[n] = digit(v);
            v = next_digit(v);
        }
        const __m256 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            const __m256i s = _mm256_add_epi16(sum[t], dot4(u, r[t].q + 240));
            const __m256i i = _mm256_sub_epi32(_mm256_madd_epi16(s, one), sum_of_runs(r[t].s));
            acc[t] = step(acc[t], d, i, r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_tq10_q8k_avx2, group_tq10, 256, 54);

/* IQ4_XS, x8: d, high scale bits 1 unit of 2 bytes, low scale bits 1 unit, codes 32 units. Signed
 * codes up to 127: two products are at most 2 * 127 * 127 = 32,258. */
SM_INLINE void group_iq4xs(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                           size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    const __m256i k = _mm256_broadcastsi128_si256(
        _mm_loadu_si128((const __m128i *)(const void *)sm_codes_iq4_values));
    const __m256i twice = _mm256_setr_epi8(0, 1, 0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13, 0, 1,
                                           0, 1, 4, 5, 4, 5, 8, 9, 8, 9, 12, 13, 12, 13);
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 136 * 8) {
        const __m128i sh = _mm_loadu_si128((const __m128i *)(const void *)(w + 16));
        __m256i high = _mm256_cvtepu16_epi32(sh);
        __m256i low = loadu(w + 32), sum[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        for (int g = 0; g < 8; g++) {
            __m256i s = _mm256_and_si256(low, _mm256_set1_epi32(15));
            const __m256i s2 = _mm256_and_si256(high, _mm256_set1_epi32(3));
            s = _mm256_or_si256(s, _mm256_slli_epi32(s2, 4));
            s = _mm256_shuffle_epi8(_mm256_sub_epi32(s, _mm256_set1_epi32(32)), twice);
            low = _mm256_srli_epi32(low, 4);
            high = _mm256_srli_epi32(high, 2);
            __m256i u[8];
            SM_UNROLL for (int j = 0; j < 4; j++) {
                const __m256i n = loadu(w + 64 + 128 * g + 32 * j);
                u[j] = _mm256_shuffle_epi8(k, and8(n, 15));
                u[j + 4] = _mm256_shuffle_epi8(k, and8(shr(n, 4), 15));
            }
            for (int t = 0; t < n_tok; t++) {
                const int8_t *a = r[t].q + 32 * g;
                __m256i even = _mm256_setzero_si256(), odd = even;
                SM_UNROLL for (int j = 0; j < 8; j += 2) {
                    even = add_madd(even, maddubs_signed(u[j], splat32(a + 4 * j)), s);
                    odd = add_madd(odd, maddubs_signed(u[j + 1], splat32(a + 4 * j + 4)), s);
                }
                sum[t] = _mm256_add_epi32(sum[t], _mm256_add_epi32(even, odd));
            }
        }
        const __m256 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step(acc[t], d, sum[t], r[t].d[b]);
            r[t].q += 256;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_iq4xs_q8k_avx2, group_iq4xs, 256, 136);

#endif
