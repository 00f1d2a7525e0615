/* SPDX-License-Identifier: MIT */
/* What this CPU can do: levels of instruction sets that kernels exist for, and feature names. */
#ifndef SM_CPU_H
#define SM_CPU_H

#include "base/status.h"

#include <stdbool.h>

/* Levels, ascending; a CPU offers a set of them. Bits of sm_cpu_levels() and of the mask. */
#define SM_LEVEL_LIST(X)                                                                           \
    X(REF, 0, "ref")                                                                               \
    X(AVX2, 1, "avx2")       /* AVX2, FMA, F16C */                                                 \
    X(AVXVNNI, 2, "avxvnni") /* VEX-coded dot products */                                          \
    X(AVX512, 3, "avx512")   /* F, BW, VL, DQ, VNNI */                                             \
    X(NEON, 4, "neon")       /* ARMv8.0 */                                                         \
    X(DOTPROD, 5, "dotprod") /* ARMv8.2 SDOT */                                                    \
    X(I8MM, 6, "i8mm")
enum sm_level {
#define X(name, num, text) SM_LEVEL_##name = (num),
    SM_LEVEL_LIST(X)
#undef X
    SM_LEVEL_COUNT
};

/* Bit n set: level n (enum sm_level) can run here. Bit 0 (ref) is always set. Any thread. */
uint32_t sm_cpu_levels(void);
/* Cap the set at a named level ("avx2": that level and all below it that this CPU has; "auto" or
 * NULL: all). An unknown name, or one this CPU lacks, is ARG with a sentence naming what exists. */
SM_NODISCARD smol_status sm_cpu_pick(const char *level, uint32_t *levels, smol_error *err);
/* Name of one level, static; "?" for a number that is none. */
const char *sm_cpu_level_name(unsigned level);
/* Space-separated feature names ("avx2 fma f16c …") into buf; always terminated when n > 0. */
void sm_cpu_features(char *buf, size_t n);
/* Round to nearest, subnormals kept (MXCSR / FPCR); each thread that computes calls it once. */
void sm_cpu_float_mode(void);

/* ---- inside the folder ---------------------------------------------------------------------- */

struct sm_cpu_feature { const char *name; bool present; };
#define SM_CPU_MAX_FEATURES 24
/* cpu_x86.c or cpu_arm.c: fills `f` and returns the count; *levels gets the level
 * bits without ref. */
unsigned sm_cpu_detect(struct sm_cpu_feature f[SM_CPU_MAX_FEATURES], uint32_t *levels);

#endif
