/* SPDX-License-Identifier: MIT */
/* Encoders against the stock tools' bytes (tests/data/quants), with and without importance. */
#include "base/bits.h"
#include "json_read.h"
#include "quant/encode.h"
#include "tap.h"

#include <math.h>

#define N_ROWS 8
#define N_COLS 1024

static uint8_t *load(const char *name, const char *suffix, size_t *n)
{
    char rel[128], path[512];
    (void)snprintf(rel, sizeof rel, "tests/data/quants/%s%s", name, suffix);
    return (uint8_t *)json_read_file(tap_src(path, sizeof path, rel), n);
}

static size_t n_different_blocks(const struct sm_traits *t, const uint8_t *a, const uint8_t *b,
                                 size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i += t->block_bytes) k += memcmp(a + i, b + i, t->block_bytes) != 0;
    return k;
}

static void check(uint32_t type, const float *x, const float *importance, const char *suffix)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t row_bytes = (size_t)sm_row_bytes(type, N_COLS);
    size_t n = 0;
    uint8_t *want = load(t->name, suffix, &n), *got = calloc(N_ROWS, row_bytes);
    if (!TAP_OK(want && n == N_ROWS * row_bytes, "%s%s: fixture", t->name, suffix)) return;
    for (size_t r = 0; r < N_ROWS; r++)
        sm_encode_row(type, x + r * N_COLS, N_COLS, importance, got + r * row_bytes);
    const size_t wrong = n_different_blocks(t, got, want, n);
    TAP_OK(!wrong, "%s%s: %zu of %zu blocks differ", t->name, suffix, wrong, n / t->block_bytes);
    free(want);
    free(got);
}

/* Rows that no model has: nothing is undefined, and what is finite stays so where it can. */
static void check_extremes(uint32_t type)
{
    static const float kinds[] = {0,     -0.0f, 1e-45f, -1e-40f, 1e-20f, 65504,
                                  -1e10f, 3e38f, -3e38f, 1,       -1};
    enum { N_KINDS = sizeof kinds / sizeof *kinds };
    float x[256], v[256], back[256];
    uint8_t out[256 * 4];
    size_t lost = 0;
    for (unsigned k = 0; k < 150; k++) {
        const unsigned mix = (unsigned)tap_random_below(4);
        const bool large = tap_random_below(2);
        for (size_t i = 0; i < 256; i++) {
            const uint64_t kind = mix ? k + (tap_random_below(4) < mix) : tap_random();
            x[i] = kinds[kind % N_KINDS];
            if (!large && fabsf(x[i]) > 1) x[i] = 1;
            v[i] = tap_random_below(8) ? tap_random_float(0, 1) : 0;
        }
        sm_encode_row(type, x, 256, k & 1 ? v : NULL, out);
        const bool finite = sm_blocks_finite(type, out, 256u / sm_traits_of(type)->block);
        sm_decode_row(type, out, back, 256);
        lost += !large && !finite;
    }
    TAP_OK(!lost, "%s: extreme rows", sm_type_name(type));
}

int main(int argc, char **argv)
{
    size_t n;
    tap_init(argc, argv);
    const float *x = (const float *)(void *)load("input", ".f32", &n);
    const float *v = (const float *)(void *)load("imatrix", ".f32", &n);
    if (!TAP_OK(x && v, "fixtures")) return tap_done();
    static const uint32_t searched[] = {SM_Q4_0, SM_Q4_1, SM_Q5_0, SM_Q5_1, SM_Q2_K,
                                        SM_Q3_K, SM_Q4_K, SM_Q5_K, SM_Q6_K};
    static const uint32_t direct[] = {SM_F16,   SM_BF16, SM_Q8_0, SM_TQ1_0,
                                      SM_TQ2_0, SM_Q1_0, SM_Q2_0};
    for (size_t i = 0; i < sizeof searched / sizeof *searched; i++) {
        check(searched[i], x, NULL, ".bin");
        check(searched[i], x, v, ".imat.bin");
    }
    for (size_t i = 0; i < sizeof direct / sizeof *direct; i++) {
        check(direct[i], x, NULL, ".bin");
        check(direct[i], x, v, ".bin");
    }
    for (uint32_t type = 0; type < SM_TYPE_COUNT + 5; type++)
        if (sm_type_encodes(type)) check_extremes(type);
    TAP_OK(!sm_type_encodes(SM_IQ2_XS) && !sm_type_encodes(SM_Q8_K), "what has no encoder");
    free((void *)(uintptr_t)x);
    free((void *)(uintptr_t)v);
    return tap_done();
}
