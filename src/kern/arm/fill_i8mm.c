/* SPDX-License-Identifier: MIT */
/* The i8mm level of the kernel table (ARMv8.2 SMMLA; over dotprod). */
#include "kern/arm/mul_mm.h"

#ifdef SM_HAVE_MM

bool sm_kern_fill_i8mm(struct sm_kern *k)
{
    SM_MM_FORMATS(SM_NAME_FILL, i8mm)
    return true;
}

#else

bool sm_kern_fill_i8mm(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
