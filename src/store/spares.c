/* SPDX-License-Identifier: MIT */
/* Spare slots: memory of a few experts that belongs to no pool. A pool that is read ahead borrows
 * of it instead of evicting what it holds, which a wave of tokens would want back, and returns as
 * much when its use has ended: then the policy says what goes. No pool has more than half of it
 * (rounded up), so that one can be read ahead while another is in use. Memory moves, experts do
 * not: slots hold pointers, so only pools whose slots have the size of a spare one borrow. Under
 * sched.mu, but for making and freeing. */
#include "store/store_int.h"

#include <assert.h>

smol_status sm_spares_new(struct sm_store *s, uint32_t n, size_t slot_bytes, smol_error *err)
{
    struct sm_spares *sp = &s->spares;
    void *arena;
    uint64_t bytes;
    assert(n <= SM_SPARES_MAX);
    if (!n) return SMOL_OK;
    if (!sm_mul_ok(slot_bytes, n, &bytes) || bytes > SIZE_MAX)
        return SM_FAIL(err, NOMEM, "%u spare slots of %zu bytes are more than an address can hold",
                       (unsigned)n, slot_bytes);
    SM_TRY(sm_pages_reserve(&arena, (size_t)bytes, err));
    sp->arena = arena;
    sp->arena_bytes = (size_t)bytes;
    sp->slot_bytes = slot_bytes;
    for (; sp->n < n; sp->n++) sp->free[sp->n] = sp->arena + sp->n * slot_bytes;
    sp->n_free = n;
    return SMOL_OK;
}

void sm_spares_free(struct sm_store *s)
{
    sm_pages_free(s->spares.arena, s->spares.arena_bytes);
    s->spares = (struct sm_spares){0};
}

uint32_t sm_spares_places(const struct sm_store *s, const struct sm_expert_pool *p, uint32_t n_own)
{
    const uint32_t most = sm_spares_half(s->spares.n), n = p->info.n_expert - n_own;
    if (p->info.slot_bytes != s->spares.slot_bytes) return 0;
    return most < n ? most : n;
}

bool sm_spares_left(const struct sm_store *s, const struct sm_expert_pool *p)
{
    return s->spares.n_free && p->n_lent < sm_spares_half(s->spares.n) && p->n_off &&
           p->info.slot_bytes == s->spares.slot_bytes;
}

struct sm_slot *sm_spares_lend(struct sm_store *s, struct sm_expert_pool *p)
{
    if (!sm_spares_left(s, p)) return NULL;
    for (uint32_t i = p->n_slots; i-- > 0;) {
        struct sm_slot *sl = &p->slot[i];
        if (sl->state != SM_SLOT_OFF) continue;
        sl->data = s->spares.free[--s->spares.n_free];
        sl->state = SM_SLOT_EMPTY;
        p->n_off--;
        p->n_lent++;
        return sl;
    }
    return NULL;
}

void sm_spares_return(struct sm_store *s, struct sm_expert_pool *p)
{
    while (p->n_lent) {
        struct sm_slot *sl = sm_slots_empty(p);
        if (!sl) sl = sm_slots_victim(p);
        if (!sl || sl->ahead) return; /* all that is left is in use or expected: when it was used */
        if (sl->state != SM_SLOT_EMPTY) sm_slot_clear(p, sl);
        assert(p->info.slot_bytes == s->spares.slot_bytes);
        s->spares.free[s->spares.n_free++] = sm_slot_off(p, sl);
        p->n_lent--;
    }
}

uint64_t sm_spares_give_up(struct sm_store *s)
{
    struct sm_spares *sp = &s->spares;
    if (!sp->n_free) return 0;
    sm_pages_drop(sp->free[--sp->n_free], sp->slot_bytes);
    sp->n--;
    return sp->slot_bytes;
}
