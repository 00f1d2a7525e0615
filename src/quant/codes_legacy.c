/* SPDX-License-Identifier: MIT */
/* Blocks of 32 weights: Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 IQ4_NL MXFP4. All 4-bit ones place weight j in the
 * low nibble of byte j and weight j + 16 in its high nibble. */
#include "base/bits.h"
#include "quant/codes.h"

const int8_t sm_codes_iq4_values[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                        1,    13,   25,  38,  53,  69,  89,  113};
/* Twice the E2M1 values, so that they are integers; both zeros are plain zero. */
const int8_t sm_codes_mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static void set_sub_one(struct sm_codes *c)
{
    c->sub[0] = c->sub[1] = 1;
}

static void set_min_one(struct sm_codes *c)
{
    c->min[0] = c->min[1] = 1;
}

void sm_codes_q4_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c);
    for (int j = 0; j < 16; j++) {
        c->q[j] = (int8_t)((b[2 + j] & 15) - 8);
        c->q[j + 16] = (int8_t)((b[2 + j] >> 4) - 8);
    }
}

void sm_codes_q4_1(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    c->m = sm_f32_of_f16(sm_ld16(b + 2));
    set_sub_one(c);
    set_min_one(c);
    for (int j = 0; j < 16; j++) {
        c->q[j] = (int8_t)(b[4 + j] & 15);
        c->q[j + 16] = (int8_t)(b[4 + j] >> 4);
    }
}

/* Nibbles at qs, fifth bits at h; offset is subtracted. */
static void five_bits(const uint8_t *h, const uint8_t *qs, int offset, int8_t *q)
{
    const uint32_t bits = sm_ld32(h);
    for (int j = 0; j < 16; j++) {
        const int lo = (qs[j] & 15) | (int)((bits >> j) & 1) << 4;
        const int hi = (qs[j] >> 4) | (int)((bits >> (j + 16)) & 1) << 4;
        q[j] = (int8_t)(lo - offset);
        q[j + 16] = (int8_t)(hi - offset);
    }
}

void sm_codes_q5_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c);
    five_bits(b + 2, b + 6, 16, c->q);
}

void sm_codes_q5_1(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    c->m = sm_f32_of_f16(sm_ld16(b + 2));
    set_sub_one(c);
    set_min_one(c);
    five_bits(b + 4, b + 8, 0, c->q);
}

void sm_codes_q8_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c);
    memcpy(c->q, b + 2, 32);
}

void sm_codes_iq4_nl(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c);
    for (int j = 0; j < 16; j++) {
        c->q[j] = sm_codes_iq4_values[b[2 + j] & 15];
        c->q[j + 16] = sm_codes_iq4_values[b[2 + j] >> 4];
    }
}

/* 2^(E-128): E = 0 and 1 are the subnormals 2^-128 and 2^-127; 255 is an ordinary exponent. */
static float mxfp4_scale(uint8_t e)
{
    return sm_f32_of_bits(e < 2 ? 0x00200000u << e : (uint32_t)(e - 1) << 23);
}

void sm_codes_mxfp4(const uint8_t *b, struct sm_codes *c)
{
    c->d = mxfp4_scale(b[0]);
    set_sub_one(c);
    for (int j = 0; j < 16; j++) {
        c->q[j] = sm_codes_mxfp4_values[b[1 + j] & 15];
        c->q[j + 16] = sm_codes_mxfp4_values[b[1 + j] >> 4];
    }
}
