/* SPDX-License-Identifier: MIT */
/* x8 matrix times quantised activations (docs/arithmetic.md section 4). Each weight block is taken
 * apart once and meets every token of the batch; the running sums are kept in y. */
#include "kern/ref/ref.h"
#include <assert.h>
#include <math.h>

#define LANES 8

/* One step of one row: n codes of weights from run `run` on with n codes of activations. */
static float step(const struct sm_codes *c, bool has_min, size_t run, size_t n, const int8_t *code,
                  const int16_t *sum, float d_a, float acc)
{
    int32_t i_sum = 0, m_sum = 0;
    for (size_t g = 0; g < n / 16; g++) {
        const int8_t *q = c->q + 16 * (run + g), *a = code + 16 * g;
        int32_t part = 0;
        for (int i = 0; i < 16; i++) part += q[i] * a[i];
        i_sum += c->sub[run + g] * part;
        if (has_min) m_sum += c->min[run + g] * sum[g];
    }
    float t = c->d * (float)i_sum;
    if (has_min) t = fmaf(c->m, (float)m_sum, t);
    return fmaf(d_a, t, acc);
}

/* Block column b of a group: y8[t * ldy + lane] goes on by the steps of that block. */
static void column(const struct sm_traits *t, const struct sm_codes *rows, size_t b, float *y8,
                   size_t ldy, const struct sm_acts *x)
{
    const size_t n = x->block, n_steps = t->block / n;
    for (size_t tok = 0; tok < x->n_tok; tok++) {
        for (size_t k = 0; k < n_steps; k++) {
            const size_t at = tok * x->n_cols + b * t->block + k * n; /* first code of the step */
            for (size_t lane = 0; lane < LANES; lane++) {
                float *acc = &y8[tok * ldy + lane];
                *acc = step(&rows[lane], t->has_min, k * n / 16, n, x->q + at, x->s + at / 16,
                            x->d[at / n], *acc);
            }
        }
    }
}

void sm_mul_x8_ref(uint32_t type, float *y, size_t ldy, const uint8_t *w, size_t n_groups,
                   const struct sm_acts *x)
{
    const struct sm_traits *t = sm_traits_of(type);
    assert(t && t->x8 && x->block == t->act_block && x->n_cols % t->block == 0);
    const size_t n_blocks = x->n_cols / t->block;
    struct sm_codes rows[LANES];
    uint8_t block[SM_BLOCK_BYTES_MAX];
    for (size_t g = 0; g < n_groups; g++) {
        float *y8 = y + LANES * g;
        for (size_t tok = 0; tok < x->n_tok; tok++)
            for (size_t lane = 0; lane < LANES; lane++) y8[tok * ldy + lane] = 0;
        for (size_t b = 0; b < n_blocks; b++) {
            for (size_t lane = 0; lane < LANES; lane++) {
                sm_x8_unpack_block(type, w, LANES * g + lane, b, x->n_cols, block);
                t->codes(block, &rows[lane]);
            }
            column(t, rows, b, y8, ldy, x);
        }
    }
}
