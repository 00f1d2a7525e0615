/* SPDX-License-Identifier: MIT */
/* The formats with 32-wide activation blocks, for mul_tile.h: 8 steps in a full tile. The
 * offset in u = q + offset is folded through the sums of activations: 32 * 255 * 127 is far inside
 * int32. */
#ifndef SM_MUL_TILE_32_H
#define SM_MUL_TILE_32_H

#include "kern/x86/mul_tile.h"
#include "quant/codes.h"

#ifdef SM_HAVE_TILE

/* One step of 32 columns: dot is sum(u * a); pair[0] is minus the offset, in both halves, unused
 * with a minimum. */
SM_INLINE vf step_32(vf acc, const struct tile *w, unsigned k, vi dot, const int16_t *s, float d_a,
                     const bool has_min)
{
    const vi runs = v_splat32(s);
    if (!has_min) dot = v_dp16(dot, w->pair[0], runs);
    vf f = v_mul(w->d[k], v_float(dot));
    if (has_min) f = v_fma(w->m[k], v_float(v_dp16(v_zero(), v_set16(1), runs)), f);
    return v_fma(v_set_f(d_a), f, acc);
}

SM_INLINE void dots_32(const struct tile *w, const struct sm_acts *x, size_t tok, size_t col,
                       unsigned n_steps, vf *acc, const int n_tok, const bool has_min)
{
    const size_t n = x->n_cols;
    const int8_t *q = x->q + tok * n + col;
    const int16_t *s = x->s + (tok * n + col) / 16;
    const float *d = x->d + (tok * n + col) / 32;
    vf sum[V_TOK];
    SM_UNROLL for (int t = 0; t < n_tok; t++) sum[t] = acc[t];
    for (unsigned k = 0; k < n_steps; k++) {
        const vi *u = w->u + 8 * k;
        vi dot[V_TOK];
        SM_UNROLL for (int t = 0; t < n_tok; t++) dot[t] = v_zero();
        SM_UNROLL for (int j = 0; j < 8; j++) {
            SM_UNROLL for (int t = 0; t < n_tok; t++)
                dot[t] = v_dp8(dot[t], u[j], v_splat32(q + (size_t)t * n + 32 * k + 4 * j));
        }
        SM_UNROLL for (int t = 0; t < n_tok; t++)
            sum[t] = step_32(sum[t], w, k, dot[t], s + (size_t)t * (n / 16) + 2 * k,
                             d[(size_t)t * (n / 32) + k], has_min);
    }
    SM_UNROLL for (int t = 0; t < n_tok; t++) acc[t] = sum[t];
}

SM_INLINE vf finish_32(vf acc, const struct tile *w, const vi *dot, const struct sm_acts *x,
                       size_t col, const unsigned n_steps, const bool has_min)
{
    SM_UNROLL for (unsigned k = 0; k < n_steps; k++)
        acc = step_32(acc, w, k, dot[k], x->s + col / 16 + 2 * k, x->d[col / 32 + k], has_min);
    return acc;
}
SM_DOTS(offset, 32, dots_32, finish_32, false);
SM_DOTS(min, 32, dots_32, finish_32, true);

/* Four units of nibbles: low halves first. */
SM_INLINE void nibbles(vi u[8], const uint8_t *const *w, size_t at)
{
    const vi low = v_set8(15);
    SM_UNROLL for (size_t j = 0; j < 4; j++) {
        const vi v = v_unit(w, at + 32 * j);
        u[j] = v_and(v, low);
        u[4 + j] = v_and(v_shr(v, 4), low);
    }
}

SM_INLINE void put_8(const struct sink *s, unsigned k, const vi u[8])
{
    SM_UNROLL for (unsigned j = 0; j < 8; j++) put(s, (int)(8 * k + j), u[j]);
}

