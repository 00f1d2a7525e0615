/* SPDX-License-Identifier: MIT */
/* Names, the mask and the floating-point mode; what a target offers is in cpu_x86.c, cpu_arm.c. */
#include "cpu/cpu.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    unsigned num;
} levels_[] = {
#define X(id, n, text) {text, n},
    SM_LEVEL_LIST(X)
#undef X
};
#define N_LEVELS (sizeof levels_ / sizeof levels_[0])

const char *sm_cpu_level_name(unsigned level)
{
    for (size_t i = 0; i < N_LEVELS; i++)
        if (levels_[i].num == level) return levels_[i].name;
    return "?";
}

uint32_t sm_cpu_levels(void)
{
    struct sm_cpu_feature f[SM_CPU_MAX_FEATURES];
    uint32_t levels = 0;
    (void)sm_cpu_detect(f, &levels);
    return levels | 1u << SM_LEVEL_REF;
}

/* Appends " word" (or "word" to an empty buffer) as long as it fits whole. */
static void append_word(char *buf, size_t n, const char *word)
{
    const size_t used = strlen(buf), len = strlen(word), gap = used ? 1 : 0;
    if (used + gap + len + 1 > n) return;
    if (gap) buf[used] = ' ';
    memcpy(buf + used + gap, word, len + 1);
}

static void level_words(char *buf, size_t n, uint32_t set)
{
    buf[0] = 0;
    for (size_t i = 0; i < N_LEVELS; i++)
        if (set >> levels_[i].num & 1u) append_word(buf, n, levels_[i].name);
}

smol_status sm_cpu_pick(const char *level, uint32_t *levels, smol_error *err)
{
    const uint32_t have = sm_cpu_levels();
    char words[100];
    *levels = have;
    if (!level || !strcmp(level, "auto")) return SMOL_OK;
    *levels = 1u << SM_LEVEL_REF;
    level_words(words, sizeof words, have);
    for (size_t i = 0; i < N_LEVELS; i++) {
        if (strcmp(level, levels_[i].name)) continue;
        if (!(have >> levels_[i].num & 1u))
            return SM_FAIL(err, ARG, "this CPU lacks the level %s; it offers: auto %s", level,
                           words);
        *levels = have & (uint32_t)((UINT64_C(2) << levels_[i].num) - 1);
        return SMOL_OK;
    }
    return SM_FAIL(err, ARG, "no CPU level is called '%.40s'; this CPU offers: auto %s", level,
                   words);
}

void sm_cpu_features(char *buf, size_t n)
{
    struct sm_cpu_feature f[SM_CPU_MAX_FEATURES];
    uint32_t levels = 0;
    if (n == 0) return;
    buf[0] = 0;
    const unsigned count = sm_cpu_detect(f, &levels);
    for (unsigned i = 0; i < count; i++)
        if (f[i].present) append_word(buf, n, f[i].name);
}

void sm_cpu_float_mode(void)
{
#if defined(__SSE2__)
    /* MXCSR: bit 15 flushes results, bit 6 flushes inputs, bits 13-14 are the rounding mode. */
    uint32_t csr = 0;
    __asm__ __volatile__("stmxcsr %0" : "=m"(csr));
    csr &= ~UINT32_C(0xe040);
    __asm__ __volatile__("ldmxcsr %0" : : "m"(csr));
#elif defined(__aarch64__)
    /* FPCR: bit 24 flushes to zero, 19 does so for halves, 22-23 are the rounding, 25 makes NaNs
     * the default one. */
    uint64_t fpcr = 0;
    __asm__ __volatile__("mrs %0, fpcr" : "=r"(fpcr));
    fpcr &= ~((UINT64_C(15) << 22) | (UINT64_C(1) << 19));
    __asm__ __volatile__("msr fpcr, %0" : : "r"(fpcr));
#endif
}
