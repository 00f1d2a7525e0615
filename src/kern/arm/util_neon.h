/* SPDX-License-Identifier: MIT */
/* Helpers of the NEON kernels (AArch64, ARMv8.0) and of the dotprod kernels, which include the same
 * templates compiled with SDOT. Static inline only. */
#ifndef SM_UTIL_NEON_H
#define SM_UTIL_NEON_H

#include "base/bits.h"
#include "kern/x8_tile.h"

#if defined(__aarch64__) && defined(__ARM_NEON)
#define SM_HAVE_NEON 1
#include <arm_neon.h>

/* With SDOT one token goes a way of its own. */
#if defined(__ARM_FEATURE_DOTPROD)
#define SM_ONE_APART 1
#else
#define SM_ONE_APART 0
#endif

/* No code: what makes these vectors comes before what uses them, so that a compiler does not mix
 * quick instructions among slow ones. */
#define SM_STAGE2(a, b) __asm__ volatile("" : "+w"(a), "+w"(b))
#define SM_STAGE4(a, b, c, d) __asm__ volatile("" : "+w"(a), "+w"(b), "+w"(c), "+w"(d))

/* One 32-bit value for each of the 8 rows of a group. */
struct i32x8 {
    int32x4_t lo, hi;
};
struct f32x8 {
    float32x4_t lo, hi;
};
/* Unit j of four consecutive units of a field: rows 0..3 in c[2 * j], rows 4..7 in c[2 * j + 1]. */
struct units4 {
    uint8x16_t c[8];
};

SM_INLINE struct i32x8 i32x8_zero(void)
{
    return (struct i32x8){vdupq_n_s32(0), vdupq_n_s32(0)};
}
SM_INLINE struct f32x8 f32x8_zero(void)
{
    return (struct f32x8){vdupq_n_f32(0), vdupq_n_f32(0)};
}
SM_INLINE struct units4 load_units4(const uint8_t *p)
{
    struct units4 u;
    SM_UNROLL for (int i = 0; i < 8; i++) u.c[i] = vld1q_u8(p + 16 * i);
    return u;
}
/* Eight f16 to f32: exact. */
SM_INLINE struct f32x8 load8_f16(const uint8_t *p)
{
    const float16x4_t lo = vreinterpret_f16_u8(vld1_u8(p));
    const float16x4_t hi = vreinterpret_f16_u8(vld1_u8(p + 8));
    return (struct f32x8){vcvt_f32_f16(lo), vcvt_f32_f16(hi)};
}

/* Sums of code x activation on their way to int32, 8 rows. part_add takes 4 units and 16
 * activations (|a| <= 127). ARMv8.0 keeps int16 sums of single products: n calls with |code| <= c
 * need 8 * n * c * 127 <= 32,767, so one call for codes within +-32, two within +-16. */
