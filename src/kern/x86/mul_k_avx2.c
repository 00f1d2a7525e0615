/* SPDX-License-Identifier: MIT */
/* Products of the K formats with 256-wide activation blocks, AVX2. A 32-bit lane is an output row;
 * unit j of a code field holds four codes of each row and meets a broadcast of four activations.
 * VPMADDUBSW wants unsigned codes: u = q + offset, and I = sum(sub * sum(u * a)) - offset *
 * sum(sub * S). The integers are exact whatever the order; the float steps are those of
 * docs/arithmetic.md section 4. |a| <= 127 in all the bounds below. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

/* sum over the 16 runs of v[g] * S_g, v as bytes in 4 vectors of 4 runs: signed or unsigned. */
SM_INLINE __m256i dot_runs_u8(const __m256i v[4], const int16_t *s)
{
    __m256i sum = _mm256_setzero_si256();
    SM_UNROLL for (int i = 0; i < 4; i++) {
        sum = add_madd(sum, two_u8(v[i], 0), splat32(s + 4 * i));
        sum = add_madd(sum, two_u8(v[i], 2), splat32(s + 4 * i + 2));
    }
    return sum;
}
SM_INLINE __m256i dot_runs_s8(const __m256i v[4], const int16_t *s)
{
    __m256i sum = _mm256_setzero_si256();
    SM_UNROLL for (int i = 0; i < 4; i++) {
        sum = add_madd(sum, two_s8(v[i], 0), splat32(s + 4 * i));
        sum = add_madd(sum, two_s8(v[i], 2), splat32(s + 4 * i + 2));
    }
    return sum;
}

/* Four units against 16 activations. Codes <= 7: 4 * 2 * 7 * 127 = 7,112; codes times 4 up to 12:
 * 12,192; up to 28 (Q3_K times 4): 28,448; up to 31 (Q5_K): 31,496. All fit int16. */
SM_INLINE __m256i dot4(__m256i u0, __m256i u1, __m256i u2, __m256i u3, const int8_t *a)
{
    const __m256i p0 = _mm256_maddubs_epi16(u0, splat32(a));
    const __m256i p1 = _mm256_maddubs_epi16(u1, splat32(a + 4));
    const __m256i p2 = _mm256_maddubs_epi16(u2, splat32(a + 8));
    const __m256i p3 = _mm256_maddubs_epi16(u3, splat32(a + 12));
    return _mm256_add_epi16(_mm256_add_epi16(p0, p1), _mm256_add_epi16(p2, p3));
}

/* Q2_K, x8: d, dmin, scales 4 units, codes 16 units. Bits 2-3 and 6-7 are used in place, so their
 * sums are 4 times too large; `i4` collects them and is divided exactly at the end:
 * |i4| <= 4 * 8 * 16 * 3 * 15 * 127 = 2,926,080. */
