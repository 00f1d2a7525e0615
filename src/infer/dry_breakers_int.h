/* SPDX-License-Identifier: MIT */
/* How the sequence breakers are built up: add entries, then finish. */
#ifndef SM_DRY_BREAKERS_INT_H
#define SM_DRY_BREAKERS_INT_H

#include "infer/dry_breakers.h"

struct sm_dry_breakers {
    struct sm_breaker *entry; /* by head, then by tail */
    int32_t *tail;            /* storage of all tails */
    size_t n, n_tail, capacity, tail_capacity;
};

/* One sequence; more than SM_BREAKER_TAIL tokens of tail are cut. */
SM_NODISCARD smol_status sm_dry_breakers_add(struct sm_dry_breakers *b, int32_t head,
                                             const int32_t *tail, size_t n, smol_error *err);
/* Points the entries at their tails, sorts them and drops doubles. */
void sm_dry_breakers_finish(struct sm_dry_breakers *b);

#endif
