/* SPDX-License-Identifier: MIT */
/* Encoders of the blocks of 32: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0. */
#include "base/bits.h"
#include "quant/encode_search.h"

#include <math.h>

/* v truncated towards zero, kept inside 0 … top. */
static uint8_t code_of(float v, int top)
{
    if (!(v > 0)) return 0;
    return (uint8_t)(v < (float)top ? (int)v : top);
}

/* Weights of the errors with an importance vector: v * sqrt(mean square of the row + x * x). */
static float mean_square(const float *x, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum / (float)n;
}

static void weigh(const float *x, const float *v, size_t n, float sigma2, float *w)
{
    for (size_t i = 0; i < n; i++) w[i] = v[i] * sqrtf(sigma2 + x[i] * x[i]);
}

/* 32 codes of 4 or 5 bits: nibbles at qs, fifth bits at h (NULL: none). */
static void put_codes(const uint8_t *codes, uint8_t *h, uint8_t *qs)
{
    uint32_t fifth = 0;
    for (int j = 0; j < 16; j++) {
        qs[j] = (uint8_t)((codes[j] & 15) | (codes[j + 16] & 15) << 4);
        fifth |= (uint32_t)(codes[j] >> 4) << j | (uint32_t)(codes[j + 16] >> 4) << (j + 16);
    }
    if (h) sm_st32(h, fifth);
}

/* Q4_0 (half 8) and Q5_0 (16): scale and codes 0 … 2 * half - 1 of one block. */
static float block_symmetric(const float *x, const float *v, float sigma2, int half, uint8_t *codes)
{
    float w[32];
    if (v) {
        weigh(x, v, 32, sigma2, w);
        return sm_encode_symmetric(x, w, 32, half, codes);
    }
    const float d = sm_encode_extreme(x, 32) / (float)-half, inv = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++)
        codes[j] = code_of(x[j] * inv + ((float)half + 0.5f), 2 * half - 1);
    return d;
}

void sm_encode_q4_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    const float sigma2 = v ? mean_square(x, n) : 0;
    uint8_t codes[32];
    for (size_t i = 0; i < n; i += 32, out += 18) {
        sm_st16(out, sm_f16_of_f32(block_symmetric(x + i, v ? v + i : NULL, sigma2, 8, codes)));
        put_codes(codes, NULL, out + 2);
    }
}

void sm_encode_q5_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    const float sigma2 = v ? mean_square(x, n) : 0;
    uint8_t codes[32];
    for (size_t i = 0; i < n; i += 32, out += 22) {
        sm_st16(out, sm_f16_of_f32(block_symmetric(x + i, v ? v + i : NULL, sigma2, 16, codes)));
        put_codes(codes, out + 2, out + 6);
    }
}

/* Q4_1 (top 15) and Q5_1 (31): scale, *min (to be added) and codes of one block. */
static float block_affine(const float *x, const float *v, float sigma2, int top, uint8_t *codes,
                          float *min)
{
    if (v) {
        const struct sm_encode_range r = {top, 36, -0.9f, 0.05f, false};
        float w[32];
        weigh(x, v, 32, sigma2, w);
        const float d = sm_encode_affine(x, w, 32, &r, codes, min);
        *min = -*min;
        return d;
    }
    float lo = x[0], hi = x[0];
    for (int j = 1; j < 32; j++) {
        lo = x[j] < lo ? x[j] : lo;
        hi = x[j] > hi ? x[j] : hi;
    }
    const float d = (hi - lo) / (float)top, inv = d != 0 ? 1 / d : 0;
    for (int j = 0; j < 32; j++) codes[j] = code_of((x[j] - lo) * inv + 0.5f, top);
    *min = lo;
    return d;
}

void sm_encode_q4_1(const float *x, size_t n, const float *v, uint8_t *out)
{
    const float sigma2 = v ? mean_square(x, n) : 0;
    uint8_t codes[32];
    float min;
    for (size_t i = 0; i < n; i += 32, out += 20) {
        sm_st16(out, sm_f16_of_f32(block_affine(x + i, v ? v + i : NULL, sigma2, 15, codes, &min)));
        sm_st16(out + 2, sm_f16_of_f32(min));
        put_codes(codes, NULL, out + 4);
    }
}

void sm_encode_q5_1(const float *x, size_t n, const float *v, uint8_t *out)
{
    const float sigma2 = v ? mean_square(x, n) : 0;
    uint8_t codes[32];
    float min;
    for (size_t i = 0; i < n; i += 32, out += 24) {
        sm_st16(out, sm_f16_of_f32(block_affine(x + i, v ? v + i : NULL, sigma2, 31, codes, &min)));
        sm_st16(out + 2, sm_f16_of_f32(min));
        put_codes(codes, out + 4, out + 8);
    }
}

void sm_encode_q8_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i += 32, out += 34) {
        float a = 0;
        for (size_t j = 0; j < 32; j++) a = fabsf(x[i + j]) > a ? fabsf(x[i + j]) : a;
        const float d = a / 127, inv = d != 0 ? 1 / d : 0;
        sm_st16(out, sm_f16_of_f32(d));
        for (size_t j = 0; j < 32; j++)
            out[2 + j] = (uint8_t)sm_encode_clamp(sm_encode_round_away(x[i + j] * inv), -127, 127);
    }
}
