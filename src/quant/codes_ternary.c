/* SPDX-License-Identifier: MIT */
/* Formats of one scale and codes of a bit or two: Q1_0 (blocks of 128), Q2_0 (64), TQ1_0 and TQ2_0
 * (256). */
#include "base/bits.h"
#include "quant/codes.h"

static void set_sub_one(struct sm_codes *c, int n)
{
    for (int g = 0; g < n; g++) c->sub[g] = 1;
}

void sm_codes_q1_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c, 8);
    for (int j = 0; j < 128; j++) c->q[j] = ((b[2 + j / 8] >> (j % 8)) & 1) ? 1 : -1;
}

void sm_codes_q2_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b));
    set_sub_one(c, 4);
    for (int j = 0; j < 64; j++) c->q[j] = (int8_t)(((b[2 + j / 4] >> (2 * (j % 4))) & 3) - 1);
}

/* Digit n of a byte that holds five base-3 digits as a fraction of 256, minus 1. */
static int8_t trit(uint8_t byte, int n)
{
    static const uint8_t pow3[5] = {1, 3, 9, 27, 81};
    const unsigned t = (byte * (unsigned)pow3[n]) & 255u;
    return (int8_t)((int)((t * 3u) >> 8) - 1);
}

void sm_codes_tq1_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b + 52));
    set_sub_one(c, 16);
    for (int n = 0; n < 5; n++) {
        for (int i = 0; i < 32; i++) c->q[32 * n + i] = trit(b[i], n);
        for (int i = 0; i < 16; i++) c->q[160 + 16 * n + i] = trit(b[32 + i], n);
    }
    for (int n = 0; n < 4; n++)
        for (int i = 0; i < 4; i++) c->q[240 + 4 * n + i] = trit(b[48 + i], n);
}

void sm_codes_tq2_0(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b + 64));
    set_sub_one(c, 16);
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < 4; k++)
            for (int i = 0; i < 32; i++)
                c->q[128 * h + 32 * k + i] = (int8_t)(((b[32 * h + i] >> (2 * k)) & 3) - 1);
}
