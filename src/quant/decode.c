/* SPDX-License-Identifier: MIT */
/* Rows of file-order blocks to f32, from the integers of each block. */
#include "base/bits.h"
#include "quant/quant.h"
#include "quant/x8_finite.h"
#include <assert.h>

/* e = (d * sub) * q + m * min, each product and the sum rounded once (docs/arithmetic.md 4). */
static void decode_codes(const struct sm_codes *c, bool has_min, size_t n, float *out)
{
    for (size_t g = 0; g < n / 16; g++) {
        const float scale = c->d * (float)c->sub[g];
        for (size_t i = 16 * g; i < 16 * g + 16; i++) out[i] = scale * (float)c->q[i];
        if (!has_min) continue; /* adding +0 would lose the sign of -0 */
        const float min = c->m * (float)c->min[g];
        for (size_t i = 16 * g; i < 16 * g + 16; i++) out[i] = out[i] + min;
    }
}

void sm_decode_row(uint32_t type, const void *row, float *out, size_t n_cols)
{
    const uint8_t *p = row;
    const struct sm_traits *t = sm_traits_of(type);
    assert(t && t->decodes && n_cols % t->block == 0);
    switch (type) {
    case SM_F32: memcpy(out, p, 4 * n_cols); return;
    case SM_F16:
        for (size_t i = 0; i < n_cols; i++) out[i] = sm_f32_of_f16(sm_ld16(p + 2 * i));
        return;
    case SM_BF16:
        for (size_t i = 0; i < n_cols; i++)
            out[i] = sm_f32_of_bits((uint32_t)sm_ld16(p + 2 * i) << 16);
        return;
    default: break;
    }
    struct sm_codes c;
    for (size_t i = 0; i < n_cols; i += t->block, p += t->block_bytes) {
        t->codes(p, &c);
        decode_codes(&c, t->has_min, t->block, out + i);
    }
}

/* Without a call per value: one accumulator, so that the loop is vector code. */
bool sm_halves_finite(const uint8_t *p, size_t n, unsigned exponent)
{
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (sm_ld16(p + 2 * i) & exponent) == exponent;
    return !bad;
}

static bool floats_finite(const uint8_t *p, size_t n)
{
    unsigned bad = 0;
    for (size_t i = 0; i < n; i++) bad |= (sm_ld32(p + 4 * i) & 0x7f800000u) == 0x7f800000u;
    return !bad;
}

bool sm_blocks_finite(uint32_t type, const void *blocks, size_t n_blocks)
{
    const struct sm_traits *t = sm_traits_of(type);
    const uint8_t *p = blocks;
    assert(t);
    if (!t->finite) return true;
    if (type == SM_F32) return floats_finite(p, n_blocks);
    if (type == SM_F16) return sm_halves_finite(p, n_blocks, 0x7c00);
    if (type == SM_BF16) return sm_halves_finite(p, n_blocks, 0x7f80);
    for (size_t i = 0; i < n_blocks; i++, p += t->block_bytes)
        if (!t->finite(p)) return false;
    return true;
}
