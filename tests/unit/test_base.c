/* SPDX-License-Identifier: MIT */
/* Status, memory, arena, text, log, sorting, and half precision against a slow exact reference. */
#include "tap.h"

#include "base/bits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* ---- status ---------------------------------------------------------------------------------- */

static void test_status(void)
{
    smol_error err = {0};
    TAP_IS_INT(SM_FAIL(&err, FORMAT, "expected %d, found %d", 3, 4), SMOL_FORMAT,
               "the code is given back");
    TAP_IS_STR(err.msg, "expected 3, found 4", "sentence");
    TAP_OK(err.at == UINT64_MAX && err.sys == 0 && strstr(err.where, "test_base.c:"), "%s",
           err.where);
    TAP_IS_INT(SM_FAIL_AT(&err, LIMIT, 77, "later"), SMOL_LIMIT, "a second failure");
    TAP_OK(err.code == SMOL_FORMAT && !strcmp(err.msg, "expected 3, found 4"), "the first is kept");
    TAP_IS_INT(SM_FAIL(NULL, ARG, "nobody listens"), SMOL_ARG, "no error object");

    memset(&err, 0, sizeof err);
    errno = ENOSPC;
    TAP_IS_INT(SM_FAIL_SYS(&err, "cannot write %s", "it"), SMOL_IO, "system failure");
    TAP_OK(err.sys == ENOSPC && !strcmp(err.msg, "cannot write it: No space left on device"), "%s",
           err.msg);

    memset(&err, 0, sizeof err);
    (void)SM_FAIL_AT(&err, FORMAT, 12, "key '%s'",
                     "\x1b[2J\x07"
                     "b\xff\xc3\xa4\xc2\x9b");
    TAP_IS_STR(err.msg, "key '?[2J?b?\xc3\xa4?\?'",
               "control bytes and broken UTF-8 are not printed");
    TAP_IS_INT(err.at, 12, "offset");

    char longer[400];
    for (size_t i = 0; i + 1 < sizeof longer; i += 2) memcpy(longer + i, "\xc3\xa4", 2);
    longer[398] = 0;
    memset(&err, 0, sizeof err);
    (void)SM_FAIL(&err, FORMAT, "%s", longer);
    TAP_OK(strlen(err.msg) == 198, "cut between two characters: %zu bytes", strlen(err.msg));
    memset(&err, 0, sizeof err);
    errno = EIO;
    (void)SM_FAIL_SYS(&err, "%s", longer);
    TAP_OK(strlen(err.msg) < sizeof err.msg, "no room for the system's words");

    TAP_IS_STR(smol_status_text(SMOL_OK), "success", "text");
    TAP_IS_STR(smol_status_text((smol_status)99), "unknown status", "unknown code");
}

/* ---- memory ---------------------------------------------------------------------------------- */

static bool all_zero(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i]) return false;
    return true;
}

static void test_memory(void)
{
    static const size_t sizes[] = {1, 63, 64, 4097, (1u << 20) - 1, 1u << 20, (5u << 20) + 3};
    const size_t before = sm_mem_held();
    size_t sum = 0;
    void *p[7];
    bool good = true;
    for (unsigned i = 0; i < 7; i++) {
        p[i] = sm_mem_new(sizes[i]);
        good = good && p[i] && all_zero(p[i], sizes[i]) && (uintptr_t)p[i] % SM_ALIGN == 0 &&
               (sizes[i] < 1u << 20 || (uintptr_t)p[i] % 4096 == 0);
        if (p[i]) memset(p[i], 0xff, sizes[i]);
        sum += sizes[i];
    }
    TAP_OK(good, "zeroed and aligned");
    TAP_IS_INT(sm_mem_held(), before + sum, "counted");
    for (unsigned i = 0; i < 7; i++) sm_mem_free(p[i], sizes[i]);
    sm_mem_free(NULL, 5);
    TAP_IS_INT(sm_mem_held(), before, "given back");
    TAP_OK(!sm_mem_new(0) && !sm_mem_new(SIZE_MAX) && !sm_mem_new(SIZE_MAX - 4096),
           "impossible sizes");
    TAP_IS_INT(sm_mem_held(), before, "and not counted");

    uint64_t v = 5;
    TAP_OK(sm_mul_ok(1u << 31, 1u << 31, &v) && v == (uint64_t)1 << 62, "a product that fits");
    TAP_OK(!sm_mul_ok((uint64_t)1 << 32, (uint64_t)1 << 32, &v), "one that does not");
    TAP_OK(sm_add_ok(UINT64_MAX, 0, &v) && v == UINT64_MAX && !sm_add_ok(UINT64_MAX, 1, &v),
           "sums");
    TAP_OK(sm_round_up(0, 64) == 0 && sm_round_up(1, 64) == 64 && sm_round_up(64, 64) == 64,
           "rounding");
}

