/* SPDX-License-Identifier: MIT */
/* x86: cpuid says what the chip has, xgetbv whether the system saves the wide registers. */
#include "cpu/cpu.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

/* XCR0: bit 1 xmm, 2 ymm, 5-7 the mask registers and both parts of zmm. */
#define XCR0_YMM 0x06u
#define XCR0_ZMM 0xe6u

static uint32_t read_xcr0(void)
{
    uint32_t lo = 0, hi = 0;
    __asm__ __volatile__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return lo;
}

struct regs {
    unsigned a, b, c, d;
};

static struct regs leaf(unsigned n, unsigned sub)
{
    struct regs r = {0, 0, 0, 0};
    if (!__get_cpuid_count(n, sub, &r.a, &r.b, &r.c, &r.d)) return (struct regs){0, 0, 0, 0};
    return r;
}

#define BIT(reg, n) ((((reg) >> (n)) & 1u) != 0)

unsigned sm_cpu_detect(struct sm_cpu_feature f[SM_CPU_MAX_FEATURES], uint32_t *levels)
{
    const struct regs l1 = leaf(1, 0), l7 = leaf(7, 0);
    const struct regs l71 = l7.a >= 1 ? leaf(7, 1) : (struct regs){0, 0, 0, 0};
    const uint32_t xcr0 = BIT(l1.c, 27) ? read_xcr0() : 0; /* OSXSAVE */
    const bool ymm = (xcr0 & XCR0_YMM) == XCR0_YMM, zmm = (xcr0 & XCR0_ZMM) == XCR0_ZMM;
    const bool avx2 = ymm && BIT(l1.c, 28) && BIT(l7.b, 5);
    const bool fma = ymm && BIT(l1.c, 12), f16c = ymm && BIT(l1.c, 29);
    const bool avx512f = zmm && BIT(l7.b, 16), avx512bw = avx512f && BIT(l7.b, 30);
    const bool avx512dq = avx512f && BIT(l7.b, 17), avx512vl = avx512f && BIT(l7.b, 31);
    const bool avx512vnni = avx512f && BIT(l7.c, 11), avxvnni = avx2 && BIT(l71.a, 4);
    const struct sm_cpu_feature all[] = {
        {"sse2", BIT(l1.d, 26)},
        {"ssse3", BIT(l1.c, 9)},
        {"sse4.1", BIT(l1.c, 19)},
        {"popcnt", BIT(l1.c, 23)},
        {"avx", ymm && BIT(l1.c, 28)},
        {"avx2", avx2},
        {"fma", fma},
        {"f16c", f16c},
        {"bmi2", BIT(l7.b, 8)},
        {"avxvnni", avxvnni},
        {"avx512f", avx512f},
        {"avx512bw", avx512bw},
        {"avx512vl", avx512vl},
        {"avx512dq", avx512dq},
        {"avx512vnni", avx512vnni},
    };
    const unsigned n = (unsigned)(sizeof all / sizeof all[0]);
    for (unsigned i = 0; i < n; i++) f[i] = all[i];

    *levels = 0;
    if (!(avx2 && fma && f16c)) return n;
    *levels |= 1u << SM_LEVEL_AVX2;
    if (avxvnni) *levels |= 1u << SM_LEVEL_AVXVNNI;
    if (avx512bw && avx512vl && avx512dq && avx512vnni) *levels |= 1u << SM_LEVEL_AVX512;
    return n;
}
#else
typedef int sm_cpu_x86_unused_; /* a translation unit may not be empty */
#endif
