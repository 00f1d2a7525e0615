/* SPDX-License-Identifier: MIT */
/* Products with 32-wide activation blocks, SDOT by lane. */
#include "kern/arm/mul_32_arm.h"

#if defined(SM_HAVE_NEON) && defined(__ARM_FEATURE_DOTPROD)

SM_MUL_X8_DRIVER(sm_mul_q40_q8_dotprod, group_q40, 32, 18);
SM_MUL_X8_DRIVER(sm_mul_q41_q8_dotprod, group_q41, 32, 20);
SM_MUL_X8_DRIVER(sm_mul_q50_q8_dotprod, group_q50, 32, 22);
SM_MUL_X8_DRIVER(sm_mul_q51_q8_dotprod, group_q51, 32, 24);
SM_MUL_X8_DRIVER(sm_mul_q80_q8_dotprod, group_q80, 32, 34);
SM_MUL_X8_DRIVER(sm_mul_iq4nl_q8_dotprod, group_iq4nl, 32, 18);
SM_MUL_X8_DRIVER(sm_mul_mxfp4_q8_dotprod, group_mxfp4, 32, 17);
SM_MUL_X8_DRIVER(sm_mul_q20_q8_dotprod, group_q20, 64, 18);

#endif
