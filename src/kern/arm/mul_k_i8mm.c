/* SPDX-License-Identifier: MIT */
/* Products of many tokens with the K formats, SMMLA. Columns as in mul_k_arm.h. */
#include "kern/arm/mul_mm.h"

#ifdef SM_HAVE_MM

#include "kern/arm/mul_k_arm.h"

/* Byte i of each row in all four bytes of its lane. */
SM_INLINE uint8x16_t spread(uint8x16_t v, const int i)
{
    const uint32x4_t at = {0, 0x04040404, 0x08080808, 0x0c0c0c0c};
    return vqtbl1q_u8(v, vaddq_u8(vreinterpretq_u8_u32(at), vdupq_n_u8((uint8_t)i)));
}

/* A code times its scale is at most 45: no scale is left. */
static void fill_q2k(struct mm_tile *t, const uint8_t *w)
{
    struct u8x32 sub[4];
    t->d[0] = load8_f16(w);
    t->m[0] = negate(load8_f16(w + 16));
    SM_UNROLL for (int i = 0; i < 4; i++) {
        const struct u8x32 s = load32(w + 32 + 32 * i);
        sub[i] = and32(s, 15);
        t->min[i] = SHR32(s, 4);
    }
    SM_UNROLL for (int h = 0; h < 2; h++) {
        SM_UNROLL for (int e = 0; e < 2; e++) {
            struct units4 v = load_units4(w + 160 + 256 * h + 128 * e);
            SM_UNROLL for (int k = 0; k < 4; k++) {
                struct units4 u = and_units(&v, 3);
                const struct u8x32 s = sub[2 * h + k / 2];
                const uint8x16_t lo = spread(s.lo, 2 * (k & 1) + e);
                const uint8x16_t hi = spread(s.hi, 2 * (k & 1) + e);
                SM_UNROLL for (int i = 0; i < 8; i++) u.c[i] = vmulq_u8(u.c[i], i & 1 ? hi : lo);
                mm_put(t->a + 16 * h + 4 * k + 2 * e, &u);
                SHIFT_UNITS(v, v, 2);
            }
        }
    }
}

static void fill_q4k(struct mm_tile *t, const uint8_t *w)
{
    struct u8x32 sub[2];
    t->d[0] = load8_f16(w);
    t->m[0] = negate(load8_f16(w + 16));
    scales_q4k(sub, t->min, w + 32);
    SM_UNROLL for (int g = 0; g < 8; g++) mm_put_scale(t->sub[g], byte_u(sub[g / 4], g & 3));
    SM_UNROLL for (int c = 0; c < 4; c++) {
        SM_UNROLL for (int e = 0; e < 2; e++) {
            struct units4 v = load_units4(w + 128 + 256 * c + 128 * e);
            const struct units4 u = and_units(&v, 15);
            SHIFT_UNITS(v, v, 4);
            mm_put(t->a + 8 * c + 2 * e, &u);
            mm_put(t->a + 8 * c + 4 + 2 * e, &v);
        }
    }
}

static void fill_q6k(struct mm_tile *t, const uint8_t *w)
{
    const uint8x16_t low = vdupq_n_u8(15), mid = vdupq_n_u8(0x30), off = vdupq_n_u8(32);
    t->d[0] = load8_f16(w);
    SM_UNROLL for (int g = 0; g < 16; g++)
        mm_put_scale(t->sub[g], byte_s(load32(w + 16 + 32 * (g / 4)), g & 3));
    for (int h = 0; h < 2; h++) {
        SM_UNROLL for (int e = 0; e < 2; e++) {
            const struct units4 top = load_units4(w + 1168 + 256 * h + 128 * e);
            SM_UNROLL for (int odd = 0; odd < 2; odd++) { /* runs k = odd and 2 + odd */
                struct units4 v = load_units4(w + 144 + 512 * h + 128 * e + 256 * odd), u;
                SM_UNROLL for (int i = 0; i < 8; i++) {
                    const uint8x16_t t0 = odd ? vshlq_n_u8(top.c[i], 2) : vshlq_n_u8(top.c[i], 4);
                    const uint8x16_t t1 = odd ? vshrq_n_u8(top.c[i], 2) : top.c[i];
                    u.c[i] = vorrq_u8(vandq_u8(v.c[i], low), vandq_u8(t0, mid));
                    v.c[i] = vorrq_u8(vshrq_n_u8(v.c[i], 4), vandq_u8(t1, mid));
                    u.c[i] = vsubq_u8(u.c[i], off);
                    v.c[i] = vsubq_u8(v.c[i], off);
                }
                mm_put(t->a + 16 * h + 4 * odd + 2 * e, &u);
                mm_put(t->a + 16 * h + 8 + 4 * odd + 2 * e, &v);
            }
        }
    }
}

/* What the minima are of: runs of 16, groups of 32, nothing. */
enum minima { MIN_RUNS, MIN_GROUPS, MIN_NONE };

/* run: columns that share a scale, or 256: no scale is left. */
SM_INLINE void dots_k(float *const y[MM_TOK], const struct mm_tile *w,
                      const struct act_row r[MM_TOK], size_t col, const int run,
                      const enum minima minima)
{
    const size_t b = col / 256;
    const int n_steps = run == 256 ? 4 : run / 8;
    struct mm_sums sum = mm_zero();
    for (int k = 0; k < MM_COLS / 8; k += n_steps) {
        struct mm_sums part = run == 256 ? sum : mm_zero();
        mm_add(&part, w->a + k, n_steps, r, col + 8 * (size_t)k);
        SM_UNROLL for (int i = 0; i < 8; i++) {
            int32x4_t *s = &sum.s[i / 2][i & 1], p = part.s[i / 2][i & 1];
            *s = run == 256 ? p : vmlaq_s32(*s, p, w->sub[k / n_steps][i / 2]);
        }
    }
    SM_UNROLL for (int t = 0; t < MM_TOK; t++) {
        const struct i32x8 i = mm_token(&sum, t);
        const int16_t *s = r[t].s + col / 16;
        struct f32x8 acc = {vld1q_f32(y[t]), vld1q_f32(y[t] + 4)};
        if (minima == MIN_NONE) {
            acc = step(acc, w->d[0], i, r[t].d[b]);
        } else {
            const struct i32x8 m = minima == MIN_RUNS ? dot_runs(w->min, s) : dot_groups(w->min, s);
            acc = step_min(acc, w->d[0], i, w->m[0], m, r[t].d[b]);
        }
        store8(y[t], acc);
    }
}

#define KERNEL(fmt, bytes, run, minima)                                                            \
    static void dots_##fmt(float *const y[MM_TOK], const struct mm_tile *w,                        \
                           const struct act_row r[MM_TOK], size_t col)                             \
    {                                                                                              \
        dots_k(y, w, r, col, run, minima);                                                         \
    }                                                                                              \
    SM_MUL_MM(fmt##_q8k, 256, bytes, fill_##fmt, dots_##fmt)
KERNEL(q2k, 84, 256, MIN_RUNS);
KERNEL(q4k, 144, 32, MIN_GROUPS);
KERNEL(q6k, 210, 16, MIN_NONE);

#endif
