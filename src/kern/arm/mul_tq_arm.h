/* SPDX-License-Identifier: MIT */
/* Template of the ternary products for NEON and dotprod: TQ1_0, TQ2_0. No scales below the block,
 * so sums run through it. u = q + 1. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

/* All 256 activations added up. */
SM_INLINE int32x4_t sum_of_runs(const int16_t *s)
{
    return vdupq_n_s32(vaddlvq_s16(vld1q_s16(s)) + vaddlvq_s16(vld1q_s16(s + 8)));
}
SM_INLINE struct i32x8 less(struct i32x8 a, int32x4_t b)
{
    return (struct i32x8){vsubq_s32(a.lo, b), vsubq_s32(a.hi, b)};
}
SM_INLINE struct i32x8 plus(struct i32x8 a, struct i32x8 b)
{
    return (struct i32x8){vaddq_s32(a.lo, b.lo), vaddq_s32(a.hi, b.hi)};
}

#if defined(__ARM_FEATURE_DOTPROD)
#define S8(x) vreinterpretq_s8_u8(x)
/* A quarter of a TQ2_0 block with one token: 16 columns of each shift. Bits stay in place, so the
 * sums p[1] and p[2] are 4 and 16 times too large; eight chains hide the latency of SDOT. */
SM_INLINE void quarter_tq20(struct i32x8 p[4], const uint8_t *v, const int8_t *q)
{
    const uint8x16_t m0 = vdupq_n_u8(3), m1 = vdupq_n_u8(12), m2 = vdupq_n_u8(48);
    const int8x16_t a0 = vld1q_s8(q), a1 = vld1q_s8(q + 32);
    const int8x16_t a2 = vld1q_s8(q + 64), a3 = vld1q_s8(q + 96);
#define UNIT(j)                                                                                    \
    {                                                                                              \
        const uint8x16_t c0 = vld1q_u8(v + 32 * (j)), c1 = vld1q_u8(v + 32 * (j) + 16);            \
        p[0].lo = vdotq_laneq_s32(p[0].lo, S8(vandq_u8(c0, m0)), a0, j);                           \
        p[0].hi = vdotq_laneq_s32(p[0].hi, S8(vandq_u8(c1, m0)), a0, j);                           \
        p[1].lo = vdotq_laneq_s32(p[1].lo, S8(vandq_u8(c0, m1)), a1, j);                           \
        p[1].hi = vdotq_laneq_s32(p[1].hi, S8(vandq_u8(c1, m1)), a1, j);                           \
        p[2].lo = vdotq_laneq_s32(p[2].lo, S8(vandq_u8(c0, m2)), a2, j);                           \
        p[2].hi = vdotq_laneq_s32(p[2].hi, S8(vandq_u8(c1, m2)), a2, j);                           \
        p[3].lo = vdotq_laneq_s32(p[3].lo, S8(vshrq_n_u8(c0, 6)), a3, j);                          \
        p[3].hi = vdotq_laneq_s32(p[3].hi, S8(vshrq_n_u8(c1, 6)), a3, j);                          \
    }
    UNIT(0)
    UNIT(1)
    UNIT(2)
    UNIT(3)
#undef UNIT
}
SM_INLINE struct i32x8 one_tq20(const uint8_t *w, const int8_t *q)
{
    struct i32x8 p[4] = {i32x8_zero(), i32x8_zero(), i32x8_zero(), i32x8_zero()};
    SM_UNROLL for (int h = 0; h < 2; h++) {
        quarter_tq20(p, w + 16 + 256 * h, q + 128 * h);
        quarter_tq20(p, w + 144 + 256 * h, q + 128 * h + 16);
    }
    const struct i32x8 s = plus(p[0], p[3]);
    return (struct i32x8){vsraq_n_s32(vsraq_n_s32(s.lo, p[1].lo, 2), p[2].lo, 4),
                          vsraq_n_s32(vsraq_n_s32(s.hi, p[1].hi, 2), p[2].hi, 4)};
}
#endif

