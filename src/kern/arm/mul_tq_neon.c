/* SPDX-License-Identifier: MIT */
/* Products of the ternary formats, NEON, ARMv8.0. */
#include "kern/arm/mul_tq_arm.h"

#ifdef SM_HAVE_NEON

SM_MUL_X8_DRIVER(sm_mul_tq10_q8k_neon, group_tq10, 256, 54);
SM_MUL_X8_DRIVER(sm_mul_tq20_q8k_neon, group_tq20, 256, 66);

#endif
