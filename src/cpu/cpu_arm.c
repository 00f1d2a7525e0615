/* SPDX-License-Identifier: MIT */
/* Everything that is not x86: the hardware-capability words on Linux and Android, else nothing. */
#include "cpu/cpu.h"

#if !defined(__x86_64__) && !defined(__i386__)

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

unsigned sm_cpu_detect(struct sm_cpu_feature f[SM_CPU_MAX_FEATURES], uint32_t *levels)
{
    const unsigned long c = getauxval(AT_HWCAP), c2 = getauxval(AT_HWCAP2);
    const bool asimd = (c >> 1 & 1u) != 0, dotprod = (c >> 20 & 1u) != 0;
    const bool i8mm = (c2 >> 13 & 1u) != 0;
    const struct sm_cpu_feature all[] = {
        {"neon", asimd},
        {"crc32", (c >> 7 & 1u) != 0},
        {"atomics", (c >> 8 & 1u) != 0},
        {"fphp", (c >> 9 & 1u) != 0},
        {"fp16", (c >> 10 & 1u) != 0},
        {"dotprod", dotprod},
        {"sve", (c >> 22 & 1u) != 0},
        {"sve2", (c2 >> 1 & 1u) != 0},
        {"i8mm", i8mm},
        {"bf16", (c2 >> 14 & 1u) != 0},
    };
    const unsigned n = (unsigned)(sizeof all / sizeof all[0]);
    for (unsigned i = 0; i < n; i++) f[i] = all[i];

    *levels = 0;
    if (!asimd) return n;
    *levels |= 1u << SM_LEVEL_NEON;
    if (dotprod) *levels |= 1u << SM_LEVEL_DOTPROD;
    if (dotprod && i8mm) *levels |= 1u << SM_LEVEL_I8MM;
    return n;
}
#else
unsigned sm_cpu_detect(struct sm_cpu_feature f[SM_CPU_MAX_FEATURES], uint32_t *levels)
{
    (void)f;
    *levels = 0;
    return 0;
}
#endif

#else
typedef int sm_cpu_arm_unused_; /* a translation unit may not be empty */
#endif
