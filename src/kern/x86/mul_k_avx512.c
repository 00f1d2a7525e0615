/* SPDX-License-Identifier: MIT */
/* Products of the formats with 256-wide activation blocks, AVX-512. */
#include "kern/x86/util_avx512.h"

#include "kern/x86/mul_tile_k.h"

#ifdef SM_HAVE_AVX512
SM_MUL_TILE_K(avx512);
#endif
