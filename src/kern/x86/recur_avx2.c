/* SPDX-License-Identifier: MIT */
/* Steps of the recurrent mixers, AVX2. The state of a tile, 32 rows of up to 128 keys, is 16 KiB
 * and stays in the first cache while all tokens of a chunk pass. The decay is multiplied in twice
 * rather than stored in between: the first pass then only loads. */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

#include "base/fmath.h"
#include <math.h>
#include <string.h>

void sm_sigmoid_mul_avx2(float *h, const float *g, const float *u, size_t n)
{
    size_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(h + i, gate8(_mm256_loadu_ps(g + i), _mm256_loadu_ps(u + i)));
    for (; i < n; i++) h[i] = u[i] / (1.0f + sm_exp_f32(-g[i]));
}

/* Channels i .. i + 7 of all tokens. */
SM_INLINE void conv8(const struct sm_conv *c, size_t i)
{
    float column[8];
    __m256 w[SM_MAX_TAPS];
    for (uint32_t j = 0; j < c->taps; j++) {
        for (size_t k = 0; k < 8; k++) column[k] = c->w[(i + k) * c->taps + j];
        w[j] = _mm256_loadu_ps(column);
    }
    for (uint32_t t = c->n_tok; t-- > 0;) {
        __m256 acc = _mm256_setzero_ps();
        for (uint32_t j = 0; j < c->taps; j++)
            acc = _mm256_fmadd_ps(w[j], _mm256_loadu_ps(c->x + (t + j) * c->ldx + i), acc);
        if (c->silu) acc = gate8(acc, acc);
        _mm256_storeu_ps(c->y + t * c->ldy + i, acc);
    }
}

void sm_conv_avx2(const struct sm_conv *c)
{
    size_t i = 0;
    for (; i + 8 <= c->n; i += 8) conv8(c, i);
    for (; i < c->n; i++) {
        for (uint32_t t = c->n_tok; t-- > 0;) {
            float acc = 0;
            for (uint32_t j = 0; j < c->taps; j++)
                acc = fmaf(c->w[i * c->taps + j], c->x[(t + j) * c->ldx + i], acc);
            c->y[t * c->ldy + i] = c->silu ? sm_silu_f32(acc) : acc;
        }
    }
}

/* One token of n groups of 8 rows. */
SM_INLINE void delta_token(const struct sm_delta_tile *d, uint32_t t, int n, bool per_key)
{
    const float *q = d->q + t * d->ld, *k = d->k + t * d->ld, *g = d->g + t * d->ld;
    const __m256 beta = _mm256_set1_ps(d->beta[t * d->ld]);
    const size_t bytes = d->n_rows * sizeof(float);
    float rows[SM_DELTA_ROWS] = {0};
    __m256 u[4], w[4], o[4], gj = _mm256_set1_ps(g[0]);
    for (int i = 0; i < n; i++) u[i] = o[i] = _mm256_setzero_ps();
    for (uint32_t j = 0; j < d->dk; j++) {
        const float *s = d->s + (size_t)j * SM_DELTA_ROWS;
        const __m256 kj = _mm256_broadcast_ss(k + j);
        if (per_key) gj = _mm256_broadcast_ss(g + j);
        for (int i = 0; i < n; i++)
            u[i] = _mm256_fmadd_ps(_mm256_mul_ps(_mm256_load_ps(s + 8 * i), gj), kj, u[i]);
    }
    memcpy(rows, d->v + t * d->ld, bytes);
    for (int i = 0; i < n; i++)
        w[i] = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(rows + 8 * i), u[i]), beta);
    for (uint32_t j = 0; j < d->dk; j++) {
        float *s = d->s + (size_t)j * SM_DELTA_ROWS;
        const __m256 kj = _mm256_broadcast_ss(k + j), qj = _mm256_broadcast_ss(q + j);
        if (per_key) gj = _mm256_broadcast_ss(g + j);
        for (int i = 0; i < n; i++) {
            const __m256 decayed = _mm256_mul_ps(_mm256_load_ps(s + 8 * i), gj);
            const __m256 now = _mm256_fmadd_ps(w[i], kj, decayed);
            _mm256_store_ps(s + 8 * i, now);
            o[i] = _mm256_fmadd_ps(now, qj, o[i]);
        }
    }
    if (!d->o) return;
    for (int i = 0; i < n; i++) _mm256_storeu_ps(rows + 8 * i, o[i]);
    memcpy(d->o + t * d->ld_o, rows, bytes);
}

SM_INLINE void delta_rows(const struct sm_delta_tile *d, int n)
{
    for (uint32_t t = 0; t < d->n_tok; t++) {
        if (d->per_key) delta_token(d, t, n, true);
        else delta_token(d, t, n, false);
    }
}

void sm_delta_tile_avx2(const struct sm_delta_tile *d)
{
    switch ((d->n_rows + 7) / 8) {
    case 1: delta_rows(d, 1); break;
    case 2: delta_rows(d, 2); break;
    case 3: delta_rows(d, 3); break;
    default: delta_rows(d, 4); break;
    }
}

#endif
