/* SPDX-License-Identifier: MIT */
/* A look at the slots of a pool, for people who want to see what it does. */
#include "store/store_int.h"

uint32_t sm_store_slots(struct sm_store *s, uint32_t pool, uint32_t first, struct sm_slot_view *out,
                        uint32_t n)
{
    if (pool >= s->n_pools) return 0;
    const struct sm_expert_pool *p = s->pool[pool];
    (void)pthread_mutex_lock(&s->sched.mu);
    for (uint32_t i = 0; i < n && first + i < p->n_slots; i++) {
        const struct sm_slot *sl = &p->slot[first + i];
        out[i] = (struct sm_slot_view){.loads = sl->generation, .uses = sl->n_uses,
                                       .expert = sl->expert,
                                       .loading = sl->state == SM_SLOT_LOADING,
                                       .ready = sl->state == SM_SLOT_READY,
                                       .ahead = sl->began_ahead};
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
    return p->n_slots;
}