#if defined(__ARM_FEATURE_DOTPROD)
struct part {
    struct i32x8 s;
};
SM_INLINE struct part part_zero(void) { return (struct part){i32x8_zero()}; }
SM_INLINE void part_add(struct part *p, const struct units4 *u, int8x16_t a)
{
    p->s.lo = vdotq_laneq_s32(p->s.lo, vreinterpretq_s8_u8(u->c[0]), a, 0);
    p->s.hi = vdotq_laneq_s32(p->s.hi, vreinterpretq_s8_u8(u->c[1]), a, 0);
    p->s.lo = vdotq_laneq_s32(p->s.lo, vreinterpretq_s8_u8(u->c[2]), a, 1);
    p->s.hi = vdotq_laneq_s32(p->s.hi, vreinterpretq_s8_u8(u->c[3]), a, 1);
    p->s.lo = vdotq_laneq_s32(p->s.lo, vreinterpretq_s8_u8(u->c[4]), a, 2);
    p->s.hi = vdotq_laneq_s32(p->s.hi, vreinterpretq_s8_u8(u->c[5]), a, 2);
    p->s.lo = vdotq_laneq_s32(p->s.lo, vreinterpretq_s8_u8(u->c[6]), a, 3);
    p->s.hi = vdotq_laneq_s32(p->s.hi, vreinterpretq_s8_u8(u->c[7]), a, 3);
}
SM_INLINE struct i32x8 part_sum(const struct part *p) { return p->s; }
/* The same for any codes, added to sums. */
SM_INLINE struct i32x8 add_wide(struct i32x8 s, const struct units4 *u, int8x16_t a)
{
    struct part p = {s};
    part_add(&p, u, a);
    return p.s;
}
#else
struct part {
    int16x8_t p[4]; /* rows 0 1, 2 3, 4 5, 6 7; four products each */
};
SM_INLINE struct part part_zero(void)
{
    const int16x8_t z = vdupq_n_s16(0);
    return (struct part){{z, z, z, z}};
}
SM_INLINE void part_unit(struct part *p, uint8x16_t lo, uint8x16_t hi, int8x16_t a)
{
    const int8x16_t l = vreinterpretq_s8_u8(lo), h = vreinterpretq_s8_u8(hi);
    p->p[0] = vmlal_s8(p->p[0], vget_low_s8(l), vget_low_s8(a));
    p->p[1] = vmlal_high_s8(p->p[1], l, a);
    p->p[2] = vmlal_s8(p->p[2], vget_low_s8(h), vget_low_s8(a));
    p->p[3] = vmlal_high_s8(p->p[3], h, a);
}
#define SM_DUP4(a, lane)                                                                           \
    vreinterpretq_s8_s32(vdupq_laneq_s32(vreinterpretq_s32_s8(a), lane))
SM_INLINE void part_add(struct part *p, const struct units4 *u, int8x16_t a)
{
    part_unit(p, u->c[0], u->c[1], SM_DUP4(a, 0));
    part_unit(p, u->c[2], u->c[3], SM_DUP4(a, 1));
    part_unit(p, u->c[4], u->c[5], SM_DUP4(a, 2));
    part_unit(p, u->c[6], u->c[7], SM_DUP4(a, 3));
}
SM_INLINE struct i32x8 part_sum(const struct part *p)
{
    return (struct i32x8){vpaddlq_s16(vpaddq_s16(p->p[0], p->p[1])),
                          vpaddlq_s16(vpaddq_s16(p->p[2], p->p[3]))};
}
/* Any codes: two units in int16 (2 * 128 * 127 = 32,512), then to int32. */
SM_INLINE struct i32x8 add_wide(struct i32x8 s, const struct units4 *u, int8x16_t a)
{
    struct part p = part_zero(), r = part_zero();
    int32x4_t sum[4];
    part_unit(&p, u->c[0], u->c[1], SM_DUP4(a, 0));
    part_unit(&p, u->c[2], u->c[3], SM_DUP4(a, 1));
    part_unit(&r, u->c[4], u->c[5], SM_DUP4(a, 2));
    part_unit(&r, u->c[6], u->c[7], SM_DUP4(a, 3));
    SM_UNROLL for (int i = 0; i < 4; i++) sum[i] = vpadalq_s16(vpaddlq_s16(p.p[i]), r.p[i]);
    s.lo = vaddq_s32(s.lo, vpaddq_s32(sum[0], sum[1]));
    s.hi = vaddq_s32(s.hi, vpaddq_s32(sum[2], sum[3]));
    return s;
}
#endif

SM_INLINE struct i32x8 add_mul(struct i32x8 s, struct i32x8 a, struct i32x8 b)
{
    return (struct i32x8){vmlaq_s32(s.lo, a.lo, b.lo), vmlaq_s32(s.hi, a.hi, b.hi)};
}
/* s + a * n: n is a sum of activations. */
SM_INLINE struct i32x8 add_mul_n(struct i32x8 s, struct i32x8 a, int32_t n)
{
    return (struct i32x8){vmlaq_n_s32(s.lo, a.lo, n), vmlaq_n_s32(s.hi, a.hi, n)};
}

