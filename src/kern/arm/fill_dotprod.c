/* SPDX-License-Identifier: MIT */
/* The dotprod level of the kernel table (ARMv8.2 SDOT; over NEON). */
#include "kern/arm/util_neon.h"

#if defined(SM_HAVE_NEON) && defined(__ARM_FEATURE_DOTPROD)

bool sm_kern_fill_dotprod(struct sm_kern *k)
{
    k->mul_x8[SM_Q2_K] = sm_mul_q2k_q8k_dotprod;
    k->mul_x8[SM_Q3_K] = sm_mul_q3k_q8k_dotprod;
    k->mul_x8[SM_Q4_K] = sm_mul_q4k_q8k_dotprod;
    k->mul_x8[SM_Q5_K] = sm_mul_q5k_q8k_dotprod;
    k->mul_x8[SM_Q6_K] = sm_mul_q6k_q8k_dotprod;
    k->mul_x8[SM_Q4_0] = sm_mul_q40_q8_dotprod;
    k->mul_x8[SM_Q4_1] = sm_mul_q41_q8_dotprod;
    k->mul_x8[SM_Q5_0] = sm_mul_q50_q8_dotprod;
    k->mul_x8[SM_Q5_1] = sm_mul_q51_q8_dotprod;
    k->mul_x8[SM_Q8_0] = sm_mul_q80_q8_dotprod;
    k->mul_x8[SM_IQ4_NL] = sm_mul_iq4nl_q8_dotprod;
    k->mul_x8[SM_MXFP4] = sm_mul_mxfp4_q8_dotprod;
    k->mul_x8[SM_Q2_0] = sm_mul_q20_q8_dotprod;
    k->mul_x8[SM_Q1_0] = sm_mul_q10_q8_dotprod;
    k->mul_x8[SM_TQ1_0] = sm_mul_tq10_q8k_dotprod;
    k->mul_x8[SM_TQ2_0] = sm_mul_tq20_q8k_dotprod;
    return true;
}

#else

bool sm_kern_fill_dotprod(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
