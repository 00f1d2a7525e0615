/* SPDX-License-Identifier: MIT */
/* Products of the codebook formats IQ1, IQ2 and IQ3, AVX2. A 32-bit lane is an output row, so the
 * indices, signs and scales of 8 rows are taken apart together and a gather brings 8 codebook
 * entries; 32 weights of 8 rows at a time become signed bytes that all tokens of a tile use. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include "quant/iq_grids.h"

enum kind { KIND_IQ2XXS, KIND_IQ2XS, KIND_IQ2S, KIND_IQ3XXS, KIND_IQ3S, KIND_IQ1S, KIND_IQ1M };

SM_INLINE __m256i and32(__m256i v, int mask)
{
    return _mm256_and_si256(v, _mm256_set1_epi32(mask));
}
/* Shift of 32-bit lanes by a run-time count. */
SM_INLINE __m256i shr32(__m256i v, int n) { return _mm256_srl_epi32(v, _mm_cvtsi32_si128(n)); }
SM_INLINE __m256i or_(__m256i a, __m256i b) { return _mm256_or_si256(a, b); }

/* The 16-bit entries of eight indices, read as aligned pairs so that nothing beyond the table is
 * touched. */
SM_INLINE __m256i entries(const uint16_t *table, __m256i index)
{
    const __m256i pair = _mm256_i32gather_epi32((const int *)(const void *)table,
                                                _mm256_srli_epi32(index, 1), 4);
    const __m256i shift = _mm256_slli_epi32(and32(index, 1), 4);
    return and32(_mm256_srlv_epi32(pair, shift), 0xffff);
}

/* Bits 2j of the low byte of each lane to byte j. */
SM_INLINE __m256i spread2(__m256i b)
{
    const __m256i t = or_(b, _mm256_slli_epi32(b, 12));
    return and8(or_(t, _mm256_slli_epi32(t, 6)), 3);
}
/* Bits 3j of the low 12 bits of each lane to byte j. */
SM_INLINE __m256i spread3(__m256i e)
{
    const __m256i t = or_(and32(e, 0x3f), and32(_mm256_slli_epi32(e, 10), 0x3f0000));
    return and8(or_(t, _mm256_slli_epi32(t, 5)), 7);
}

/* v negated where bits 0..3 (low) or 4..7 of the lane's low byte of signs are set. */
SM_INLINE __m256i apply_signs(__m256i v, __m256i signs, const bool low)
{
    const __m256i first = _mm256_setr_epi8(0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12, 0, 0,
                                           0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12);
    const __m256i bit = _mm256_set1_epi32(low ? 0x08040201 : (int)0x80402010u);
    const __m256i b = _mm256_and_si256(_mm256_shuffle_epi8(signs, first), bit);
    const __m256i mask = _mm256_cmpeq_epi8(b, bit);
    return _mm256_sub_epi8(_mm256_xor_si256(v, mask), mask);
}
/* A 7-bit sign index to its byte: bit 7 makes the number of ones even. */
SM_INLINE __m256i even_signs(__m256i s)
{
    const __m256i odd = _mm256_setr_epi8(0, -128, -128, 0, -128, 0, 0, -128, -128, 0, 0, -128, 0,
                                         -128, -128, 0, 0, -128, -128, 0, -128, 0, 0, -128, -128, 0,
                                         0, -128, 0, -128, -128, 0);
    s = and32(s, 127);
    const __m256i nibble = and32(_mm256_xor_si256(s, _mm256_srli_epi32(s, 4)), 15);
    return or_(s, and32(_mm256_shuffle_epi8(odd, nibble), 128));
}

/* 2 s + 1 of each lane in both of its 16-bit halves. */
SM_INLINE __m256i pair_scale(__m256i s)
{
    const __m256i v = _mm256_add_epi32(_mm256_add_epi32(s, s), _mm256_set1_epi32(1));
    return or_(v, _mm256_slli_epi32(v, 16));
}

/* Group g (32 weights): signed codes u[0..7] and the scales of its two runs. The fields of each
 * format follow d in the order of the x8 table. */
