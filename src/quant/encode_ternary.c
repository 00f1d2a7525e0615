/* SPDX-License-Identifier: MIT */
/* Encoders of the formats of one scale and a bit or two: Q1_0 Q2_0 TQ1_0 TQ2_0. They are meant for
 * weights that have such values already. */
#include "base/bits.h"
#include "quant/encode_search.h"

#include <math.h>

/* Largest magnitude of the block and its inverse (0 for 0). */
static float largest(const float *x, size_t n, float *inv)
{
    float a = 0;
    for (size_t i = 0; i < n; i++) a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
    *inv = a != 0 ? 1 / a : 0;
    return a;
}

/* x / scale to -1 … top, plus 1. */
static unsigned code_of(float x, float inv, int top)
{
    return (unsigned)(sm_encode_clamp(sm_encode_round_away(x * inv), -1, top) + 1);
}

void sm_encode_q1_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i += 128, x += 128, out += 18) {
        float sum = 0;
        memset(out, 0, 18);
        for (int j = 0; j < 128; j++) {
            sum += fabsf(x[j]);
            if (x[j] >= 0) out[2 + j / 8] = (uint8_t)(out[2 + j / 8] | 1 << (j % 8));
        }
        sm_st16(out, sm_f16_of_f32(sum / 128));
    }
}

void sm_encode_q2_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i += 64, x += 64, out += 18) {
        float inv;
        sm_st16(out, sm_f16_of_f32(largest(x, 64, &inv)));
        for (int j = 0; j < 16; j++) {
            unsigned byte = 0;
            for (int k = 0; k < 4; k++) byte |= code_of(x[4 * j + k], inv, 2) << (2 * k);
            out[2 + j] = (uint8_t)byte;
        }
    }
}

void sm_encode_tq2_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i += 256, x += 256, out += 66) {
        float inv;
        sm_st16(out + 64, sm_f16_of_f32(largest(x, 256, &inv)));
        for (int h = 0; h < 2; h++)
            for (int j = 0; j < 32; j++) {
                unsigned byte = 0;
                for (int k = 0; k < 4; k++)
                    byte |= code_of(x[128 * h + 32 * k + j], inv, 1) << (2 * k);
                out[32 * h + j] = (uint8_t)byte;
            }
    }
}

/* `count` digits, `stride` weights apart, the first in the highest place of five, as a fraction of
 * 256 rounded up. */
static uint8_t pack_trits(const float *x, int count, int stride, float inv)
{
    unsigned q = 0;
    for (int n = 0; n < 5; n++) q = 3 * q + (n < count ? code_of(x[stride * n], inv, 1) : 0);
    return (uint8_t)((q * 256 + 242) / 243);
}

void sm_encode_tq1_0(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i += 256, x += 256, out += 54) {
        float inv;
        sm_st16(out + 52, sm_f16_of_f32(largest(x, 256, &inv)));
        for (int j = 0; j < 32; j++) out[j] = pack_trits(x + j, 5, 32, inv);
        for (int j = 0; j < 16; j++) out[32 + j] = pack_trits(x + 160 + j, 5, 16, inv);
        for (int j = 0; j < 4; j++) out[48 + j] = pack_trits(x + 240 + j, 4, 4, inv);
    }
}
