/* SPDX-License-Identifier: MIT */
/* Template of the products with 32-wide activation blocks for NEON and dotprod: Q8_0, the Q4 and Q5
 * formats, IQ4_NL, MXFP4, and Q1_0 and Q2_0, whose blocks take 4 and 2 steps. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include "quant/codes.h"

#include <string.h>

enum kind { KIND_Q40, KIND_Q41, KIND_Q50, KIND_Q51, KIND_Q80, KIND_IQ4NL, KIND_MXFP4 };

/* 2^(E - 128) for eight exponent bytes: bits (E - 1) << 23, and 2^-128, 2^-127 for E = 0, 1. */
SM_INLINE float32x4_t scale_mxfp4(uint16x4_t e16)
{
    const uint32x4_t e = vmovl_u16(e16);
    const uint32x4_t normal = vshlq_n_u32(vsubq_u32(e, vdupq_n_u32(1)), 23);
    const uint32x4_t low = vshlq_u32(vdupq_n_u32(1u << 21), vreinterpretq_s32_u32(e));
    return vreinterpretq_f32_u32(vbslq_u32(vcltq_u32(e, vdupq_n_u32(2)), low, normal));
}
SM_INLINE struct f32x8 load8_mxfp4(const uint8_t *p)
{
    const uint16x8_t e = vmovl_u8(vld1_u8(p));
    return (struct f32x8){scale_mxfp4(vget_low_u16(e)), scale_mxfp4(vget_high_u16(e))};
}

/* Fifth bits of units j .. j + 3 (bits 4j .. of the lane's word) as 0 or 16 into the codes. */
SM_INLINE void add_fifth(struct units4 *u, const uint8_t *qh, const int j)
{
    static const uint8_t bits[16] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
    const uint8x16_t bit = vld1q_u8(bits), high = vshlq_n_u8(bit, 4), b16 = vdupq_n_u8(16);
    SM_UNROLL for (int half = 0; half < 2; half++) {
        const uint8x16_t h = vld1q_u8(qh + 16 * half);
        SM_UNROLL for (int i = 0; i < 4; i++) { /* byte (j + i) / 2 of each lane to all four */
            const uint8_t at = (uint8_t)((j + i) / 2);
            const uint8x16_t idx = vaddq_u8(
                vreinterpretq_u8_u32((uint32x4_t){0, 0x04040404, 0x08080808, 0x0c0c0c0c}),
                vdupq_n_u8(at));
            const uint8x16_t hit = vtstq_u8(vqtbl1q_u8(h, idx), i & 1 ? high : bit);
            u->c[2 * i + half] = vorrq_u8(u->c[2 * i + half], vandq_u8(hit, b16));
        }
    }
}

/* What is subtracted from the bits of a code. */
SM_INLINE int offset_32(const enum kind kind)
{
    return kind == KIND_Q40 ? 8 : kind == KIND_Q50 ? 16 : 0;
}
/* Units 0..3 and 4..7 of one x8 block as signed codes, or without the offset taken off. */
SM_INLINE void codes_32(struct units4 *lo, struct units4 *hi, const uint8_t *v, const uint8_t *qh,
                        const enum kind kind, const bool take_off)
{
    *lo = load_units4(v);
    if (kind == KIND_Q80) {
        *hi = load_units4(v + 128);
        return;
    }
    SM_UNROLL for (int i = 0; i < 8; i++) {
        hi->c[i] = vshrq_n_u8(lo->c[i], 4);
        lo->c[i] = vandq_u8(lo->c[i], vdupq_n_u8(15));
    }
    if (kind == KIND_Q50 || kind == KIND_Q51) {
        add_fifth(lo, qh, 0);
        add_fifth(hi, qh, 4);
    }
    if (take_off && offset_32(kind)) {
        const uint8x16_t off = vdupq_n_u8((uint8_t)offset_32(kind));
        SM_UNROLL for (int i = 0; i < 8; i++) {
            lo->c[i] = vsubq_u8(lo->c[i], off);
            hi->c[i] = vsubq_u8(hi->c[i], off);
        }
    }
    if (kind == KIND_IQ4NL || kind == KIND_MXFP4) {
        const int8_t *table = kind == KIND_IQ4NL ? sm_codes_iq4_values : sm_codes_mxfp4_values;
        const uint8x16_t k = vreinterpretq_u8_s8(vld1q_s8(table));
        SM_UNROLL for (int i = 0; i < 8; i++) {
            lo->c[i] = vqtbl1q_u8(k, lo->c[i]);
            hi->c[i] = vqtbl1q_u8(k, hi->c[i]);
        }
    }
}