SM_INLINE void codes_iq2(__m256i u[8], __m256i sub[2], const uint8_t *w, int g,
                         const enum kind kind)
{
    const __m256i values = _mm256_set1_epi32(0x002b1908); /* 8 25 43 */
    __m256i word = _mm256_setzero_si256(), signs = word, high = word;
    const uint8_t *p = w + 16;
    if (kind == KIND_IQ2XXS) {
        word = loadu(p + 64 * g);
        signs = loadu(p + 64 * g + 32);
        sub[0] = sub[1] = pair_scale(_mm256_srli_epi32(signs, 28));
    } else {
        const __m256i s = shr32(loadu(p + 32 * (g / 4)), 8 * (g & 3));
        sub[0] = pair_scale(and32(s, 15));
        sub[1] = pair_scale(and32(_mm256_srli_epi32(s, 4), 15));
    }
    if (kind == KIND_IQ2S) {
        word = loadu(p + 64 + 32 * g);
        signs = loadu(p + 320 + 32 * g);
        high = shr32(loadu(p + 576 + 32 * (g / 4)), 8 * (g & 3));
    }
    SM_UNROLL for (int l = 0; l < 4; l++) {
        __m256i e, s;
        if (kind == KIND_IQ2XXS) {
            e = entries(sm_grid_iq2xxs, and32(_mm256_srli_epi32(word, 8 * l), 255));
            s = even_signs(_mm256_srli_epi32(signs, 7 * l));
        } else if (kind == KIND_IQ2XS) {
            const __m256i v =
                _mm256_srli_epi32(loadu(p + 64 + 64 * g + 32 * (l / 2)), 16 * (l & 1));
            e = entries(sm_grid_iq2xs, and32(v, 511));
            s = even_signs(_mm256_srli_epi32(v, 9));
        } else {
            const __m256i top = and32(_mm256_slli_epi32(_mm256_srli_epi32(high, 2 * l), 8), 0x300);
            e = entries(sm_grid_iq2s, or_(and32(_mm256_srli_epi32(word, 8 * l), 255), top));
            s = _mm256_srli_epi32(signs, 8 * l);
        }
        const __m256i lo = _mm256_shuffle_epi8(values, spread2(and32(e, 255)));
        const __m256i hi = _mm256_shuffle_epi8(values, spread2(_mm256_srli_epi32(e, 8)));
        u[2 * l] = apply_signs(lo, s, true);
        u[2 * l + 1] = apply_signs(hi, s, false);
    }
}

SM_INLINE void codes_iq3(__m256i u[8], __m256i sub[2], const uint8_t *w, int g,
                         const enum kind kind)
{
    const __m256i values = _mm256_set1_epi64x(0x3e342c241c140c04); /* 4 12 20 28 36 44 52 62 */
    const uint8_t *p = w + 16;
    __m256i signs, high = _mm256_setzero_si256();
    const uint8_t *qs;
    if (kind == KIND_IQ3XXS) {
        signs = loadu(p + 32 * g);
        sub[0] = sub[1] = pair_scale(_mm256_srli_epi32(signs, 28));
        qs = p + 256 + 64 * g;
    } else {
        sub[0] = sub[1] = pair_scale(and32(shr32(loadu(p), 4 * g), 15));
        qs = p + 32 + 64 * g;
        high = shr32(loadu(p + 544 + 32 * (g / 4)), 8 * (g & 3));
        signs = loadu(p + 608 + 32 * g);
    }
    SM_UNROLL for (int j = 0; j < 8; j++) {
        const __m256i index = and32(_mm256_srli_epi32(loadu(qs + 32 * (j / 4)), 8 * (j & 3)), 255);
        __m256i v, s;
        if (kind == KIND_IQ3XXS) {
            v = _mm256_shuffle_epi8(values, spread3(entries(sm_grid_iq3xxs, index)));
            s = even_signs(_mm256_srli_epi32(signs, 7 * (j / 2)));
        } else {
            const __m256i top = and32(_mm256_slli_epi32(_mm256_srli_epi32(high, j), 8), 256);
            v = spread3(entries(sm_grid_iq3s, or_(index, top)));
            v = _mm256_add_epi8(_mm256_add_epi8(v, v), _mm256_set1_epi8(1));
            s = _mm256_srli_epi32(signs, 8 * (j / 2));
        }
        u[j] = apply_signs(v, s, (j & 1) == 0);
    }
}

/* IQ1: 8 * (code - 1) + 1, or - 1 where the delta is negative. */
SM_INLINE void codes_iq1(__m256i u[8], __m256i sub[2], const uint8_t *w, int g,
                         const enum kind kind)
{
    const __m256i seven = _mm256_set1_epi8(-7), two = _mm256_set1_epi8(2);
    __m256i h, qs;
    if (kind == KIND_IQ1S) {
        h = shr32(loadu(w + 16 + 32 * (g / 2)), 16 * (g & 1));
        qs = loadu(w + 144 + 32 * g);
        sub[0] = sub[1] = pair_scale(and32(_mm256_srli_epi32(h, 12), 7));
    } else { /* no d field: scales, indices, high bits */
        const __m256i s = shr32(loadu(w + 32 * (g / 4)), 16 * ((g / 2) & 1) + 6 * (g & 1));
        sub[0] = pair_scale(and32(s, 7));
        sub[1] = pair_scale(and32(_mm256_srli_epi32(s, 3), 7));
        qs = loadu(w + 64 + 32 * g);
        h = shr32(loadu(w + 320 + 32 * (g / 2)), 16 * (g & 1));
    }
    SM_UNROLL for (int l = 0; l < 4; l++) {
        const __m256i top = _mm256_srli_epi32(h, kind == KIND_IQ1S ? 3 * l : 4 * l);
        const __m256i sign =
            kind == KIND_IQ1S ? _mm256_slli_epi32(h, 16) : _mm256_slli_epi32(top, 28);
        const __m256i minus = _mm256_and_si256(_mm256_srai_epi32(sign, 31), two);
        const __m256i off = _mm256_sub_epi8(seven, minus); /* -7 or -9 */
        const __m256i index = or_(and32(_mm256_srli_epi32(qs, 8 * l), 255),
                                  and32(_mm256_slli_epi32(top, 8), 0x700));
        const __m256i e = entries(sm_grid_iq1s, index);
        const __m256i lo = spread2(and32(e, 255)), hi = spread2(_mm256_srli_epi32(e, 8));
        u[2 * l] = _mm256_add_epi8(shl(lo, 3), off);
        u[2 * l + 1] = _mm256_add_epi8(shl(hi, 3), off);
    }
}

