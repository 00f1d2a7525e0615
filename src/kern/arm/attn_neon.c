/* SPDX-License-Identifier: MIT */
/* One chunk of attention, NEON (docs/arithmetic.md section 5). Two heads that share keys and values
 * go through a row of the cache together, so that each row is converted once for both; a head alone
 * takes two positions at once instead. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include <math.h>

enum { CHUNK = 256, TILE = 2 };

SM_INLINE float32x4_t load4(const uint8_t *row, size_t i, const enum sm_kv_type kv)
{
    if (kv == SM_KV_F32) return vreinterpretq_f32_u8(vld1q_u8(row + 4 * i));
    if (kv == SM_KV_F16) return vcvt_f32_f16(vreinterpret_f16_u8(vld1_u8(row + 2 * i)));
    const uint8_t *block = row + 34 * (i / 32);
    const float32x4_t d = vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(sm_ld16(block))));
    const int8x8_t q = vreinterpret_s8_u32(vdup_n_u32(sm_ld32(block + 2 + i % 32)));
    return vmulq_f32(d, vcvtq_f32_s32(vmovl_s16(vget_low_s16(vmovl_s8(q)))));
}

/* Formats without blocks only: a q8_0 row has no tail. */
SM_INLINE float load1(const uint8_t *row, size_t i, const enum sm_kv_type kv)
{
    return kv == SM_KV_F32 ? sm_ldf32(row + 4 * i) : sm_f32_of_f16(sm_ld16(row + 2 * i));
}

/* s[h][i] for n_h heads from head h0 and n_p positions from position i. */
SM_INLINE void scores(const struct sm_attn_chunk *c, float (*s)[CHUNK], size_t h0, size_t i,
                      const int n_h, const int n_p, const enum sm_kv_type kv)
{
    const uint8_t *k = (const uint8_t *)c->k + i * c->k_stride;
    const float *q = c->q + h0 * c->ldq;
    const size_t dk = c->dk;
    struct f32x16 sums[TILE][TILE];
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int p = 0; p < n_p; p++) sums[h][p] = f32x16_zero();
    }
    size_t d = 0;
    for (; d + 16 <= dk; d += 16) {
        SM_UNROLL for (int j = 0; j < 4; j++) {
            const size_t at = d + 4 * (size_t)j;
            SM_UNROLL for (int p = 0; p < n_p; p++) {
                const float32x4_t v = load4(k + (size_t)p * c->k_stride, at, kv);
                SM_UNROLL for (int h = 0; h < n_h; h++)
                    sums[h][p].v[j] =
                        vfmaq_f32(sums[h][p].v[j], vld1q_f32(q + (size_t)h * c->ldq + at), v);
            }
        }
    }
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int p = 0; p < n_p; p++) {
            if (d < dk) { /* the tail adds to its own partial sums */
                const uint8_t *row = k + (size_t)p * c->k_stride;
                float lanes[16];
                store16(lanes, sums[h][p]);
                for (size_t j = d; j < dk; j++)
                    lanes[j - d] =
                        fmaf(q[(size_t)h * c->ldq + j], load1(row, j, kv), lanes[j - d]);
                sums[h][p] = load16(lanes);
            }
            s[h][i + (size_t)p] = fold16(sums[h][p]) * c->scale;
        }
    }
}

/* max s from -infinity. The sign of a zero, and what comes out beside a NaN, are not specified. */
static float maximum(const float *s, size_t first, size_t last)
{
    float32x4_t m4 = vdupq_n_f32(-INFINITY);
    size_t i = first;
    for (; i + 4 <= last; i += 4) m4 = vmaxq_f32(m4, vld1q_f32(s + i));
    float m = vmaxvq_f32(m4);
    for (; i < last; i++) m = m > s[i] ? m : s[i];
    return m;
}

/* s becomes e = exp(s - m), zero where hidden; returns sum16 of e. Whole groups of 16 positions are
 * done: adding +0 to a lane that is not negative changes nothing. */
