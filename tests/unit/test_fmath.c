/* SPDX-License-Identifier: MIT */
/* Accuracy of base/fmath against the long double functions of libm, special values, and a frozen
 * checksum of bit patterns that every compiler and every machine must reproduce. */
#include "base/bits.h"
#include "base/fmath.h"
#include "tap.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

typedef double (*f64_fn)(double);
typedef float (*f32_fn)(float);
typedef long double (*exact_fn)(long double);

/* ---- error in ulps of the exact value ---- */

static double ulps_f32(float got, long double want)
{
    if (isinf(got) || fabsl(want) > (long double)FLT_MAX)
        return isinf(got) && fabsl(want) >= 0x1.ffffffp127L ? 0.0 : 1e9;
    int e;
    (void)frexpl(want, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, e < -125 ? -149 : e - 24));
}

static double ulps_f64(double got, long double want)
{
    if (isinf(got) || fabsl(want) > (long double)DBL_MAX)
        return isinf(got) && fabsl(want) >= 0x1.fffffffffffff8p1023L ? 0.0 : 1e9;
    int e;
    (void)frexpl(want, &e);
    return (double)(fabsl((long double)got - want) / ldexpl(1.0L, e < -1021 ? -1074 : e - 53));
}

static double uniform(double lo, double hi)
{
    return lo + (hi - lo) * ((double)(tap_random() >> 11) * 0x1p-53);
}

/* Where long double is 113 bits, its functions are software: fewer arguments. */
#define FEWER (LDBL_MANT_DIG == 113 ? 16 : 1)

/* Largest error over n + 1 evenly spaced and n + 1 random arguments; NaN counts as the largest. */
static double worst_f64(f64_fn f, exact_fn g, double lo, double hi, int n)
{
    double worst = 0;
    for (int i = 0; i <= n; i++) {
        const double x[2] = {lo + (hi - lo) * i / n, uniform(lo, hi)};
        for (int k = 0; k < 2; k++) {
            const double u = ulps_f64(f(x[k]), g((long double)x[k]));
            worst = tap_worse(worst, u);
        }
    }
    return worst;
}

static double worst_f32(f32_fn f, exact_fn g, double lo, double hi, int n)
{
    double worst = 0;
    for (int i = 0; i <= n; i++) {
        const float x[2] = {(float)(lo + (hi - lo) * i / n), (float)uniform(lo, hi)};
        for (int k = 0; k < 2; k++) {
            const double u = ulps_f32(f(x[k]), g((long double)x[k]));
            worst = tap_worse(worst, u);
        }
    }
    return worst;
}

static long double exact_softplus(long double x)
{
    return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x));
}
static long double exact_sigmoid(long double x) { return 1.0L / (1.0L + expl(-x)); }
static long double exact_silu(long double x) { return x / (1.0L + expl(-x)); }

static void test_accuracy_f32(void)
{
    static const struct {
        const char *name;
        f32_fn f;
        exact_fn g;
        double lo, hi, limit;
        int n;
    } t[] = {
        {"exp_f32, whole range", sm_exp_f32, expl, -104.5, 89.5, 2.0, 50000},
        {"exp_f32, subnormal results", sm_exp_f32, expl, -104.0, -87.0, 1.0, 50000},
        {"exp_f32 near 0", sm_exp_f32, expl, -1e-3, 1e-3, 1.0, 50000},
        {"log_f32", sm_log_f32, logl, 1e-3, 4.0, 1.0, 40000},
        {"tanh_f32", sm_tanh_f32, tanhl, -12.0, 12.0, 1.0, 40000},
        {"tanh_f32 near 0", sm_tanh_f32, tanhl, -0x1p-10, 0x1p-10, 1.0, 40000},
        {"softplus_f32", sm_softplus_f32, exact_softplus, -104.0, 40.0, 1.0, 40000},
        {"sigmoid_f32", sm_sigmoid_f32, exact_sigmoid, -87.0, 80.0, 4.0, 40000},
        {"silu_f32", sm_silu_f32, exact_silu, -80.0, 80.0, 4.0, 40000},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const double u = worst_f32(t[i].f, t[i].g, t[i].lo, t[i].hi, t[i].n / FEWER);
        TAP_OK(u <= t[i].limit, "%s: %.3f ulp, at most %.1f", t[i].name, u, t[i].limit);
    }
}

