/* SPDX-License-Identifier: MIT */
/* The formats with 256-wide activation blocks, for mul_tile.h. The columns of each field are those
 * of src/quant/codes_k.c and codes_ternary.c; unit i of the tile holds columns 4i .. 4i + 3.
 * Unsigned codes: u = q + offset, and I = sum(sub * sum(u * a)) - offset * sum(sub * S). The
 * largest sum of magnitudes is that of Q6_K, 256 * 128 * 63 * 127 = 262,176,768. */
#ifndef SM_MUL_TILE_K_H
#define SM_MUL_TILE_K_H

#include "kern/x86/mul_tile.h"
#include "quant/codes.h"

#ifdef SM_HAVE_TILE

/* What the sums of activations are for. */
enum sums { SUMS_MIN, SUMS_OFFSET, SUMS_ONE };

/* A step of 256 columns: sum is sum(sub * sum(u * a)). SUMS_OFFSET: the offset is 1 << shift.
 * SUMS_ONE: offset 1 and no scales, so that the sum of all activations is subtracted. */
SM_INLINE vf step_k(vf acc, const struct tile *w, vi sum, const int16_t *s, float d_a,
                    const enum sums sums, const int shift)
{
    vi p = v_zero();
    SM_UNROLL for (int i = 0; i < 8; i++)
        p = v_dp16(p, sums == SUMS_ONE ? v_set16(1) : w->pair[i], v_splat32(s + 2 * i));
    if (sums != SUMS_MIN) sum = v_sub32(sum, v_shl32(p, shift));
    vf f = v_mul(w->d[0], v_float(sum));
    if (sums == SUMS_MIN) f = v_fma(w->m[0], v_float(p), f);
    return v_fma(v_set_f(d_a), f, acc);
}

/* run: columns that share a scale, 16 or 32, or 256: no scale is left. */
SM_INLINE void dots_k(const struct tile *w, const struct sm_acts *x, size_t tok, size_t col,
                      unsigned n_steps, vf *acc, const int n_tok, const int run,
                      const enum sums sums, const int shift)
{
    const size_t n = x->n_cols;
    const int8_t *q = x->q + tok * n + col;
    const int16_t *s = x->s + (tok * n + col) / 16;
    const float *d = x->d + (tok * n + col) / TILE_COLS;
    const int width = run == 16 ? 16 : 32;
    vi sum[V_TOK];
    (void)n_steps;
    SM_UNROLL for (int t = 0; t < n_tok; t++) sum[t] = v_zero();
    for (int g = 0; g < TILE_COLS / width; g++) {
        const vi *u = w->u + g * (width / 4);
        const int8_t *a = q + g * width;
        vi dot[V_TOK];
        SM_UNROLL for (int t = 0; t < n_tok; t++) dot[t] = run == 256 ? sum[t] : v_zero();
        SM_UNROLL for (int j = 0; j < width / 4; j++) {
            SM_UNROLL for (int t = 0; t < n_tok; t++)
                dot[t] = v_dp8(dot[t], u[j], v_splat32(a + (size_t)t * n + 4 * j));
        }
        SM_UNROLL for (int t = 0; t < n_tok; t++)
            sum[t] = run == 256 ? dot[t] : v_add32(sum[t], v_mul32(dot[t], w->sub[g]));
    }
    SM_UNROLL for (int t = 0; t < n_tok; t++)
        acc[t] = step_k(acc[t], w, sum[t], s + (size_t)t * (n / 16),
                        d[(size_t)t * (n / TILE_COLS)], sums, shift);
}

SM_INLINE vf finish_k(vf acc, const struct tile *w, const vi *dot, const struct sm_acts *x,
                      size_t col, unsigned n_steps, const int run, const enum sums sums,
                      const int shift)
{
    const int n_sums = N_SUMS(TILE_COLS, run);
    vi sum = v_zero();
    (void)n_steps;
    SM_UNROLL for (int g = 0; g < n_sums; g++)
        sum = v_add32(sum, run == 256 ? dot[g] : v_mul32(dot[g], w->sub[g]));
    return step_k(acc, w, sum, x->s + col / 16, x->d[col / TILE_COLS], sums, shift);
}

