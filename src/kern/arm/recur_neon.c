/* SPDX-License-Identifier: MIT */
/* Steps of the recurrent mixers, NEON; see recur_avx2.c for the shape of the loops. */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

#include "base/fmath.h"
#include <math.h>
#include <string.h>

void sm_sigmoid_mul_neon(float *h, const float *g, const float *u, size_t n)
{
    size_t i = 0;
    for (; i + 4 <= n; i += 4) vst1q_f32(h + i, gate4(vld1q_f32(g + i), vld1q_f32(u + i)));
    for (; i < n; i++) h[i] = u[i] / (1.0f + sm_exp_f32(-g[i]));
}

/* Channels i .. i + 3 of all tokens. */
SM_INLINE void conv4(const struct sm_conv *c, size_t i)
{
    float column[4];
    float32x4_t w[SM_MAX_TAPS];
    for (uint32_t j = 0; j < c->taps; j++) {
        for (size_t k = 0; k < 4; k++) column[k] = c->w[(i + k) * c->taps + j];
        w[j] = vld1q_f32(column);
    }
    for (uint32_t t = c->n_tok; t-- > 0;) {
        float32x4_t acc = vdupq_n_f32(0);
        for (uint32_t j = 0; j < c->taps; j++)
            acc = vfmaq_f32(acc, w[j], vld1q_f32(c->x + (t + j) * c->ldx + i));
        if (c->silu) acc = gate4(acc, acc);
        vst1q_f32(c->y + t * c->ldy + i, acc);
    }
}

void sm_conv_neon(const struct sm_conv *c)
{
    size_t i = 0;
    for (; i + 4 <= c->n; i += 4) conv4(c, i);
    for (; i < c->n; i++) {
        for (uint32_t t = c->n_tok; t-- > 0;) {
            float acc = 0;
            for (uint32_t j = 0; j < c->taps; j++)
                acc = fmaf(c->w[i * c->taps + j], c->x[(t + j) * c->ldx + i], acc);
            c->y[t * c->ldy + i] = c->silu ? sm_silu_f32(acc) : acc;
        }
    }
}

/* One token of n groups of 4 rows. */
SM_INLINE void delta_token(const struct sm_delta_tile *d, uint32_t t, int n, bool per_key)
{
    const float *q = d->q + t * d->ld, *k = d->k + t * d->ld, *g = d->g + t * d->ld;
    const float beta = d->beta[t * d->ld];
    const size_t bytes = d->n_rows * sizeof(float);
    float rows[SM_DELTA_ROWS] = {0};
    float32x4_t u[8], w[8], o[8];
    for (int i = 0; i < n; i++) u[i] = o[i] = vdupq_n_f32(0);
    for (uint32_t j = 0; j < d->dk; j++) {
        const float *s = d->s + (size_t)j * SM_DELTA_ROWS;
        const float kj = k[j], gj = g[per_key ? j : 0];
        for (int i = 0; i < n; i++)
            u[i] = vfmaq_n_f32(u[i], vmulq_n_f32(vld1q_f32(s + 4 * i), gj), kj);
    }
    memcpy(rows, d->v + t * d->ld, bytes);
    for (int i = 0; i < n; i++)
        w[i] = vmulq_n_f32(vsubq_f32(vld1q_f32(rows + 4 * i), u[i]), beta);
    for (uint32_t j = 0; j < d->dk; j++) {
        float *s = d->s + (size_t)j * SM_DELTA_ROWS;
        const float kj = k[j], qj = q[j], gj = g[per_key ? j : 0];
        for (int i = 0; i < n; i++) {
            const float32x4_t decayed = vmulq_n_f32(vld1q_f32(s + 4 * i), gj);
            const float32x4_t now = vfmaq_n_f32(decayed, w[i], kj);
            vst1q_f32(s + 4 * i, now);
            o[i] = vfmaq_n_f32(o[i], now, qj);
        }
    }
    if (!d->o) return;
    for (int i = 0; i < n; i++) vst1q_f32(rows + 4 * i, o[i]);
    memcpy(d->o + t * d->ld_o, rows, bytes);
}

SM_INLINE void delta_rows(const struct sm_delta_tile *d, int n)
{
    for (uint32_t t = 0; t < d->n_tok; t++) {
        if (d->per_key) delta_token(d, t, n, true);
        else delta_token(d, t, n, false);
    }
}

void sm_delta_tile_neon(const struct sm_delta_tile *d)
{
    switch ((d->n_rows + 7) / 8) {
    case 1: delta_rows(d, 2); break;
    case 2: delta_rows(d, 4); break;
    case 3: delta_rows(d, 6); break;
    default: delta_rows(d, 8); break;
    }
}

#endif
