/* SPDX-License-Identifier: MIT */
#include "store/shares.h"

#include <assert.h>
#include <stdbool.h>

/* The experts of a pool in the order of use, one after the other. */
struct next {
    uint32_t at; /* the last one, n_expert: none yet */
    float uses;  /* of the one after it; < 0: there is none */
    uint32_t to;
};

static bool before(const float *uses, uint32_t a, uint32_t b)
{
    return uses[a] > uses[b] || (uses[a] == uses[b] && a < b);
}

static void advance(const struct sm_share_pool *p, struct next *x)
{
    uint32_t best = p->n_expert;
    x->at = x->to;
    for (uint32_t e = 0; e < p->n_expert; e++)
        if ((x->at == p->n_expert || before(p->uses, x->at, e)) &&
            (best == p->n_expert || before(p->uses, e, best)))
            best = e;
    x->to = best;
    x->uses = best < p->n_expert ? p->uses[best] : -1;
}

void sm_shares(const struct sm_share_pool *pools, uint32_t n, uint32_t least, uint64_t bytes,
               uint32_t *n_slots)
{
    struct next next[SM_SHARES_POOLS];
    uint64_t taken = 0;
    assert(n <= SM_SHARES_POOLS);
    for (uint32_t i = 0; i < n; i++) {
        const struct sm_share_pool *p = &pools[i];
        n_slots[i] = least < p->n_expert ? least : p->n_expert;
        taken += n_slots[i] * p->slot_bytes;
        next[i] = (struct next){.at = p->n_expert, .to = p->n_expert};
        for (uint32_t s = 0; s <= n_slots[i]; s++) advance(p, &next[i]);
    }
    for (;;) {
        uint32_t best = n;
        for (uint32_t i = 0; i < n; i++) {
            if (next[i].uses < 0 || pools[i].slot_bytes > bytes ||
                taken > bytes - pools[i].slot_bytes)
                continue;
            if (best == n || (double)next[i].uses * (double)pools[best].slot_bytes >
                                 (double)next[best].uses * (double)pools[i].slot_bytes)
                best = i;
        }
        if (best == n) return;
        n_slots[best]++;
        taken += pools[best].slot_bytes;
        advance(&pools[best], &next[best]);
    }
}
