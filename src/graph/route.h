/* SPDX-License-Identifier: MIT */
/* The router of a mixture of experts: scores to chosen experts and weights, one token at a time
 * (docs/arithmetic.md section 6). */
#ifndef SM_ROUTE_H
#define SM_ROUTE_H

#include "kern/kern.h"
#include "store/choice.h"

enum sm_gating { SM_GATING_SOFTMAX = 1, SM_GATING_SIGMOID = 2, SM_GATING_SOFTMAX_CHOSEN = 3 };

#define SM_MAX_EXPERTS SM_CHOICE_EXPERTS
#define SM_MAX_USED SM_CHOICE_USED
#define SM_MAX_GROUPS SM_CHOICE_GROUPS

struct sm_router {
    enum sm_gating gating;
    uint32_t n_expert, n_used;
    uint32_t n_group, n_group_used; /* n_group <= 1: no groups; n_expert is a multiple of n_group */
    bool normalize;
    float scale;       /* 0 or 1: none */
    const float *bias; /* [n_expert] on the choice only, or NULL */
    struct sm_lever lever;
};

/* What levers look at: the logical pool [n_expert] (NULL: everything is in RAM, they are off) and
 * the running mean of the range of the scores. */
struct sm_route_view { const uint8_t *held; float range; };

/* logits [n_expert] -> at most n_used ids in ascending order and their weights; returns how many,
 * the rest of both is filled with SM_NO_EXPERT and 0. `logits` is overwritten by the scores. Pure,
 * any thread. */
uint32_t sm_route(const struct sm_kern *k, const struct sm_router *r, struct sm_route_view view,
                  float *logits, uint16_t *ids, float *weights);

/* The n <= n_used best of the same choice, best first; returns how many are left of them. `logits`
 * is overwritten. */
uint32_t sm_route_rank(const struct sm_kern *k, const struct sm_router *r,
                       struct sm_route_view view, float *logits, uint16_t *ids, uint32_t n);
/* What the choice spans, of the scores that sm_route left behind. */
float sm_route_range(const struct sm_router *r, const float *scores);

#endif
