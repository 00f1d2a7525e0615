/* SPDX-License-Identifier: MIT */
/* Logits to scores, and the chosen scores to weights. Which experts are chosen (top-k, groups,
 * levers) is store/choice.c, since replays of traces must choose alike without a model. */
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
    if (r->gating == SM_GATING_SIGMOID) {
        for (uint32_t i = 0; i < n; i++) s[i] = -s[i];
        k->exp(s, s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = 1 / (1 + s[i]);
    } else if (r->gating == SM_GATING_SOFTMAX) {
        const float m = largest(s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = s[i] - m;
        k->exp(s, s, n);
        const float sum = sum16(s, n);
        for (uint32_t i = 0; i < n; i++) s[i] = s[i] / sum;
    }
}

static void weigh(const struct sm_router *r, const float *s, const uint16_t *ids, uint32_t k,
                  float *w)
{
    for (uint32_t i = 0; i < k; i++) w[i] = s[ids[i]];
    if (r->gating == SM_GATING_SOFTMAX_CHOSEN) {
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

static struct sm_choice choice_of(const struct sm_router *r, float range)
{
    return (struct sm_choice){r->n_expert, r->n_used, r->n_group, r->n_group_used, r->bias,
                              r->gating == SM_GATING_SOFTMAX_CHOSEN, range};
}

uint32_t sm_route_rank(const struct sm_kern *k, const struct sm_router *r,
                       struct sm_route_view view, float *logits, uint16_t *ids, uint32_t n)
{
    const struct sm_choice c = choice_of(r, view.range);
    score_all(k, r, logits);
    return sm_choose(&c, &r->lever, view.held, logits, ids, n);
}

float sm_route_range(const struct sm_router *r, const float *scores)
{
    const struct sm_choice c = choice_of(r, 0);
    return sm_choice_range(&c, scores);
}

uint32_t sm_route(const struct sm_kern *k, const struct sm_router *r, struct sm_route_view view,
                  float *logits, uint16_t *ids, float *weights)
{
    const uint32_t n = sm_route_rank(k, r, view, logits, ids, r->n_used);
    sm_ids_sort(ids, n);
    weigh(r, logits, ids, n, weights);
    for (uint32_t i = n; i < r->n_used; i++) {
        ids[i] = SM_NO_EXPERT;
        weights[i] = 0;
    }
    return n;
}
