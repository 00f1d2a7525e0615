/* SPDX-License-Identifier: MIT */
/* Products of many tokens with 32-wide activation blocks, SMMLA. */
#include "kern/arm/mul_mm.h"

#ifdef SM_HAVE_MM

#include "kern/arm/mul_32_arm.h"

SM_INLINE void fill_32(struct mm_tile *t, const uint8_t *w, const enum kind kind)
{
    const struct layout_32 l = layout_32(kind);
    for (size_t k = 0; k < t->n / 32; k++, w += l.bytes) {
        struct units4 lo, hi;
        codes_32(&lo, &hi, w + l.codes, w + l.high, kind, true);
        mm_put(t->a + 4 * k, &lo);
        mm_put(t->a + 4 * k + 2, &hi);
        t->d[k] = kind == KIND_MXFP4 ? load8_mxfp4(w) : load8_f16(w);
        if (l.has_min) t->m[k] = load8_f16(w + 16);
    }
}

SM_INLINE void dots_32(float *const y[MM_TOK], const struct mm_tile *w,
                       const struct act_row r[MM_TOK], size_t col, const bool has_min)
{
    struct f32x8 acc[MM_TOK];
    SM_UNROLL for (int t = 0; t < MM_TOK; t++)
        acc[t] = (struct f32x8){vld1q_f32(y[t]), vld1q_f32(y[t] + 4)};
    for (size_t k = 0; k < w->n / 32; k++) {
        const size_t b = col / 32 + k;
        struct mm_sums sum = mm_zero();
        mm_add(&sum, w->a + 4 * k, 4, r, 32 * b);
        SM_UNROLL for (int t = 0; t < MM_TOK; t++) {
            const struct i32x8 i = mm_token(&sum, t);
            if (has_min) {
                const int32x4_t s = vdupq_n_s32(r[t].s[2 * b] + r[t].s[2 * b + 1]);
                acc[t] = step_min(acc[t], w->d[k], i, w->m[k], (struct i32x8){s, s}, r[t].d[b]);
            } else {
                acc[t] = step(acc[t], w->d[k], i, r[t].d[b]);
            }
        }
    }
    SM_UNROLL for (int t = 0; t < MM_TOK; t++) store8(y[t], acc[t]);
}
static void dots_plain(float *const y[MM_TOK], const struct mm_tile *w,
                       const struct act_row r[MM_TOK], size_t col)
{
    dots_32(y, w, r, col, false);
}
static void dots_min(float *const y[MM_TOK], const struct mm_tile *w,
                     const struct act_row r[MM_TOK], size_t col)
{
    dots_32(y, w, r, col, true);
}

#define KERNEL(fmt, bytes, KIND, dots)                                                             \
    static void fill_##fmt(struct mm_tile *t, const uint8_t *w)                                    \
    {                                                                                              \
        fill_32(t, w, KIND);                                                                       \
    }                                                                                              \
    SM_MUL_MM(fmt##_q8, 32, bytes, fill_##fmt, dots)
KERNEL(q40, 18, KIND_Q40, dots_plain);
KERNEL(q41, 20, KIND_Q41, dots_min);
KERNEL(q50, 22, KIND_Q50, dots_plain);
KERNEL(q51, 24, KIND_Q51, dots_min);
KERNEL(q80, 34, KIND_Q80, dots_plain);
KERNEL(iq4nl, 18, KIND_IQ4NL, dots_plain);
KERNEL(mxfp4, 17, KIND_MXFP4, dots_plain);

#endif