/* The fifth bits of unit j (columns 4j .. 4j + 3) from the lane's 32 bits, as 0 or 16. */
SM_INLINE vi fifth(vi bits, int j)
{
    const vi mask = v_set32(j & 1 ? (int)0x80402010u : 0x08040201);
    const vi one = v_min8(v_and(v_bytes(bits, 0x01010101u * (uint32_t)(j / 2)), mask), v_set8(1));
    return v_shl(one, 4);
}
SM_INLINE void add_fifth(vi u[8], const uint8_t *const *w, size_t at)
{
    const vi bits = v_unit(w, at);
    SM_UNROLL for (int j = 0; j < 8; j++) u[j] = v_or(u[j], fifth(bits, j));
}

/* One block of each step: blocks follow each other `bytes` apart. */
#define STEPS(bytes)                                                                               \
    const uint8_t *at[2] = {w[0], w[V_GROUPS - 1]};                                                \
    for (unsigned k = 0; k < n_steps; k++, at[0] += (bytes), at[1] += (bytes))

/* x8: d, codes. */
SM_INLINE void unpack_q40(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    t->pair[0] = v_set16(-8);
    STEPS(144)
    {
        t->d[k] = v_unit_f16(at, 0);
        vi u[8];
        nibbles(u, at, 16);
        put_8(s, k, u);
    }
}

/* x8: d, m, codes. */
SM_INLINE void unpack_q41(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    STEPS(160)
    {
        t->d[k] = v_unit_f16(at, 0);
        t->m[k] = v_unit_f16(at, 16);
        vi u[8];
        nibbles(u, at, 32);
        put_8(s, k, u);
    }
}

/* x8: d, fifth bits, codes. */
SM_INLINE void unpack_q50(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    t->pair[0] = v_set16(-16);
    STEPS(176)
    {
        t->d[k] = v_unit_f16(at, 0);
        vi u[8];
        nibbles(u, at, 48);
        add_fifth(u, at, 16);
        put_8(s, k, u);
    }
}

/* x8: d, m, fifth bits, codes. */
SM_INLINE void unpack_q51(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    STEPS(192)
    {
        t->d[k] = v_unit_f16(at, 0);
        t->m[k] = v_unit_f16(at, 16);
        vi u[8];
        nibbles(u, at, 64);
        add_fifth(u, at, 32);
        put_8(s, k, u);
    }
}

/* x8: d, codes. */
SM_INLINE void unpack_q80(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    t->pair[0] = v_set16(-128);
    STEPS(272)
    {
        t->d[k] = v_unit_f16(at, 0);
        SM_UNROLL for (unsigned j = 0; j < 8; j++)
            put(s, (int)(8 * k + j), v_xor(v_unit(at, 16 + 32 * (size_t)j), v_set8(-128)));
    }
}

SM_INLINE void unpack_iq4nl(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    const vi table = v_xor(v_table(sm_codes_iq4_values), v_set8(-128));
    t->pair[0] = v_set16(-128);
    STEPS(144)
    {
        vi u[8];
        t->d[k] = v_unit_f16(at, 0);
        nibbles(u, at, 16);
        SM_UNROLL for (unsigned j = 0; j < 8; j++) put(s, (int)(8 * k + j), v_lookup(table, u[j]));
    }
}

/* x8: exponents of one byte, codes. 2^(E - 128): bits (E - 1) << 23; 2^-128, 2^-127 for 0, 1. */
SM_INLINE void unpack_mxfp4(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    const vi table = v_add8(v_table(sm_codes_mxfp4_values), v_set8(12));
    t->pair[0] = v_set16(-12);
    STEPS(136)
    {
        vi u[8];
        const vi e = v_unit8(at, 0);
        const vi normal = v_shl32(v_sub32(e, v_set32(1)), 23);
        const vi small = v_shlv32(v_set32(1 << 21), e);
        t->d[k] = v_as_float(v_if_less32(e, v_set32(2), small, normal));
        nibbles(u, at, 8);
        SM_UNROLL for (unsigned j = 0; j < 8; j++) put(s, (int)(8 * k + j), v_lookup(table, u[j]));
    }
}

