/* SPDX-License-Identifier: MIT */
/* The AVX-VNNI level of the kernel table, over AVX2. */
#include "kern/x86/util_avxvnni.h"

#ifdef SM_HAVE_AVXVNNI

/* One token alone is faster by VPMADDUBSW here, by a tenth on a Zen 5 (docs/experiments.md). */
SM_MUL_X8_DECL(sm_mul_q2k_q8k_avx2);
SM_MUL_X8_DECL(sm_mul_q20_q8_avx2);
static SM_MUL_X8_DECL(mul_q2k)
{
    (x->n_tok == 1 ? sm_mul_q2k_q8k_avx2 : sm_mul_q2k_q8k_avxvnni)(y, ldy, w, n_groups, x);
}
static SM_MUL_X8_DECL(mul_q20)
{
    (x->n_tok == 1 ? sm_mul_q20_q8_avx2 : sm_mul_q20_q8_avxvnni)(y, ldy, w, n_groups, x);
}

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    SM_TILE_FORMATS(SM_NAME_FILL, avxvnni)
    k->mul_x8[SM_Q2_K] = mul_q2k;
    k->mul_x8[SM_Q2_0] = mul_q20;
    return true;
}

#else

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
