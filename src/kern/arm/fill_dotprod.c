/* SPDX-License-Identifier: MIT */
/* The dotprod level of the kernel table (ARMv8.2 SDOT; over NEON). */
#include "kern/arm/util_neon.h"

#if defined(SM_HAVE_NEON) && defined(__ARM_FEATURE_DOTPROD)

bool sm_kern_fill_dotprod(struct sm_kern *k)
{
    SM_COMMON_FORMATS(SM_NAME_FILL, dotprod)
    return true;
}

#else

bool sm_kern_fill_dotprod(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
