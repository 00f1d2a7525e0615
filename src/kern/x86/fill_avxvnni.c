/* SPDX-License-Identifier: MIT */
/* The AVX-VNNI level of the kernel table, over AVX2. */
#include "kern/x86/util_avxvnni.h"

#ifdef SM_HAVE_AVXVNNI

/* One token alone is faster by VPMADDUBSW here, by a tenth on a Zen 5, and Q6_K comes from memory
 * at 106 instead of 79 % of its speed (docs/experiments.md). */
SM_ONE_BY_AVX2(mul_q2k_q8k, avxvnni)
SM_ONE_BY_AVX2(mul_q6k_q8k, avxvnni)
SM_ONE_BY_AVX2(mul_q20_q8, avxvnni)

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    SM_TILE_FORMATS(SM_NAME_FILL, avxvnni)
    k->mul_x8[SM_Q2_K] = mul_q2k_q8k;
    k->mul_x8[SM_Q6_K] = mul_q6k_q8k;
    k->mul_x8[SM_Q2_0] = mul_q20_q8;
    return true;
}

#else

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
