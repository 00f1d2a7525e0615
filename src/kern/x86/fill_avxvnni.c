/* SPDX-License-Identifier: MIT */
/* The AVX-VNNI level of the kernel table, over AVX2. */
#include "kern/x86/util_avxvnni.h"

#ifdef SM_HAVE_AVXVNNI

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    SM_TILE_FORMATS(SM_TILE_FILL, avxvnni)
    return true;
}

#else

bool sm_kern_fill_avxvnni(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
