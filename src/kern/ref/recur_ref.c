/* SPDX-License-Identifier: MIT */
/* Steps of the recurrent mixers (docs/arithmetic.md section 5): sigmoid gate, causal convolution,
 * delta rule. */
#include "base/fmath.h"
#include "kern/ref/ref.h"
#include <math.h>

void sm_sigmoid_mul_ref(float *h, const float *g, const float *u, size_t n)
{
    for (size_t i = 0; i < n; i++) h[i] = u[i] / (1.0f + sm_exp_f32(-g[i]));
}

void sm_conv_ref(const struct sm_conv *c)
{
    for (uint32_t t = c->n_tok; t-- > 0;) {
        for (uint32_t i = 0; i < c->n; i++) {
            float acc = 0;
            for (uint32_t j = 0; j < c->taps; j++)
                acc = fmaf(c->w[(size_t)i * c->taps + j], c->x[(t + j) * c->ldx + i], acc);
            c->y[t * c->ldy + i] = c->silu ? sm_silu_f32(acc) : acc;
        }
    }
}

void sm_delta_tile_ref(const struct sm_delta_tile *d)
{
    for (uint32_t t = 0; t < d->n_tok; t++) {
        const float *q = d->q + t * d->ld, *k = d->k + t * d->ld, *g = d->g + t * d->ld;
        for (uint32_t i = 0; i < d->n_rows; i++) {
            float *s = d->s + i, u = 0, o = 0;
            for (uint32_t j = 0; j < d->dk; j++) {
                s[(size_t)j * SM_DELTA_ROWS] = s[(size_t)j * SM_DELTA_ROWS] * g[d->per_key ? j : 0];
                u = fmaf(s[(size_t)j * SM_DELTA_ROWS], k[j], u);
            }
            const float w = (d->v[t * d->ld + i] - u) * d->beta[t * d->ld];
            for (uint32_t j = 0; j < d->dk; j++) {
                s[(size_t)j * SM_DELTA_ROWS] = fmaf(w, k[j], s[(size_t)j * SM_DELTA_ROWS]);
                o = fmaf(s[(size_t)j * SM_DELTA_ROWS], q[j], o);
            }
            if (d->o) d->o[t * d->ld_o + i] = o;
        }
    }
}