SM_DOTS(q2k, 256, dots_k, finish_k, 256, SUMS_MIN, 0);
SM_DOTS(q3k, 16, dots_k, finish_k, 16, SUMS_OFFSET, 2);
SM_DOTS(q45k, 32, dots_k, finish_k, 32, SUMS_MIN, 0);
SM_DOTS(q6k, 16, dots_k, finish_k, 16, SUMS_OFFSET, 5);
SM_DOTS(tq, 256, dots_k, finish_k, 256, SUMS_ONE, 0);
SM_DOTS(iq4xs, 32, dots_k, finish_k, 32, SUMS_OFFSET, 7);

/* Byte i of each lane: in the lane; in both its halves; bytes i and i + 1 in its halves. */
#define SEL_U32(i) (0x80808000u | (uint32_t)(i))
#define SEL_PAIR(i) (0x80008000u | (uint32_t)(i) << 16 | (uint32_t)(i))
#define SEL_TWO(i) (0x80008000u | (uint32_t)((i) + 1) << 16 | (uint32_t)(i))
SM_INLINE vi byte_s32(vi v, int i) { return v_sar32(v_shl32(v, 24 - 8 * i), 24); }
SM_INLINE vi two_s16(vi v, int i)
{
    return v_sar16(v_bytes(v, 0x00800080u | (uint32_t)(i + 1) << 24 | (uint32_t)i << 8), 8);
}

/* The signed scales of runs 4i .. 4i + 3, for codes with an offset. */
SM_INLINE void scales_16(struct tile *t, const int i, vi v)
{
    t->pair[2 * i] = two_s16(v, 0);
    t->pair[2 * i + 1] = two_s16(v, 2);
    SM_UNROLL for (int r = 0; r < 4; r++) t->sub[4 * i + r] = byte_s32(v, r);
}

/* Q2_K, x8: d, dmin, scales 4 units, codes 16 units. A code times its scale is at most 45 and stays
 * a byte, so a 16-bit product does two at once. */
SM_INLINE void unpack_q2k(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi low = v_set8(15), two = v_set8(3);
    t->d[0] = v_unit_f16(w, 0);
    t->m[0] = v_negate(v_unit_f16(w, 16));
    SM_UNROLL for (int i = 0; i < 4; i++) { /* runs 4i .. 4i + 3: half i / 2, two shifts */
        const vi both = v_unit(w, 32 + 32 * (size_t)i);
        const vi sub = v_and(both, low), min = v_and(v_shr(both, 4), low);
        t->pair[2 * i] = v_bytes(min, SEL_TWO(0));
        t->pair[2 * i + 1] = v_bytes(min, SEL_TWO(2));
        SM_UNROLL for (int e = 0; e < 2; e++) {
            const vi s0 = v_bytes(sub, SEL_PAIR(e)), s1 = v_bytes(sub, SEL_PAIR(2 + e));
            SM_UNROLL for (int j = 0; j < 4; j++) {
                vi v = v_unit(w, 160 + 256 * (size_t)(i / 2) + 128 * (size_t)e + 32 * (size_t)j);
                if (i & 1) v = v_shr(v, 4);
                put(s, 16 * i + 4 * e + j, v_mul16(v_and(v, two), s0));
                put(s, 16 * i + 8 + 4 * e + j, v_mul16(v_and(v_shr(v, 2), two), s1));
            }
        }
    }
}

/* Q3_K, x8: d, scales 3 units, third bits 8 units, codes 16 units. u = q + 4. */
SM_INLINE void unpack_q3k(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi lo = v_unit(w, 16), hi = v_unit(w, 48), top = v_unit(w, 80);
    const vi low = v_set8(15), high = v_set8(0x30), off = v_set8(32);
    vi sub[4];
    sub[0] = v_or(v_and(lo, low), v_and(v_shl(top, 4), high));
    sub[1] = v_or(v_and(hi, low), v_and(v_shl(top, 2), high));
    sub[2] = v_or(v_and(v_shr(lo, 4), low), v_and(top, high));
    sub[3] = v_or(v_and(v_shr(hi, 4), low), v_and(v_shr(top, 2), high));
    t->d[0] = v_unit_f16(w, 0);
    SM_UNROLL for (int i = 0; i < 4; i++) scales_16(t, i, v_sub8(sub[i], off));
    SM_UNROLL for (int h = 0; h < 2; h++) {
        SM_UNROLL for (int j = 0; j < 8; j++) { /* unit j of a half */
            const vi v = v_unit(w, 368 + 256 * (size_t)h + 32 * (size_t)j);
            const vi bit = v_shr(v_unit(w, 112 + 32 * (size_t)j), 4 * h);
            SM_UNROLL for (int k = 0; k < 4; k++) {
                const vi third = k < 2 ? v_shl(bit, 2 - k) : v_shr(bit, k - 2);
                put(s, 32 * h + 8 * k + j,
                    v_or(v_and(v_shr(v, 2 * k), v_set8(3)), v_and(third, v_set8(4))));
            }
        }
    }
}

