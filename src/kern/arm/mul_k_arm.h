/* SPDX-License-Identifier: MIT */
/* Template of the K products for NEON and dotprod: the including file decides by its flags how
 * part_add multiplies. Codes are signed bytes; a 128-bit vector is one unit of 4 rows. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

SM_INLINE struct units4 and_units(const struct units4 *v, uint8_t mask)
{
    struct units4 u;
    SM_UNROLL for (int i = 0; i < 8; i++) u.c[i] = vandq_u8(v->c[i], vdupq_n_u8(mask));
    return u;
}
#define SHIFT_UNITS(u, v, n)                                                                       \
    SM_UNROLL for (int i_ = 0; i_ < 8; i_++)(u).c[i_] = vshrq_n_u8((v).c[i_], n)

SM_INLINE struct u8x32 and32(struct u8x32 v, uint8_t mask)
{
    return (struct u8x32){vandq_u8(v.lo, vdupq_n_u8(mask)), vandq_u8(v.hi, vdupq_n_u8(mask))};
}
SM_INLINE struct u8x32 or32(struct u8x32 a, struct u8x32 b)
{
    return (struct u8x32){vorrq_u8(a.lo, b.lo), vorrq_u8(a.hi, b.hi)};
}
#define SHR32(v, n) ((struct u8x32){vshrq_n_u8((v).lo, n), vshrq_n_u8((v).hi, n)})
#define SHL32(v, n) ((struct u8x32){vshlq_n_u8((v).lo, n), vshlq_n_u8((v).hi, n)})

#if defined(__ARM_FEATURE_DOTPROD)
/* Sums of activations as 128 * hi + lo, |S| <= 4,064: signed bytes, so that SDOT takes the sums of
 * four runs by a lane's four minima (0..63). */
SM_INLINE struct i32x8 dot_split(const struct u8x32 *min, int n, int8x16_t hi, int8x16_t lo)
{
    struct i32x8 h = i32x8_zero(), l = h;
#define FOUR_RUNS(i)                                                                               \
    if (i < n) {                                                                                   \
        const int8x16_t m0 = vreinterpretq_s8_u8(min[i].lo), m1 = vreinterpretq_s8_u8(min[i].hi);  \
        h.lo = vdotq_laneq_s32(h.lo, m0, hi, i);                                                   \
        h.hi = vdotq_laneq_s32(h.hi, m1, hi, i);                                                   \
        l.lo = vdotq_laneq_s32(l.lo, m0, lo, i);                                                   \
        l.hi = vdotq_laneq_s32(l.hi, m1, lo, i);                                                   \
    }
    FOUR_RUNS(0)
    FOUR_RUNS(1)
    FOUR_RUNS(2)
    FOUR_RUNS(3)
#undef FOUR_RUNS
    return (struct i32x8){vaddq_s32(vshlq_n_s32(h.lo, 7), l.lo),
                          vaddq_s32(vshlq_n_s32(h.hi, 7), l.hi)};
}
/* sum over the 16 runs of min[g] * S_g. */
SM_INLINE struct i32x8 dot_runs(const struct u8x32 min[4], const int16_t *s)
{
    const int16x8_t a = vld1q_s16(s), b = vld1q_s16(s + 8);
    const int8x16_t hi = vcombine_s8(vshrn_n_s16(a, 7), vshrn_n_s16(b, 7));
    const int8x16_t lo = vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
    return dot_split(min, 4, hi, vandq_s8(lo, vdupq_n_s8(127)));
}

/* Half of a Q2_K block with one token: 32 columns of each of four shifts, even or odd runs. Two
 * shifts at once, so that four chains of SDOT hide its latency on an in-order core; codes go
 * straight from the load into the product, so that nothing is spilled. */
