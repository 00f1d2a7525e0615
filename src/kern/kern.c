/* SPDX-License-Identifier: MIT */
/* The kernel table: the reference level, then each level of the set over it. */
#include "kern/kern.h"
#include <string.h>

/* Undefined until the files of a level exist. */
#pragma weak sm_kern_fill_avx2
#pragma weak sm_kern_fill_avx512
#pragma weak sm_kern_fill_neon
#pragma weak sm_kern_fill_dotprod

void sm_kern_init(struct sm_kern *k, uint32_t levels)
{
    /* ascending; a level without an entry here brings no kernels of its own */
    static const struct {
        enum sm_level level;
        const char *name;
        bool (*fill)(struct sm_kern *k);
    } fills[] = {
        {SM_LEVEL_AVX2, "avx2", sm_kern_fill_avx2},
        {SM_LEVEL_AVX512, "avx512", sm_kern_fill_avx512},
        {SM_LEVEL_NEON, "neon", sm_kern_fill_neon},
        {SM_LEVEL_DOTPROD, "dotprod", sm_kern_fill_dotprod},
    };
    memset(k, 0, sizeof *k);
    sm_kern_fill_ref(k);
    k->level = "ref";
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        if ((levels >> fills[i].level & 1) && fills[i].fill && fills[i].fill(k)) k->level = fills[i].name;
}