/* d, dmin and the 8 six-bit scales and minima of Q4_K and Q5_K. */
SM_INLINE void unpack_scales_q4k(struct tile *t, const uint8_t *const *w)
{
    const vi p0 = v_unit(w, 32), p1 = v_unit(w, 64), p2 = v_unit(w, 96);
    const vi six = v_set8(63), low = v_set8(15), high = v_set8(0x30);
    vi sub[2], min[2];
    sub[0] = v_and(p0, six);
    min[0] = v_and(p1, six);
    sub[1] = v_or(v_and(p2, low), v_and(v_shr(p0, 2), high));
    min[1] = v_or(v_and(v_shr(p2, 4), low), v_and(v_shr(p1, 2), high));
    t->d[0] = v_unit_f16(w, 0);
    t->m[0] = v_negate(v_unit_f16(w, 16));
    SM_UNROLL for (int g = 0; g < 8; g++) {
        t->sub[g] = v_bytes(sub[g / 4], SEL_U32(g & 3));
        t->pair[g] = v_bytes(min[g / 4], SEL_PAIR(g & 3));
    }
}

/* Q4_K, x8: d, dmin, scales 3 units, codes 32 units. */
SM_INLINE void unpack_q4k(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi low = v_set8(15);
    unpack_scales_q4k(t, w);
    SM_UNROLL for (int c = 0; c < 4; c++) {
        SM_UNROLL for (int j = 0; j < 8; j++) {
            const vi v = v_unit(w, 128 + 256 * (size_t)c + 32 * (size_t)j);
            put(s, 16 * c + j, v_and(v, low));
            put(s, 16 * c + 8 + j, v_and(v_shr(v, 4), low));
        }
    }
}

/* Q5_K, x8: d, dmin, scales 3 units, fifth bits 8 units, codes 32 units. */
SM_INLINE void unpack_q5k(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi low = v_set8(15), fifth = v_set8(16);
    unpack_scales_q4k(t, w);
    SM_UNROLL for (int c = 0; c < 4; c++) {
        SM_UNROLL for (int j = 0; j < 8; j++) {
            const vi bits = v_unit(w, 128 + 32 * (size_t)j);
            const vi v = v_unit(w, 384 + 256 * (size_t)c + 32 * (size_t)j);
            const vi b0 = c < 2 ? v_shl(bits, 4 - 2 * c) : v_shr(bits, 2 * c - 4);
            const vi b1 = c < 2 ? v_shl(bits, 3 - 2 * c) : v_shr(bits, 2 * c - 3);
            put(s, 16 * c + j, v_or(v_and(v, low), v_and(b0, fifth)));
            put(s, 16 * c + 8 + j, v_or(v_and(v_shr(v, 4), low), v_and(b1, fifth)));
        }
    }
}

/* Q6_K, x8: d, scales 4 units, low nibbles 32 units, high bits 16 units. u = q + 32. */
SM_INLINE void unpack_q6k(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi low = v_set8(15), high = v_set8(0x30);
    t->d[0] = v_unit_f16(w, 0);
    SM_UNROLL for (int i = 0; i < 4; i++) scales_16(t, i, v_unit(w, 16 + 32 * (size_t)i));
    SM_UNROLL for (int h = 0; h < 2; h++) {
        const int k = 32 * h;
        SM_UNROLL for (int j = 0; j < 8; j++) {
            const size_t at = 144 + 512 * (size_t)h + 32 * (size_t)j;
            const vi l0 = v_unit(w, at), l1 = v_unit(w, at + 256);
            const vi top = v_unit(w, 1168 + 256 * (size_t)h + 32 * (size_t)j);
            put(s, k + j, v_or(v_and(l0, low), v_and(v_shl(top, 4), high)));
            put(s, k + 8 + j, v_or(v_and(l1, low), v_and(v_shl(top, 2), high)));
            put(s, k + 16 + j, v_or(v_and(v_shr(l0, 4), low), v_and(top, high)));
            put(s, k + 24 + j, v_or(v_and(v_shr(l1, 4), low), v_and(v_shr(top, 2), high)));
        }
    }
}