SM_INLINE void half_q2k(struct i32x8 *i1, struct i32x8 *i4, const uint8_t *v,
                        const struct u8x32 *sub, const int8_t *q, const int e)
{
    const uint8x16_t m3 = vdupq_n_u8(3), m12 = vdupq_n_u8(12);
    struct i32x8 p0 = i32x8_zero(), p1 = p0, p2 = p0, p3 = p0;
    const int8x16_t a0 = vld1q_s8(q), a1 = vld1q_s8(q + 32);
    const int8x16_t a2 = vld1q_s8(q + 64), a3 = vld1q_s8(q + 96);
#define S8(x) vreinterpretq_s8_u8(x)
#define UNIT(j)                                                                                    \
    {                                                                                              \
        const uint8x16_t c0 = vld1q_u8(v + 32 * (j)), c1 = vld1q_u8(v + 32 * (j) + 16);            \
        p0.lo = vdotq_laneq_s32(p0.lo, S8(vandq_u8(c0, m3)), a0, j);                               \
        p0.hi = vdotq_laneq_s32(p0.hi, S8(vandq_u8(c1, m3)), a0, j);                               \
        p1.lo = vdotq_laneq_s32(p1.lo, S8(vandq_u8(c0, m12)), a1, j);                              \
        p1.hi = vdotq_laneq_s32(p1.hi, S8(vandq_u8(c1, m12)), a1, j);                              \
        p2.lo = vdotq_laneq_s32(p2.lo, S8(vandq_u8(vshrq_n_u8(c0, 4), m3)), a2, j);                \
        p2.hi = vdotq_laneq_s32(p2.hi, S8(vandq_u8(vshrq_n_u8(c1, 4), m3)), a2, j);                \
        p3.lo = vdotq_laneq_s32(p3.lo, S8(vshrq_n_u8(c0, 6)), a3, j);                              \
        p3.hi = vdotq_laneq_s32(p3.hi, S8(vshrq_n_u8(c1, 6)), a3, j);                              \
    }
    UNIT(0)
    UNIT(1)
    UNIT(2)
    UNIT(3)
#undef UNIT
#undef S8
    *i1 = add_mul(*i1, p0, byte_u(sub[0], e));
    *i4 = add_mul(*i4, p1, byte_u(sub[0], 2 + e));
    *i1 = add_mul(*i1, p2, byte_u(sub[1], e));
    *i1 = add_mul(*i1, p3, byte_u(sub[1], 2 + e));
}
#else
/* sum over the 16 runs of min[g] * S_g. */
SM_INLINE struct i32x8 dot_runs(const struct u8x32 min[4], const int16_t *s)
{
    struct i32x8 sum = i32x8_zero();
    SM_UNROLL for (int g = 0; g < 16; g++) sum = add_mul_n(sum, byte_u(min[g / 4], g & 3), s[g]);
    return sum;
}
#endif

/* Q2_K, x8: d, dmin, scales 4 units, codes 16 units. Bits 2-3 are used in place; what they add up
 * to is 4 times too large and divided exactly at the end. */
