/* SPDX-License-Identifier: MIT */
/* The generator of sampling: 32-bit Mersenne Twister MT19937 (Matsumoto, Nishimura 1998), the one
 * that C++ calls std::mt19937, so that a seed gives other programs' draws too. Not for secrets.
 * A generator belongs to one thread; copy the struct to copy the state. */
#ifndef SM_BASE_RNG_H
#define SM_BASE_RNG_H

#include <stdint.h>

/* Bits of a counter mixed well: with z growing by SM_MIX64_STEP from number to number, splitmix64
 * (Steele, Lea, Flood 2014). For made-up data and places, not for sampling. */
#define SM_MIX64_STEP UINT64_C(0x9e3779b97f4a7c15)
static inline uint64_t sm_mix64(uint64_t z)
{
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#define SM_RNG_WORDS 624u

struct sm_rng {
    uint32_t word[SM_RNG_WORDS];
    uint32_t at; /* next word to hand out, SM_RNG_WORDS: refill first */
};

void sm_rng_seed(struct sm_rng *r, uint32_t seed);
uint32_t sm_rng_u32(struct sm_rng *r);
/* Uniform in [0, 1): (a + b * 2^32) / 2^64 of two consecutive words, added in f64, and the largest
 * double below 1 where that rounds to 1. */
double sm_rng_f64(struct sm_rng *r);
/* Uniform in [0, 1) from one word: its upper 24 bits. */
float sm_rng_f32(struct sm_rng *r);

#endif