/* TQ2_0, x8: d, codes 16 units. u = q + 1. */
SM_INLINE void unpack_tq20(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi two = v_set8(3);
    t->d[0] = v_unit_f16(w, 0);
    SM_UNROLL for (int h = 0; h < 2; h++) {
        SM_UNROLL for (int j = 0; j < 8; j++) {
            const vi v = v_unit(w, 16 + 256 * (size_t)h + 32 * (size_t)j);
            SM_UNROLL for (int k = 0; k < 4; k++)
                put(s, 32 * h + 8 * k + j, v_and(v_shr(v, 2 * k), two));
        }
    }
}

/* The first base-3 digit: 3v >> 8 = (v > 85) + (v > 170); the rest is 3v mod 256. */
SM_INLINE vi digit(vi *v)
{
    const vi u = v_add8(v_above8(*v, v_set8(85)), v_above8(*v, v_set8(170)));
    *v = v_add8(*v, v_add8(*v, *v));
    return u;
}

/* TQ1_0, x8: d, codes 12 units of five digits, 1 unit of four. u = digit = q + 1. */
SM_INLINE void unpack_tq10(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    t->d[0] = v_unit_f16(w, 0);
    SM_UNROLL for (int j = 0; j < 12; j++) { /* columns 32n + 4j, then 160 + 16n + 4(j - 8) */
        vi v = v_unit(w, 16 + 32 * (size_t)j);
        const int first = j < 8 ? j : 40 + (j - 8), step = j < 8 ? 8 : 4;
        SM_UNROLL for (int n = 0; n < 5; n++) put(s, first + n * step, digit(&v));
    }
    vi v = v_unit(w, 16 + 384);
    SM_UNROLL for (int n = 0; n < 4; n++) put(s, 60 + n, digit(&v));
}

/* IQ4_XS, x8: d, high scale bits 1 unit of 2 bytes, low scale bits 1 unit, codes 32 units.
 * u = K + 128. */
SM_INLINE void unpack_iq4xs(struct tile *t, const uint8_t *const *w, const struct sink *s)
{
    const vi table = v_xor(v_table(sm_codes_iq4_values), v_set8(-128)), low = v_set8(15);
    vi high_bits = v_unit16(w, 16), low_bits = v_unit(w, 32);
    t->d[0] = v_unit_f16(w, 0);
    SM_UNROLL for (int g = 0; g < 8; g++) {
        const vi sub = v_sub32(v_or(v_and(low_bits, v_set32(15)),
                                    v_shl32(v_and(high_bits, v_set32(3)), 4)),
                               v_set32(32));
        t->sub[g] = sub;
        t->pair[g] = v_or(v_and(sub, v_set32(0xffff)), v_shl32(sub, 16));
        low_bits = v_shr32(low_bits, 4);
        high_bits = v_shr32(high_bits, 2);
        SM_UNROLL for (int j = 0; j < 4; j++) {
            const vi v = v_unit(w, 64 + 128 * (size_t)g + 32 * (size_t)j);
            put(s, 8 * g + j, v_lookup(table, v_and(v, low)));
            put(s, 8 * g + 4 + j, v_lookup(table, v_and(v_shr(v, 4), low)));
        }
    }
}

/* The kernels of one level. */
#define SM_MUL_TILE_K(isa)                                                                         \
    SM_MUL_TILES(sm_mul_q2k_q8k_##isa, 256, 8 * 84, unpack_q2k(t, at, s), q2k);                    \
    SM_MUL_TILES(sm_mul_q3k_q8k_##isa, 256, 8 * 110, unpack_q3k(t, at, s), q3k);                   \
    SM_MUL_TILES(sm_mul_q4k_q8k_##isa, 256, 8 * 144, unpack_q4k(t, at, s), q45k);                  \
    SM_MUL_TILES(sm_mul_q5k_q8k_##isa, 256, 8 * 176, unpack_q5k(t, at, s), q45k);                  \
    SM_MUL_TILES(sm_mul_q6k_q8k_##isa, 256, 8 * 210, unpack_q6k(t, at, s), q6k);                   \
    SM_MUL_TILES(sm_mul_tq10_q8k_##isa, 256, 8 * 54, unpack_tq10(t, at, s), tq);                   \
    SM_MUL_TILES(sm_mul_tq20_q8k_##isa, 256, 8 * 66, unpack_tq20(t, at, s), tq);                   \
    SM_MUL_TILES(sm_mul_iq4xs_q8k_##isa, 256, 8 * 136, unpack_iq4xs(t, at, s), iq4xs)

#endif
#endif
