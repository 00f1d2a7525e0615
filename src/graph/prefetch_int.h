/* SPDX-License-Identifier: MIT */
/* Between prefetch.c, which predicts, and prefetch_judge.c, which says what a prediction is
 * worth. */
#ifndef SM_PREFETCH_INT_H
#define SM_PREFETCH_INT_H

#include "graph/prefetch.h"

/* The shares that a run begins with. */
void sm_prefetch_judge_init(struct sm_prefetch *a);
/* The least share of right reads that is worth it; far: for a layer beyond the next. */
float sm_prefetch_least(const struct sm_prefetch *a, bool far);
/* Routers at distance d (+ 1) are worth a look: some rank of this row is worth a read, or it is
 * time to find out again. k: candidates. */
bool sm_prefetch_pays(const struct sm_prefetch *a, uint32_t d, uint32_t row, uint32_t k);
/* Compare what was expected of a layer with what it chose; its guesses are done with. */
void sm_prefetch_learn(struct sm_prefetch *a, uint32_t pool, const uint16_t *ids, uint32_t k);
/* Once a token: how busy the flash is, and whether looking ahead pays. */
void sm_prefetch_consider(struct sm_prefetch *a, struct sm_store *s);
/* False: all of it pauses. */
bool sm_prefetch_is_on(const struct sm_prefetch *a);
/* Speculation has one reader where the flash is busy. */
void sm_prefetch_narrow(const struct sm_prefetch *a, struct sm_store *s);

static inline struct sm_prefetch_guess *sm_prefetch_guess_of(const struct sm_prefetch *a,
                                                             uint32_t pool, uint32_t d)
{
    return &a->guess[pool * (SM_PREFETCH_MAX + 1) + d];
}

#endif