SM_INLINE void group_q2k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 84 * 8) {
        struct u8x32 sub[4], min[4];
        struct i32x8 i1[SM_TOK_MAX], i4[SM_TOK_MAX];
        SM_UNROLL for (int i = 0; i < 4; i++) {
            const struct u8x32 s = load32(w + 32 + 32 * i);
            sub[i] = and32(s, 15);
            min[i] = SHR32(s, 4);
        }
        for (int t = 0; t < n_tok; t++) i1[t] = i4[t] = i32x8_zero();
#if defined(__ARM_FEATURE_DOTPROD)
        if (n_tok == 1) {
            SM_UNROLL for (int h = 0; h < 2; h++) {
                half_q2k(i1, i4, w + 160 + 256 * h, sub + 2 * h, r[0].q + 128 * h, 0);
                half_q2k(i1, i4, w + 288 + 256 * h, sub + 2 * h, r[0].q + 128 * h + 16, 1);
            }
        }
#endif
        for (int h = SM_ONE_APART && n_tok == 1 ? 2 : 0; h < 2; h++) {
            SM_UNROLL for (int e = 0; e < 2; e++) { /* even and odd runs of 16 */
                struct units4 v = load_units4(w + 160 + 256 * h + 128 * e), u;
                SM_UNROLL for (int k = 0; k < 4; k++) {
                    const struct i32x8 s = byte_u(h ? sub[2 + k / 2] : sub[k / 2], 2 * (k & 1) + e);
                    if (k == 0) u = and_units(&v, 3);
                    if (k == 1) u = and_units(&v, 12);
                    if (k == 2) {
                        SHIFT_UNITS(v, v, 4);
                        u = and_units(&v, 3);
                    }
                    if (k == 3) SHIFT_UNITS(u, v, 2);
                    for (int t = 0; t < n_tok; t++) {
                        struct part p = part_zero();
                        part_add(&p, &u, vld1q_s8(r[t].q + 128 * h + 32 * k + 16 * e));
                        if (k == 1) i4[t] = add_mul(i4[t], part_sum(&p), s);
                        else i1[t] = add_mul(i1[t], part_sum(&p), s);
                    }
                }
            }
        }
        const struct f32x8 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            const struct i32x8 i = {vsraq_n_s32(i1[t].lo, i4[t].lo, 2),
                                    vsraq_n_s32(i1[t].hi, i4[t].hi, 2)};
            acc[t] = step_min(acc[t], d, i, m, dot_runs(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

/* The 16 scales of Q3_K, less 32, as 4 vectors of 4 runs. */
SM_INLINE void scales_q3k(struct u8x32 sub[4], const uint8_t *p)
{
    const struct u8x32 lo = load32(p), hi = load32(p + 32), top = load32(p + 64);
    sub[0] = or32(and32(lo, 15), and32(SHL32(top, 4), 0x30));
    sub[1] = or32(and32(hi, 15), and32(SHL32(top, 2), 0x30));
    sub[2] = or32(SHR32(lo, 4), and32(top, 0x30));
    sub[3] = or32(SHR32(hi, 4), and32(SHR32(top, 2), 0x30));
    SM_UNROLL for (int i = 0; i < 4; i++) {
        sub[i].lo = vsubq_u8(sub[i].lo, vdupq_n_u8(32));
        sub[i].hi = vsubq_u8(sub[i].hi, vdupq_n_u8(32));
    }
}

/* Q3_K, x8: d, scales 3 units, third bits 8 units, codes 16 units. Low two bits plus 4 times the
 * inverse of the third bit, i.e. q = low - (bit ? 0 : 4), -4..3. */
SM_INLINE void group_q3k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 110 * 8) {
        struct u8x32 sub[4];
        struct i32x8 sum[SM_TOK_MAX];
        scales_q3k(sub, w + 16);
        for (int t = 0; t < n_tok; t++) sum[t] = i32x8_zero();
        for (int h = 0; h < 2; h++) {
            SM_UNROLL for (int e = 0; e < 2; e++) {
                struct units4 v = load_units4(w + 368 + 256 * h + 128 * e), u;
                struct units4 bits = load_units4(w + 112 + 128 * e);
                SM_UNROLL for (int i = 0; i < 8; i++)
                    bits.c[i] = vshlq_u8(bits.c[i], vdupq_n_s8((int8_t)(-4 * h)));
                SM_UNROLL for (int k = 0; k < 4; k++) {
                    const struct i32x8 s =
                        byte_s(h ? sub[2 + k / 2] : sub[k / 2], 2 * (k & 1) + e);
                    SM_UNROLL for (int i = 0; i < 8; i++) {
                        const uint8x16_t hit = vtstq_u8(bits.c[i], vdupq_n_u8((uint8_t)(1 << k)));
                        const uint8x16_t off = vbicq_u8(vdupq_n_u8(4), hit);
                        u.c[i] = vsubq_u8(vandq_u8(v.c[i], vdupq_n_u8(3)), off);
                    }
                    SHIFT_UNITS(v, v, 2);
                    for (int t = 0; t < n_tok; t++) {
                        struct part p = part_zero();
                        part_add(&p, &u, vld1q_s8(r[t].q + 128 * h + 32 * k + 16 * e));
                        sum[t] = add_mul(sum[t], part_sum(&p), s);
                    }
                }
            }
        }
        const struct f32x8 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step(acc[t], d, sum[t], r[t].d[b]);
            r[t].q += 256;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

/* The 8 six-bit scales and minima of Q4_K and Q5_K as 2 + 2 vectors of 4 groups of 32. */
SM_INLINE void scales_q4k(struct u8x32 sub[2], struct u8x32 min[2], const uint8_t *p)
{
    const struct u8x32 p0 = load32(p), p1 = load32(p + 32), p2 = load32(p + 64);
    sub[0] = and32(p0, 63);
    min[0] = and32(p1, 63);
    sub[1] = or32(and32(p2, 15), and32(SHR32(p0, 2), 0x30));
    min[1] = or32(SHR32(p2, 4), and32(SHR32(p1, 2), 0x30));
}
/* sum over the 8 groups of min * (sum of the group's 32 activations). */
SM_INLINE struct i32x8 dot_groups(const struct u8x32 min[2], const int16_t *s)
{
#if defined(__ARM_FEATURE_DOTPROD)
    const int16x8_t sums = vpaddq_s16(vld1q_s16(s), vld1q_s16(s + 8));
    const int8x8_t hi = vshrn_n_s16(sums, 7);
    const int8x8_t lo = vand_s8(vmovn_s16(sums), vdup_n_s8(127));
    return dot_split(min, 2, vcombine_s8(hi, hi), vcombine_s8(lo, lo));
#else
    struct i32x8 sum = i32x8_zero();
    SM_UNROLL for (int g = 0; g < 8; g++)
        sum = add_mul_n(sum, byte_u(min[g / 4], g & 3), s[2 * g] + s[2 * g + 1]);
    return sum;
#endif
}

/* Q4_K, x8: d, dmin, scales 3 units, codes 32 units. A group of 32 codes 0..15 is one part. */
SM_INLINE void group_q4k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 144 * 8) {
        struct u8x32 sub[2], min[2];
        struct i32x8 sum[SM_TOK_MAX];
        scales_q4k(sub, min, w + 32);
        for (int t = 0; t < n_tok; t++) sum[t] = i32x8_zero();
        SM_UNROLL for (int c = 0; c < 4; c++) {
            const struct i32x8 s0 = byte_u(sub[c / 2], 2 * (c & 1));
            const struct i32x8 s1 = byte_u(sub[c / 2], 2 * (c & 1) + 1);
            struct part lo[SM_TOK_MAX], hi[SM_TOK_MAX];
            for (int t = 0; t < n_tok; t++) lo[t] = hi[t] = part_zero();
            SM_UNROLL for (int e = 0; e < 2; e++) {
                struct units4 v = load_units4(w + 128 + 256 * c + 128 * e);
                const struct units4 u = and_units(&v, 15);
                SHIFT_UNITS(v, v, 4);
                for (int t = 0; t < n_tok; t++) {
                    const int8_t *a = r[t].q + 64 * c + 16 * e;
                    part_add(&lo[t], &u, vld1q_s8(a));
                    part_add(&hi[t], &v, vld1q_s8(a + 32));
                }
            }
            for (int t = 0; t < n_tok; t++) {
                sum[t] = add_mul(sum[t], part_sum(&lo[t]), s0);
                sum[t] = add_mul(sum[t], part_sum(&hi[t]), s1);
            }
        }
        const struct f32x8 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step_min(acc[t], d, sum[t], m, dot_groups(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

/* Q5_K, x8: d, dmin, scales 3 units, fifth bits 8 units, codes 32 units. */
SM_INLINE void group_q5k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    const uint8x16_t bit4 = vdupq_n_u8(16);
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 176 * 8) {
        struct u8x32 sub[2], min[2];
        struct i32x8 sum[SM_TOK_MAX];
        scales_q4k(sub, min, w + 32);
        for (int t = 0; t < n_tok; t++) sum[t] = i32x8_zero();
        SM_UNROLL for (int c = 0; c < 4; c++) {
            const struct i32x8 s0 = byte_u(sub[c / 2], 2 * (c & 1));
            const struct i32x8 s1 = byte_u(sub[c / 2], 2 * (c & 1) + 1);
            for (int e = 0; e < 2; e++) {
                struct units4 v = load_units4(w + 384 + 256 * c + 128 * e), u;
                const struct units4 h = load_units4(w + 128 + 128 * e);
                SM_UNROLL for (int i = 0; i < 8; i++) {
                    const uint8x16_t at0 = vshlq_u8(h.c[i], vdupq_n_s8((int8_t)(4 - 2 * c)));
                    const uint8x16_t at1 = vshlq_u8(h.c[i], vdupq_n_s8((int8_t)(3 - 2 * c)));
                    u.c[i] = vorrq_u8(vandq_u8(v.c[i], vdupq_n_u8(15)), vandq_u8(at0, bit4));
                    v.c[i] = vorrq_u8(vshrq_n_u8(v.c[i], 4), vandq_u8(at1, bit4));
                }
                for (int t = 0; t < n_tok; t++) {
                    const int8_t *a = r[t].q + 64 * c + 16 * e;
                    struct part lo = part_zero(), hi = lo;
                    part_add(&lo, &u, vld1q_s8(a));
                    part_add(&hi, &v, vld1q_s8(a + 32));
                    sum[t] = add_mul(sum[t], part_sum(&lo), s0);
                    sum[t] = add_mul(sum[t], part_sum(&hi), s1);
                }
            }
        }
        const struct f32x8 d = load8_f16(w), m = negate(load8_f16(w + 16));
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step_min(acc[t], d, sum[t], m, dot_groups(min, r[t].s), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

#if defined(__ARM_FEATURE_DOTPROD)
#define S8(x) vreinterpretq_s8_u8(x)
/* A quarter of a Q6_K block with one token, even or odd runs of a half; codes without their offset.
 * SLI and SRI bring the top bits of runs k = 0 and 2 to the nibbles, those of 1 and 3 after a
 * shift. Eight chains of SDOT hide its latency on an in-order core. */
SM_INLINE struct i32x8 quarter_q6k(struct i32x8 sum, const uint8_t *v, const uint8_t *top,
                                   const struct u8x32 sub[2], const int8_t *q, const int e)
{
    const uint8x16_t m = vdupq_n_u8(63);
    struct i32x8 p[4] = {i32x8_zero(), i32x8_zero(), i32x8_zero(), i32x8_zero()};
    int8x16_t a[4];
    SM_UNROLL for (int k = 0; k < 4; k++) a[k] = vld1q_s8(q + 32 * k);
#define DOT(k, x, y)                                                                               \
    p[k].lo = vdotq_laneq_s32(p[k].lo, S8(x), a[k], j_);                                           \
    p[k].hi = vdotq_laneq_s32(p[k].hi, S8(y), a[k], j_);
#define UNIT(j)                                                                                    \
    {                                                                                              \
        enum { j_ = (j) };                                                                         \
        const uint8_t *v0 = v + 32 * j_, *t0 = top + 32 * j_;                                      \
        const uint8x16_t c = vld1q_u8(v0), d = vld1q_u8(v0 + 256), t = vld1q_u8(t0);               \
        const uint8x16_t C = vld1q_u8(v0 + 16), D = vld1q_u8(v0 + 272), T = vld1q_u8(t0 + 16);     \
        uint8x16_t s = vshrq_n_u8(t, 2), S = vshrq_n_u8(T, 2);                                     \
        uint8x16_t u0 = vsliq_n_u8(c, t, 4), u1 = vsliq_n_u8(C, T, 4);                             \
        uint8x16_t u2 = vsriq_n_u8(t, c, 4), u3 = vsriq_n_u8(T, C, 4);                             \
        SM_STAGE4(u0, u1, u2, u3);                                                                 \
        uint8x16_t x0 = vsliq_n_u8(d, s, 4), x1 = vsliq_n_u8(D, S, 4);                             \
        uint8x16_t x2 = vsriq_n_u8(s, d, 4), x3 = vsriq_n_u8(S, D, 4);                             \
        SM_STAGE4(x0, x1, x2, x3);                                                                 \
        u0 = vandq_u8(u0, m), u1 = vandq_u8(u1, m), u2 = vandq_u8(u2, m), u3 = vandq_u8(u3, m);    \
        SM_STAGE4(u0, u1, u2, u3);                                                                 \
        x0 = vandq_u8(x0, m), x1 = vandq_u8(x1, m), x2 = vandq_u8(x2, m), x3 = vandq_u8(x3, m);    \
        SM_STAGE4(x0, x1, x2, x3);                                                                 \
        DOT(0, u0, u1) DOT(2, u2, u3) DOT(1, x0, x1) DOT(3, x2, x3)                                \
        SM_STAGE4(p[0].lo, p[0].hi, p[2].lo, p[2].hi);                                             \
        SM_STAGE4(p[1].lo, p[1].hi, p[3].lo, p[3].hi);                                             \
    }
    UNIT(0)
    UNIT(1)
    UNIT(2)
    UNIT(3)
#undef UNIT
#undef DOT
    SM_UNROLL for (int k = 0; k < 4; k++)
        sum = add_mul(sum, p[k], byte_s(sub[k / 2], 2 * (k & 1) + e));
    return sum;
}
/* I of a Q6_K block: 32 * the sum of scale x S goes off. */
SM_INLINE struct i32x8 one_q6k(const uint8_t *w, const int8_t *q, const int16_t *s)
{
    struct i32x8 sum = i32x8_zero();
    struct u8x32 sub[4];
    SM_UNROLL for (int i = 0; i < 4; i++) sub[i] = load32(w + 16 + 32 * i);
    SM_UNROLL for (int h = 0; h < 2; h++) {
        SM_UNROLL for (int e = 0; e < 2; e++)
            sum = quarter_q6k(sum, w + 144 + 512 * h + 128 * e, w + 1168 + 256 * h + 128 * e,
                              sub + 2 * h, q + 128 * h + 16 * e, e);
    }
    const struct i32x8 off = dot_runs(sub, s);
    return (struct i32x8){vsubq_s32(sum.lo, vshlq_n_s32(off.lo, 5)),
                          vsubq_s32(sum.hi, vshlq_n_s32(off.hi, 5))};
}
#undef S8
#endif

/* Q6_K, x8: d, scales 4 units, low nibbles 32 units, high bits 16 units. q = u - 32, -32..31. */
SM_INLINE void group_q6k(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    const uint8x16_t low = vdupq_n_u8(15), mid = vdupq_n_u8(0x30), off = vdupq_n_u8(32);
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 210 * 8) {
#if defined(__ARM_FEATURE_DOTPROD)
        if (n_tok == 1) {
            acc[0] = step(acc[0], load8_f16(w), one_q6k(w, r[0].q, r[0].s), r[0].d[b]);
            r[0].q += 256, r[0].s += 16;
            continue;
        }
#endif
        struct i32x8 sum[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) sum[t] = i32x8_zero();
        for (int h = 0; h < 2; h++) {
            const struct u8x32 sa = load32(w + 16 + 64 * h), sb = load32(w + 48 + 64 * h);
            SM_UNROLL for (int e = 0; e < 2; e++) {
                const uint8_t *ql = w + 144 + 512 * h + 128 * e;
                const struct units4 top = load_units4(w + 1168 + 256 * h + 128 * e);
                SM_UNROLL for (int odd = 0; odd < 2; odd++) { /* runs k = odd and 2 + odd */
                    struct units4 v = load_units4(ql + 256 * odd), u;
                    const struct i32x8 s0 = byte_s(sa, 2 * odd + e), s1 = byte_s(sb, 2 * odd + e);
                    SM_UNROLL for (int i = 0; i < 8; i++) {
                        const uint8x16_t t0 =
                            odd ? vshlq_n_u8(top.c[i], 2) : vshlq_n_u8(top.c[i], 4);
                        const uint8x16_t t1 = odd ? vshrq_n_u8(top.c[i], 2) : top.c[i];
                        u.c[i] = vorrq_u8(vandq_u8(v.c[i], low), vandq_u8(t0, mid));
                        v.c[i] = vorrq_u8(vshrq_n_u8(v.c[i], 4), vandq_u8(t1, mid));
                        u.c[i] = vsubq_u8(u.c[i], off);
                        v.c[i] = vsubq_u8(v.c[i], off);
                    }
                    for (int t = 0; t < n_tok; t++) {
                        const int8_t *a = r[t].q + 128 * h + 32 * odd + 16 * e;
                        struct part lo = part_zero(), hi = lo;
                        part_add(&lo, &u, vld1q_s8(a));
                        part_add(&hi, &v, vld1q_s8(a + 64));
                        sum[t] = add_mul(sum[t], part_sum(&lo), s0);
                        sum[t] = add_mul(sum[t], part_sum(&hi), s1);
                    }
                }
            }
        }
        const struct f32x8 d = load8_f16(w);
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step(acc[t], d, sum[t], r[t].d[b]);
            r[t].q += 256;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

#endif
