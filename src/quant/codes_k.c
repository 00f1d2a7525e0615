/* SPDX-License-Identifier: MIT */
/* Blocks of 256 weights with integer group scales: Q2_K … Q6_K, IQ4_XS, and Q8_K (activations). */
#include "base/bits.h"
#include "quant/codes.h"

void sm_codes_q2_k(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 16;
    c->d = sm_f32_of_f16(sm_ld16(b + 80));
    c->m = -sm_f32_of_f16(sm_ld16(b + 82));
    for (int g = 0; g < 16; g++) {
        c->sub[g] = b[g] & 15;
        c->min[g] = b[g] >> 4;
    }
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++)
                c->q[128 * h + 32 * k + i] = (int8_t)((qs[32 * h + i] >> (2 * k)) & 3);
}

void sm_codes_q3_k(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *hmask = b, *qs = b + 32, *packed = b + 96;
    c->d = sm_f32_of_f16(sm_ld16(b + 108));
    for (int g = 0; g < 16; g++) {
        const int lo = g < 8 ? packed[g] & 15 : packed[g - 8] >> 4;
        const int hi = (packed[8 + g % 4] >> (2 * (g / 4))) & 3;
        c->sub[g] = (int16_t)((lo | hi << 4) - 32);
    }
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++) {
                const int low = (qs[32 * h + i] >> (2 * k)) & 3;
                const int bit = (hmask[i] >> (4 * h + k)) & 1;
                c->q[128 * h + 32 * k + i] = (int8_t)(low - (bit ? 0 : 4));
            }
}

/* The 6-bit scale and minimum of group g (of 8) from the 12 packed bytes of Q4_K and Q5_K. */
static void six_bits(const uint8_t *p, int g, int16_t *scale, int16_t *min)
{
    if (g < 4) {
        *scale = p[g] & 63;
        *min = p[g + 4] & 63;
    } else {
        *scale = (int16_t)((p[g + 4] & 15) | (p[g - 4] >> 6) << 4);
        *min = (int16_t)((p[g + 4] >> 4) | (p[g] >> 6) << 4);
    }
}

/* d, dmin and the packed scales that Q4_K and Q5_K share; a group of 32 is two runs of 16. */
static void head_of_45(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    c->m = -sm_f32_of_f16(sm_ld16(b + 2));
    for (int g = 0; g < 8; g++) {
        six_bits(b + 4, g, &c->sub[2 * g], &c->min[2 * g]);
        c->sub[2 * g + 1] = c->sub[2 * g];
        c->min[2 * g + 1] = c->min[2 * g];
    }
}

void sm_codes_q4_k(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 16;
    head_of_45(b, c);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 32; i++) {
            c->q[64 * k + i] = (int8_t)(qs[32 * k + i] & 15);
            c->q[64 * k + 32 + i] = (int8_t)(qs[32 * k + i] >> 4);
        }
}

void sm_codes_q5_k(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qh = b + 16, *qs = b + 48;
    head_of_45(b, c);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 32; i++) {
            const int lo = (qh[i] >> (2 * k)) & 1, hi = (qh[i] >> (2 * k + 1)) & 1;
            c->q[64 * k + i] = (int8_t)((qs[32 * k + i] & 15) | lo << 4);
            c->q[64 * k + 32 + i] = (int8_t)((qs[32 * k + i] >> 4) | hi << 4);
        }
}

void sm_codes_q6_k(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *ql = b, *qh = b + 128;
    c->d = sm_f32_of_f16(sm_ld16(b + 208));
    for (int g = 0; g < 16; g++) c->sub[g] = (int8_t)b[192 + g];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++) {
                const uint8_t low = ql[64 * h + 32 * (k & 1) + i];
                const int nibble = k < 2 ? low & 15 : low >> 4;
                const int top = (qh[32 * h + i] >> (2 * k)) & 3;
                c->q[128 * h + 32 * k + i] = (int8_t)((nibble | top << 4) - 32);
            }
}

void sm_codes_q8_k(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_ldf32(b);
    for (int g = 0; g < 16; g++) c->sub[g] = 1;
    memcpy(c->q, b + 4, 256); /* the sums of 16 at 260 follow from the codes */
}

void sm_codes_iq4_xs(const uint8_t *b, struct sm_codes *c)
{
    const unsigned high = sm_ld16(b + 2);
    const uint8_t *low = b + 4, *qs = b + 8;
    c->d = sm_f32_of_f16(sm_ld16(b));
    for (int g = 0; g < 8; g++) {
        const int lo = (low[g / 2] >> (4 * (g % 2))) & 15;
        const int hi = (int)((high >> (2 * g)) & 3);
        c->sub[2 * g] = c->sub[2 * g + 1] = (int16_t)((lo | hi << 4) - 32);
        for (int j = 0; j < 16; j++) {
            c->q[32 * g + j] = sm_codes_iq4_values[qs[16 * g + j] & 15];
            c->q[32 * g + 16 + j] = sm_codes_iq4_values[qs[16 * g + j] >> 4];
        }
    }
}
