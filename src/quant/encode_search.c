/* SPDX-License-Identifier: MIT */
/* Searches for the scale and the codes of a group that lower its weighted error. */
#include "quant/encode_search.h"

#include <assert.h>
#include <math.h>
#include <string.h>

float sm_encode_extreme(const float *x, size_t n)
{
    float a = 0, value = 0;
    for (size_t i = 0; i < n; i++) {
        if (fabsf(x[i]) > a) {
            a = fabsf(x[i]);
            value = x[i];
        }
    }
    return value;
}

static int symmetric_code(float x, float inv, int half)
{
    return sm_encode_clamp(sm_encode_rne(x * inv), -half, half - 1);
}

/* Sums of least squares: a = sum of w x code, b = sum of w code squared. */
struct fit {
    float a, b;
};

static void fit_add(struct fit *f, float w, float x, int code)
{
    f->a += w * x * (float)code;
    f->b += w * (float)code * (float)code;
}

static float fit_scale(const struct fit *f) { return f->b > 0 ? f->a / f->b : 0; }

/* Is f a better fit than best? Errors are sum(w x x) - a * a / b. */
static bool fit_better(const struct fit *f, const struct fit *best)
{
    return f->a * f->a * best->b > best->a * best->a * f->b;
}

float sm_encode_symmetric(const float *x, const float *w, size_t n, int half, uint8_t *codes)
{
    const float m = sm_encode_extreme(x, n);
    float scale = 0, gain = 0, best_inv = 0;
    if (fabsf(m) < SM_ENCODE_TINY) {
        memset(codes, 0, n);
        return 0;
    }
    /* k = 0 first: it stays when nothing is better */
    for (int step = 0; step < 19; step++) {
        const int k = step == 0 ? 0 : step <= 9 ? step - 10 : step - 9;
        const float inv = -((float)half + 0.1f * (float)k) / m;
        struct fit f = {0, 0};
        for (size_t i = 0; i < n; i++)
            fit_add(&f, w ? w[i] : x[i] * x[i], x[i], symmetric_code(x[i], inv, half));
        if (step == 0 || (f.b > 0 && f.a * f.a > gain * f.b)) {
            scale = fit_scale(&f);
            gain = scale * f.a;
            best_inv = inv;
        }
    }
    for (size_t i = 0; i < n; i++)
        codes[i] = (uint8_t)(symmetric_code(x[i], best_inv, half) + half);
    return scale;
}

float sm_encode_symmetric_steps(const float *x, size_t n, int half, uint8_t *codes)
{
    const float m = sm_encode_extreme(x, n);
    int c[SM_ENCODE_MAX];
    struct fit all = {0, 0};
    assert(n <= SM_ENCODE_MAX);
    if (fabsf(m) < SM_ENCODE_TINY) {
        memset(codes, 0, n);
        return 0;
    }
    const float inv = -(float)half / m;
    for (size_t i = 0; i < n; i++) {
        c[i] = symmetric_code(x[i], inv, half);
        fit_add(&all, x[i] * x[i], x[i], c[i]);
    }
    for (int pass = 0, changed = 1; pass < 5 && changed; pass++) {
        changed = 0;
        for (size_t i = 0; i < n; i++) {
            const float w = x[i] * x[i];
            struct fit f = {all.a - w * x[i] * (float)c[i], 0};
            if (!(f.a > 0)) continue;
            f.b = all.b - w * (float)c[i] * (float)c[i];
            const int code = sm_encode_clamp(sm_encode_rne(x[i] * f.b / f.a), -half, half - 1);
            if (code == c[i]) continue;
            fit_add(&f, w, x[i], code);
            if (f.b > 0 && fit_better(&f, &all)) {
                c[i] = code;
                all = f;
                changed = 1;
            }
        }
    }
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)(c[i] + half);
    return fit_scale(&all);
}

/* The weighted error; some value >= limit as soon as it cannot fall below limit (w >= 0, so the sum
 * only grows). */
static float affine_error(const float *x, const float *w, size_t n, const int32_t *codes,
                          float scale, float lo, bool absolute, float limit)
{
    float error = 0;
    for (size_t g = 0; g < n && error < limit; g += 16)
        for (size_t i = g; i < g + 16; i++) {
            const float diff = scale * (float)codes[i] + lo - x[i];
            error += w[i] * (absolute ? fabsf(diff) : diff * diff);
        }
    return error;
}

