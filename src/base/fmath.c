/* SPDX-License-Identifier: MIT */
/* docs/arithmetic.md section 7, line by line. No table, no branch on the CPU, nothing from libm but
 * fma, which is one rounding wherever it comes from. */
#include "base/fmath.h"

#include "base/bits.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>

#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "f32 and f64 must be evaluated in their own precision (on 32-bit x86: -msse2 -mfpmath=sse)"
#endif

/* Nearest integer, ties to even: adding 1.5 * 2^mantissa-bits leaves no fraction. |x| < 2^22 (f32),
 * 2^51 (f64); the same value as rint, without a call where the CPU has no instruction for it. */
static float nearest_f32(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }
static double nearest(double x) { return (x + 0x1.8p52) - 0x1.8p52; }

static float pow2_f32(int n) { return sm_f32_of_bits((uint32_t)(n + 127) << 23); }
static double pow2(int n) { return sm_f64_of_bits((uint64_t)(n + 1023) << 52); }

/* floor(n / 2) of a negative n too. */
static int half_down(int n) { return (n - (n & 1)) / 2; }

static bool is_nan_f32(float x) { return (sm_bits_of_f32(x) & 0x7fffffffu) > 0x7f800000u; }
static bool is_nan(double x) { return (sm_bits_of_f64(x) << 1) > 0xffe0000000000000u; }

/* ---- exponential ---- */

float sm_exp_f32(float x)
{
    if (is_nan_f32(x)) return x;
    if (x < -104.0f) x = -104.0f;
    if (x > 89.0f) x = 89.0f;
    const float n = nearest_f32(x * 0x1.715476p0f);
    float r = fmaf(-n, 0x1.62e400p-1f, x);
    r = fmaf(-n, 0x1.7f7d1cp-20f, r);
    float p = 0x1.a01a02p-13f; /* 1/5040 */
    p = fmaf(p, r, 0x1.6c16c2p-10f);
    p = fmaf(p, r, 0x1.111112p-7f);
    p = fmaf(p, r, 0x1.555556p-5f);
    p = fmaf(p, r, 0x1.555556p-3f);
    p = fmaf(p, r, 0.5f);
    p = fmaf(p, r, 1.0f);
    p = fmaf(p, r, 1.0f);
    const int k = (int)n, k1 = half_down(k);
    return (p * pow2_f32(k1)) * pow2_f32(k - k1);
}

#define LN2_HI 0x1.62e42fee00000p-1
#define LN2_LO 0x1.a39ef35793c76p-33

double sm_exp(double x)
{
    /* 1/k!, k = 12 ... 0; the compiler rounds each quotient to nearest */
    static const double c[13] = {1.0 / 479001600,
                                 1.0 / 39916800,
                                 1.0 / 3628800,
                                 1.0 / 362880,
                                 1.0 / 40320,
                                 1.0 / 5040,
                                 1.0 / 720,
                                 1.0 / 120,
                                 1.0 / 24,
                                 1.0 / 6,
                                 0.5,
                                 1.0,
                                 1.0};
    if (is_nan(x)) return x;
    if (x < -746.0) x = -746.0;
    if (x > 710.0) x = 710.0;
    const double n = nearest(x * 0x1.71547652b82fep0);
    double r = fma(-n, LN2_HI, x);
    r = fma(-n, LN2_LO, r);
    double p = 1.0 / 6227020800; /* 1/13! */
    for (int i = 0; i < 13; i++) p = fma(p, r, c[i]);
    const int k = (int)n, k1 = half_down(k);
    return (p * pow2(k1)) * pow2(k - k1);
}

float sm_sigmoid_f32(float x) { return 1.0f / (1.0f + sm_exp_f32(-x)); }
float sm_silu_f32(float x) { return x / (1.0f + sm_exp_f32(-x)); }

float sm_tanh_f32(float x)
{
    const double a = x < 0 ? -(double)x : (double)x;
    if (is_nan_f32(x) || a < 0x1p-12) return x; /* x^3/3 is below half an ulp */
    const double t = sm_exp(-2.0 * a), y = (1.0 - t) / (1.0 + t);
    return (float)(x < 0 ? -y : y);
}

float sm_softplus_f32(float x)
{
    if (is_nan_f32(x) || x > 20.0f) return x; /* exp(-20) / 20 is below half an ulp */
    const double e = sm_exp((double)x);
    if (x < -17.0f) return (float)e; /* e^2 / 2 is below a third of an ulp */
    return (float)sm_log(1.0 + e);
}

