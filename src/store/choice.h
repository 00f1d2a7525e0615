/* SPDX-License-Identifier: MIT */
/* How a layer picks its experts from their scores (docs/arithmetic.md section 6, points 3 and 4), and
 * the levers that make it prefer those in the pool. Shared by the router and by replays of traces.
 * Pure, any thread. */
#ifndef SM_CHOICE_H
#define SM_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#define SM_CHOICE_EXPERTS 1024u /* most experts of a layer */
#define SM_CHOICE_GROUPS 64u
#define SM_CHOICE_USED 64u

struct sm_choice {
    uint32_t n_expert, n_used;
    uint32_t n_group, n_group_used; /* n_group <= 1: no groups; n_expert is a multiple of n_group */
    const float *bias;              /* [n_expert] on the choice only, or NULL */
};

/* Levers that change the answer. All zero: none. */
struct sm_lever {
    float bias;         /* added to the choice of experts in the pool, before the group step */
    uint32_t bias_keep; /* the router's so many best are taken whatever the bias */
    float swap;         /* > 0: a missing expert gives way to the best unchosen one in the pool whose
                           score is at least this share of its own */
    uint32_t swap_keep; /* the so many best are never swapped */
};
static inline bool sm_lever_on(const struct sm_lever *l) { return l->bias != 0 || l->swap > 0; }

/* The n <= n_used best experts, best first (ties to the lower index), from scores [n_expert]. held
 * [n_expert]: 1 for those in the logical pool; only levers look at it. */
void sm_choose(const struct sm_choice *c, const struct sm_lever *l, const uint8_t *held,
               const float *scores, uint16_t *ids, uint32_t n);

#endif