static void lay_out(struct sm_arena *a, void *out[3])
{
    out[0] = SM_ARENA_NEW(a, float, 5);
    out[1] = SM_ARENA_NEW(a, uint8_t, 0);
    out[2] = SM_ARENA_NEW(a, double, 100);
}

static void test_arena(void)
{
    struct sm_arena count = {0};
    void *p[3];
    lay_out(&count, p);
    TAP_OK(!p[0] && !p[1] && !p[2], "counting gives nothing");
    TAP_IS_INT(count.used, 64 + 0 + 832, "and counts");
    struct sm_arena real = {sm_mem_new(count.used), 0, count.used};
    lay_out(&real, p);
    TAP_OK((uint8_t *)p[0] == real.base && (uint8_t *)p[2] == real.base + 64 &&
               real.used == count.used,
           "the same layout twice");
    sm_mem_free(real.base, real.capacity);
    struct sm_arena huge = {0};
    (void)sm_arena_take(&huge, 1000);
    (void)sm_arena_take_n(&huge, SIZE_MAX / 2, 3);
    TAP_OK(huge.used > SIZE_MAX - 128, "a size that does not exist counts as the largest");
    (void)sm_arena_take(&huge, 1000);
    TAP_OK(huge.used > SIZE_MAX - 128, "and stays so");
}

/* ---- text and log
 * ---------------------------------------------------------------------------------- */

static void test_text(void)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"", ""},
        {"plain", "plain"},
        {"a\tb\nc\r", "a?b?c?"},
        {"\x7f", "?"},
        {"\xe2\x82\xac", "\xe2\x82\xac"}, /* a whole character */
        {"x\xe2\x82", "x"},
        {"x\xf0\x9f\x98", "x"}, /* cut off at the end */
        {"\xe2\x82x", "?\?x"},
        {"\x80", "?"},
        {"\xc0\x80", "?\?"},
        {"\xed\xa0\x80z", "?\?\?z"},
        {"\xf4\x90\x80\x80z", "?\?\?\?z"},
        {"\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80"},
        {"\xc2\x85", "?\?"},
        {"\xc2\xa0", "\xc2\xa0"},
        {"\xff\xfe", "?\?"},
        {"\xe0\x80\x80", "?\?\?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char buf[32];
        (void)snprintf(buf, sizeof buf, "%s", cases[i].in);
        sm_text_clean(buf);
        TAP_IS_STR(buf, cases[i].out, "cleaned");
    }
}

static char last[500];
static void take_note(void *arg, const char *text)
{
    *(unsigned *)arg += 1;
    (void)snprintf(last, sizeof last, "%s", text);
}

static void test_log(void)
{
    unsigned n = 0;
    sm_log_note("nobody listens");
    sm_log_set(take_note, &n);
    sm_log_note("read %d\n", 5);
    TAP_OK(n == 1 && !strcmp(last, "read 5?"), "a note: %s", last);
    sm_log_set(NULL, NULL);
    sm_log_note("nobody again");
    TAP_IS_INT(n, 1, "switched off");
}

/* ---- half precision
 * ---------------------------------------------------------------------------------- */

/* Exact value of a finite half, by its definition. */
static double half_value(unsigned h)
{
    const int exp = (int)(h >> 10 & 31u), man = (int)(h & 0x3ffu);
    const double v = exp ? ldexp(1024 + man, exp - 25) : ldexp(man, -24);
    return h & 0x8000u ? -v : v;
}

static double halves[0x7c01]; /* values of the positive ones, then 2^16 */

/* The nearest half of a positive finite value, found by bisection over all positive halves; a tie
 * goes to the even code. 0x7c00 stands for the value 2^16 here. */
static unsigned nearest_half(double v)
{
    unsigned lo = 0, hi = 0x7c00;
    while (hi - lo > 1) {
        const unsigned mid = (lo + hi) / 2;
        if (halves[mid] <= v) lo = mid;
        else hi = mid;
    }
    const double below = halves[lo], above = halves[hi];
    if (v >= above) return hi;
    const double mid = (below + above) / 2; /* exact in f64 */
    return v < mid ? lo : v > mid ? hi : lo % 2 ? hi : lo;
}

static bool half_right(float f)
{
    const unsigned got = sm_f16_of_f32(f);
    if (isnan(f)) return (got & 0x7c00u) == 0x7c00u && (got & 0x200u);
    const unsigned sign = signbit(f) ? 0x8000u : 0;
    return got == (sign | (isinf(f) ? 0x7c00u : nearest_half(fabs((double)f))));
}