#if defined(__ARM_FEATURE_DOTPROD)
/* Four chains of SDOT hide its latency on an in-order core. The offset, left in the codes, goes off
 * with the sum of the activations, s[0] + s[1]. */
SM_INLINE struct i32x8 dot_32(const struct units4 *lo, const struct units4 *hi, const int8_t *a,
                              const int16_t *s, const enum kind kind)
{
    const int8x16_t a0 = vld1q_s8(a), a1 = vld1q_s8(a + 16);
    struct i32x8 p = i32x8_zero(), r = p;
    if (offset_32(kind)) {
        int32_t runs;
        memcpy(&runs, s, sizeof runs);
        const int32x4_t sum = vpaddlq_s16(vreinterpretq_s16_s32(vdupq_n_s32(runs)));
        p.lo = p.hi = vmulq_n_s32(sum, -offset_32(kind));
    }
#define UNITS(j)                                                                                   \
    p.lo = vdotq_laneq_s32(p.lo, vreinterpretq_s8_u8(lo->c[2 * (j)]), a0, j);                      \
    p.hi = vdotq_laneq_s32(p.hi, vreinterpretq_s8_u8(lo->c[2 * (j) + 1]), a0, j);                  \
    r.lo = vdotq_laneq_s32(r.lo, vreinterpretq_s8_u8(hi->c[2 * (j)]), a1, j);                      \
    r.hi = vdotq_laneq_s32(r.hi, vreinterpretq_s8_u8(hi->c[2 * (j) + 1]), a1, j);                  \
    SM_STAGE4(p.lo, p.hi, r.lo, r.hi);
    UNITS(0)
    UNITS(1)
    UNITS(2)
    UNITS(3)
#undef UNITS
    return (struct i32x8){vaddq_s32(p.lo, r.lo), vaddq_s32(p.hi, r.hi)};
}
#else
SM_INLINE struct i32x8 dot_32(const struct units4 *lo, const struct units4 *hi, const int8_t *a,
                              const int16_t *s, const enum kind kind)
{
    const int8x16_t a0 = vld1q_s8(a), a1 = vld1q_s8(a + 16);
    (void)s; /* the codes are signed */
    if (kind == KIND_Q80 || kind == KIND_IQ4NL)
        return add_wide(add_wide(i32x8_zero(), lo, a0), hi, a1);
    struct part p = part_zero();
    if (kind == KIND_Q50 || kind == KIND_Q51) { /* codes up to 31: one call a part */
        struct part r = p;
        part_add(&p, lo, a0);
        part_add(&r, hi, a1);
        const struct i32x8 x = part_sum(&p), z = part_sum(&r);
        return (struct i32x8){vaddq_s32(x.lo, z.lo), vaddq_s32(x.hi, z.hi)};
    }
    part_add(&p, lo, a0);
    part_add(&p, hi, a1);
    return part_sum(&p);
}
#endif

/* x8: d, m (Q4_1, Q5_1), fifth bits 1 unit (Q5), codes: where they are in a block. */
struct layout_32 {
    bool has_min;
    size_t high, codes, bytes;
};
SM_INLINE struct layout_32 layout_32(const enum kind kind)
{
    const bool has_min = kind == KIND_Q41 || kind == KIND_Q51;
    const bool has_high = kind == KIND_Q50 || kind == KIND_Q51;
    const size_t high = kind == KIND_MXFP4 ? 8 : has_min ? 32 : 16, codes = high + 32 * has_high;
    return (struct layout_32){has_min, high, codes, codes + (kind == KIND_Q80 ? 256 : 128)};
}

