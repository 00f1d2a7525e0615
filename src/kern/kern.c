/* SPDX-License-Identifier: MIT */
/* The kernel table: the reference level, then each level of the set over it. */
#include "kern/kern.h"
#include <string.h>

void sm_kern_init(struct sm_kern *k, uint32_t levels)
{
    /* ascending; a level without an entry here brings no kernels of its own */
    static const struct {
        enum sm_level level;
        const char *name;
        bool (*fill)(struct sm_kern *k);
    } fills[] = {
        {SM_LEVEL_AVX2, "avx2", sm_kern_fill_avx2},
#if __has_include("kern/x86/fill_avx512.c") /* the level is being written */
        {SM_LEVEL_AVX512, "avx512", sm_kern_fill_avx512},
#endif
#if __has_include("kern/arm/fill_neon.c") /* the level is being written */
        {SM_LEVEL_NEON, "neon", sm_kern_fill_neon},
#endif
#if __has_include("kern/arm/fill_dotprod.c") /* the level is being written */
        {SM_LEVEL_DOTPROD, "dotprod", sm_kern_fill_dotprod},
#endif
    };
    memset(k, 0, sizeof *k);
    sm_kern_fill_ref(k);
    k->level = "ref";
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        if ((levels >> fills[i].level & 1) && fills[i].fill(k)) k->level = fills[i].name;
}
