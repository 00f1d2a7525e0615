/* SPDX-License-Identifier: MIT */
/* Products of the formats with 32-wide activation blocks, AVX2: Q8_0, the Q4 and Q5 formats,
 * IQ4_NL, MXFP4, and Q1_0 and Q2_0, whose blocks take 4 and 2 steps. A 32-bit lane is an output
 * row; |a| <= 127 in all the bounds below. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include "quant/codes.h"

enum kind { KIND_Q40, KIND_Q41, KIND_Q50, KIND_Q51, KIND_Q80, KIND_IQ4NL, KIND_MXFP4 };

SM_INLINE __m256i ones(void) { return _mm256_set1_epi16(1); }

/* k times the sum of a block's 32 codes, in every lane. |k| <= 16: 16 * 4,064. */
SM_INLINE __m256i times_sum(const int16_t *s, int k)
{
    return _mm256_madd_epi16(splat32(s), _mm256_set1_epi16((short)k));
}

/* The sixteen signed bytes of a table, in both halves. */
SM_INLINE __m256i table16(const int8_t *p)
{
    return _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)p));
}

/* The fifth bits of unit j (elements 4j .. 4j + 3) from the lane's 32 bits h, as 0 or 16. */
SM_INLINE __m256i fifth(__m256i h, int j)
{
    const int at = j / 2, step = 0x04040404;
    const int first = (int)(0x01010101u * (uint32_t)at);
    const __m256i idx =
        _mm256_setr_epi32(first, first + step, first + 2 * step, first + 3 * step, first,
                          first + step, first + 2 * step, first + 3 * step);
    const __m256i bit = _mm256_set1_epi32(j & 1 ? (int)0x80402010u : 0x08040201);
    const __m256i b = _mm256_and_si256(_mm256_shuffle_epi8(h, idx), bit);
    return and8(_mm256_cmpeq_epi8(b, bit), 16);
}

/* 2^(E - 128) for eight exponent bytes: bits (E - 1) << 23, and 2^-128, 2^-127 for E = 0, 1. */
SM_INLINE __m256 scale_mxfp4(const uint8_t *p)
{
    const __m256i e = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)p));
    const __m256i one = _mm256_set1_epi32(1);
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(e, one), 23);
    const __m256i low = _mm256_sllv_epi32(_mm256_set1_epi32(1 << 21), e);
    const __m256i is_low = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), e);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, low, is_low));
}

/* Units 0..7 of one x8 block whose codes start at v (nibbles: low halves first). */
SM_INLINE void codes_32(__m256i u[8], const uint8_t *v, const uint8_t *qh, const enum kind kind)
{
    if (kind == KIND_Q80) {
        SM_UNROLL for (int j = 0; j < 8; j++) u[j] = loadu(v + 32 * j);
        return;
    }
    SM_UNROLL for (int j = 0; j < 4; j++) {
        const __m256i n = loadu(v + 32 * j);
        u[j] = and8(n, 15);
        u[j + 4] = and8(shr(n, 4), 15);
    }
    if (kind == KIND_Q50 || kind == KIND_Q51) {
        const __m256i h = loadu(qh);
        SM_UNROLL for (int j = 0; j < 8; j++) u[j] = _mm256_or_si256(u[j], fifth(h, j));
    } else if (kind == KIND_IQ4NL) {
        const __m256i k = table16(sm_codes_iq4_values);
        SM_UNROLL for (int j = 0; j < 8; j++) u[j] = _mm256_shuffle_epi8(k, u[j]);
    } else if (kind == KIND_MXFP4) { /* + 12: 0..24 */
        const __m256i k = _mm256_add_epi8(table16(sm_codes_mxfp4_values), _mm256_set1_epi8(12));
        SM_UNROLL for (int j = 0; j < 8; j++) u[j] = _mm256_shuffle_epi8(k, u[j]);
    }
}

/* sum of u * a over 32 codes. Four units of codes up to 31 in int16: 4 * 2 * 31 * 127 = 31,496;
 * eight of codes up to 15: 30,480; signed codes go to 32 bits at once. */