/* Run e of a group: two units at a time in int16, codes up to 62: 2 * 2 * 62 * 127 = 31,496. */
SM_INLINE __m256i dot_run(const __m256i u[4], const int8_t *a, __m256i sub)
{
    const __m256i p0 = maddubs_signed(u[0], splat32(a)), p1 = maddubs_signed(u[1], splat32(a + 4));
    const __m256i p2 = maddubs_signed(u[2], splat32(a + 8));
    const __m256i p3 = maddubs_signed(u[3], splat32(a + 12));
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_add_epi16(p0, p1), sub),
                            _mm256_madd_epi16(_mm256_add_epi16(p2, p3), sub));
}

/* d of 8 rows; IQ1_M keeps its half in the top nibbles of the four scale words. */
SM_INLINE __m256 scale_iq(const uint8_t *w, const enum kind kind)
{
    const float factor = kind == KIND_IQ3XXS ? 0.25f : kind == KIND_IQ3S ? 1.0f : 0.125f;
    if (kind != KIND_IQ1M) return _mm256_mul_ps(load8_f16(w), _mm256_set1_ps(factor));
    const __m256i s0 = loadu(w), s1 = loadu(w + 32);
    __m256i h = or_(and32(_mm256_srli_epi32(s0, 12), 0xf), and32(_mm256_srli_epi32(s0, 24), 0xf0));
    h = or_(h, and32(_mm256_srli_epi32(s1, 4), 0xf00));
    h = or_(h, and32(_mm256_srli_epi32(s1, 16), 0xf000));
    const __m128i lo = _mm256_castsi256_si128(h), hi = _mm256_extracti128_si256(h, 1);
    return _mm256_mul_ps(_mm256_cvtph_ps(_mm_packus_epi32(lo, hi)), _mm256_set1_ps(factor));
}

SM_INLINE void group_iq(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x, size_t tok,
                        const int n_tok, const enum kind kind, const size_t block_bytes)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 8 * block_bytes) {
        __m256i sum[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        for (int g = 0; g < 8; g++) {
            __m256i u[8], sub[2];
            if (kind <= KIND_IQ2S) codes_iq2(u, sub, w, g, kind);
            else if (kind <= KIND_IQ3S) codes_iq3(u, sub, w, g, kind);
            else codes_iq1(u, sub, w, g, kind);
            for (int t = 0; t < n_tok; t++) {
                const int8_t *a = r[t].q + 32 * g;
                const __m256i p = _mm256_add_epi32(dot_run(u, a, sub[0]),
                                                   dot_run(u + 4, a + 16, sub[1]));
                sum[t] = _mm256_add_epi32(sum[t], p);
            }
        }
        const __m256 d = scale_iq(w, kind);
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step(acc[t], d, sum[t], r[t].d[b]);
            r[t].q += 256;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

#define MUL_IQ(fmt, act, KIND, block_bytes)                                                        \
    SM_INLINE void group_##fmt(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,    \
                               size_t tok, const int n_tok)                                        \
    {                                                                                              \
        group_iq(y, ldy, w, x, tok, n_tok, KIND, block_bytes);                                     \
    }                                                                                              \
    SM_MUL_X8_DRIVER(sm_mul_##fmt##_##act##_avx2, group_##fmt, 256, block_bytes)

MUL_IQ(iq2xxs, q8k, KIND_IQ2XXS, 66);
MUL_IQ(iq2xs, q8k, KIND_IQ2XS, 74);
MUL_IQ(iq2s, q8k, KIND_IQ2S, 82);
MUL_IQ(iq3xxs, q8k, KIND_IQ3XXS, 98);
MUL_IQ(iq3s, q8k, KIND_IQ3S, 110);
MUL_IQ(iq1s, q8k, KIND_IQ1S, 50);
MUL_IQ(iq1m, q8k, KIND_IQ1M, 56);

#endif
