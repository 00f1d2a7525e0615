/* SPDX-License-Identifier: MIT */
/* Unaligned little-endian loads and stores, and bit casts. smol runs on little-endian machines
 * only (checked at start-up), so these are plain copies. */
#ifndef SM_BASE_BITS_H
#define SM_BASE_BITS_H

#include <stdint.h>
#include <string.h>

static inline uint16_t sm_ld16(const void *p) { uint16_t v; memcpy(&v, p, sizeof v); return v; }
static inline uint32_t sm_ld32(const void *p) { uint32_t v; memcpy(&v, p, sizeof v); return v; }
static inline uint64_t sm_ld64(const void *p) { uint64_t v; memcpy(&v, p, sizeof v); return v; }
static inline float sm_ldf32(const void *p) { float v; memcpy(&v, p, sizeof v); return v; }
static inline void sm_st16(void *p, uint16_t v) { memcpy(p, &v, sizeof v); }
static inline void sm_st32(void *p, uint32_t v) { memcpy(p, &v, sizeof v); }
static inline void sm_st64(void *p, uint64_t v) { memcpy(p, &v, sizeof v); }
static inline float sm_f32_of_bits(uint32_t v) { float f; memcpy(&f, &v, sizeof f); return f; }
static inline uint32_t sm_bits_of_f32(float f) { uint32_t v; memcpy(&v, &f, sizeof v); return v; }
static inline double sm_f64_of_bits(uint64_t v) { double f; memcpy(&f, &v, sizeof f); return f; }
static inline uint64_t sm_bits_of_f64(double f) { uint64_t v; memcpy(&v, &f, sizeof v); return v; }

/* IEEE binary16 to binary32: exact, subnormals kept, NaN stays NaN. */
static inline float sm_f32_of_f16(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000u) << 16, exp = (h >> 10) & 31u, man = h & 0x3ffu;
    if (exp == 0) { /* zero or subnormal: man * 2^-24, exact in f32 */
        const float v = (float)man * 0x1p-24f;
        return sm_f32_of_bits(sm_bits_of_f32(v) | sign);
    }
    if (exp == 31) return sm_f32_of_bits(sign | 0x7f800000u | (man << 13) | (man ? 0x400000u : 0));
    return sm_f32_of_bits(sign | ((exp + 112) << 23) | (man << 13));
}

/* binary32 to binary16, round to nearest even, overflow to infinity, NaN to a quiet NaN. */
static inline uint16_t sm_f16_of_f32(float f)
{
    const uint32_t b = sm_bits_of_f32(f), sign = (b >> 16) & 0x8000u, a = b & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | ((a >> 13) & 0x3ffu));
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* >= 65520 rounds to infinity */
    if (a < 0x38800000u) { /* below 2^-14: result is subnormal, in units of 2^-24 */
        const float scaled = sm_f32_of_bits(a) * 0x1p24f; /* exact */
        uint32_t n = (uint32_t)scaled;
        const float rest = scaled - (float)n;
        if (rest > 0.5f || (rest == 0.5f && (n & 1))) n++;
        return (uint16_t)(sign | n);
    }
    const uint32_t r = a + 0xfffu + ((a >> 13) & 1u); /* nearest, ties to even */
    return (uint16_t)(sign | ((r - 0x38000000u) >> 13));
}

#endif
