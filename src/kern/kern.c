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
        {SM_LEVEL_AVXVNNI, "avxvnni", sm_kern_fill_avxvnni},
        {SM_LEVEL_AVX512, "avx512", sm_kern_fill_avx512},
        {SM_LEVEL_NEON, "neon", sm_kern_fill_neon},
        {SM_LEVEL_DOTPROD, "dotprod", sm_kern_fill_dotprod},
        {SM_LEVEL_I8MM, "i8mm", sm_kern_fill_i8mm},
    };
    memset(k, 0, sizeof *k);
    sm_kern_fill_ref(k);
    k->level = "ref";
    for (size_t i = 0; i < sizeof fills / sizeof fills[0]; i++)
        if ((levels >> fills[i].level & 1) && fills[i].fill(k)) k->level = fills[i].name;
}

const char *sm_kern_matrix_level(uint32_t levels, uint32_t type)
{
    const char *name = NULL;
    struct sm_kern below = {0}, now;
    if (!sm_type_is_matrix(type)) return NULL;
    for (unsigned i = 0; i < SM_LEVEL_COUNT; i++) {
        if (!(levels >> i & 1)) continue;
        sm_kern_init(&now, levels & ((2u << i) - 1));
        if (now.mul_x8[type] != below.mul_x8[type] || now.mul_rows[type] != below.mul_rows[type])
            name = sm_cpu_level_name(i);
        below = now;
    }
    return name;
}