/* Q2_0, x8: d, codes 4 units, a block is two steps. Byte j of unit i of a lane holds columns
 * 16i + 4j .. + 3. The byte is put into the high half of both 16-bit numbers, one keeps its low and
 * one its high nibble n, and the high part of a product leaves n + 64n: two codes in two bytes. */
SM_INLINE void unpack_q20(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    const vi keep = v_set32((int)0xf0000f00u), by = v_set32(1040 << 16 | 16640);
    const vi two = v_set8(3);
    const uint8_t *at[2] = {w[0], w[V_GROUPS - 1]};
    t->pair[0] = v_set16(-1);
    for (unsigned k = 0; k < n_steps; k += 2, at[0] += 144, at[1] += 144) {
        t->d[k] = t->d[k + 1] = v_unit_f16(at, 0);
        SM_UNROLL for (int i = 0; i < 4; i++) {
            const vi v = v_unit(at, 16 + 32 * (size_t)i);
            SM_UNROLL for (int j = 0; j < 4; j++) {
                const vi bytes = v_bytes(v, 0x00800080u | (uint32_t)j << 24 | (uint32_t)j << 8);
                const vi n = v_and(bytes, keep);
                put(s, 8 * (int)k + 4 * i + j, v_and(v_high16(n, by), two));
            }
        }
    }
}

/* Q1_0, x8: d, bits 4 units, a block is four steps. Byte j of unit i of a lane holds columns
 * 32i + 8j .. + 7. u = q + 1: 0 or 2. */
SM_INLINE void unpack_q10(struct tile *t, const uint8_t *const *w, unsigned n_steps,
                       const struct sink *s)
{
    const uint8_t *at[2] = {w[0], w[V_GROUPS - 1]};
    t->pair[0] = v_set16(-1);
    for (unsigned k = 0; k < n_steps; k += 4, at[0] += 144, at[1] += 144) {
        const vf d = v_unit_f16(at, 0);
        SM_UNROLL for (unsigned i = 0; i < 4; i++) {
            const vi v = v_unit(at, 16 + 32 * (size_t)i);
            t->d[k + i] = d;
            SM_UNROLL for (unsigned j = 0; j < 8; j++) {
                const vi mask = v_set32(j & 1 ? (int)0x80402010u : 0x08040201);
                const vi bit = v_min8(v_and(v_bytes(v, 0x01010101u * (j / 2)), mask), v_set8(1));
                put(s, (int)(8 * (k + i) + j), v_add8(bit, bit));
            }
        }
    }
}

/* The kernels of one level. */
#define SM_MUL_TILE_32(isa)                                                                        \
    SM_MUL_TILES(sm_mul_q40_q8_##isa, 32, 144, unpack_q40(t, at, n_steps, s), offset);             \
    SM_MUL_TILES(sm_mul_q41_q8_##isa, 32, 160, unpack_q41(t, at, n_steps, s), min);                \
    SM_MUL_TILES(sm_mul_q50_q8_##isa, 32, 176, unpack_q50(t, at, n_steps, s), offset);             \
    SM_MUL_TILES(sm_mul_q51_q8_##isa, 32, 192, unpack_q51(t, at, n_steps, s), min);                \
    SM_MUL_TILES(sm_mul_q80_q8_##isa, 32, 272, unpack_q80(t, at, n_steps, s), offset);             \
    SM_MUL_TILES(sm_mul_iq4nl_q8_##isa, 32, 144, unpack_iq4nl(t, at, n_steps, s), offset);         \
    SM_MUL_TILES(sm_mul_mxfp4_q8_##isa, 32, 136, unpack_mxfp4(t, at, n_steps, s), offset);         \
    SM_MUL_TILES(sm_mul_q20_q8_##isa, 64, 144, unpack_q20(t, at, n_steps, s), offset);             \
    SM_MUL_TILES(sm_mul_q10_q8_##isa, 128, 144, unpack_q10(t, at, n_steps, s), offset)

#endif
#endif
