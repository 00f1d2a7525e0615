/* SPDX-License-Identifier: MIT */
/* Experts that are read before a layer asks for them. What is asked for here yields to demand
 * everywhere: its pieces wait behind demanded ones (sched.c), its slots are taken back first
 * (pager.c), and together it never holds the slots that the next token needs. */
#include "store/store_int.h"

#include <assert.h>

/* Slots that speculation holds: being read, or read and not used yet. */
static uint32_t n_speculative(const struct sm_expert_pool *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        const struct sm_slot *sl = &p->slot[i];
        n += sl->state == SM_SLOT_DRAINING || (!sl->pins && sl->state == SM_SLOT_LOADING) ||
             (!sl->pins && sl->state == SM_SLOT_READY && sl->ahead && sl->guess);
    }
    return n;
}

/* How many uses from now the pool's turn comes, the pools taking turns in order. */
static uint64_t distance(const struct sm_store *s, const struct sm_expert_pool *p)
{
    const uint32_t last = s->use.pool ? s->use.pool->index : s->n_pools - 1;
    return p->index > last ? p->index - last : p->index + s->n_pools - last;
}

static bool join_one(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl,
                     enum sm_io_class io_class)
{
    if (sl->failed) return false;
    if (!sl->queued) sl->due = s->use.count + distance(s, p);
    if (sl->state == SM_SLOT_DRAINING) sm_slot_revive(s, sl, io_class);
    if (sl->state == SM_SLOT_LOADING) sm_sched_raise(&s->sched, sl, io_class);
    if (sl->state == SM_SLOT_READY) sl->io_class = (uint8_t)io_class;
    sl->ahead = !sl->pins;
    return true;
}

static bool start_one(struct sm_store *s, struct sm_expert_pool *p, uint16_t expert,
                      enum sm_io_class io_class)
{
    struct sm_slot *sl = sm_slots_empty(p);
    const bool spare = !sl && sm_spares_left(s, p); /* one more slot than now */
    if (n_speculative(p) + p->k_max >= sm_pool_live(p) + spare) return false;
    if (spare) sl = sm_spares_lend(s, p);
    if (!sl) {
        sl = sm_slots_victim(p);
        if (!sl || sl->ahead) return false;
        sm_slot_clear(p, sl);
    }
    sl->due = s->use.count + distance(s, p);
    sm_slot_start(s, p, sl, expert, io_class);
    return true;
}

unsigned sm_pager_prefetch(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                           enum sm_prefetch_class how)
{
    assert(pool < s->n_pools);
    struct sm_expert_pool *p = s->pool[pool];
    const enum sm_io_class io_class = how == SM_PREFETCH_NEXT ? SM_IO_NEXT : SM_IO_WARM;
    unsigned coming = 0;
    if (p->complete) return n;
    sm_sched_lock(&s->sched);
    /* What is there is kept before anything is read: a read that makes room by evicting another one
     * of `ids` only adds the read of that. */
    for (unsigned i = 0; i < n; i++) {
        assert(ids[i] < p->info.n_expert);
        const bool here = p->slot_of[ids[i]] != SM_NO_SLOT;
        if (here) coming += join_one(s, p, &p->slot[p->slot_of[ids[i]]], io_class);
    }
    for (unsigned i = 0; i < n; i++)
        if (p->slot_of[ids[i]] == SM_NO_SLOT) coming += start_one(s, p, ids[i], io_class);
    sm_slots_check(s, p);
    sm_sched_unlock(&s->sched);
    return coming;
}

unsigned sm_pager_missing(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                          uint16_t *out)
{
    assert(pool < s->n_pools);
    const struct sm_expert_pool *p = s->pool[pool];
    unsigned missing = 0;
    if (p->complete) return 0;
    sm_sched_lock(&s->sched);
    for (unsigned i = 0; i < n; i++)
        if (p->slot_of[ids[i]] == SM_NO_SLOT) out[missing++] = ids[i];
    sm_sched_unlock(&s->sched);
    return missing;
}

static void forget(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl)
{
    sl->ahead = false;
    if (sl->state == SM_SLOT_LOADING && !sl->pins) sm_slot_cancel(s, p, sl);
}

void sm_pager_settle(struct sm_store *s, uint32_t pool)
{
    assert(pool < s->n_pools);
    struct sm_expert_pool *p = s->pool[pool];
    if (p->complete) return;
    sm_sched_lock(&s->sched);
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slot[i].ahead && p->slot[i].io_class != SM_IO_WARM) forget(s, p, &p->slot[i]);
    sm_slots_check(s, p);
    sm_sched_unlock(&s->sched);
}

void sm_pager_narrow(struct sm_store *s, bool narrow)
{
    struct sm_sched *q = &s->sched;
    sm_sched_lock(q);
    q->cap[SM_IO_NEXT] = narrow || q->n_readers == 1 ? 1 : q->n_readers - 1;
    sm_sched_unlock(q);
}

void sm_pager_drop(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n)
{
    assert(pool < s->n_pools);
    struct sm_expert_pool *p = s->pool[pool];
    if (p->complete) return;
    sm_sched_lock(&s->sched);
    for (unsigned i = 0; i < n; i++) {
        assert(ids[i] < p->info.n_expert);
        if (p->slot_of[ids[i]] == SM_NO_SLOT) continue;
        forget(s, p, &p->slot[p->slot_of[ids[i]]]);
    }
    sm_slots_check(s, p);
    sm_sched_unlock(&s->sched);
}