static void test_accuracy_f64(void)
{
    static const struct {
        const char *name;
        f64_fn f;
        exact_fn g;
        double lo, hi, limit;
        int n;
    } t[] = {
        {"exp", sm_exp, expl, -708.0, 709.7, 2.0, 50000},
        {"exp, subnormal results", sm_exp, expl, -746.5, -708.0, 2.0, 50000},
        {"log", sm_log, logl, 1e-6, 10.0, 3.5, 50000},
        {"log near 1", sm_log, logl, 0.9, 1.1, 3.5, 50000},
        {"log, huge arguments", sm_log, logl, 1e300, 1.7e308, 3.0, 20000},
        {"log, subnormal arguments", sm_log, logl, 0x1p-1074, 0x1p-1020, 3.0, 20000},
        {"log2", sm_log2, log2l, 1e-6, 10.0, 4.0, 40000},
        {"sin", sm_sin, sinl, -10.0, 10.0, 2.0, 50000},
        {"cos", sm_cos, cosl, -10.0, 10.0, 2.0, 50000},
        {"sin up to 2^30", sm_sin, sinl, -0x1p30, 0x1p30, 2.0, 40000},
        {"cos up to 2^30", sm_cos, cosl, -0x1p30, 0x1p30, 2.0, 40000},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        const double u = worst_f64(t[i].f, t[i].g, t[i].lo, t[i].hi, t[i].n / FEWER);
        TAP_OK(u <= t[i].limit, "%s: %.3f ulp, at most %.1f", t[i].name, u, t[i].limit);
    }
}

/* Arguments beside multiples of pi/2, where a weak reduction loses every digit. */
static void test_reduction(void)
{
    double worst = 0;
    for (int i = 0; i < 40000 / FEWER; i++) {
        const long double k = (long double)tap_random_below(683565275u); /* k pi/2 <= 2^30 */
        const double x = (double)(k * 1.57079632679489661923132169163975144L);
        const double u = ulps_f64(sm_sin(x), sinl((long double)x));
        const double v = ulps_f64(sm_cos(x), cosl((long double)x));
        worst = tap_worse(worst, u);
        worst = tap_worse(worst, v);
    }
    TAP_OK(worst <= 2.0, "sin and cos beside multiples of pi/2: %.3f ulp", worst);
}

static void test_pow(void)
{
    double worst = 0;
    for (int i = 0; i < 20000 / FEWER; i++) {
        const double a = uniform(1.0, 16.0), b = uniform(0.0, 200.0), arg = b * sm_log(a);
        if (arg > 700.0) continue;
        const double u = ulps_f64(sm_pow(a, b), powl((long double)a, (long double)b)) / (arg + 4);
        worst = tap_worse(worst, u);
    }
    TAP_OK(worst <= 3.0, "pow: %.3f (b log a + 4) ulp, at most 3", worst);
    TAP_OK(sm_pow(1.75, 0.0) == 1.0 && sm_pow(1.0, 100.0) == 1.0, "pow: exponent 0, base 1");
    TAP_OK(sm_pow(0.0, 2.0) == 0.0, "pow: base 0");
}

static void test_nan(void)
{
    static const struct {
        const char *name;
        f32_fn f;
    } f32s[] = {{"exp", sm_exp_f32}, {"sigmoid", sm_sigmoid_f32}, {"silu", sm_silu_f32},
                {"log", sm_log_f32}, {"tanh", sm_tanh_f32},       {"softplus", sm_softplus_f32}};
    static const struct {
        const char *name;
        f64_fn f;
    } f64s[] = {{"exp", sm_exp}, {"log", sm_log},     {"log2", sm_log2}, {"sin", sm_sin},
                {"cos", sm_cos}, {"floor", sm_floor}, {"ceil", sm_ceil}};
    const float nan32 = sm_f32_of_bits(0x7fc00001u);
    const double nan64 = sm_f64_of_bits(0x7ff8000000000001u);
    for (size_t i = 0; i < sizeof f32s / sizeof *f32s; i++)
        TAP_OK(isnan(f32s[i].f(nan32)) && isnan(f32s[i].f(-nan32)), "%s_f32 of NaN", f32s[i].name);
    for (size_t i = 0; i < sizeof f64s / sizeof *f64s; i++)
        TAP_OK(isnan(f64s[i].f(nan64)) && isnan(f64s[i].f(-nan64)), "%s of NaN", f64s[i].name);
}