static float exponentials(float *s, size_t first, size_t last, float m)
{
    static const uint32_t iota[4] = {0, 1, 2, 3};
    const uint32x4_t lo = vdupq_n_u32((uint32_t)first), hi = vdupq_n_u32((uint32_t)last);
    struct f32x16 sum = f32x16_zero();
    for (size_t i = first & ~(size_t)15; i < last; i += 16) {
        SM_UNROLL for (int j = 0; j < 4; j++) {
            float *p = s + i + 4 * j;
            const uint32x4_t at =
                vaddq_u32(vld1q_u32(iota), vdupq_n_u32((uint32_t)i + 4 * (uint32_t)j));
            const uint32x4_t seen = vandq_u32(vcgeq_u32(at, lo), vcltq_u32(at, hi));
            const float32x4_t e = exp4(vsubq_f32(vld1q_f32(p), vdupq_n_f32(m)));
            const float32x4_t e0 = vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(e), seen));
            vst1q_f32(p, e0);
            sum.v[j] = vaddq_f32(sum.v[j], e0);
        }
    }
    return fold16(sum);
}

/* o[h][d .. d + 4 * n_v) = sum of e * v in position order. */
SM_INLINE void values(const struct sm_attn_chunk *c, float (*e)[CHUNK], size_t h0, size_t d,
                      const int n_h, const int n_v, const enum sm_kv_type kv)
{
    float32x4_t o[TILE][8];
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++) o[h][j] = vdupq_n_f32(0);
    }
    const uint8_t *row = (const uint8_t *)c->v + c->first * c->v_stride;
    for (size_t i = c->first; i < c->last; i++, row += c->v_stride) {
        SM_UNROLL for (int j = 0; j < n_v; j++) {
            const float32x4_t v = load4(row, d + 4 * (size_t)j, kv);
            SM_UNROLL for (int h = 0; h < n_h; h++) o[h][j] = vfmaq_n_f32(o[h][j], v, e[h][i]);
        }
    }
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        SM_UNROLL for (int j = 0; j < n_v; j++)
            vst1q_f32(c->o + (h0 + (size_t)h) * c->ldo + d + 4 * (size_t)j, o[h][j]);
    }
}

/* n_h heads from head h0. */
SM_INLINE void heads(const struct sm_attn_chunk *c, size_t h0, const int n_h,
                     const enum sm_kv_type kv)
{
    const size_t first = c->first, last = c->last, dv = c->dv;
    float s[TILE][CHUNK];
    size_t i = first, d = 0;
    SM_UNROLL for (int h = 0; h < n_h; h++) { /* whole groups of 16 are read below */
        const size_t begin = first & ~(size_t)15, end = (last + 15) & ~(size_t)15;
        for (size_t j = begin; j < first; j++) s[h][j] = 0;
        for (size_t j = last; j < end; j++) s[h][j] = 0;
    }
    if (n_h == 1)
        for (; i + 2 <= last; i += 2) scores(c, s, h0, i, n_h, 2, kv);
    for (; i < last; i++) scores(c, s, h0, i, n_h, 1, kv);
    SM_UNROLL for (int h = 0; h < n_h; h++) {
        c->m[h0 + (size_t)h] = maximum(s[h], first, last);
        c->l[h0 + (size_t)h] = exponentials(s[h], first, last, c->m[h0 + (size_t)h]);
    }
    for (; d + 32 <= dv; d += 32) values(c, s, h0, d, n_h, 8, kv);
    for (; d + 4 <= dv; d += 4) values(c, s, h0, d, n_h, 1, kv);
    for (; d < dv; d++) { /* no tail in a q8_0 row */
        SM_UNROLL for (int h = 0; h < n_h; h++) {
            float o = 0;
            for (size_t j = first; j < last; j++)
                o = fmaf(s[h][j], load1((const uint8_t *)c->v + j * c->v_stride, d, kv), o);
            c->o[(h0 + (size_t)h) * c->ldo + d] = o;
        }
    }
}

SM_INLINE void attn_chunk(const struct sm_attn_chunk *c, const enum sm_kv_type kv)
{
    size_t h = 0;
    for (; h + 2 <= c->n_q; h += 2) heads(c, h, 2, kv);
    for (; h < c->n_q; h++) heads(c, h, 1, kv);
}

void sm_attn_chunk_f32_neon(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_F32); }
void sm_attn_chunk_f16_neon(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_F16); }
void sm_attn_chunk_q8_0_neon(const struct sm_attn_chunk *c) { attn_chunk(c, SM_KV_Q8_0); }

#endif
