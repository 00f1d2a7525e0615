/* SPDX-License-Identifier: MIT */
/* Encoders of Q2_K … Q6_K. Each block: scales of its groups, those scales to integers, codes again
 * with the scales as stored. */
#include "base/bits.h"
#include "quant/encode_search.h"

#include <math.h>

#define N 256

/* ---- shared parts -------------------------------------------------------------------------- */

static float sum_squares(const float *x, size_t n)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * x[i];
    return sum;
}

/* w = v * sqrt(sigma2 + x * x) for a group; returns the sum of w. */
static float weigh(const float *x, const float *v, size_t n, float sigma2, float *w)
{
    float sum = 0;
    for (size_t i = 0; i < n; i++) {
        w[i] = v[i] * sqrtf(sigma2 + x[i] * x[i]);
        sum += w[i];
    }
    return sum;
}

/* Round values >= 0 against their maximum to 0 … top; returns the scale. */
static float round_scales(const float *x, size_t n, int top, uint8_t *codes)
{
    float max = 0;
    for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    const float inv = max > 0 ? (float)top / max : 0;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)sm_encode_clamp(sm_encode_rne(inv * x[i]), 0, top);
    return max > 0 ? max / (float)top : 0;
}

/* Codes of the formats with minima, once the scales are stored: x ~ d * code - m. A group whose
 * scale became 0 keeps the codes it has. */
static void codes_again(const float *x, size_t n, float d, float m, int top, uint8_t *codes)
{
    if (d == 0) return;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)sm_encode_clamp(sm_encode_rne((x[i] + m) / d), 0, top);
}

/* The same for the symmetric formats. */
static void codes_again_symmetric(const float *x, size_t n, float d, int half, uint8_t *codes)
{
    if (d == 0) return;
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)(sm_encode_clamp(sm_encode_rne(x[i] / d), -half, half - 1) + half);
}

/* A block of a format with minima: group scales and minima as integers, d and dmin as stored. */
struct minima_block {
    uint8_t codes[N], scale[16], min[16];
    uint16_t d, dmin;
};

/* group: weights a group; scale_top: 15 or 63; the ranges without and with importance. */
struct minima_format {
    size_t group;
    int scale_top;
    float sigma_factor;
    bool absolute_weights; /* weights |x| alone; else rms + |x| */
    struct sm_encode_range plain, weighted;
};

static void encode_minima(const float *x, const float *v, const struct minima_format *f,
                          struct minima_block *b)
{
    const size_t g = f->group, n_groups = N / g;
    const float sigma2 = v ? f->sigma_factor * sum_squares(x, N) / N : 0;
    float scale[16], min[16], w[32], sum_w[16], d, dmin;
    for (size_t j = 0; j < n_groups; j++) {
        const float *xg = x + g * j;
        if (v) {
            sum_w[j] = weigh(xg, v + g * j, g, sigma2, w);
        } else {
            const float rms = f->absolute_weights ? 0 : sqrtf(sum_squares(xg, g) / (float)g);
            for (size_t i = 0; i < g; i++) w[i] = rms + fabsf(xg[i]);
        }
        scale[j] = sm_encode_affine(xg, w, g, v ? &f->weighted : &f->plain, b->codes + g * j,
                                    &min[j]);
    }
    if (v) {
        d = sm_encode_positive(scale, sum_w, n_groups, f->scale_top, b->scale);
        dmin = sm_encode_positive(min, sum_w, n_groups, f->scale_top, b->min);
    } else {
        d = round_scales(scale, n_groups, f->scale_top, b->scale);
        dmin = round_scales(min, n_groups, f->scale_top, b->min);
    }
    b->d = sm_f16_of_f32(d);
    b->dmin = sm_f16_of_f32(dmin);
    for (size_t j = 0; j < n_groups; j++)
        codes_again(x + g * j, g, sm_f32_of_f16(b->d) * (float)b->scale[j],
                    sm_f32_of_f16(b->dmin) * (float)b->min[j], f->plain.top, b->codes + g * j);
}

