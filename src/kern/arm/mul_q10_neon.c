/* SPDX-License-Identifier: MIT */
/* Q1_0 by table look-up, ARMv8.0; faster than SDOT where there is one (docs/benchmarks.md). Four
 * columns have 16 patterns of signs, so a nibble of the weights is an index into a table of sums
 * of their four activations, each added or subtracted, made once for a step of 32 columns and
 * shared by all rows. A sum is kept as 32 * hi + lo, lo 0..31 and hi -16..15 (|sum| <= 508), in two
 * tables of bytes: what the eight tables of a step add up to stays in bytes too, lo <= 248 and
 * hi -128..120, and TBL serves 16 rows at once. The tables stay in registers while the rows pass;
 * the float steps are a loop of their own. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

enum { Q10_GROUPS = 32, Q10_BYTES = 18 * 8 }; /* most groups that share tables; an x8 block */

/* Tables of one step: lo, hi of columns 4t .. 4t + 3 at 2t, 2t + 1; bit k of an index: column k. */
struct tables_q10 {
    uint8x16_t v[16];
};
/* I of the four steps of a block. */
struct sums_q10 {
    int16_t step[4][Q10_GROUPS][8];
};

SM_INLINE void table_q10(struct tables_q10 *t, const int at, int16x8_t first3, int16x8_t fourth)
{
    const int16x8_t v0 = vsubq_s16(first3, fourth), v1 = vaddq_s16(first3, fourth);
    const uint8x16_t low = vuzp1q_u8(vreinterpretq_u8_s16(v0), vreinterpretq_u8_s16(v1));
    t->v[2 * at] = vandq_u8(low, vdupq_n_u8(31));
    t->v[2 * at + 1] = vreinterpretq_u8_s8(vshrn_high_n_s16(vshrn_n_s16(v0, 5), v1, 5));
}
SM_INLINE struct tables_q10 tables_q10(const int8_t *q)
{
    static const int16_t signs[3][8] = {
        {-1, 1, -1, 1, -1, 1, -1, 1}, {-1, -1, 1, 1, -1, -1, 1, 1}, {-1, -1, -1, -1, 1, 1, 1, 1}};
    const int16x8_t s0 = vld1q_s16(signs[0]), s1 = vld1q_s16(signs[1]), s2 = vld1q_s16(signs[2]);
    struct tables_q10 t;
    SM_UNROLL for (int j = 0; j < 4; j++) {
        const int16x8_t a = vmovl_s8(vld1_s8(q + 8 * j));
        int16x8_t u = vmulq_laneq_s16(s0, a, 0), v = vmulq_laneq_s16(s0, a, 4);
        u = vmlaq_laneq_s16(u, s1, a, 1), v = vmlaq_laneq_s16(v, s1, a, 5);
        u = vmlaq_laneq_s16(u, s2, a, 2), v = vmlaq_laneq_s16(v, s2, a, 6);
        table_q10(&t, 2 * j, u, vdupq_laneq_s16(a, 3));
        table_q10(&t, 2 * j + 1, v, vdupq_laneq_s16(a, 7));
    }
    return t;
}

#define OP(op, d, a, b) #op " v" #d ".16b, v" #a ".16b, v" #b ".16b\n\t"
#define TBL(d, t, n) "tbl v" #d ".16b, {v" #t ".16b}, v" #n ".16b\n\t"
#define LOOK(l, lo, h, hi, n) TBL(l, lo, n) TBL(h, hi, n)
#define HIGH(d) "ushr v" #d ".16b, v" #d ".16b, #4\n\t"
#define LOAD(d, at) "ldr q" #d ", [" at "]\n\t"
#define LOAD2(d, e, at) "ldp q" #d ", q" #e ", [" at "]\n\t"
/* One step. w: its unit in the first group; the two groups of a turn are `second` bytes apart,
 * their sums second_sum. A turn takes the bytes of the next one apart on its way, the last turn its
 * own again. In assembly, since 31 vectors are alive: compilers spill and mix quick instructions
 * among slow ones, which costs an in-order core a wait each (modelled: 79 cycles a turn, this order
 * 54). */