SM_INLINE void group_32(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x, size_t tok,
                        const int n_tok, const enum kind kind)
{
    const size_t n_blocks = x->n_cols / 32;
    const struct layout_32 l = layout_32(kind);
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += l.bytes) {
        struct units4 lo, hi;
        codes_32(&lo, &hi, w + l.codes, w + l.high, kind, !SM_ONE_APART);
        const struct f32x8 d = kind == KIND_MXFP4 ? load8_mxfp4(w) : load8_f16(w);
        const struct f32x8 m = l.has_min ? load8_f16(w + 16) : d;
        for (int t = 0; t < n_tok; t++) {
            const struct i32x8 i = dot_32(&lo, &hi, r[t].q + 32 * b, r[t].s + 2 * b, kind);
            if (l.has_min) {
                const int32x4_t s = vdupq_n_s32(r[t].s[2 * b] + r[t].s[2 * b + 1]);
                acc[t] = step_min(acc[t], d, i, m, (struct i32x8){s, s}, r[t].d[b]);
            } else {
                acc[t] = step(acc[t], d, i, r[t].d[b]);
            }
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

#define GROUP_32(fmt, KIND)                                                                        \
    SM_INLINE void group_##fmt(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,    \
                               size_t tok, const int n_tok)                                        \
    {                                                                                              \
        group_32(y, ldy, w, x, tok, n_tok, KIND);                                                  \
    }
GROUP_32(q40, KIND_Q40)
GROUP_32(q41, KIND_Q41)
GROUP_32(q50, KIND_Q50)
GROUP_32(q51, KIND_Q51)
GROUP_32(q80, KIND_Q80)
GROUP_32(iq4nl, KIND_IQ4NL)
GROUP_32(mxfp4, KIND_MXFP4)

/* Q2_0, x8: d, codes 4 units. Dword i of a lane holds weights 16i .. 16i + 15, bits 2k of byte j
 * are weight 16i + 4j + k: unit k after the shift meets activations k, 4 + k, 8 + k, 12 + k, which
 * a table look-up brings together as lane k. */
SM_INLINE void group_q20(float *y, size_t ldy, const uint8_t *w, const struct sm_acts *x,
                         size_t tok, const int n_tok)
{
    static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
    const uint8x16_t turn = vld1q_u8(order), one = vdupq_n_u8(1), three = vdupq_n_u8(3);
    const size_t n_blocks = x->n_cols / 64;
    struct act_row r[SM_TOK_MAX];
    struct f32x8 acc[SM_TOK_MAX];
    for (int t = 0; t < n_tok; t++) {
        r[t] = act_row(x, tok + (size_t)t);
        acc[t] = f32x8_zero();
    }
    for (size_t b = 0; b < n_blocks; b++, w += 18 * 8) {
        const struct f32x8 d = load8_f16(w);
        SM_UNROLL for (int half = 0; half < 2; half++) {
            const size_t at = 2 * b + (size_t)half; /* activation block */
            struct part p[SM_TOK_MAX];
            for (int t = 0; t < n_tok; t++) p[t] = part_zero();
            SM_UNROLL for (int i = 0; i < 2; i++) {
                const struct u8x32 v = load32(w + 16 + 64 * half + 32 * i);
                struct units4 u;
                u.c[0] = vandq_u8(v.lo, three), u.c[1] = vandq_u8(v.hi, three);
                u.c[2] = vandq_u8(vshrq_n_u8(v.lo, 2), three);
                u.c[3] = vandq_u8(vshrq_n_u8(v.hi, 2), three);
                u.c[4] = vandq_u8(vshrq_n_u8(v.lo, 4), three);
                u.c[5] = vandq_u8(vshrq_n_u8(v.hi, 4), three);
                u.c[6] = vshrq_n_u8(v.lo, 6), u.c[7] = vshrq_n_u8(v.hi, 6);
                SM_UNROLL for (int j = 0; j < 8; j++) u.c[j] = vsubq_u8(u.c[j], one);
                for (int t = 0; t < n_tok; t++) {
                    const int8x16_t a = vld1q_s8(r[t].q + 32 * at + 16 * i);
                    part_add(&p[t], &u, vqtbl1q_s8(a, turn));
                }
            }
            for (int t = 0; t < n_tok; t++)
                acc[t] = step(acc[t], d, part_sum(&p[t]), r[t].d[at]);
        }
    }
    for (int t = 0; t < n_tok; t++) store8(y + (size_t)t * ldy, acc[t]);
}

#endif
