/* SPDX-License-Identifier: MIT */
/* Every function that is not + - * / sqrt fma rint, with the same operations on every machine
 * (docs/arithmetic.md section 7). Pure functions, any thread, no errno. A NaN argument gives NaN.
 *
 * Largest errors found by tests/unit/test_fmath.c against long double, in ulp: exp_f32 0.9, log_f32
 * and tanh_f32 0.5, softplus_f32 0.8, sigmoid and silu 2.4; exp 0.9, log 2.9, log2 3.3, sin and cos
 * 1.5; pow about 2.5 (4 + b log a). */
#ifndef SM_BASE_FMATH_H
#define SM_BASE_FMATH_H

#include <stddef.h>

float sm_exp_f32(float x);
float sm_sigmoid_f32(float x);  /* 1 / (1 + exp(-x)) */
float sm_silu_f32(float x);     /* x / (1 + exp(-x)) */
float sm_log_f32(float x);      /* (float) log((double) x) */
float sm_tanh_f32(float x);     /* through f64, rounded once at the end */
float sm_softplus_f32(float x); /* log(1 + exp(x)), through f64, rounded once at the end */

double sm_exp(double x);           /* +inf above 709.79, 0 below -745.2 */
double sm_log(double x);           /* log 0 = -inf, log of a negative = NaN */
double sm_log2(double x);          /* log(x) * (1 / ln 2): not exact for powers of two */
double sm_pow(double a, double b); /* exp(b log a), a > 0 */
double sm_sin(double x);           /* |x| <= 2^30, else NaN */
double sm_cos(double x);           /* |x| <= 2^30, else NaN */
double sm_floor(double x);         /* exact; a zero result is +0 */
double sm_ceil(double x);          /* exact; a zero result is +0 */

/* sum16 of a[i] * b[i] (docs/arithmetic.md section 2), scalar. */
float sm_sum16_dot(const float *a, const float *b, size_t n);

#endif
