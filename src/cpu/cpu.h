/* SPDX-License-Identifier: MIT */
/* What this CPU can do. Levels are numbered in kern/kern.h; here they are bits of a set. */
#ifndef SM_CPU_H
#define SM_CPU_H

#include "base/status.h"

/* Bit n set: level n (enum sm_level) can run here. Bit 0 (ref) is always set. */
uint32_t sm_cpu_levels(void);
/* Cap the set at a named level ("avx2": that level and all below it that this CPU has; "auto" or
 * NULL: all). An unknown name, or one this CPU lacks, is ARG with a sentence naming what exists. */
SM_NODISCARD smol_status sm_cpu_pick(const char *level, uint32_t *levels, smol_error *err);
/* Space-separated feature names ("avx2 fma f16c …") into buf; always terminated. */
void sm_cpu_features(char *buf, size_t n);
/* Round to nearest, subnormals kept (MXCSR / FPCR); each thread that computes calls it once. */
void sm_cpu_float_mode(void);

#endif