SM_INLINE void sums_q10(int16_t *sum, size_t second_sum, const uint8_t *w, size_t second,
                        size_t stride, size_t n_turns, const struct tables_q10 *t)
{
    const uint8_t *w1 = w + second;
    /* clang-format off */
    __asm__ volatile(
        LOAD2(16, 17, "%[t]") LOAD2(18, 19, "%[t], #32") LOAD2(20, 21, "%[t], #64")
        LOAD2(22, 23, "%[t], #96") LOAD2(24, 25, "%[t], #128") LOAD2(26, 27, "%[t], #160")
        LOAD2(28, 29, "%[t], #192") LOAD2(30, 31, "%[t], #224")
        LOAD2(5, 6, "%[w]") LOAD2(7, 8, "%[w1]")
        OP(uzp1, 9, 5, 6) OP(uzp2, 10, 5, 6) OP(uzp1, 11, 7, 8) OP(uzp2, 12, 7, 8)
        OP(uzp1, 1, 9, 11) OP(uzp1, 2, 10, 12) OP(uzp2, 3, 9, 11) OP(uzp2, 4, 10, 12)
        "movi v0.16b, #15\n\t"
        "subs %[n], %[n], #1\n\t"
        "csel %[step], %[step], xzr, gt\n\t"
        "add %[w], %[w], %[step]\n\t"
        "add %[w1], %[w1], %[step]\n\t"
        "1:\n\t" /* v1..v4: byte j of each of the 16 rows; v9 and v5: sums lo and hi */
        OP(and, 5, 1, 0) OP(and, 6, 2, 0) OP(and, 7, 3, 0) OP(and, 8, 4, 0)
        HIGH(1) HIGH(2) HIGH(3) HIGH(4)
        LOOK(9, 16, 5, 17, 5) LOOK(10, 18, 1, 19, 1) LOOK(11, 20, 6, 21, 6) LOOK(12, 22, 2, 23, 2)
        OP(add, 9, 9, 10) LOAD(13, "%[w]") OP(add, 5, 5, 1) LOAD(14, "%[w], #16")
        OP(add, 11, 11, 12) LOAD(15, "%[w1]") OP(add, 6, 6, 2) LOAD(1, "%[w1], #16")
        OP(add, 9, 9, 11) OP(add, 5, 5, 6)
        LOOK(10, 24, 7, 25, 7) LOOK(11, 26, 3, 27, 3) LOOK(12, 28, 8, 29, 8) LOOK(2, 30, 4, 31, 4)
        OP(uzp1, 6, 13, 14) OP(uzp2, 13, 13, 14) OP(uzp1, 14, 15, 1) OP(uzp2, 15, 15, 1)
        OP(add, 10, 10, 11) "subs %[n], %[n], #1\n\t"
        OP(add, 7, 7, 3) OP(add, 12, 12, 2) OP(add, 8, 8, 4)
        OP(add, 9, 9, 10) "csel %[step], %[step], xzr, gt\n\t"
        OP(add, 5, 5, 7) OP(add, 9, 9, 12) OP(add, 5, 5, 8)
        "sshll v10.8h, v5.8b, #5\n\t"
        "sshll2 v11.8h, v5.16b, #5\n\t"
        "uaddw v10.8h, v10.8h, v9.8b\n\t"
        "add %[w], %[w], %[step]\n\t"
        "uaddw2 v11.8h, v11.8h, v9.16b\n\t"
        "add %[w1], %[w1], %[step]\n\t"
        OP(uzp1, 1, 6, 14) OP(uzp1, 2, 13, 15) OP(uzp2, 3, 6, 14) OP(uzp2, 4, 13, 15)
        "str q11, [%[sum], %[sum1]]\n\t"
        "str q10, [%[sum]], #16\n\t"
        "b.pl 1b\n\t"
        : [w] "+r"(w), [w1] "+r"(w1), [sum] "+r"(sum), [n] "+r"(n_turns), [step] "+r"(stride)
        : [t] "r"(t), [sum1] "r"(second_sum)
        : "cc", "memory", "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11",
          "v12", "v13", "v14", "v15", "v16", "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v24",
          "v25", "v26", "v27", "v28", "v29", "v30", "v31");
    /* clang-format on */
}

