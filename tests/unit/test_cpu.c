/* SPDX-License-Identifier: MIT */
/* Levels: which this CPU has, which an option asks for, their names in a short buffer; and that a
 * thread computes with subnormals and in round-to-nearest (Law 1), however it was set before. */
#include "tap.h"

#include "cpu/cpu.h"

#include <fenv.h>
#include <string.h>

static bool has_word(const char *text, const char *word)
{
    const size_t n = strlen(word);
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        if ((at == text || at[-1] == ' ') && (at[n] == 0 || at[n] == ' ')) return true;
    return false;
}

static void test_levels(void)
{
    char features[300], small[12];
    uint32_t levels = 0;
    smol_error err = {0};
    const uint32_t have = sm_cpu_levels();
    sm_cpu_features(features, sizeof features);
    printf("# levels %x, features: %s\n", have, features);
    TAP_OK(have & 1u, "ref can always run");
    TAP_OK(!sm_cpu_pick(NULL, &levels, &err) && levels == have, "no name: all");
    TAP_OK(!sm_cpu_pick("auto", &levels, &err) && levels == have, "auto: all");
    TAP_OK(!sm_cpu_pick("ref", &levels, &err) && levels == 1, "ref: only that");
    for (unsigned i = 0; i < SM_LEVEL_COUNT; i++) {
        memset(&err, 0, sizeof err);
        const smol_status st = sm_cpu_pick(sm_cpu_level_name(i), &levels, &err);
        if (have >> i & 1u)
            TAP_OK(st == SMOL_OK && levels == (have & ((2u << i) - 1)), "%s: capped to %x",
                   sm_cpu_level_name(i), levels);
        else
            TAP_OK(st == SMOL_ARG && levels == 1 && strstr(err.msg, "this CPU lacks the level"),
                   "%s", err.msg);
    }
    static const char *const bad[] = {"", "AVX2", "avx", "avx2 ", "\033[1mbogus", "sse9"};
    for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        memset(&err, 0, sizeof err);
        TAP_OK(sm_cpu_pick(bad[i], &levels, &err) == SMOL_ARG && has_word(err.msg, "ref") &&
                   !strchr(err.msg, '\033'),
               "%s", err.msg);
    }
    TAP_IS_STR(sm_cpu_level_name(99), "?", "no level 99");

    static const struct {
        unsigned level;
        const char *needs[6];
    } rules[] = {
        {SM_LEVEL_AVX2, {"avx2", "fma", "f16c"}},
        {SM_LEVEL_AVXVNNI, {"avx2", "avxvnni"}},
        {SM_LEVEL_AVX512, {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vnni"}},
        {SM_LEVEL_NEON, {"neon"}},
        {SM_LEVEL_DOTPROD, {"dotprod"}},
        {SM_LEVEL_I8MM, {"i8mm", "dotprod"}},
    };
    for (unsigned i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        bool all = true;
        for (unsigned k = 0; k < 6 && rules[i].needs[k]; k++)
            all = all && has_word(features, rules[i].needs[k]);
        TAP_IS_INT(have >> rules[i].level & 1u, all, sm_cpu_level_name(rules[i].level));
    }
    sm_cpu_features(small, sizeof small);
    TAP_OK(strlen(small) < sizeof small && !strncmp(small, features, strlen(small)),
           "a small buffer gets whole words: '%s'", small);
    small[0] = 'x';
    sm_cpu_features(small, 0);
    TAP_OK(small[0] == 'x', "an empty one nothing");
}

static void test_float_mode(void)
{
    volatile float tiny = 0x1p-126f, third = 3.0f, one = 1.0f;
#if defined(__SSE2__)
    uint32_t csr = 0;
    __asm__ __volatile__("stmxcsr %0" : "=m"(csr));
    csr |= 0x8040u;
    __asm__ __volatile__("ldmxcsr %0" : : "m"(csr));
#elif defined(__aarch64__)
    uint64_t fpcr = UINT64_C(1) << 24;
    __asm__ __volatile__("msr fpcr, %0" : : "r"(fpcr));
#endif
#if defined(__SSE2__) || defined(__aarch64__)
    TAP_OK(tiny * 0.5f == 0, "flushing to zero was on");
#endif
    (void)fesetround(FE_UPWARD);
    sm_cpu_float_mode();
    TAP_OK(tiny * 0.5f == 0x1p-127f, "subnormal results are kept");
    volatile float sub = tiny * 0.5f;
    TAP_OK(sub * 2.0f == 0x1p-126f, "subnormal inputs are kept");
    TAP_OK(one / third == 0x1.555556p-2f && one / -third == -0x1.555556p-2f, "rounds to nearest");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_levels();
    test_float_mode();
    return tap_done();
}
