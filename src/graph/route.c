/* SPDX-License-Identifier: MIT */
#include "graph/route.h"
#include "base/fmath.h"

#include <math.h>
#include <string.h>

/* sum16 of plain values (docs/arithmetic.md section 2, the softmax form). */
static float sum16(const float *x, uint32_t n)
{
    float p[16] = {0};
    for (uint32_t i = 0; i < n; i++) p[i % 16] = p[i % 16] + x[i];
    for (uint32_t w = 8; w; w /= 2)
        for (uint32_t k = 0; k < w; k++) p[k] = p[k] + p[k + w];
    return p[0];
}

static float largest(const float *x, uint32_t n)
{
    float m = -INFINITY;
    for (uint32_t i = 0; i < n; i++) m = x[i] > m ? x[i] : m;
    return m;
}

/* Logits to scores, in place. */
static void score_all(const struct sm_kern *k, const struct sm_router *r, float *s)
{
    const uint32_t n = r->n_expert;
    if (r->gating == SM_GATE_SIGMOID) {
        for (uint32_t i = 0; i < n; i++) s[i] = -s[i];
        k->exp(s, s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = 1 / (1 + s[i]);
    } else if (r->gating == SM_GATE_SOFTMAX) {
        const float m = largest(s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = s[i] - m;
        k->exp(s, s, n);
        const float sum = sum16(s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = s[i] / sum;
    }
}

static void weigh(const struct sm_router *r, const float *s, const uint16_t *ids, float *w)
{
    const uint32_t k = r->n_used;
    for (uint32_t i = 0; i < k; i++) w[i] = s[ids[i]];
    if (r->gating == SM_GATE_SOFTMAX_CHOSEN) {
        const float m = largest(w, k);
        float sum = 0;
        for (uint32_t i = 0; i < k; i++) {
            w[i] = sm_exp_f32(w[i] - m);
            sum = sum + w[i];
        }
        for (uint32_t i = 0; i < k; i++) w[i] = w[i] / sum;
    }
    if (r->normalize) {
        float sum = 0;
        for (uint32_t i = 0; i < k; i++) sum = sum + w[i];
        sum = sum > 0x1p-14f ? sum : 0x1p-14f;
        for (uint32_t i = 0; i < k; i++) w[i] = w[i] / sum;
    }
    if (r->scale != 0 && r->scale != 1)
        for (uint32_t i = 0; i < k; i++) w[i] = w[i] * r->scale;
}

void sm_route_rank(const struct sm_kern *k, const struct sm_router *r, const uint8_t *held,
                   float *logits, uint16_t *ids, uint32_t n)
{
    const struct sm_choice c = {r->n_expert, r->n_used, r->n_group, r->n_group_used, r->bias};
    score_all(k, r, logits);
    sm_choose(&c, &r->lever, held, logits, ids, n);
}

static void sort_ids(uint16_t *ids, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint16_t id = ids[i];
        uint32_t at = i;
        for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}

void sm_route(const struct sm_kern *k, const struct sm_router *r, const uint8_t *held, float *logits,
              uint16_t *ids, float *weights)
{
    sm_route_rank(k, r, held, logits, ids, r->n_used);
    sort_ids(ids, r->n_used);
    weigh(r, logits, ids, weights);
}
