/* SPDX-License-Identifier: MIT */
/* The router of a mixture of experts: scores to chosen experts and weights, one token at a time
 * (docs/arithmetic.md section 6). */
#ifndef SM_ROUTE_H
#define SM_ROUTE_H

#include "kern/kern.h"
#include "store/choice.h"

enum sm_gating { SM_GATE_SOFTMAX = 1, SM_GATE_SIGMOID = 2, SM_GATE_SOFTMAX_CHOSEN = 3 };

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

/* logits [n_expert] -> n_used ids in ascending order and their weights. `logits` is overwritten by
 * the scores. held: the logical pool [n_expert], looked at by levers only. Pure, any thread. */
void sm_route(const struct sm_kern *k, const struct sm_router *r, const uint8_t *held, float *logits,
              uint16_t *ids, float *weights);

/* The n <= n_used best of the same choice, best first. `logits` is overwritten. */
void sm_route_rank(const struct sm_kern *k, const struct sm_router *r, const uint8_t *held,
                   float *logits, uint16_t *ids, uint32_t n);

#endif
