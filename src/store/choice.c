/* SPDX-License-Identifier: MIT */
#include "store/choice.h"

#include "base/fmath.h"

#include <math.h>
#include <string.h>

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
static void close_groups(const struct sm_choice *c, const float *v, bool *taken)
{
    const uint32_t size = c->n_expert / c->n_group;
    float worth[SM_CHOICE_GROUPS];
    bool open[SM_CHOICE_GROUPS] = {false};
    for (uint32_t i = 0; i < c->n_group; i++) worth[i] = group_worth(v + i * size, size);
    for (uint32_t i = 0; i < c->n_group_used; i++) open[pick_best(worth, open, c->n_group)] = true;
    for (uint32_t i = 0; i < c->n_expert; i++) taken[i] = !open[i / size];
}

static void pick(const struct sm_choice *c, const float *v, bool *taken, uint16_t *ids,
                 uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < n; i++) {
        const uint32_t best = pick_best(v, taken, c->n_expert);
        taken[best] = true;
        ids[i] = (uint16_t)best;
    }
}

/* Weight of an expert before it is normalised, `top` being any score of its layer. */
static float weight(const struct sm_choice *c, float score, float top)
{
    return c->logits ? sm_exp_f32(score - top) : score;
}

/* Replace missing experts by nearly as heavy ones of the open groups that are in the pool. */
static void swap_missing(const struct sm_choice *c, const struct sm_lever *l, const uint8_t *held,
                         const float *scores, const float *v, bool *taken, uint16_t *ids,
                         uint32_t n)
{
    for (uint32_t i = l->swap_keep; i < n; i++) {
        uint32_t best = UINT32_MAX;
        if (held[ids[i]]) continue;
        for (uint32_t e = 0; e < c->n_expert; e++)
            if (!taken[e] && held[e] && (best == UINT32_MAX || v[e] > v[best])) best = e;
        if (best == UINT32_MAX) continue;
        const float own = scores[ids[i]];
        if (!(weight(c, scores[best], own) >= l->swap * weight(c, own, own))) continue;
        taken[best] = true;
        ids[i] = (uint16_t)best;
    }
}

/* Leave out missing experts of little weight; the rest keeps its order. */
static uint32_t drop_missing(const struct sm_choice *c, const struct sm_lever *l,
                             const uint8_t *held, const float *scores, uint16_t *ids, uint32_t n)
{
    float w[SM_CHOICE_USED], sum = 0;
    float top = -INFINITY;
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++) top = scores[ids[i]] > top ? scores[ids[i]] : top;
    for (uint32_t i = 0; i < n; i++) {
        w[i] = weight(c, scores[ids[i]], top);
        sum = sum + w[i];
    }
    for (uint32_t i = 0; i < n; i++)
        if (i == 0 || i < l->drop_keep || held[ids[i]] || !(w[i] < l->drop * sum))
            ids[left++] = ids[i];
    return left;
}

float sm_choice_range(const struct sm_choice *c, const float *scores)
{
    float lo = INFINITY, hi = -INFINITY;
    for (uint32_t i = 0; i < c->n_expert; i++) {
        const float v = c->bias ? scores[i] + c->bias[i] : scores[i];
        lo = v < lo ? v : lo;
        hi = v > hi ? v : hi;
    }
    return hi > lo ? hi - lo : 0;
}

uint32_t sm_choose(const struct sm_choice *c, const struct sm_lever *l, const uint8_t *held,
                   const float *scores, uint16_t *ids, uint32_t n)
{
    float v[SM_CHOICE_EXPERTS] = {0};
    bool taken[SM_CHOICE_EXPERTS] = {false};
    uint32_t kept = 0;
    const float bias = !held ? 0 : l->bias_range ? l->bias * c->range : l->bias;
    for (uint32_t i = 0; i < c->n_expert; i++) v[i] = c->bias ? scores[i] + c->bias[i] : scores[i];
    if (bias != 0) {
        if (l->bias_keep) { /* the router's own best first, by its own groups */
            kept = l->bias_keep < n ? l->bias_keep : n;
            if (c->n_group > 1) close_groups(c, v, taken);
            pick(c, v, taken, ids, 0, kept);
            memset(taken, 0, sizeof taken);
        }
        for (uint32_t i = 0; i < c->n_expert; i++) v[i] = held[i] ? v[i] + bias : v[i];
    }
    if (c->n_group > 1) close_groups(c, v, taken);
    for (uint32_t i = 0; i < kept; i++) taken[ids[i]] = true;
    pick(c, v, taken, ids, kept, n);
    if (held && l->swap > 0) swap_missing(c, l, held, scores, v, taken, ids, n);
    return held && l->drop > 0 ? drop_missing(c, l, held, scores, ids, n) : n;
}

bool sm_ids_have(const uint16_t *ids, uint32_t n, uint32_t id)
{
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) return true;
    return false;
}

void sm_ids_sort(uint16_t *ids, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const uint16_t id = ids[i];
        uint32_t at = i;
        for (; at > 0 && ids[at - 1] > id; at--) ids[at] = ids[at - 1];
        ids[at] = id;
    }
}