/* TQ2_0, x8: d, codes 16 units. Half a block in int16: 8 * 8 * 3 * 127 = 24,384. */
SM_INLINE void group_tq20(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                          size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 66 * 8) {
        const struct f32x8 d = load8_f16(w);
#if defined(__ARM_FEATURE_DOTPROD)
        if (n_tok == 1) {
            acc[0] = step(acc[0], d, less(one_tq20(w, r[0].q), sum_of_runs(r[0].s)), r[0].d[b]);
            r[0].q += 256, r[0].s += 16;
            continue;
        }
#endif
        struct i32x8 sum[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) sum[t] = i32x8_zero();
        for (int h = 0; h < 2; h++) {
            struct part p[SM_TOK_MAX];
            for (int t = 0; t < n_tok; t++) p[t] = part_zero();
            for (int e = 0; e < 2; e++) {
                struct units4 v = load_units4(w + 16 + 256 * h + 128 * e);
                for (int k = 0; k < 4; k++) {
                    struct units4 u;
                    SM_UNROLL for (int i = 0; i < 8; i++) {
                        u.c[i] = vandq_u8(v.c[i], vdupq_n_u8(3));
                        v.c[i] = vshrq_n_u8(v.c[i], 2);
                    }
                    for (int t = 0; t < n_tok; t++)
                        part_add(&p[t], &u, vld1q_s8(r[t].q + 128 * h + 32 * k + 16 * e));
                }
            }
            for (int t = 0; t < n_tok; t++) sum[t] = plus(sum[t], part_sum(&p[t]));
        }
        for (int t = 0; t < n_tok; t++) {
            acc[t] = step(acc[t], d, less(sum[t], sum_of_runs(r[t].s)), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

/* The first base-3 digit, 3v >> 8 = ((v + v / 2) / 2) / 64; what is left is 3v mod 256. */
SM_INLINE uint8x16_t digit(uint8x16_t v)
{
    return vshrq_n_u8(vhaddq_u8(v, vshrq_n_u8(v, 1)), 6);
}
SM_INLINE uint8x16_t next_digit(uint8x16_t v) { return vmulq_u8(v, vdupq_n_u8(3)); }

#if defined(__ARM_FEATURE_DOTPROD)
/* Four units of five digits with one token: activations `step` apart. Two units at once and stage
 * by stage, so that no instruction needs the one before it. */
SM_INLINE void part_tq10(struct i32x8 p[2], const uint8_t *v, const int8_t *q, const int step)
{
    int8x16_t a[5];
    SM_UNROLL for (int n = 0; n < 5; n++) a[n] = vld1q_s8(q + n * step);
#define UNITS(j, k)                                                                                \
    {                                                                                              \
        uint8x16_t c0 = vld1q_u8(v + 32 * (j)), c1 = vld1q_u8(v + 32 * (j) + 16);                  \
        uint8x16_t c2 = vld1q_u8(v + 32 * (k)), c3 = vld1q_u8(v + 32 * (k) + 16);                  \
        SM_UNROLL for (int n = 0; n < 5; n++) {                                                    \
            uint8x16_t h0 = vshrq_n_u8(c0, 1), h1 = vshrq_n_u8(c1, 1);                             \
            uint8x16_t h2 = vshrq_n_u8(c2, 1), h3 = vshrq_n_u8(c3, 1);                             \
            h0 = vhaddq_u8(c0, h0), h1 = vhaddq_u8(c1, h1);                                        \
            h2 = vhaddq_u8(c2, h2), h3 = vhaddq_u8(c3, h3);                                        \
            c0 = next_digit(c0), c1 = next_digit(c1), c2 = next_digit(c2), c3 = next_digit(c3);    \
            h0 = vshrq_n_u8(h0, 6), h1 = vshrq_n_u8(h1, 6);                                        \
            h2 = vshrq_n_u8(h2, 6), h3 = vshrq_n_u8(h3, 6);                                        \
            p[0].lo = vdotq_laneq_s32(p[0].lo, S8(h0), a[n], j);                                   \
            p[0].hi = vdotq_laneq_s32(p[0].hi, S8(h1), a[n], j);                                   \
            p[1].lo = vdotq_laneq_s32(p[1].lo, S8(h2), a[n], k);                                   \
            p[1].hi = vdotq_laneq_s32(p[1].hi, S8(h3), a[n], k);                                   \
        }                                                                                          \
    }
    UNITS(0, 1)
    UNITS(2, 3)
#undef UNITS
}
#endif

/* The digits 0..3 of the last unit, as four units. */
SM_INLINE struct units4 last_tq10(const uint8_t *v)
{
    uint8x16_t c0 = vld1q_u8(v), c1 = vld1q_u8(v + 16);
    struct units4 u;
    SM_UNROLL for (int n = 0; n < 4; n++) {
        u.c[2 * n] = digit(c0);
        u.c[2 * n + 1] = digit(c1);
        c0 = next_digit(c0);
        c1 = next_digit(c1);
    }
    return u;
}

/* TQ1_0, x8: d, codes 12 units of five digits, 1 unit of four. 15 calls of part_add in int16:
 * 15 * 8 * 2 * 127 = 30,480. */
SM_INLINE void group_tq10(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                          size_t tok, const int n_tok)
{
    const size_t n_blocks = x->n_cols / 256;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 54 * 8) {
        const struct f32x8 d = load8_f16(w);
        const struct units4 last = last_tq10(w + 16 + 384);
        struct part p[SM_TOK_MAX];
        for (int t = 0; t < n_tok; t++) p[t] = part_zero();
#if defined(__ARM_FEATURE_DOTPROD)
        if (n_tok == 1) {
            struct i32x8 s[2] = {i32x8_zero(), i32x8_zero()};
            part_tq10(s, w + 16, r[0].q, 32);
            part_tq10(s, w + 144, r[0].q + 16, 32);
            part_tq10(s, w + 272, r[0].q + 160, 16);
            p[0].s = plus(s[0], s[1]);
        }
#endif
        for (int c = SM_ONE_APART && n_tok == 1 ? 3 : 0; c < 3; c++) {
            struct units4 v = load_units4(w + 16 + 128 * c), u;
            for (int n = 0; n < 5; n++) {
                const int at = c < 2 ? 32 * n + 16 * c : 160 + 16 * n;
                SM_UNROLL for (int i = 0; i < 8; i++) {
                    u.c[i] = digit(v.c[i]);
                    v.c[i] = next_digit(v.c[i]);
                }
                for (int t = 0; t < n_tok; t++) part_add(&p[t], &u, vld1q_s8(r[t].q + at));
            }
        }
        for (int t = 0; t < n_tok; t++) {
            struct part rest = part_zero();
            part_add(&rest, &last, vld1q_s8(r[t].q + 240));
            const struct i32x8 sum = plus(part_sum(&p[t]), part_sum(&rest));
            acc[t] = step(acc[t], d, less(sum, sum_of_runs(r[t].s)), r[t].d[b]);
            r[t].q += 256, r[t].s += 16;
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

#endif
