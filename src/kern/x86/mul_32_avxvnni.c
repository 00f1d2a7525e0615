/* SPDX-License-Identifier: MIT */
/* Products of the formats with 32-wide activation blocks, AVX-VNNI. */
#include "kern/x86/util_avxvnni.h"

#include "kern/x86/mul_tile_32.h"

#ifdef SM_HAVE_AVXVNNI
SM_MUL_TILE_32(avxvnni);
#endif