/* Byte i of each 32-bit lane, zero- or sign-extended. */
struct u8x32 {
    uint8x16_t lo, hi;
};
SM_INLINE struct i32x8 byte_u(struct u8x32 v, const int i)
{
    const uint32x4_t m = vdupq_n_u32(255);
    const int32x4_t left = vdupq_n_s32(-8 * i); /* a constant: becomes USHL or a shift */
    return (struct i32x8){
        vreinterpretq_s32_u32(vandq_u32(vshlq_u32(vreinterpretq_u32_u8(v.lo), left), m)),
        vreinterpretq_s32_u32(vandq_u32(vshlq_u32(vreinterpretq_u32_u8(v.hi), left), m))};
}
SM_INLINE struct i32x8 byte_s(struct u8x32 v, const int i)
{
    const int32x4_t left = vdupq_n_s32(24 - 8 * i);
    return (struct i32x8){
        vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u8(v.lo), left), 24),
        vshrq_n_s32(vshlq_s32(vreinterpretq_s32_u8(v.hi), left), 24)};
}
SM_INLINE struct u8x32 load32(const uint8_t *p)
{
    return (struct u8x32){vld1q_u8(p), vld1q_u8(p + 16)};
}

/* One float step of the rows: acc = fma(d_a, d * (float)i, acc). */
SM_INLINE struct f32x8 step(struct f32x8 acc, struct f32x8 d, struct i32x8 i, float d_a)
{
    const float32x4_t lo = vmulq_f32(d.lo, vcvtq_f32_s32(i.lo));
    const float32x4_t hi = vmulq_f32(d.hi, vcvtq_f32_s32(i.hi));
    return (struct f32x8){vfmaq_n_f32(acc.lo, lo, d_a), vfmaq_n_f32(acc.hi, hi, d_a)};
}
/* With a minimum: t = fma(m, (float)sum, d * (float)i). */
SM_INLINE struct f32x8 step_min(struct f32x8 acc, struct f32x8 d, struct i32x8 i, struct f32x8 m,
                                struct i32x8 sum, float d_a)
{
    float32x4_t lo = vmulq_f32(d.lo, vcvtq_f32_s32(i.lo));
    float32x4_t hi = vmulq_f32(d.hi, vcvtq_f32_s32(i.hi));
    lo = vfmaq_f32(lo, m.lo, vcvtq_f32_s32(sum.lo));
    hi = vfmaq_f32(hi, m.hi, vcvtq_f32_s32(sum.hi));
    return (struct f32x8){vfmaq_n_f32(acc.lo, lo, d_a), vfmaq_n_f32(acc.hi, hi, d_a)};
}
SM_INLINE struct f32x8 negate(struct f32x8 v)
{
    return (struct f32x8){vnegq_f32(v.lo), vnegq_f32(v.hi)};
}
SM_INLINE void store8(float *y, struct f32x8 v)
{
    vst1q_f32(y, v.lo);
    vst1q_f32(y + 4, v.hi);
}

/* Sixteen floats: partial sums of sum16. */
struct f32x16 {
    float32x4_t v[4];
};
SM_INLINE struct f32x16 f32x16_zero(void)
{
    const float32x4_t z = vdupq_n_f32(0);
    return (struct f32x16){{z, z, z, z}};
}
SM_INLINE void store16(float *p, struct f32x16 a)
{
    SM_UNROLL for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, a.v[i]);
}
SM_INLINE struct f32x16 load16(const float *p)
{
    return (struct f32x16){{vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}};
}
/* Folded 8, 4, 2, 1. */
SM_INLINE float fold16(struct f32x16 a)
{
    const float32x4_t lo = vaddq_f32(a.v[0], a.v[2]), hi = vaddq_f32(a.v[1], a.v[3]);
    const float32x4_t q = vaddq_f32(lo, hi);
    const float32x2_t h = vadd_f32(vget_low_f32(q), vget_high_f32(q));
    return vget_lane_f32(h, 0) + vget_lane_f32(h, 1);
}