/* Two low bits of 256 codes, four to a byte as in Q2_K. */
static void put_two_bits(const uint8_t *codes, uint8_t *qs)
{
    for (int h = 0; h < 2; h++)
        for (int i = 0; i < 32; i++) {
            unsigned byte = 0;
            for (int k = 0; k < 4; k++)
                byte |= (unsigned)(codes[128 * h + 32 * k + i] & 3) << (2 * k);
            qs[32 * h + i] = (uint8_t)byte;
        }
}

/* ---- formats with minima ------------------------------------------------------------------- */

void sm_encode_q2_k(const float *x, size_t n, const float *v, uint8_t *out)
{
    static const struct minima_format f = {
        16, 15, 1, true, {3, 15, -0.5f, 0.1f, true}, {3, 36, -0.9f, 0.05f, false}};
    struct minima_block b;
    for (size_t i = 0; i < n; i += N, out += 84) {
        encode_minima(x + i, v ? v + i : NULL, &f, &b);
        for (int g = 0; g < 16; g++) out[g] = (uint8_t)(b.scale[g] | b.min[g] << 4);
        put_two_bits(b.codes, out + 16);
        sm_st16(out + 80, b.d);
        sm_st16(out + 82, b.dmin);
    }
}

/* d, dmin and the packed six-bit scales and minima of Q4_K and Q5_K. */
static void put_head(const struct minima_block *b, uint8_t *out)
{
    uint8_t *p = out + 4;
    sm_st16(out, b->d);
    sm_st16(out + 2, b->dmin);
    for (int g = 0; g < 4; g++) {
        const unsigned s = b->scale[g], m = b->min[g], s4 = b->scale[g + 4], m4 = b->min[g + 4];
        p[g] = (uint8_t)(s | (s4 >> 4) << 6);
        p[g + 4] = (uint8_t)(m | (m4 >> 4) << 6);
        p[g + 8] = (uint8_t)((s4 & 15) | (m4 & 15) << 4);
    }
}

static void put_nibbles(const uint8_t *codes, uint8_t *qs)
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 32; i++)
            qs[32 * k + i] =
                (uint8_t)((codes[64 * k + i] & 15) | (codes[64 * k + 32 + i] & 15) << 4);
}

void sm_encode_q4_k(const float *x, size_t n, const float *v, uint8_t *out)
{
    static const struct minima_format f = {
        32, 63, 2, false, {15, 20, -1, 0.1f, false}, {15, 36, -0.9f, 0.05f, false}};
    struct minima_block b;
    for (size_t i = 0; i < n; i += N, out += 144) {
        encode_minima(x + i, v ? v + i : NULL, &f, &b);
        put_head(&b, out);
        put_nibbles(b.codes, out + 16);
    }
}

void sm_encode_q5_k(const float *x, size_t n, const float *v, uint8_t *out)
{
    static const struct minima_format f = {
        32, 63, 2, false, {31, 15, -0.5f, 0.1f, false}, {31, 36, -0.9f, 0.05f, false}};
    struct minima_block b;
    for (size_t i = 0; i < n; i += N, out += 176) {
        encode_minima(x + i, v ? v + i : NULL, &f, &b);
        put_head(&b, out);
        for (int j = 0; j < 32; j++) {
            unsigned byte = 0;
            for (int g = 0; g < 8; g++) byte |= (unsigned)(b.codes[32 * g + j] >> 4) << g;
            out[16 + j] = (uint8_t)byte;
        }
        put_nibbles(b.codes, out + 48);
    }
}

/* ---- symmetric formats --------------------------------------------------------------------- */

