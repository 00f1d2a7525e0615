/* SPDX-License-Identifier: MIT */
/* How a layer picks its experts from their scores (docs/arithmetic.md section 6, points 3 and 4),
 * and the levers that make it prefer those in the pool. Shared by the router and by replays of
 * traces. Pure, any thread. */
#ifndef SM_CHOICE_H
#define SM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define SM_CHOICE_EXPERTS 1024u /* most experts of a layer */
#define SM_CHOICE_GROUPS 64u
#define SM_CHOICE_USED 64u
#define SM_NO_EXPERT 0xffffu /* behind the last of a list of experts that is not full */

struct sm_choice {
    uint32_t n_expert, n_used;
    uint32_t n_group, n_group_used; /* n_group <= 1: no groups; n_expert is a multiple of n_group */
    const float *bias;              /* [n_expert] on the choice only, or NULL */
    /* weights are the softmax of the chosen scores; else the scores */
    bool logits;
    /* running mean of sm_choice_range, for levers; 0: not known yet */
    float range;
};

/* Levers that change the answer. All zero: none. */
struct sm_lever {
    float bias;         /* added to the choice of experts in the pool, before the group step */
    uint32_t bias_keep; /* the router's so many best are taken whatever the bias */
    bool bias_range;    /* bias counts in units of sm_choice.range */
    float swap; /* > 0: a missing expert gives way to the best unchosen one in the pool whose
                   score is at least this share of its own */
    uint32_t swap_keep; /* the so many best are never swapped */
    /* > 0: then missing experts whose share of the weights is less are left out */
    float drop;
    uint32_t drop_keep; /* the so many best never are, nor is the very best */
};
static inline bool sm_lever_on(const struct sm_lever *l)
{
    return l->bias != 0 || l->swap > 0 || l->drop > 0;
}

/* What the choice spans: the largest less the smallest of scores plus bias. */
float sm_choice_range(const struct sm_choice *c, const float *scores);

/* The n <= n_used best experts, best first (ties to the lower index), from scores [n_expert];
 * returns how many there are, fewer than n only when some were dropped. held [n_expert]: 1 for
 * those in the logical pool; only levers look at it, and NULL (all are in RAM) switches them
 * off. */
uint32_t sm_choose(const struct sm_choice *c, const struct sm_lever *l, const uint8_t *held,
               const float *scores, uint16_t *ids, uint32_t n);

/* Lists of experts: is `id` one of n, and n ids in ascending order, as the pool is told them. */
bool sm_ids_have(const uint16_t *ids, uint32_t n, uint32_t id);
void sm_ids_sort(uint16_t *ids, uint32_t n);

#endif
