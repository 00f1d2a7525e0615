/* SPDX-License-Identifier: MIT */
/* Floats to 8-bit codes and to the KV formats, and rows to x8, NEON. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include "kern/x8_pack.h"

#define INF_BITS 0x7f800000u

/* The largest magnitude as bits. */
SM_INLINE uint32_t largest(const float *x, size_t n)
{
    const uint32x4_t mask = vdupq_n_u32(0x7fffffffu);
    uint32x4_t a = vdupq_n_u32(0), b = a;
    for (size_t i = 0; i < n; i += 8) {
        a = vmaxq_u32(a, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i)), mask));
        b = vmaxq_u32(b, vandq_u32(vreinterpretq_u32_f32(vld1q_f32(x + i + 4)), mask));
    }
    return vmaxvq_u32(vmaxq_u32(a, b));
}

SM_INLINE int16x4_t code4(const float *x, float inv)
{
    return vmovn_s32(vcvtnq_s32_f32(vmulq_n_f32(vld1q_f32(x), inv))); /* to nearest even */
}
SM_INLINE int8x16_t code16(const float *x, float inv)
{
    const int16x8_t lo = vcombine_s16(code4(x, inv), code4(x + 4, inv));
    const int16x8_t hi = vcombine_s16(code4(x + 8, inv), code4(x + 12, inv));
    return vcombine_s8(vmovn_s16(lo), vmovn_s16(hi));
}

SM_INLINE void quantize(const float *x, size_t n, int8_t *q, float *d, int16_t *s,
                        const size_t block)
{
    for (; n >= block; n -= block, x += block, q += block, s += block / 16) {
        const uint32_t bits = largest(x, block);
        const float a = sm_f32_of_bits(bits);
        if (bits >= INF_BITS || a < 0x1p-100f) {
            *d++ = bits >= INF_BITS ? sm_f32_of_bits(0x7fc00000u) : 0.0f;
            memset(q, 0, block);
            memset(s, 0, block / 16 * sizeof *s);
            continue;
        }
        *d++ = a / 127.0f;
        const float inv = 127.0f / a;
        for (size_t i = 0; i < block; i += 16) {
            const int8x16_t c = code16(x + i, inv);
            vst1q_s8(q + i, c);
            s[i / 16] = vaddlvq_s8(c);
        }
    }
}

void sm_quantize_32_neon(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, q, d, s, 32);
}

void sm_quantize_256_neon(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, q, d, s, 256);
}

void sm_kv_store_f16_neon(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1_u8(p + 2 * i, vreinterpret_u8_f16(vcvt_f16_f32(vld1q_f32(x + i))));
    for (; i < n; i++) sm_st16(p + 2 * i, sm_f16_of_f32(x[i]));
}

void sm_kv_store_q8_0_neon(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    for (; n >= 32; n -= 32, x += 32, p += 34) {
        const uint32_t bits = largest(x, 32);
        const float a = sm_f32_of_bits(bits);
        if (bits >= INF_BITS || a < 127 * 0x1p-24f) {
            sm_st16(p, bits >= INF_BITS ? 0x7e00 : 0);
            memset(p + 2, 0, 32);
            continue;
        }
        const float inv = 127.0f / a;
        sm_st16(p, sm_f16_of_f32(a / 127.0f));
        vst1q_u8(p + 2, vreinterpretq_u8_s8(code16(x, inv)));
        vst1q_u8(p + 18, vreinterpretq_u8_s8(code16(x + 16, inv)));
    }
}

/* Units 0..3 of 4 rows: 16 bytes a unit, units 32 bytes apart. */
SM_INLINE void transpose4(uint8_t *dst, const uint8_t *row, size_t row_bytes)
{
    const uint32x4_t r0 = vreinterpretq_u32_u8(vld1q_u8(row));
    const uint32x4_t r1 = vreinterpretq_u32_u8(vld1q_u8(row + row_bytes));
    const uint32x4_t r2 = vreinterpretq_u32_u8(vld1q_u8(row + 2 * row_bytes));
    const uint32x4_t r3 = vreinterpretq_u32_u8(vld1q_u8(row + 3 * row_bytes));
    const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(r0, r1)); /* units 0 2 */
    const uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(r0, r1)); /* units 1 3 */
    const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(r2, r3));
    const uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(r2, r3));
    vst1q_u8(dst, vreinterpretq_u8_u64(vtrn1q_u64(a, c)));
    vst1q_u8(dst + 32, vreinterpretq_u8_u64(vtrn1q_u64(b, d)));
    vst1q_u8(dst + 64, vreinterpretq_u8_u64(vtrn2q_u64(a, c)));
    vst1q_u8(dst + 96, vreinterpretq_u8_u64(vtrn2q_u64(b, d)));
}

SM_INLINE void transpose8(uint8_t *dst, const uint8_t *row, size_t row_bytes)
{
    transpose4(dst, row, row_bytes);
    transpose4(dst + 16, row + 4 * row_bytes, row_bytes);
}

void sm_pack_x8_neon(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                     size_t n_rows, size_t n_cols)
{
    x8_pack(type, dst, rows, row_bytes, n_rows, n_cols, transpose8);
}

#endif
