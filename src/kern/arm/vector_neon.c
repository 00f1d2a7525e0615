/* SPDX-License-Identifier: MIT */
/* Vector steps of the layers, NEON. Each element is computed alone, so a tail may be done in a
 * padded copy or by the scalar form. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include <math.h>

/* n < 4 floats and zeros. */
static inline float32x4_t load_tail(const float *x, size_t n)
{
    float p[4] = {0};
    for (size_t i = 0; i < n; i++) p[i] = x[i];
    return vld1q_f32(p);
}
static inline void store_tail(float *y, float32x4_t v, size_t n)
{
    float p[4];
    vst1q_f32(p, v);
    for (size_t i = 0; i < n; i++) y[i] = p[i];
}

float sm_rms_norm_neon(float *y, const float *x, const float *w, size_t n, float eps)
{
    const float s = sm_dot_neon(x, x, n);
    const float r = 1.0f / sqrtf(s / (float)n + eps);
    size_t i = 0;
    if (w) {
        for (; i + 4 <= n; i += 4)
            vst1q_f32(y + i, vmulq_f32(vmulq_n_f32(vld1q_f32(x + i), r), vld1q_f32(w + i)));
        for (; i < n; i++) y[i] = (x[i] * r) * w[i];
    } else {
        for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vmulq_n_f32(vld1q_f32(x + i), r));
        for (; i < n; i++) y[i] = x[i] * r;
    }
    return s;
}

SM_INLINE float32x4_t silu_mul4(float32x4_t g, float32x4_t u) { return vmulq_f32(gate4(g, g), u); }

void sm_silu_mul_neon(float *h, const float *g, const float *u, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(h + i, silu_mul4(vld1q_f32(g + i), vld1q_f32(u + i)));
    if (i < n)
        store_tail(h + i, silu_mul4(load_tail(g + i, n - i), load_tail(u + i, n - i)), n - i);
}

void sm_join_neon(float *o, float keep, const float *x, float part, size_t n)
{
    const float32x4_t b = vdupq_n_f32(part);
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(o + i, vfmaq_f32(vmulq_n_f32(vld1q_f32(o + i), keep), vld1q_f32(x + i), b));
    for (; i < n; i++) o[i] = fmaf(x[i], part, o[i] * keep);
}

void sm_axpy_neon(float *y, float w, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4)
        vst1q_f32(y + i, vfmaq_n_f32(vld1q_f32(y + i), vld1q_f32(x + i), w));
    for (; i < n; i++) y[i] = fmaf(w, x[i], y[i]);
}

void sm_add_neon(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, vaddq_f32(vld1q_f32(y + i), vld1q_f32(x + i)));
    for (; i < n; i++) y[i] = y[i] + x[i];
}

void sm_exp_neon(float *y, const float *x, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(y + i, exp4(vld1q_f32(x + i)));
    if (i < n) store_tail(y + i, exp4(load_tail(x + i, n - i)), n - i);
}

/* (a, b) -> (fma(a, c, -(b * s)), fma(a, s, b * c)) */
SM_INLINE void rotate4(float32x4_t *a, float32x4_t *b, float32x4_t c, float32x4_t s)
{
    const float32x4_t x = *a, y = *b;
    *a = vfmaq_f32(vnegq_f32(vmulq_f32(y, s)), x, c);
    *b = vfmaq_f32(vmulq_f32(y, c), x, s);
}
static inline void rotate1(float *pa, float *pb, float c, float s)
{
    const float a = *pa, b = *pb;
    *pa = fmaf(a, c, -(b * s));
    *pb = fmaf(a, s, b * c);
}

void sm_rope_half_neon(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    size_t j = 0;
    for (; j + 4 <= half; j += 4) {
        float32x4_t a = vld1q_f32(x + j), b = vld1q_f32(x + half + j);
        rotate4(&a, &b, vld1q_f32(cs + j), vld1q_f32(cs + half + j));
        vst1q_f32(x + j, a);
        vst1q_f32(x + half + j, b);
    }
    for (; j < half; j++) rotate1(x + j, x + half + j, cs[j], cs[half + j]);
}

void sm_rope_adjacent_neon(float *x, const float *cs, size_t n_rot)
{
    const size_t half = n_rot / 2;
    size_t j = 0;
    for (; j + 4 <= half; j += 4) {
        float32x4x2_t v = vld2q_f32(x + 2 * j);
        rotate4(&v.val[0], &v.val[1], vld1q_f32(cs + j), vld1q_f32(cs + half + j));
        vst2q_f32(x + 2 * j, v);
    }
    for (; j < half; j++) rotate1(x + 2 * j, x + 2 * j + 1, cs[j], cs[half + j]);
}

#endif