static void test_special(void)
{
    const float inf32 = sm_f32_of_bits(0x7f800000u);
    const double inf = sm_f64_of_bits(0x7ff0000000000000u);
    TAP_OK(sm_exp_f32(0.0f) == 1.0f && sm_exp_f32(-0.0f) == 1.0f, "exp_f32 of 0");
    TAP_OK(sm_exp_f32(inf32) == inf32 && sm_exp_f32(-inf32) == 0.0f, "exp_f32 of infinities");
    TAP_OK(sm_exp_f32(88.7229f) == inf32 && sm_exp_f32(88.7228f) < inf32, "exp_f32 overflow");
    TAP_OK(sm_exp_f32(-103.98f) == 0.0f && sm_exp_f32(-103.97f) == 0x1p-149f, "exp_f32 underflow");
    TAP_OK(sm_exp(0.0) == 1.0 && sm_exp(inf) == inf && sm_exp(-inf) == 0.0, "exp: 0, infinities");
    TAP_OK(sm_exp(709.79) == inf && sm_exp(709.78) < inf, "exp overflow");
    TAP_OK(sm_exp(-745.14) == 0.0 && sm_exp(-745.13) == 0x1p-1074, "exp underflow");
    TAP_OK(sm_log(1.0) == 0.0 && sm_log(inf) == inf, "log of 1 and infinity");
    TAP_OK(sm_log(0.0) == -inf && sm_log(-0.0) == -inf && sm_log_f32(0.0f) == -inf32, "log of 0");
    TAP_OK(isnan(sm_log(-1.0)) && isnan(sm_log(-inf)), "log of negatives");
    TAP_OK(sm_sin(0.0) == 0.0 && sm_cos(0.0) == 1.0, "sin and cos of 0");
    TAP_OK(isnan(sm_sin(inf)) && isnan(sm_cos(-inf)) && isnan(sm_sin(0x1.1p30)),
           "sin and cos outside their range");
    TAP_OK(sm_tanh_f32(inf32) == 1.0f && sm_tanh_f32(-inf32) == -1.0f, "tanh of infinities");
    TAP_OK(sm_softplus_f32(inf32) == inf32 && sm_softplus_f32(-inf32) == 0.0f,
           "softplus of infinities");
    TAP_OK(sm_sigmoid_f32(inf32) == 1.0f && sm_sigmoid_f32(-inf32) == 0.0f &&
               sm_sigmoid_f32(0.0f) == 0.5f,
           "sigmoid of infinities and 0");
}

static void test_whole_numbers(void)
{
    static const double x[] = {0.0,    -0.0,    0.5,   -0.5,   1.0,          -1.0,
                               1.5,    -1.5,    2.999, -2.999, 0x1p51 + 0.5, 0x1p52,
                               0x1p60, -0x1p60, 1e300, -1e300, -0x1p52};
    const double inf = sm_f64_of_bits(0x7ff0000000000000u);
    bool good = true;
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        good = good && sm_floor(x[i]) == floor(x[i]) && sm_ceil(x[i]) == ceil(x[i]);
    for (int i = 0; i < 100000; i++) {
        const double y = uniform(-1000.0, 1000.0);
        good = good && sm_floor(y) == floor(y) && sm_ceil(y) == ceil(y);
    }
    TAP_OK(good, "floor and ceil equal libm's");
    TAP_OK(sm_floor(inf) == inf && sm_ceil(-inf) == -inf, "floor and ceil of infinities");
}