/* Scales 0 … 63 (32 is zero) of the 16 groups, and d of the block; codes of the search. */
static float q3_scales(const float *x, const float *v, uint8_t *codes, uint8_t *scale_codes)
{
    const float sigma2 = v ? 2 * sum_squares(x, N) / N : 0;
    float scale[16], sum_w[16], w[16];
    for (size_t g = 0; g < 16; g++) {
        if (v) {
            sum_w[g] = weigh(x + 16 * g, v + 16 * g, 16, sigma2, w);
            scale[g] = sm_encode_symmetric(x + 16 * g, w, 16, 4, codes + 16 * g);
        } else {
            scale[g] = sm_encode_symmetric_steps(x + 16 * g, 16, 4, codes + 16 * g);
        }
    }
    if (v) return sm_encode_symmetric(scale, sum_w, 16, 32, scale_codes);
    const float m = sm_encode_extreme(scale, 16);
    memset(scale_codes, 0, 16);
    if (m == 0) return 0;
    const float inv = -32.0f / m;
    for (size_t g = 0; g < 16; g++)
        scale_codes[g] = (uint8_t)(sm_encode_clamp(sm_encode_rne(inv * scale[g]), -32, 31) + 32);
    return 1 / inv;
}

void sm_encode_q3_k(const float *x, size_t n, const float *v, uint8_t *out)
{
    uint8_t codes[N], scale[16];
    for (size_t i = 0; i < n; i += N, out += 110) {
        const uint16_t d = sm_f16_of_f32(q3_scales(x + i, v ? v + i : NULL, codes, scale));
        uint8_t *packed = out + 96;
        for (size_t g = 0; g < 16; g++)
            codes_again_symmetric(x + i + 16 * g, 16, sm_f32_of_f16(d) * (float)(scale[g] - 32), 4,
                                  codes + 16 * g);
        memset(out, 0, 110);
        for (int j = 0; j < N; j++) /* third bits: one plane for each 32 weights */
            out[j % 32] = (uint8_t)(out[j % 32] | (codes[j] >> 2) << (j / 32));
        put_two_bits(codes, out + 32);
        for (int g = 0; g < 16; g++) {
            packed[g % 8] = (uint8_t)(packed[g % 8] | (scale[g] & 15) << (g < 8 ? 0 : 4));
            packed[8 + g % 4] = (uint8_t)(packed[8 + g % 4] | (scale[g] >> 4) << (2 * (g / 4)));
        }
        sm_st16(out + 108, d);
    }
}

static void q6_block(const float *x, const float *v, uint8_t *out)
{
    uint8_t codes[N];
    float scale[16];
    memset(out, 0, 210);
    for (size_t g = 0; g < 16; g++)
        scale[g] = sm_encode_symmetric(x + 16 * g, v ? v + 16 * g : NULL, 16, 32, codes + 16 * g);
    const float m = sm_encode_extreme(scale, 16);
    if (fabsf(m) < SM_ENCODE_TINY) return;
    const float inv = -128.0f / m;
    const uint16_t d = sm_f16_of_f32(1 / inv);
    for (size_t g = 0; g < 16; g++) {
        const int s = sm_encode_clamp(sm_encode_rne(inv * scale[g]), -128, 127);
        out[192 + g] = (uint8_t)s;
        codes_again_symmetric(x + 16 * g, 16, sm_f32_of_f16(d) * (float)s, 32, codes + 16 * g);
    }
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++) {
                const unsigned c = codes[128 * h + 32 * k + i];
                uint8_t *low = &out[64 * h + 32 * (k & 1) + i], *high = &out[128 + 32 * h + i];
                *low = (uint8_t)(*low | (c & 15) << (k < 2 ? 0 : 4));
                *high = (uint8_t)(*high | (c >> 4) << (2 * k));
            }
    sm_st16(out + 208, d);
}

void sm_encode_q6_k(const float *x, size_t n, const float *v, uint8_t *out)
{
    for (size_t i = 0; i < n; i += N, out += 210) q6_block(x + i, v ? v + i : NULL, out);
}
