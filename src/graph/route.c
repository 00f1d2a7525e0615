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

/* Index of the largest value that is not taken; ties and NaN go to the lower index. */
static uint32_t pick_best(const float *v, const bool *taken, uint32_t n)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t i = 0; i < n; i++)
        if (!taken[i] && (best == UINT32_MAX || v[i] > v[best])) best = i;
    return best;
}

/* Worth of a group: its largest plus its second largest value (alone: the largest). */
static float group_worth(const float *c, uint32_t n)
{
    float first = -INFINITY, second = -INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        if (c[i] > first) {
            second = first;
            first = c[i];
        } else if (c[i] > second) {
            second = c[i];
        }
    }
    return n > 1 ? first + second : first;
}

/* Mark the experts of the groups that lose as taken. */
static void close_groups(const struct sm_router *r, const float *c, bool *taken)
{
    const uint32_t size = r->n_expert / r->n_group;
    float worth[SM_MAX_GROUPS];
    bool open[SM_MAX_GROUPS] = {false};
    for (uint32_t i = 0; i < r->n_group; i++) worth[i] = group_worth(c + i * size, size);
    for (uint32_t i = 0; i < r->n_group_used; i++)
        open[pick_best(worth, open, r->n_group)] = true;
    for (uint32_t i = 0; i < r->n_expert; i++) taken[i] = !open[i / size];
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

void sm_route(const struct sm_kern *k, const struct sm_router *r, float *logits, uint16_t *ids,
              float *weights)
{
    const uint32_t n = r->n_expert;
    float choice[SM_MAX_EXPERTS];
    bool taken[SM_MAX_EXPERTS] = {false};
    bool chosen[SM_MAX_EXPERTS] = {false};
    uint32_t at = 0;
    score_all(k, r, logits);
    for (uint32_t i = 0; i < n; i++) choice[i] = r->bias ? logits[i] + r->bias[i] : logits[i];
    if (r->n_group > 1) close_groups(r, choice, taken);
    for (uint32_t i = 0; i < r->n_used; i++) {
        const uint32_t best = pick_best(choice, taken, n);
        taken[best] = chosen[best] = true;
    }
    for (uint32_t i = 0; i < n; i++)
        if (chosen[i]) ids[at++] = (uint16_t)i;
    weigh(r, logits, ids, weights);
}
