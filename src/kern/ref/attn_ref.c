/* SPDX-License-Identifier: MIT */
/* One chunk of attention (docs/arithmetic.md section 5) over keys and values in each KV format. */
#include "base/bits.h"
#include "base/fmath.h"
#include "kern/ref/ref.h"
#include <assert.h>
#include <math.h>

/* Element i of a key or value row. */
typedef float (*load_fn)(const uint8_t *row, size_t i);

static inline float load_f32(const uint8_t *row, size_t i) { return sm_ldf32(row + 4 * i); }

static inline float load_f16(const uint8_t *row, size_t i)
{
    return sm_f32_of_f16(sm_ld16(row + 2 * i));
}

static inline float load_q8_0(const uint8_t *row, size_t i)
{
    const uint8_t *block = row + 34 * (i / 32);
    return sm_f32_of_f16(sm_ld16(block)) * (float)(int8_t)block[2 + i % 32];
}

static inline float dot_row(load_fn load, const float *q, const uint8_t *row, size_t n)
{
    float p[16] = {0};
    for (size_t i = 0; i < n; i++) p[i % 16] = fmaf(q[i], load(row, i), p[i % 16]);
    return sm_ref_fold16(p);
}

/* Always inlined, so that each format gets its own loop. */
__attribute__((always_inline)) static inline void attn_chunk(const struct sm_attn_chunk *c,
                                                             load_fn load)
{
    assert(c->first < c->last && c->last <= 256);
    const uint8_t *k = c->k, *v = c->v;
    for (size_t h = 0; h < c->n_q; h++) {
        float e[256], lanes[16] = {0}, *o = c->o + h * c->ldo;
        float m = -INFINITY;
        for (size_t i = c->first; i < c->last; i++) {
            e[i] = dot_row(load, c->q + h * c->ldq, k + i * c->k_stride, c->dk) * c->scale;
            m = m > e[i] ? m : e[i];
        }
        for (size_t d = 0; d < c->dv; d++) o[d] = 0;
        for (size_t i = c->first; i < c->last; i++) {
            e[i] = sm_exp_f32(e[i] - m);
            lanes[i % 16] = lanes[i % 16] + e[i];
            for (size_t d = 0; d < c->dv; d++)
                o[d] = fmaf(e[i], load(v + i * c->v_stride, d), o[d]);
        }
        c->m[h] = m;
        c->l[h] = sm_ref_fold16(lanes);
    }
}

void sm_attn_chunk_f32_ref(const struct sm_attn_chunk *c) { attn_chunk(c, load_f32); }
void sm_attn_chunk_f16_ref(const struct sm_attn_chunk *c) { attn_chunk(c, load_f16); }
void sm_attn_chunk_q8_0_ref(const struct sm_attn_chunk *c) { attn_chunk(c, load_q8_0); }
