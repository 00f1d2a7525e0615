/* SPDX-License-Identifier: MIT */
/* Products of the K formats, ARMv8.0 NEON: single products in int16, widened once a run. */
#include "kern/arm/mul_k_arm.h"

#ifdef SM_HAVE_NEON

SM_MUL_X8_DRIVER(sm_mul_q2k_q8k_neon, group_q2k, 256, 84);
SM_MUL_X8_DRIVER(sm_mul_q3k_q8k_neon, group_q3k, 256, 110);
SM_MUL_X8_DRIVER(sm_mul_q4k_q8k_neon, group_q4k, 256, 144);
SM_MUL_X8_DRIVER(sm_mul_q5k_q8k_neon, group_q5k, 256, 176);
SM_MUL_X8_DRIVER(sm_mul_q6k_q8k_neon, group_q6k, 256, 210);

#endif
