/* SPDX-License-Identifier: MIT */
/* The router of a mixture of experts: scores to chosen experts and weights, one token at a time
 * (docs/arithmetic.md section 6). */
#ifndef SM_ROUTE_H
#define SM_ROUTE_H

#include "kern/kern.h"

enum sm_gating { SM_GATE_SOFTMAX = 1, SM_GATE_SIGMOID = 2, SM_GATE_SOFTMAX_CHOSEN = 3 };

#define SM_MAX_EXPERTS 1024u
#define SM_MAX_USED 64u
#define SM_MAX_GROUPS 64u

struct sm_router {
    enum sm_gating gating;
    uint32_t n_expert, n_used;
    uint32_t n_group, n_group_used; /* n_group <= 1: no groups; n_expert is a multiple of n_group */
    bool normalize;
    float scale;       /* 0 or 1: none */
    const float *bias; /* [n_expert] on the choice only, or NULL */
};

/* logits [n_expert] -> n_used ids in ascending order and their weights. `logits` is overwritten
 * (score work area). Pure, any thread. */
void sm_route(const struct sm_kern *k, const struct sm_router *r, float *logits, uint16_t *ids,
              float *weights);

#endif