static void test_half(void)
{
    int wrong = 0, back = 0, ties = 0;
    for (unsigned h = 0; h < 0x10000; h++) {
        const float f = sm_f32_of_f16((uint16_t)h);
        if ((h & 0x7c00u) != 0x7c00u) {
            wrong += (double)f != half_value(h) || !signbit(f) != !(h & 0x8000u);
            back += sm_f16_of_f32(f) != h;
        } else if (h & 0x3ffu) {
            wrong += !isnan(f);
            back += (sm_f16_of_f32(f) & 0x7e00u) != 0x7e00u;
        } else {
            wrong += !isinf(f) || !signbit(f) != !(h & 0x8000u);
            back += sm_f16_of_f32(f) != h;
        }
    }
    TAP_OK(wrong == 0, "all 65,536 halves to f32: %d wrong", wrong);
    TAP_OK(back == 0, "and back: %d wrong", back);

    for (unsigned h = 0; h < 0x7c00; h++) halves[h] = half_value(h);
    halves[0x7c00] = 65536.0;
    wrong = 0;
    for (unsigned h = 0; h < 0x7c00;
         h++) { /* each middle between neighbours, and both sides of it */
        const float mid = (float)((halves[h] + halves[h + 1]) / 2);
        for (int k = -1; k <= 1; k++) {
            const float f = k ? nextafterf(mid, k > 0 ? INFINITY : -INFINITY) : mid;
            wrong += !half_right(f) + !half_right(-f);
            ties++;
        }
    }
    TAP_OK(wrong == 0, "ties and their neighbours, %d pairs: %d wrong", ties, wrong);

    wrong = 0;
    for (unsigned i = 0; i < 400000; i++)
        wrong += !half_right(sm_f32_of_bits((uint32_t)(tap_random() >> 32)));
    for (unsigned i = 0; i < 400000; i++) /* mostly inside the range of halves */
        wrong += !half_right(ldexpf(tap_random_float(-1, 1), (int)tap_random_below(44) - 27));
    TAP_OK(wrong == 0, "800,000 random floats: %d wrong", wrong);
    static const float edges[] = {0.0f,     -0.0f,    65504.0f,     65519.996f,   65520.0f,
                                  65536.0f, INFINITY, 0x1p-24f,     0x1p-25f,     0x1.000002p-25f,
                                  0x1p-26f, 0x1p-14f, 0x1.ffcp-15f, 0x1.ffep-15f, 0x1p-149f,
                                  3.4e38f,  NAN};
    wrong = 0;
    for (size_t i = 0; i < sizeof edges / sizeof edges[0]; i++)
        wrong += !half_right(edges[i]) + !half_right(-edges[i]);
    TAP_OK(wrong == 0, "edges: %d wrong", wrong);
}

static void test_loads(void)
{
    static const uint8_t b[] = {0xff, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x88, 0x3f};
    uint8_t to[8];
    TAP_OK(sm_ld16(b + 1) == 0x0201 && sm_ld32(b + 1) == 0x04030201 &&
               sm_ld64(b + 1) == UINT64_C(0x8807060504030201),
           "loads are little-endian");
    sm_st16(to, 0x0201);
    sm_st32(to + 2, 0x06050403);
    TAP_OK(!memcmp(to, b + 1, 6), "stores too");
    sm_st64(to, UINT64_C(0x8807060504030201));
    TAP_OK(!memcmp(to, b + 1, 8), "64 bits");
    TAP_OK(sm_bits_of_f32(1.0f) == 0x3f800000 && sm_f32_of_bits(0xbf800000) == -1.0f &&
               sm_bits_of_f64(1.0) == UINT64_C(0x3ff0000000000000) &&
               sm_f64_of_bits(UINT64_C(0x4000000000000000)) == 2.0,
           "bit casts");
}

/* ---- sorting --------------------------------------------------------------------------------- */

static bool by_key(const void *arg, uint32_t a, uint32_t b)
{
    const uint32_t *key = arg;
    return key[a] < key[b];
}

/* Every length up to 64: each number once, keys ascending; few keys, so that many are equal. */
static void test_sort(void)
{
    unsigned wrong = 0;
    for (size_t n = 0; n <= 64; n++) {
        uint32_t key[64], v[64], seen[64] = {0};
        for (uint32_t i = 0; i < n; i++) {
            key[i] = (uint32_t)tap_random_below(n % 2 ? 5 : 1000);
            v[i] = i;
        }
        sm_sort_u32(v, n, by_key, key);
        for (size_t i = 0; i < n; i++) {
            wrong += v[i] >= n || seen[v[i]]++;
            wrong += i > 0 && key[v[i - 1]] > key[v[i]];
        }
    }
    TAP_OK(wrong == 0, "sorted by keys elsewhere: %u wrong", wrong);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_sort();
    test_status();
    test_memory();
    test_arena();
    test_text();
    test_log();
    test_half();
    test_loads();
    return tap_done();
}
