/* SPDX-License-Identifier: MIT */
/* Products of the ternary formats, SDOT by lane. */
#include "kern/arm/mul_tq_arm.h"

#if defined(SM_HAVE_NEON) && defined(__ARM_FEATURE_DOTPROD)

SM_MUL_X8_DRIVER(sm_mul_tq10_q8k_dotprod, group_tq10, 256, 54);
SM_MUL_X8_DRIVER(sm_mul_tq20_q8k_dotprod, group_tq20, 256, 66);

#endif
