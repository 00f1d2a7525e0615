/* SPDX-License-Identifier: MIT */
/* Products of the formats with 256-wide activation blocks, AVX-VNNI. */
#include "kern/x86/util_avxvnni.h"

#include "kern/x86/mul_tile_k.h"

#ifdef SM_HAVE_AVXVNNI
SM_MUL_TILE_K(avxvnni);
#endif