SM_INLINE __m256i dot_32(const __m256i u[8], const int8_t *a, const enum kind kind)
{
    __m256i lo = _mm256_setzero_si256(), hi = lo;
    if (kind == KIND_Q80 || kind == KIND_IQ4NL) {
        SM_UNROLL for (int j = 0; j < 4; j++) {
            lo = add_madd(lo, maddubs_signed(u[j], splat32(a + 4 * j)), ones());
            hi = add_madd(hi, maddubs_signed(u[j + 4], splat32(a + 4 * j + 16)), ones());
        }
        return _mm256_add_epi32(lo, hi);
    }
    SM_UNROLL for (int j = 0; j < 4; j++) {
        lo = _mm256_add_epi16(lo, _mm256_maddubs_epi16(u[j], splat32(a + 4 * j)));
        hi = _mm256_add_epi16(hi, _mm256_maddubs_epi16(u[j + 4], splat32(a + 4 * j + 16)));
    }
    if (kind == KIND_Q40 || kind == KIND_Q41)
        return _mm256_madd_epi16(_mm256_add_epi16(lo, hi), ones());
    return _mm256_add_epi32(_mm256_madd_epi16(lo, ones()), _mm256_madd_epi16(hi, ones()));
}

/* x8: d, m (Q4_1, Q5_1), fifth bits 1 unit (Q5), codes. */
SM_INLINE void group_32(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x, size_t tok,
                        const int n_tok, const enum kind kind)
{
    const size_t n_blocks = x->n_cols / 32;
    const bool has_min = kind == KIND_Q41 || kind == KIND_Q51;
    const bool has_high = kind == KIND_Q50 || kind == KIND_Q51;
    const size_t at_high = kind == KIND_MXFP4 ? 8 : has_min ? 32 : 16;
    const size_t at_codes = at_high + (has_high ? 32 : 0);
    const size_t bytes = at_codes + (kind == KIND_Q80 ? 256 : 128);
    const int offset = kind == KIND_Q40 ? 8 : kind == KIND_Q50 ? 16 : kind == KIND_MXFP4 ? 12 : 0;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += bytes) {
        __m256i u[8];
        codes_32(u, w + at_codes, w + at_high, kind);
        const __m256 d = kind == KIND_MXFP4 ? scale_mxfp4(w) : load8_f16(w);
        const __m256 m = has_min ? load8_f16(w + 16) : d;
        for (int t = 0; t < n_tok; t++) {
            __m256i i = dot_32(u, r[t].q + 32 * b, kind);
            if (offset) i = _mm256_sub_epi32(i, times_sum(r[t].s + 2 * b, offset));
            acc[t] = has_min ? step_min(acc[t], d, i, m, times_sum(r[t].s + 2 * b, 1), r[t].d[b])
                             : step(acc[t], d, i, r[t].d[b]);
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}

#define MUL_32(fmt, act, KIND, block_bytes)                                                        \
    SM_INLINE void group_##fmt(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,    \
                               size_t tok, const int n_tok)                                        \
    {                                                                                              \
        group_32(y, ldy, w, x, tok, n_tok, KIND);                                                  \
    }                                                                                              \
    SM_MUL_X8_DRIVER(sm_mul_##fmt##_##act##_avx2, group_##fmt, 32, block_bytes)

MUL_32(q40, q8, KIND_Q40, 18);
MUL_32(q41, q8, KIND_Q41, 20);
MUL_32(q50, q8, KIND_Q50, 22);
MUL_32(q51, q8, KIND_Q51, 24);
MUL_32(q80, q8, KIND_Q80, 34);
MUL_32(iq4nl, q8, KIND_IQ4NL, 18);
MUL_32(mxfp4, q8, KIND_MXFP4, 17);

/* Q2_0, x8: d, codes 4 units. Dword i of a lane holds weights 16i .. 16i + 15, bits 2k of byte j
 * are weight 16i + 4j + k: after a shift by 2k the four codes meet activations k, 4 + k, 8 + k,
 * 12 + k, which a byte shuffle brings together. Eight units of codes 0..3 fit int16. */
SM_INLINE void group_q20(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 64;
    const __m256i pick0 = _mm256_set1_epi32(0x0c080400), pick1 = _mm256_set1_epi32(0x0d090501);
    const __m256i pick2 = _mm256_set1_epi32(0x0e0a0602), pick3 = _mm256_set1_epi32(0x0f0b0703);
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 18 * 8) {
        const __m256 d = load8_f16(w);
        SM_UNROLL for (int half = 0; half < 2; half++) {
            const size_t at = 2 * b + (size_t)half; /* activation block */
            __m256i sum[SM_TOK_MAX];
            for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
            SM_UNROLL for (int i = 0; i < 2; i++) {
                const __m256i v = loadu(w + 16 + 64 * half + 32 * i);
                const __m256i u0 = and8(v, 3), u1 = and8(shr(v, 2), 3);
                const __m256i u2 = and8(shr(v, 4), 3), u3 = and8(shr(v, 6), 3);
                for (int t = 0; t < n_tok; t++) {
                    const __m256i a = table16(r[t].q + 32 * at + 16 * i);
                    const __m256i p0 = _mm256_maddubs_epi16(u0, _mm256_shuffle_epi8(a, pick0));
                    const __m256i p1 = _mm256_maddubs_epi16(u1, _mm256_shuffle_epi8(a, pick1));
                    const __m256i p2 = _mm256_maddubs_epi16(u2, _mm256_shuffle_epi8(a, pick2));
                    const __m256i p3 = _mm256_maddubs_epi16(u3, _mm256_shuffle_epi8(a, pick3));
                    const __m256i p =
                        _mm256_add_epi16(_mm256_add_epi16(p0, p1), _mm256_add_epi16(p2, p3));
                    sum[t] = _mm256_add_epi16(sum[t], p);
                }
            }
            for (int t = 0; t < n_tok; t++) {
                const __m256i i = _mm256_sub_epi32(_mm256_madd_epi16(sum[t], ones()),
                                                   times_sum(r[t].s + 2 * at, 1));
                acc[t] = step(acc[t], d, i, r[t].d[at]);
            }
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q20_q8_avx2, group_q20, 64, 18);

/* Q1_0, x8: d, bits 4 units. Bit k of byte j of dword i of a lane is weight 32i + 8j + k: after a
 * shift by k the four bits meet activations k, 8 + k, 16 + k, 24 + k. I = 2 * sum(bit * a) - S. */
SM_INLINE void group_q10(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 128;
    /* bytes 0 8 1 9 2 10 ...: pairs (k, 8 + k) */
    const __m256i zip = _mm256_setr_epi8(0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15, 0, 8,
                                         1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 18 * 8) {
        const __m256 d = load8_f16(w);
        SM_UNROLL for (int i = 0; i < 4; i++) {
            const size_t at = 4 * b + (size_t)i;
            const __m256i v = loadu(w + 16 + 32 * i);
            __m256i u[8];
            SM_UNROLL for (int k = 0; k < 8; k++) u[k] = and8(shr(v, k), 1);
            for (int t = 0; t < n_tok; t++) {
                const int8_t *q = r[t].q + 32 * at;
                const __m256i lo = _mm256_shuffle_epi8(table16(q), zip);
                const __m256i hi = _mm256_shuffle_epi8(table16(q + 16), zip);
                const __m256i a0 = _mm256_unpacklo_epi16(lo, hi); /* dword k, k < 4 */
                const __m256i a4 = _mm256_unpackhi_epi16(lo, hi);
                __m256i s0 = _mm256_setzero_si256(), s1 = s0;
#define BIT(k, sum, acts, dword)                                                                   \
    sum = _mm256_add_epi16(                                                                        \
        sum, _mm256_maddubs_epi16(u[k], _mm256_shuffle_epi32(acts, 0x55 * (dword))))
                BIT(0, s0, a0, 0);
                BIT(1, s1, a0, 1);
                BIT(2, s0, a0, 2);
                BIT(3, s1, a0, 3);
                BIT(4, s0, a4, 0);
                BIT(5, s1, a4, 1);
                BIT(6, s0, a4, 2);
                BIT(7, s1, a4, 3);
#undef BIT
                const __m256i twice =
                    _mm256_madd_epi16(_mm256_add_epi16(s0, s1), _mm256_set1_epi16(2));
                const __m256i sum = _mm256_sub_epi32(twice, times_sum(r[t].s + 2 * at, 1));
                acc[t] = step(acc[t], d, sum, r[t].d[at]);
            }
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q10_q8_avx2, group_q10, 128, 18);

#endif