/* Runs of 16 and 32-bit codes, so that compilers make vector code of it. */
static void affine_codes(const float *x, size_t n, float inv, float lo, int top, int32_t *codes)
{
    for (size_t g = 0; g < n; g += 16)
        for (size_t i = g; i < g + 16; i++)
            codes[i] = sm_encode_clamp(sm_encode_rne(inv * (x[i] - lo)), 0, top);
}

float sm_encode_affine(const float *x, const float *w, size_t n, const struct sm_encode_range *r,
                       uint8_t *codes, float *min)
{
    int32_t tried[SM_ENCODE_MAX], kept[SM_ENCODE_MAX];
    float lo = x[0], hi = x[0], sum_w = w[0], sum_x = w[0] * x[0];
    const float top = (float)r->top;
    assert(n <= SM_ENCODE_MAX && n % 16 == 0);
    for (size_t i = 1; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
        sum_w += w[i];
        sum_x += w[i] * x[i];
    }
    lo = lo > 0 ? 0 : lo;
    *min = -lo;
    memset(codes, 0, n);
    if (hi <= lo) return 0;
    const float first_inv = top / (hi - lo);
    float scale = 1 / first_inv;
    affine_codes(x, n, first_inv, lo, r->top, kept);
    float best = affine_error(x, w, n, kept, scale, lo, r->absolute, INFINITY);
    for (int k = 0; k <= r->last; k++) {
        const float inv = (r->first + r->step * (float)k + top) / (hi - lo);
        float s_l = 0, s_ll = 0, s_xl = 0;
        affine_codes(x, n, inv, lo, r->top, tried);
        for (size_t i = 0; i < n; i++) {
            const float l = (float)tried[i];
            s_l += w[i] * l;
            s_ll += w[i] * l * l;
            s_xl += w[i] * l * x[i];
        }
        const float det = sum_w * s_ll - s_l * s_l;
        if (!(det > 0)) continue;
        float new_scale = (sum_w * s_xl - sum_x * s_l) / det;
        float new_lo = (s_ll * sum_x - s_l * s_xl) / det;
        if (new_lo > 0) {
            new_lo = 0;
            new_scale = s_xl / s_ll;
        }
        const float error = affine_error(x, w, n, tried, new_scale, new_lo, r->absolute, best);
        if (error < best) { /* the scan goes on from the new minimum */
            memcpy(kept, tried, n * sizeof *kept);
            best = error;
            scale = new_scale;
            lo = new_lo;
        }
    }
    for (size_t i = 0; i < n; i++) codes[i] = (uint8_t)kept[i];
    *min = -lo;
    return scale;
}

static int positive_code(float x, float inv, int top)
{
    const int code = sm_encode_rne(inv * x);
    return code < top ? code : top;
}

float sm_encode_positive(const float *x, const float *w, size_t n, int top, uint8_t *codes)
{
    float max = 0, inv = 0, best = 0;
    struct fit all = {0, 0};
    for (size_t i = 0; i < n; i++) max = x[i] > max ? x[i] : max;
    if (max < SM_ENCODE_TINY) {
        memset(codes, 0, n);
        return 0;
    }
    for (int step = 0; step < 9; step++) { /* 0, then -4 … -1, 1 … 4 */
        const int k = step == 0 ? 0 : step <= 4 ? step - 5 : step - 4;
        const float try_inv = (0.1f * (float)k + (float)top) / max, scale = 1 / try_inv;
        float error = 0;
        for (size_t i = 0; i < n; i++) {
            const float diff = x[i] - scale * (float)positive_code(x[i], try_inv, top);
            error += w[i] * diff * diff;
        }
        if (step == 0 || error < best) {
            best = error;
            inv = try_inv;
        }
    }
    for (size_t i = 0; i < n; i++) {
        codes[i] = (uint8_t)sm_encode_clamp(positive_code(x[i], inv, top), 0, top);
        fit_add(&all, w[i], x[i], codes[i]);
    }
    for (int pass = 0, changed = 1; pass < 5 && changed; pass++) {
        changed = 0;
        for (size_t i = 0; i < n; i++) {
            const float code = (float)codes[i];
            struct fit f = {all.a - w[i] * x[i] * code, all.b - w[i] * code * code};
            if (!(f.a > 0) || !(f.b > 0)) continue;
            const int next = sm_encode_clamp(sm_encode_rne(x[i] * f.b / f.a), 0, top);
            if (next == codes[i]) continue;
            fit_add(&f, w[i], x[i], next);
            if (fit_better(&f, &all)) {
                codes[i] = (uint8_t)next;
                all = f;
                changed = 1;
            }
        }
    }
    return fit_scale(&all);
}
