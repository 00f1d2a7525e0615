/* SPDX-License-Identifier: MIT */
/* The searches for scales that the encoders share. Sums are added up in element order in f32; the
 * order is part of the result. Private to src/quant/encode*.c. */
#ifndef SM_QUANT_ENCODE_SEARCH_H
#define SM_QUANT_ENCODE_SEARCH_H

#include "base/bits.h"
#include "quant/quant.h"

#define SM_ENCODE_MAX 32 /* elements of the largest group that is searched */

/* A group whose largest magnitude is below this is stored as zeros. */
#define SM_ENCODE_TINY 1e-15f

/* Nearest integer, ties to even; beyond a million (and for NaN) some number as large. Adding
 * 1.5 * 2^23 leaves the integer in the low bits: without SSE4.1 rintf is a call, and this is half
 * of the time of a search. */
static inline int sm_encode_rne(float v)
{
    v = v > -1e6f ? v : -1e6f;
    v = v < 1e6f ? v : 1e6f;
    return (int)(sm_bits_of_f32(v + 0x1.8p23f) & 0x7fffff) - 0x400000;
}
/* The same with ties away from zero. */
static inline int sm_encode_round_away(float v)
{
    const int near = sm_encode_rne(v);
    const float rest = v - (float)near; /* exact; a half when a tie went to even */
    return near + (rest == 0.5f && v > 0) - (rest == -0.5f && v < 0);
}
static inline int sm_encode_clamp(int v, int lo, int hi) { return v < lo ? lo : v > hi ? hi : v; }

/* The value of largest magnitude, the first of equals; 0 when all are. */
float sm_encode_extreme(const float *x, size_t n);

/* Symmetric: x ~ scale * (code - half), codes 0 … 2 * half - 1. w: weights of the squared errors,
 * NULL: x squared. Returns the scale (its sign is that of -x of largest magnitude). */
float sm_encode_symmetric(const float *x, const float *w, size_t n, int half, uint8_t *codes);

/* The same by single-element improvements, weights x squared (Q3_K). */
float sm_encode_symmetric_steps(const float *x, size_t n, int half, uint8_t *codes);

/* Affine: x ~ scale * code - min, codes 0 … top, min >= 0. Tries the inverse scales
 * (top + first + step * k) / (hi - lo), k = 0 … last; error: sum of w * |diff| when `absolute`,
 * else of w * diff squared. */
struct sm_encode_range {
    int top, last;
    float first, step;
    bool absolute;
};
float sm_encode_affine(const float *x, const float *w, size_t n, const struct sm_encode_range *r,
                       uint8_t *codes, float *min);

/* Scales that are >= 0: x ~ scale * code, codes 0 … top. */
float sm_encode_positive(const float *x, const float *w, size_t n, int top, uint8_t *codes);

/* The encoders of one row; v: importance or NULL. */
void sm_encode_q4_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q4_1(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q5_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q5_1(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q8_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q2_k(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q3_k(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q4_k(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q5_k(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q6_k(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_tq1_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_tq2_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q1_0(const float *x, size_t n, const float *v, uint8_t *out);
void sm_encode_q2_0(const float *x, size_t n, const float *v, uint8_t *out);

#endif
