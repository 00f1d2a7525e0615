/* SPDX-License-Identifier: MIT */
/* The layers' vector steps (docs/arithmetic.md section 5): norm, rotary, SwiGLU, sums. */
#include "base/fmath.h"
#include "kern/ref/ref.h"
#include <math.h>

float sm_rms_norm_ref(float *y, const float *x, const float *w, size_t n, float eps)
{
    const float s = sm_dot_ref(x, x, n);
    const float r = 1.0f / sqrtf(s / (float)n + eps);
    for (size_t i = 0; i < n; i++) y[i] = w ? (x[i] * r) * w[i] : x[i] * r;
    return s;
}

void sm_silu_mul_ref(float *h, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++) h[i] = sm_silu_f32(g[i]) * u[i];
}

void sm_axpy_ref(float *y, float w, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}

void sm_add_ref(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = y[i] + x[i];
}

void sm_join_ref(float *o, float keep, const float *x, float part, size_t n)
{
    for (size_t i = 0; i < n; i++) o[i] = fmaf(x[i], part, o[i] * keep);
}

void sm_exp_ref(float *y, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++) y[i] = sm_exp_f32(x[i]);
}

static void rotate(float *pa, float *pb, float c, float s)
{
    const float a = *pa, b = *pb;
    *pa = fmaf(a, c, -(b * s));
    *pb = fmaf(a, s, b * c);
}

void sm_rope_half_ref(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    for (size_t j = 0; j < half; j++) rotate(&x[j], &x[j + half], cs[j], cs[half + j]);
}

void sm_rope_adjacent_ref(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    for (size_t j = 0; j < half; j++) rotate(&x[2 * j], &x[2 * j + 1], cs[j], cs[half + j]);
}
