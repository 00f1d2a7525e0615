/* SPDX-License-Identifier: MIT */
/* Every function that is not + - * / sqrt fma rint, with the same operations on every machine
 * (docs/arithmetic.md section 7). Pure functions, any thread. */
#ifndef SM_BASE_FMATH_H
#define SM_BASE_FMATH_H

#include <stddef.h>

float sm_exp_f32(float x);
float sm_sigmoid_f32(float x); /* 1 / (1 + exp(-x)) */
float sm_silu_f32(float x);    /* x / (1 + exp(-x)) */
float sm_log_f32(float x);     /* (float) log((double) x) */

double sm_exp(double x);
double sm_log(double x);
double sm_pow(double a, double b); /* exp(b log a), a > 0 */
double sm_sin(double x);           /* |x| <= 2^30 */
double sm_cos(double x);
double sm_floor(double x);
double sm_ceil(double x);

/* sum16 of a[i] * b[i] (docs/arithmetic.md section 2), scalar. */
float sm_sum16_dot(const float *a, const float *b, size_t n);

#endif
