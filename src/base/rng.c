/* SPDX-License-Identifier: MIT */
#include "base/rng.h"

#define SHIFT 397u

void sm_rng_seed(struct sm_rng *r, uint32_t seed)
{
    r->word[0] = seed;
    for (uint32_t i = 1; i < SM_RNG_WORDS; i++)
        r->word[i] = 1812433253u * (r->word[i - 1] ^ (r->word[i - 1] >> 30)) + i;
    r->at = SM_RNG_WORDS;
}

static void refill(struct sm_rng *r)
{
    for (uint32_t i = 0; i < SM_RNG_WORDS; i++) {
        const uint32_t next = r->word[(i + 1) % SM_RNG_WORDS];
        const uint32_t y = (r->word[i] & 0x80000000u) | (next & 0x7fffffffu);
        const uint32_t odd = next & 1u ? 0x9908b0dfu : 0u;
        r->word[i] = r->word[(i + SHIFT) % SM_RNG_WORDS] ^ (y >> 1) ^ odd;
    }
    r->at = 0;
}

uint32_t sm_rng_u32(struct sm_rng *r)
{
    if (r->at >= SM_RNG_WORDS) refill(r);
    uint32_t y = r->word[r->at++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

double sm_rng_f64(struct sm_rng *r)
{
    const double low = sm_rng_u32(r), high = sm_rng_u32(r);
    const double u = (low + high * 0x1p32) * 0x1p-64;
    return u < 1.0 ? u : 0x1.fffffffffffffp-1;
}

float sm_rng_f32(struct sm_rng *r) { return (float)(sm_rng_u32(r) >> 8) * 0x1p-24f; }
