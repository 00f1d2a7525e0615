/* SPDX-License-Identifier: MIT */
/* Test Anything Protocol for small C programs: one header, nothing to link.
 *
 *   int main(int argc, char **argv)
 *   {
 *       tap_init(argc, argv);                      optional: reads --seed N
 *       TAP_OK(1 + 1 == 2, "sum of %d and %d", 1, 1);
 *       TAP_IS_INT(f(), 7, "f");                   prints both values when they differ
 *       if (!fixture) TAP_SKIP(3, "no fixture");   counts as three skipped points
 *       return tap_done();                         prints the plan; 0 when all passed
 *   }
 *
 * tap_effort() says how much a program with many cases should try.
 *
 * The first line of output is the seed (--seed N, SMOL_SEED, else 1), so that a failure can be
 * repeated. Points may be made from one thread only. Output is flushed line by line: what a crash
 * leaves behind is complete, and the missing plan makes it a failure. */
#ifndef SM_TAP_H
#define SM_TAP_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tap_state {
    unsigned n_done, n_failed;
    uint64_t seed, random;
    int begun, good;
};
/* Weak: one object per program, however many of its files include this header. */
__attribute__((weak)) struct tap_state tap_state;

static inline void tap_init(int argc, char **argv)
{
    const char *text = getenv("SMOL_SEED");
    for (int i = 1; i + 1 < argc; i++)
        if (!strcmp(argv[i], "--seed")) text = argv[i + 1];
    tap_state.seed = text ? strtoull(text, NULL, 10) : 1;
    tap_state.random = tap_state.seed * 0x9e3779b97f4a7c15u + 1;
    tap_state.begun = 1;
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    printf("# seed %" PRIu64 "\n", tap_state.seed);
}

static inline void tap_begin(void)
{
    if (!tap_state.begun) tap_init(0, NULL);
}

/* Next pseudo-random number of the run (splitmix64): the same for the same seed everywhere. */
static inline uint64_t tap_random(void)
{
    tap_begin();
    uint64_t z = tap_state.random += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}
/* Uniform in [0, n), n > 0 (the bias does not matter here). */
static inline uint64_t tap_random_below(uint64_t n) { return tap_random() % n; }
/* Uniform in [lo, hi). */
static inline float tap_random_float(float lo, float hi)
{
    return lo + (hi - lo) * (float)((double)(tap_random() >> 11) * 0x1p-53);
}

__attribute__((format(printf, 4, 5))) static inline int tap_point(int good, const char *file,
                                                                  int line, const char *fmt, ...)
{
    va_list ap;
    char text[1000];
    tap_begin();
    tap_state.n_done++;
    if (!good) tap_state.n_failed++;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    for (char *c = text; *c; c++) /* a point is one line */
        if (*c == '\n' || *c == '\r') *c = ' ';
    printf("%sok %u - %s\n", good ? "" : "not ", tap_state.n_done, text);
    if (!good) printf("#   failed at %s:%d\n", file, line);
    return good;
}

static inline int tap_is_int(int64_t found, int64_t want, const char *file, int line,
                             const char *name)
{
    const int good = tap_point(found == want, file, line, "%s", name);
    if (!good) printf("#   found %" PRId64 ", expected %" PRId64 "\n", found, want);
    return good;
}

static inline int tap_is_str(const char *found, const char *want, const char *file, int line,
                             const char *name)
{
    const int same = found && want ? !strcmp(found, want) : found == want;
    const int good = tap_point(same, file, line, "%s", name);
    if (!good)
        printf("#   found    \"%s\"\n#   expected \"%s\"\n", found ? found : "(null)",
               want ? want : "(null)");
    return good;
}

static inline void tap_skip(unsigned n, const char *reason)
{
    tap_begin();
    while (n--) printf("ok %u # SKIP %s\n", ++tap_state.n_done, reason);
}

/* 2 in the slow suite (SMOL_FULL is set), 0 under emulation (QEMU_CPU is set), else 1. Fewer cases
 * of each kind, never fewer kinds. */
static inline int tap_effort(void)
{
    return getenv("SMOL_FULL") ? 2 : getenv("QEMU_CPU") ? 0 : 1;
}

/* The larger error; one that is no number is the worst there is. */
static inline double tap_worse(double worst, double error)
{
    if (error <= worst) return worst;
    return error == error ? error : (double)INFINITY;
}

/* Print the plan; the value is the exit code of the program. A program without a point fails. */
static inline int tap_done(void)
{
    tap_begin();
    printf("1..%u\n", tap_state.n_done);
    if (tap_state.n_failed) printf("# %u of %u failed\n", tap_state.n_failed, tap_state.n_done);
    return tap_state.n_failed || !tap_state.n_done;
}

/* Each is an expression: non-zero when the point passed. The condition of TAP_OK comes first, so
 * that the text can tell what it found. */
#define TAP_OK(cond, ...)                                                                          \
    (tap_state.good = !!(cond), tap_point(tap_state.good, __FILE__, __LINE__, __VA_ARGS__))
#define TAP_IS_INT(found, want, name)                                                              \
    tap_is_int((int64_t)(found), (int64_t)(want), __FILE__, __LINE__, (name))
#define TAP_IS_STR(found, want, name) tap_is_str((found), (want), __FILE__, __LINE__, (name))
#define TAP_SKIP(n, reason) tap_skip((n), (reason))

/* Path of a fixture: below the source root (SMOL_SRC, default "."), or below the shared fixtures
 * (SMOL_SHARED, default ../shared seen from the source root). Written to buf, which is returned. */
static inline const char *tap_src(char *buf, size_t n, const char *path)
{
    const char *root = getenv("SMOL_SRC");
    (void)snprintf(buf, n, "%s/%s", root ? root : ".", path);
    return buf;
}
static inline const char *tap_shared(char *buf, size_t n, const char *path)
{
    const char *root = getenv("SMOL_SHARED");
    if (root) {
        (void)snprintf(buf, n, "%s/%s", root, path);
        return buf;
    }
    root = getenv("SMOL_SRC");
    (void)snprintf(buf, n, "%s/../shared/%s", root ? root : ".", path);
    return buf;
}

#endif