static void test_sum16(void)
{
    float a[100], b[100];
    for (int i = 0; i < 100; i++) {
        a[i] = (float)uniform(-2.0, 2.0);
        b[i] = (float)uniform(-2.0, 2.0);
    }
    bool good = true;
    for (size_t n = 0; n <= 100; n++) {
        float p[16] = {0};
        for (size_t i = 0; i < n; i++) p[i % 16] = fmaf(a[i], b[i], p[i % 16]);
        for (size_t w = 8; w; w /= 2)
            for (size_t k = 0; k < w; k++) p[k] += p[k + w];
        good = good && sm_bits_of_f32(p[0]) == sm_bits_of_f32(sm_sum16_dot(a, b, n));
    }
    TAP_OK(good, "sum16 equals its definition for 0 ... 100 terms");
}

/* ---- the frozen checksum ---- */

#define FNV_START 0xcbf29ce484222325u
static uint64_t fnv(uint64_t h, uint64_t v)
{
    for (int i = 0; i < 8; i++) h = (h ^ (v >> (8 * i) & 0xffu)) * 0x100000001b3u;
    return h;
}
static uint64_t sweep_f32(f32_fn f, float lo, float step, int n)
{
    uint64_t h = FNV_START;
    for (int i = 0; i < n; i++) h = fnv(h, sm_bits_of_f32(f(lo + step * (float)i)));
    return h;
}
static uint64_t sweep_f64(f64_fn f, double lo, double step, int n)
{
    uint64_t h = FNV_START;
    for (int i = 0; i < n; i++) h = fnv(h, sm_bits_of_f64(f(lo + step * (double)i)));
    return h;
}
static double pow_175(double x) { return sm_pow(1.75, x); }

static void test_frozen(void)
{
    const struct {
        const char *name;
        uint64_t got, want;
    } t[] = {
        {"exp_f32", sweep_f32(sm_exp_f32, -105.0f, 0x1p-9f, 99840), 0xe7acb362e27e744au},
        {"sigmoid_f32", sweep_f32(sm_sigmoid_f32, -100.0f, 0x1p-7f, 25600), 0xe88435072e9e0329u},
        {"silu_f32", sweep_f32(sm_silu_f32, -100.0f, 0x1p-7f, 25600), 0x22649d5e91bd9771u},
        {"log_f32", sweep_f32(sm_log_f32, 0.0f, 0x1.8p-9f, 20000), 0x960a4a9908c19628u},
        {"tanh_f32", sweep_f32(sm_tanh_f32, -12.0f, 0x1.8p-9f, 8192), 0xf7ce79aa49b37c20u},
        {"softplus_f32", sweep_f32(sm_softplus_f32, -100.0f, 0x1.8p-7f, 12000),
         0x53f74f175bdd0d43u},
        {"exp", sweep_f64(sm_exp, -746.0, 0x1.7p-6, 65000), 0x93dd9130a7db644fu},
        {"log", sweep_f64(sm_log, 0.0, 0x1.23p-9, 50000), 0x8f02a5285f50d424u},
        {"pow", sweep_f64(pow_175, -100.0, 0x1.1p-4, 10000), 0xb5d2f2efe60617bfu},
        {"sin", sweep_f64(sm_sin, -1000.0, 0x1.23p-5, 60000), 0x3deec46e55dcd34au},
        {"cos", sweep_f64(sm_cos, -1000.0, 0x1.23p-5, 60000), 0xb842cd68663c9c94u},
        {"sin of large arguments", sweep_f64(sm_sin, -0x1p30, 0x1.0000123p16, 32000),
         0xe542daf61edc2534u},
        {"cos of large arguments", sweep_f64(sm_cos, -0x1p30, 0x1.0000123p16, 32000),
         0xc8a581eae93f4e84u},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        TAP_OK(t[i].got == t[i].want, "bits of %s: 0x%016" PRIx64 ", frozen 0x%016" PRIx64,
               t[i].name, t[i].got, t[i].want);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_accuracy_f32();
    test_accuracy_f64();
    test_reduction();
    test_pow();
    test_nan();
    test_special();
    test_whole_numbers();
    test_sum16();
    test_frozen();
    return tap_done();
}
