/* SPDX-License-Identifier: MIT */
/* Codebook formats: IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S. The powers of two of the
 * published formulas are in d (docs/arithmetic.md section 4), so that everything else is
 * integer. */
#include "base/bits.h"
#include "quant/codes.h"
#include "quant/iq_grids.h"

/* The sign byte of a 7-bit sign index: bit 7 makes the number of ones even. */
static unsigned even_signs(unsigned s)
{
    s &= 127;
    return s | ((unsigned)__builtin_parity(s) << 7);
}

/* Eight weights from an IQ2 codebook entry; bit j of signs: element j is negative. */
static void put_iq2(int8_t *q, unsigned entry, unsigned signs)
{
    for (int j = 0; j < 8; j++) {
        const int v = sm_grid_iq2_values[(entry >> (2 * j)) & 3];
        q[j] = (int8_t)(((signs >> j) & 1) ? -v : v);
    }
}

void sm_codes_iq2_xxs(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b)) * 0.125f;
    for (int g = 0; g < 8; g++) {
        const uint8_t *p = b + 2 + 8 * g;
        const uint32_t a = sm_ld32(p + 4);
        c->sub[2 * g] = c->sub[2 * g + 1] = (int16_t)(2 * (a >> 28) + 1);
        for (int l = 0; l < 4; l++)
            put_iq2(c->q + 32 * g + 8 * l, sm_grid_iq2xxs[p[l]], even_signs(a >> (7 * l)));
    }
}

/* IQ2_XS and IQ2_S: scale byte g has the scales of the two runs of group g. */
static void sub_of_nibbles(const uint8_t *scales, struct sm_codes *c)
{
    for (int g = 0; g < 8; g++) {
        c->sub[2 * g] = (int16_t)(2 * (scales[g] & 15) + 1);
        c->sub[2 * g + 1] = (int16_t)(2 * (scales[g] >> 4) + 1);
    }
}

void sm_codes_iq2_xs(const uint8_t *b, struct sm_codes *c)
{
    c->d = sm_f32_of_f16(sm_ld16(b)) * 0.125f;
    sub_of_nibbles(b + 66, c);
    for (int l = 0; l < 32; l++) {
        const unsigned w = sm_ld16(b + 2 + 2 * l);
        put_iq2(c->q + 8 * l, sm_grid_iq2xs[w & 511], even_signs(w >> 9));
    }
}

void sm_codes_iq2_s(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 2, *signs = b + 34, *qh = b + 66;
    c->d = sm_f32_of_f16(sm_ld16(b)) * 0.125f;
    sub_of_nibbles(b + 74, c);
    for (int l = 0; l < 32; l++) {
        const unsigned high = (unsigned)(qh[l / 4] >> (2 * (l % 4))) & 3;
        put_iq2(c->q + 8 * l, sm_grid_iq2s[qs[l] | high << 8], signs[l]);
    }
}

void sm_codes_iq3_xxs(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 2;
    c->d = sm_f32_of_f16(sm_ld16(b)) * 0.25f;
    for (int g = 0; g < 8; g++) {
        const uint32_t a = sm_ld32(b + 66 + 4 * g);
        c->sub[2 * g] = c->sub[2 * g + 1] = (int16_t)(2 * (a >> 28) + 1);
        for (int i = 0; i < 32; i++) {
            const unsigned entry = sm_grid_iq3xxs[qs[8 * g + i / 4]];
            const int v = sm_grid_iq3xxs_values[(entry >> (3 * (i % 4))) & 7];
            const unsigned signs = even_signs(a >> (7 * (i / 8)));
            c->q[32 * g + i] = (int8_t)(((signs >> (i % 8)) & 1) ? -v : v);
        }
    }
}

void sm_codes_iq3_s(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 2, *qh = b + 66, *signs = b + 74, *scales = b + 106;
    c->d = sm_f32_of_f16(sm_ld16(b));
    for (int g = 0; g < 8; g++) {
        const int s = (scales[g / 2] >> (4 * (g % 2))) & 15;
        c->sub[2 * g] = c->sub[2 * g + 1] = (int16_t)(2 * s + 1);
        for (int i = 0; i < 32; i++) {
            const int j = i / 4;
            const unsigned high = (unsigned)(qh[g] >> j) & 1;
            const int v = 2 * ((sm_grid_iq3s[qs[8 * g + j] | high << 8] >> (3 * (i % 4))) & 7) + 1;
            c->q[32 * g + i] = (int8_t)(((signs[4 * g + i / 8] >> (i % 8)) & 1) ? -v : v);
        }
    }
}

/* Eight weights of IQ1: 8 * (-1, 0, 1) and the shift of +1 or -1. */
static void put_iq1(int8_t *q, unsigned entry, int shift)
{
    for (int j = 0; j < 8; j++) q[j] = (int8_t)(8 * (int)((entry >> (2 * j)) & 3) - 8 + shift);
}

void sm_codes_iq1_s(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b + 2;
    c->d = sm_f32_of_f16(sm_ld16(b)) * 0.125f;
    for (int g = 0; g < 8; g++) {
        const unsigned h = sm_ld16(b + 34 + 2 * g);
        c->sub[2 * g] = c->sub[2 * g + 1] = (int16_t)(2 * ((h >> 12) & 7) + 1);
        for (int l = 0; l < 4; l++) {
            const unsigned index = qs[4 * g + l] | ((h >> (3 * l)) & 7) << 8;
            put_iq1(c->q + 32 * g + 8 * l, sm_grid_iq1s[index], h >> 15 ? -1 : 1);
        }
    }
}

void sm_codes_iq1_m(const uint8_t *b, struct sm_codes *c)
{
    const uint8_t *qs = b, *qh = b + 32, *sc = b + 48;
    unsigned half = 0;
    for (int k = 0; k < 4; k++) half |= (unsigned)(sm_ld16(sc + 2 * k) >> 12) << (4 * k);
    c->d = sm_f32_of_f16((uint16_t)half) * 0.125f;
    for (int g = 0; g < 16; g++)
        c->sub[g] = (int16_t)(2 * ((sm_ld16(sc + 2 * (g / 4)) >> (3 * (g % 4))) & 7) + 1);
    for (int l = 0; l < 32; l++) {
        const unsigned h = (unsigned)(qh[l / 2] >> (4 * (l % 2))) & 15;
        put_iq1(c->q + 8 * l, sm_grid_iq1s[qs[l] | (h & 7) << 8], h & 8 ? -1 : 1);
    }
}