SM_INLINE void group_q2k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 84 * 8) {
        const uint8_t *qs = w + 160;
        __m256i sub[4], min[4], i1[SM_TOK_MAX], i4[SM_TOK_MAX];
        SM_UNROLL for (int i = 0; i < 4; i++) {
            const __m256i s = loadu(w + 32 + 32 * i);
            sub[i] = and8(s, 15);
            min[i] = and8(shr(s, 4), 15);
        }
        for (int t = 0; t < n_tok; t++) i1[t] = i4[t] = _mm256_setzero_si256();
        for (int h = 0; h < 2; h++) {
            SM_UNROLL for (int e = 0; e < 2; e++) { /* even and odd runs of 16 */
                const uint8_t *v = qs + 256 * h + 128 * e;
                __m256i v0 = loadu(v), v1 = loadu(v + 32), v2 = loadu(v + 64), v3 = loadu(v + 96);
                SM_UNROLL for (int k2 = 0; k2 < 2; k2++) {
                    const __m256i s = h ? sub[2 + k2] : sub[k2];
                    const __m256i s1 = pair_u8(s, e), s4 = pair_u8(s, 2 + e);
                    const __m256i u0 = and8(v0, 3), u1 = and8(v1, 3), u2 = and8(v2, 3);
                    const __m256i u3 = and8(v3, 3), z0 = and8(v0, 12), z1 = and8(v1, 12);
                    const __m256i z2 = and8(v2, 12), z3 = and8(v3, 12);
                    for (int t = 0; t < n_tok; t++) {
                        const int8_t *a = r[t].q + 128 * h + 64 * k2 + 16 * e;
                        i1[t] = add_madd(i1[t], dot4(u0, u1, u2, u3, a), s1);
                        i4[t] = add_madd(i4[t], dot4(z0, z1, z2, z3, a + 32), s4);
                    }
                    v0 = shr(v0, 4), v1 = shr(v1, 4), v2 = shr(v2, 4), v3 = shr(v3, 4);
                }
            }
        }
        const __m256 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            const __m256i sum = _mm256_add_epi32(i1[t], _mm256_srai_epi32(i4[t], 2));
            acc[t] = step_min(acc[t], d, sum, m, dot_runs_u8(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q2k_q8k_avx2, group_q2k, 256, 84);

/* The 16 scales of Q3_K, less 32, as 4 vectors of 4 runs. */
SM_INLINE void scales_q3k(__m256i sub[4], const uint8_t *p)
{
    const __m256i lo = loadu(p), hi = loadu(p + 32), top = loadu(p + 64);
    const __m256i off = _mm256_set1_epi8(32);
    sub[0] = _mm256_or_si256(and8(lo, 15), and8(shl(top, 4), 0x30));
    sub[1] = _mm256_or_si256(and8(hi, 15), and8(shl(top, 2), 0x30));
    sub[2] = _mm256_or_si256(and8(shr(lo, 4), 15), and8(top, 0x30));
    sub[3] = _mm256_or_si256(and8(shr(hi, 4), 15), and8(shr(top, 2), 0x30));
    SM_UNROLL for (int i = 0; i < 4; i++) sub[i] = _mm256_sub_epi8(sub[i], off);
}

/* Low two bits k of v with bit 4h + k of the mask as third bit: q + 4. */
SM_INLINE __m256i code_q3k(__m256i v, __m256i mask, int k)
{
    const __m256i low = and8(shr(v, 2 * k), 3);
    const __m256i bit = k < 2 ? shl(mask, 2 - k) : shr(mask, k - 2);
    return _mm256_or_si256(low, and8(bit, 4));
}

/* Q3_K, x8: d, scales 3 units, third bits 8 units, codes 16 units. u = q + 4 in 0..7.
 * sum(sub * u * a) <= 256 * 32 * 7 * 127. */
SM_INLINE void group_q3k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 110 * 8) {
        __m256i sub[4], sum[SM_TOK_MAX];
        scales_q3k(sub, w + 16);
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        for (int h = 0; h < 2; h++) {
            SM_UNROLL for (int e = 0; e < 2; e++) {
                const uint8_t *v = w + 368 + 256 * h + 128 * e, *hm = w + 112 + 128 * e;
                __m256i v4[4], m4[4];
                SM_UNROLL for (int j = 0; j < 4; j++) {
                    v4[j] = loadu(v + 32 * j);
                    m4[j] = _mm256_srl_epi16(loadu(hm + 32 * j), _mm_cvtsi32_si128(4 * h));
                }
                SM_UNROLL for (int k = 0; k < 4; k++) {
                    const __m256i s = pair_s8(h ? sub[2 + k / 2] : sub[k / 2], 2 * (k & 1) + e);
                    const __m256i u0 = code_q3k(v4[0], m4[0], k), u1 = code_q3k(v4[1], m4[1], k);
                    const __m256i u2 = code_q3k(v4[2], m4[2], k), u3 = code_q3k(v4[3], m4[3], k);
                    for (int t = 0; t < n_tok; t++) {
                        const int8_t *a = r[t].q + 128 * h + 32 * k + 16 * e;
                        sum[t] = add_madd(sum[t], dot4(u0, u1, u2, u3, a), s);
                    }
                }
            }
        }
        const __m256 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            const __m256i off = _mm256_slli_epi32(dot_runs_s8(sub, r[t].s), 2);
            acc[t] = step(acc[t], d, _mm256_sub_epi32(sum[t], off), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q3k_q8k_avx2, group_q3k, 256, 110);

/* The 8 six-bit scales and minima of Q4_K and Q5_K as 2 + 2 vectors of 4 groups of 32. */
SM_INLINE void scales_q4k(__m256i sub[2], __m256i min[2], const uint8_t *p)
{
    const __m256i p0 = loadu(p), p1 = loadu(p + 32), p2 = loadu(p + 64);
    sub[0] = and8(p0, 63);
    min[0] = and8(p1, 63);
    sub[1] = _mm256_or_si256(and8(p2, 15), and8(shr(p0, 2), 0x30));
    min[1] = _mm256_or_si256(and8(shr(p2, 4), 15), and8(shr(p1, 2), 0x30));
}
/* sum over the 8 groups of min * (sum of the group's 32 activations). */
SM_INLINE __m256i dot_groups(const __m256i min[2], const int16_t *s)
{
    __m256i sum = _mm256_setzero_si256();
    SM_UNROLL for (int g = 0; g < 8; g++)
        sum = add_madd(sum, pair_u8(min[g / 4], g & 3), splat32(s + 2 * g));
    return sum;
}

/* Q4_K, x8: d, dmin, scales 3 units, codes 32 units. A group's 8 units stay in int16:
 * 8 * 2 * 15 * 127 = 30,480. */
SM_INLINE void group_q4k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 144 * 8) {
        __m256i sub[2], min[2], sum[SM_TOK_MAX];
        scales_q4k(sub, min, w + 32);
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        SM_UNROLL for (int c = 0; c < 4; c++) {
            __m256i lo[SM_TOK_MAX], hi[SM_TOK_MAX];
            for (int t = 0; t < n_tok; t++) lo[t] = hi[t] = _mm256_setzero_si256();
            SM_UNROLL for (int e = 0; e < 2; e++) {
                const uint8_t *v = w + 128 + 256 * c + 128 * e;
                __m256i u[4], z[4];
                SM_UNROLL for (int j = 0; j < 4; j++) {
                    const __m256i n = loadu(v + 32 * j);
                    u[j] = and8(n, 15);
                    z[j] = and8(shr(n, 4), 15);
                }
                for (int t = 0; t < n_tok; t++) {
                    const int8_t *a = r[t].q + 64 * c + 16 * e;
                    lo[t] = _mm256_add_epi16(lo[t], dot4(u[0], u[1], u[2], u[3], a));
                    hi[t] = _mm256_add_epi16(hi[t], dot4(z[0], z[1], z[2], z[3], a + 32));
                }
            }
            const __m256i s0 = pair_u8(sub[c / 2], 2 * (c & 1));
            const __m256i s1 = pair_u8(sub[c / 2], 2 * (c & 1) + 1);
            for (int t = 0; t < n_tok; t++)
                sum[t] = add_madd(add_madd(sum[t], lo[t], s0), hi[t], s1);
        }
        const __m256 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step_min(acc[t], d, sum[t], m, dot_groups(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q4k_q8k_avx2, group_q4k, 256, 144);

/* Nibble vector with bit g of qh as fifth bit. */
SM_INLINE __m256i code_q5k(__m256i nibble, __m256i qh, int g)
{
    const __m256i bit = g < 4 ? shl(qh, 4 - g) : shr(qh, g - 4);
    return _mm256_or_si256(nibble, and8(bit, 16));
}

/* Q5_K, x8: d, dmin, scales 3 units, fifth bits 8 units, codes 32 units. Half a group in int16:
 * 4 * 2 * 31 * 127 = 31,496. */
SM_INLINE void group_q5k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 176 * 8) {
        __m256i sub[2], min[2], sum[SM_TOK_MAX];
        scales_q4k(sub, min, w + 32);
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        SM_UNROLL for (int c = 0; c < 4; c++) {
            const __m256i s0 = pair_u8(sub[c / 2], 2 * (c & 1));
            const __m256i s1 = pair_u8(sub[c / 2], 2 * (c & 1) + 1);
            for (int e = 0; e < 2; e++) {
                const uint8_t *v = w + 384 + 256 * c + 128 * e, *qh = w + 128 + 128 * e;
                __m256i u[4], z[4];
                SM_UNROLL for (int j = 0; j < 4; j++) {
                    const __m256i n = loadu(v + 32 * j), h = loadu(qh + 32 * j);
                    u[j] = code_q5k(and8(n, 15), h, 2 * c);
                    z[j] = code_q5k(and8(shr(n, 4), 15), h, 2 * c + 1);
                }
                for (int t = 0; t < n_tok; t++) {
                    const int8_t *a = r[t].q + 64 * c + 16 * e;
                    sum[t] = add_madd(sum[t], dot4(u[0], u[1], u[2], u[3], a), s0);
                    sum[t] = add_madd(sum[t], dot4(z[0], z[1], z[2], z[3], a + 32), s1);
                }
            }
        }
        const __m256 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step_min(acc[t], d, sum[t], m, dot_groups(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q5k_q8k_avx2, group_q5k, 256, 176);

/* Two units in int16: 2 * 2 * 63 * 127 = 32,004. */
SM_INLINE __m256i dot2(__m256i u0, __m256i u1, const int8_t *a)
{
    return _mm256_add_epi16(_mm256_maddubs_epi16(u0, splat32(a)),
                            _mm256_maddubs_epi16(u1, splat32(a + 4)));
}

/* Q6_K, x8: d, scales 4 units, low nibbles 32 units, high bits 16 units. u = q + 32 in 0..63:
 * sum(|sub| * u * |a|) <= 256 * 128 * 63 * 127 = 262,176,768 and the offset's share is
 * 32 * 256 * 128 * 127 = 133,169,152. */
SM_INLINE void group_q6k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    __m256 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = _mm256_setzero_ps();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 210 * 8) {
        __m256i sub[4], sum[SM_TOK_MAX];
        /* its fields lie 1 KiB apart, which hardware does not foresee */
        if (n_tok == 1) fetch_block(w, 2 * 210 * 8, 210 * 8);
        SM_UNROLL for (int i = 0; i < 4; i++) sub[i] = loadu(w + 16 + 32 * i);
        for (int t = 0; t < n_tok; t++) sum[t] = _mm256_setzero_si256();
        for (int h = 0; h < 2; h++) {
            SM_UNROLL for (int e = 0; e < 2; e++) {
                const __m256i sa = h ? sub[2] : sub[0], sb = h ? sub[3] : sub[1];
                const __m256i s0 = pair_s8(sa, e), s1 = pair_s8(sa, 2 + e);
                const __m256i s2 = pair_s8(sb, e), s3 = pair_s8(sb, 2 + e);
                for (int j = 0; j < 4; j += 2) {
                    const uint8_t *ql = w + 144 + 512 * h + 128 * e + 32 * j;
                    const uint8_t *qh = w + 1168 + 256 * h + 128 * e + 32 * j;
                    __m256i u[4][2];
                    SM_UNROLL for (int i = 0; i < 2; i++) {
                        const __m256i l0 = loadu(ql + 32 * i), l1 = loadu(ql + 256 + 32 * i);
                        const __m256i top = loadu(qh + 32 * i);
                        u[0][i] = _mm256_or_si256(and8(l0, 15), and8(shl(top, 4), 0x30));
                        u[1][i] = _mm256_or_si256(and8(l1, 15), and8(shl(top, 2), 0x30));
                        u[2][i] = _mm256_or_si256(and8(shr(l0, 4), 15), and8(top, 0x30));
                        u[3][i] = _mm256_or_si256(and8(shr(l1, 4), 15), and8(shr(top, 2), 0x30));
                    }
                    for (int t = 0; t < n_tok; t++) {
                        const int8_t *a = r[t].q + 128 * h + 16 * e + 4 * j;
                        sum[t] = add_madd(sum[t], dot2(u[0][0], u[0][1], a), s0);
                        sum[t] = add_madd(sum[t], dot2(u[1][0], u[1][1], a + 32), s1);
                        sum[t] = add_madd(sum[t], dot2(u[2][0], u[2][1], a + 64), s2);
                        sum[t] = add_madd(sum[t], dot2(u[3][0], u[3][1], a + 96), s3);
                    }
                }
            }
        }
        const __m256 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            const __m256i off = _mm256_slli_epi32(dot_runs_s8(sub, r[t].s), 5);
            acc[t] = step(acc[t], d, _mm256_sub_epi32(sum[t], off), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) _mm256_storeu_ps(y + (size_t)t * ldy, acc[t]);
}
SM_MUL_X8_DRIVER(sm_mul_q6k_q8k_avx2, group_q6k, 256, 210);

#endif