/* ---- logarithm ---- */

double sm_log(double x)
{
    static const double c[11] = {1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    if (is_nan(x)) return x;
    if (x == 0) return sm_f64_of_bits(0xfff0000000000000u);
    if (x < 0) return sm_f64_of_bits(0x7ff8000000000000u);
    uint64_t b = sm_bits_of_f64(x);
    int e = 0;
    if (b == 0x7ff0000000000000u) return x;
    if (b < (uint64_t)1 << 52) { /* subnormal: exact scaling */
        b = sm_bits_of_f64(x * 0x1p54);
        e = -54;
    }
    e += (int)(b >> 52) - 1023;
    double f = sm_f64_of_bits((b & 0xfffffffffffffu) | 0x3ff0000000000000u); /* [1, 2) */
    if (f >= 0x1.6a09e667f3bcdp0) {
        f *= 0.5;
        e++;
    }
    const double s = (f - 1.0) / (f + 1.0), z = s * s;
    double p = 1.0 / 23;
    for (int i = 0; i < 11; i++) p = fma(p, z, c[i]);
    const double n = e;
    return fma(n, LN2_HI, fma(n, LN2_LO, (2.0 * s) * p));
}

float sm_log_f32(float x) { return (float)sm_log((double)x); }
double sm_log2(double x) { return sm_log(x) * 0x1.71547652b82fep0; }
double sm_pow(double a, double b) { return sm_exp(b * sm_log(a)); }

/* ---- sine and cosine ---- */

static double sin_small(double r) /* |r| <= pi/4 and a little */
{
    static const double c[7] = {
        -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880,
        -1.0 / 5040,          1.0 / 120,        -1.0 / 6};
    const double z = r * r;
    double p = 1.0 / 355687428096000; /* 1/17! */
    for (int i = 0; i < 7; i++) p = fma(p, z, c[i]);
    return fma(r * z, p, r);
}

static double cos_small(double r)
{
    static const double c[9] = {1.0 / 20922789888000,
                                -1.0 / 87178291200,
                                1.0 / 479001600,
                                -1.0 / 3628800,
                                1.0 / 40320,
                                -1.0 / 720,
                                1.0 / 24,
                                -0.5,
                                1.0};
    const double z = r * r;
    double p = -1.0 / 6402373705728000; /* 1/18! */
    for (int i = 0; i < 9; i++) p = fma(p, z, c[i]);
    return p;
}

/* sin(x + quarter * pi/2) */
static double sin_shifted(double x, unsigned quarter)
{
    if (!(x >= -0x1p30 && x <= 0x1p30)) return sm_f64_of_bits(0x7ff8000000000000u);
    const double n = nearest(x * 0x1.45f306dc9c883p-1);
    double r = fma(-n, 0x1.921fb54442d18p0, x);
    r = fma(-n, 0x1.1a62633145c07p-54, r);
    r = fma(-n, -0x1.f1976b7ed8fbcp-110, r);
    const unsigned q = ((unsigned)(int64_t)n + quarter) & 3u;
    const double y = q & 1u ? cos_small(r) : sin_small(r);
    return q & 2u ? -y : y;
}

double sm_sin(double x) { return sin_shifted(x, 0); }
double sm_cos(double x) { return sin_shifted(x, 1); }

/* ---- whole numbers ---- */

double sm_floor(double x)
{
    if (!(x > -0x1p52 && x < 0x1p52)) return x; /* whole already, infinite or NaN */
    const double t = (double)(int64_t)x;
    return t > x ? t - 1.0 : t;
}

double sm_ceil(double x)
{
    if (!(x > -0x1p52 && x < 0x1p52)) return x;
    const double t = (double)(int64_t)x;
    return t < x ? t + 1.0 : t;
}

/* ---- sum16 ---- */

float sm_sum16_dot(const float *a, const float *b, size_t n)
{
    float p[16] = {0};
    size_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (size_t k = 0; k < 16; k++) p[k] = fmaf(a[i + k], b[i + k], p[k]);
    for (size_t k = 0; i < n; i++, k++) p[k] = fmaf(a[i], b[i], p[k]);
    for (size_t width = 8; width; width /= 2)
        for (size_t k = 0; k < width; k++) p[k] = p[k] + p[k + width];
    return p[0];
}