/* exp of docs/arithmetic.md section 7, four at a time. */
SM_INLINE float32x4_t exp4(float32x4_t v)
{
    float32x4_t x = vmaxq_f32(v, vdupq_n_f32(-104.0f));
    x = vminq_f32(x, vdupq_n_f32(89.0f));
    const float32x4_t n = vrndnq_f32(vmulq_f32(x, vdupq_n_f32(0x1.715476p0f)));
    float32x4_t r = vfmsq_f32(x, n, vdupq_n_f32(0x1.62e400p-1f));
    r = vfmsq_f32(r, n, vdupq_n_f32(0x1.7f7d1cp-20f));
    float32x4_t p = vdupq_n_f32(0x1.a01a02p-13f);
    p = vfmaq_f32(vdupq_n_f32(0x1.6c16c2p-10f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.111112p-7f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.555556p-5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0x1.555556p-3f), p, r);
    p = vfmaq_f32(vdupq_n_f32(0.5f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    p = vfmaq_f32(vdupq_n_f32(1.0f), p, r);
    const int32x4_t k = vcvtq_s32_f32(n), k1 = vshrq_n_s32(k, 1), bias = vdupq_n_s32(127);
    const int32x4_t s1 = vshlq_n_s32(vaddq_s32(k1, bias), 23);
    const int32x4_t s2 = vshlq_n_s32(vaddq_s32(vsubq_s32(k, k1), bias), 23);
    p = vmulq_f32(vmulq_f32(p, vreinterpretq_f32_s32(s1)), vreinterpretq_f32_s32(s2));
    return vbslq_f32(vceqq_f32(v, v), p, v);
}

SM_INLINE float32x4_t gate4(float32x4_t g, float32x4_t u)
{
    return vdivq_f32(u, vaddq_f32(vdupq_n_f32(1.0f), exp4(vnegq_f32(g))));
}

void sm_mul_rows_f32_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_f16_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                          const float *x, size_t ldx, size_t n_tok);
void sm_mul_rows_bf16_neon(float *y, size_t ldy, const void *w, size_t n_rows, size_t n_cols,
                           const float *x, size_t ldx, size_t n_tok);
float sm_dot_neon(const float *a, const float *b, size_t n);
float sm_rms_norm_neon(float *y, const float *x, const float *w, size_t n, float eps);
void sm_silu_mul_neon(float *h, const float *g, const float *u, size_t n);
void sm_join_neon(float *o, float keep, const float *x, float part, size_t n);
void sm_sigmoid_mul_neon(float *h, const float *g, const float *u, size_t n);
void sm_conv_neon(const struct sm_conv *c);
void sm_delta_tile_neon(const struct sm_delta_tile *d);
void sm_axpy_neon(float *y, float w, const float *x, size_t n);
void sm_add_neon(float *y, const float *x, size_t n);
void sm_exp_neon(float *y, const float *x, size_t n);
void sm_rope_half_neon(float *x, const float *cs, size_t n_rot);
void sm_rope_adjacent_neon(float *x, const float *cs, size_t n_rot);
void sm_quantize_32_neon(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
void sm_quantize_256_neon(const float *x, size_t n, int8_t *q, float *d, int16_t *s);
void sm_kv_store_f16_neon(void *dst, const float *x, size_t n);
void sm_kv_store_q8_0_neon(void *dst, const float *x, size_t n);
void sm_attn_chunk_f32_neon(const struct sm_attn_chunk *c);
void sm_attn_chunk_f16_neon(const struct sm_attn_chunk *c);
void sm_attn_chunk_q8_0_neon(const struct sm_attn_chunk *c);
void sm_pack_x8_neon(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                     size_t n_rows, size_t n_cols);

/* Kernels of the neon files, put into the table by fill_neon.c. */
SM_COMMON_FORMATS(SM_NAME_DECL, neon)
SM_BIT_FORMATS(SM_NAME_DECL, neon)
/* Kernels of the dotprod files, put into the table by fill_dotprod.c. */
SM_COMMON_FORMATS(SM_NAME_DECL, dotprod)
/* Kernels of the i8mm files, put into the table by fill_i8mm.c. */
SM_MM_FORMATS(SM_NAME_DECL, i8mm)

#endif /* SM_HAVE_NEON */
#endif