/* The float steps of a block for one group; its next block is asked for. */
SM_INLINE void add_q10(float *y, const uint8_t *w, const int16_t *sum, float32x4_t d_a)
{
    const float16x8_t d16 = vreinterpretq_f16_u8(vld1q_u8(w));
    struct f32x8 acc = {vld1q_f32(y), vld1q_f32(y + 4)};
    float32x4_t x[8];
    int32x4_t v[8];
    SM_UNROLL for (int k = 0; k < 3; k++) __builtin_prefetch(w + Q10_BYTES + 64 * k, 0, 3);
    SM_UNROLL for (int i = 0; i < 4; i++) {
        const int16x8_t s = vld1q_s16(sum + 8 * Q10_GROUPS * i);
        v[2 * i] = vmovl_s16(vget_low_s16(s)), v[2 * i + 1] = vmovl_high_s16(s);
    }
    SM_STAGE4(v[0], v[1], v[2], v[3]);
    SM_STAGE4(v[4], v[5], v[6], v[7]);
    struct f32x8 d = {vcvt_f32_f16(vget_low_f16(d16)), vcvt_high_f32_f16(d16)};
    SM_UNROLL for (int i = 0; i < 8; i++) x[i] = vcvtq_f32_s32(v[i]);
    SM_STAGE4(x[0], x[1], x[2], x[3]);
    SM_STAGE4(x[4], x[5], x[6], x[7]);
    SM_STAGE2(d.lo, d.hi);
    SM_UNROLL for (int i = 0; i < 8; i++) x[i] = vmulq_f32(i & 1 ? d.hi : d.lo, x[i]);
#define STEP(i)                                                                                    \
    acc.lo = vfmaq_laneq_f32(acc.lo, x[2 * i], d_a, i);                                            \
    acc.hi = vfmaq_laneq_f32(acc.hi, x[2 * i + 1], d_a, i);
    STEP(0)
    STEP(1)
    STEP(2)
    STEP(3)
#undef STEP
    store8(y, acc);
}

/* n groups with all tokens; the weights of a block stay in the cache for them. Two groups share a
 * turn: g and g + n / 2; with an odd n the one in the middle is computed twice. */
SM_INLINE void groups_q10(float *y, size_t ldy, const uint8_t *w, size_t stride, size_t n,
                          const struct sm_acts *x)
{
    const size_t half = n / 2;
    struct sums_q10 sums;
    for (size_t t = 0; t < x->n_tok; t++)
        for (size_t i = 0; i < 8 * n; i++) y[t * ldy + i] = 0;
    for (size_t b = 0; b < x->n_cols / 128; b++, w += Q10_BYTES) {
        for (size_t t = 0; t < x->n_tok; t++) {
            const struct act_row r = act_row(x, t);
            const float32x4_t d_a = vld1q_f32(r.d + 4 * b);
            for (size_t i = 0; i < 4; i++) {
                const struct tables_q10 tables = tables_q10(r.q + 128 * b + 32 * i);
                sums_q10(sums.step[i][0], half * sizeof sums.step[0][0], w + 16 + 32 * i,
                         half * stride, stride, n - half, &tables);
            }
            for (size_t g = 0; g < n; g++)
                add_q10(y + t * ldy + 8 * g, w + g * stride, sums.step[0][g], d_a);
        }
    }
}

/* Batches of groups of about the same size. */
SM_MUL_X8_DECL(sm_mul_q10_q8_neon)
{
    const size_t stride = (size_t)x->n_cols / 128 * Q10_BYTES;
    for (size_t left = n_groups; left > 0;) {
        const size_t n = left / ((left + Q10_GROUPS - 1) / Q10_GROUPS);
        groups_q10(y, ldy, w, stride, n, x);
        y += 8 * n, w += n * stride, left -= n;
    }
}

#endif
