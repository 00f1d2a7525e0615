/* SPDX-License-Identifier: MIT */
/* One use of a layer's experts, from begin to end.
 *
 * Items are the experts asked for, in ascending order. Each is MISSING (no slot yet), PINNED (its
 * slot is READY or LOADING and held for this use), TAKEN (the caller computes on it) or GIVEN. A
 * pass over the missing items, in order, starts a read whenever a slot can be had; it runs at
 * begin, whenever an item is given back and whenever a reader reports.
 *
 * At most one read of each expert per use, however small the pool:
 *   An item that is PINNED at begin keeps its slot until it is given: no read. An item that is
 *   MISSING at begin becomes PINNED once, by one read (or none, when its expert is still in a slot
 *   when its turn comes), and keeps that slot until it is given: one read. No item goes back from
 *   PINNED to MISSING, so there is no second one.
 * It always goes on:
 *   ARRIVAL. Every resident can be taken without waiting, so all are pinned. Once they are given,
 *   their slots serve the missing ones.
 *   ASCENDING. Let item t be the next to take. If it is PINNED, its read is queued or under way. If
 *   it is MISSING, it is the first missing one, since reads start in order: nothing was read for a
 *   later item, so the only pinned slots are residents after t and what the caller still holds. So
 *   at begin the residents after the first missing item may be pinned in all but AHEAD slots (one
 *   when the pool is tiny). The surplus, those needed last, starts as MISSING: giving up what is
 *   needed last costs the fewest reads (Belady), and such a slot is used again without a read if
 *   nobody took it meanwhile.
 *   A slot that is not pinned is EMPTY, READY (evicted), DRAINING or LOADING on speculation
 *   (cancelled, then free once its reads have landed), so waiting for it ends.
 *   When the caller holds so many slots that nothing can move, take says so instead of waiting. */
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

/* Slots through which missing experts flow in order, at least: one is computed on while the pieces
 * of two more keep the readers busy. */
#define AHEAD 2u

static struct sm_slot *slot_of_item(const struct sm_use *u, unsigned i)
{
    return &u->pool->slot[u->slot[i]];
}

static void pin(struct sm_store *s, struct sm_use *u, unsigned i, struct sm_slot *sl)
{
    sl->pins++;
    u->pool->n_guess_used += sl->guess;
    sl->ahead = sl->guess = false;
    if (sl->state == SM_SLOT_LOADING) sm_sched_raise(&s->sched, sl, SM_IO_DEMAND);
    u->slot[i] = (uint16_t)sm_slot_index(u->pool, sl);
    u->state[i] = SM_ITEM_PINNED;
}

/* ---- finding a slot -------------------------------------------------------------------------- */

/* Demand goes first: take a slot back from speculation. What was not started is free at once; what
 * is under way is given up only when nothing else would keep the use going, and its slot is free
 * when its reads have landed. */
static struct sm_slot *cancel_speculation(struct sm_store *s, struct sm_use *u)
{
    struct sm_expert_pool *p = u->pool;
    struct sm_slot *worst = NULL;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        struct sm_slot *sl = &p->slot[i];
        if (sl->state == SM_SLOT_DRAINING) return NULL; /* one is on its way already */
        if (sl->state != SM_SLOT_LOADING || sl->pins) continue;
        if (!worst || sl->n_flying < worst->n_flying ||
            (sl->n_flying == worst->n_flying && sl->io_class > worst->io_class))
            worst = sl;
    }
    if (!worst || (worst->n_flying && u->n_ahead >= AHEAD)) return NULL;
    sm_slot_cancel(s, p, worst);
    return worst->state == SM_SLOT_EMPTY ? worst : NULL;
}

/* A slot for a missing expert of the present use, EMPTY, or NULL: not now. An expert that is worth
 * more than the one it would make room for is evicted only to keep AHEAD transit slots going: what
 * a wave brings and the policy would not keep flows through few slots and leaves the others
 * alone. */
static struct sm_slot *slot_for(struct sm_store *s, struct sm_use *u, uint16_t expert)
{
    struct sm_expert_pool *p = u->pool;
    struct sm_slot *sl = sm_slots_empty(p);
    if (sl) return sl;
    sl = sm_slots_victim(p);
    if (sl) {
        const bool hotter = sm_policy_worth(&p->policy, sl->expert) >
                            sm_policy_worth(&p->policy, expert);
        if (hotter && u->n_ahead >= AHEAD) return NULL;
        sm_slot_clear(p, sl);
        return sl;
    }
    return cancel_speculation(s, u);
}

/* Try to give item i a slot. False: not now, and nothing after it either (reads start in order). */
static bool place(struct sm_store *s, struct sm_use *u, unsigned i)
{
    struct sm_expert_pool *p = u->pool;
    const uint16_t expert = u->ids[i];
    if (p->slot_of[expert] != SM_NO_SLOT) { /* never a second read of what is there or coming */
        struct sm_slot *sl = &p->slot[p->slot_of[expert]];
        if (sl->failed) return false; /* an old failure; its slot is cleared when it has drained */
        if (sl->state == SM_SLOT_DRAINING) sm_slot_revive(s, sl, SM_IO_DEMAND);
        pin(s, u, i, sl);
        return true;
    }
    struct sm_slot *sl = slot_for(s, u, expert);
    if (!sl) return false;
    sm_slot_start(s, p, sl, expert, SM_IO_DEMAND);
    pin(s, u, i, sl);
    u->was_read[i] = 1;
    u->n_ahead++;
    return true;
}

static void start_missing(struct sm_store *s, struct sm_use *u)
{
    if (u->status != SMOL_OK || u->first_missing == u->n) return;
    while (u->first_missing < u->n) {
        const unsigned i = u->first_missing;
        if (u->state[i] == SM_ITEM_MISSING && !place(s, u, i)) break;
        u->first_missing++;
    }
    sm_slots_check(s, u->pool);
}

/* ---- begin ----------------------------------------------------------------------------------- */

static bool is_here(const struct sm_expert_pool *p, uint16_t expert)
{
    if (p->slot_of[expert] == SM_NO_SLOT) return false;
    const struct sm_slot *sl = &p->slot[p->slot_of[expert]];
    return !sl->failed && (sl->state == SM_SLOT_READY || sl->state == SM_SLOT_LOADING);
}

static bool is_whole(const struct sm_expert_pool *p, uint16_t expert)
{
    return p->slot_of[expert] != SM_NO_SLOT && p->slot[p->slot_of[expert]].state == SM_SLOT_READY;
}

/* How many residents after the first missing item stay unpinned, see above. */
static unsigned surplus(const struct sm_use *u, unsigned n_missing, unsigned n_after)
{
    if (u->order != SM_ORDER_ASCENDING || !n_missing) return 0;
    const uint32_t n_slots = sm_pool_live(u->pool);
    const unsigned transit = n_slots > AHEAD + 1 && n_missing > 1 ? AHEAD : 1;
    return n_after + transit > n_slots ? n_after + transit - n_slots : 0;
}

void sm_pager_begin(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                    enum sm_order order)
{
    struct sm_use *u = &s->use;
    unsigned n_missing = 0, n_after = 0;
    assert(pool < s->n_pools && !u->active);
    struct sm_expert_pool *p = s->pool[pool];
    assert(n <= p->info.n_expert);
    sm_sched_lock(&s->sched);
    u->active = true;
    u->count++;
    u->pool = p;
    u->order = order;
    u->n = n;
    u->n_taken = u->n_ahead = u->first_missing = 0;
    u->status = SMOL_OK;
    u->err = (smol_error){0};
    for (unsigned i = 0; i < n; i++) {
        assert(ids[i] < p->info.n_expert && (i == 0 || ids[i - 1] < ids[i]));
        u->ids[i] = ids[i];
        u->state[i] = SM_ITEM_MISSING;
        u->was_read[i] = 0;
        u->missed[i] = p->policy.missed[ids[i]];
        p->policy.missed[ids[i]] = 0;
        if (is_whole(p, ids[i])) s->stats.misses_ready += u->missed[i];
        if (!is_here(p, ids[i])) n_missing++;
        else if (n_missing) n_after++;
    }
    unsigned unpinned = surplus(u, n_missing, n_after);
    for (unsigned i = n; i-- > 0;) {
        if (!is_here(p, ids[i])) continue;
        if (unpinned) unpinned--;
        else pin(s, u, i, &p->slot[p->slot_of[ids[i]]]);
    }
    start_missing(s, u);
    sm_sched_unlock(&s->sched);
}

/* ---- take ------------------------------------------------------------------------------------ */

/* The item to take now; n when there is none. Whole experts before halves. */
static unsigned ready_item(const struct sm_use *u)
{
    if (u->order == SM_ORDER_ASCENDING) {
        const unsigned i = u->n_taken;
        const bool ready = i < u->n && u->state[i] == SM_ITEM_PINNED &&
                           sm_slot_half_ready(slot_of_item(u, i), SM_HALF_GATE_UP);
        return ready ? i : u->n;
    }
    unsigned half = u->n;
    for (unsigned i = 0; i < u->n; i++) {
        if (u->state[i] != SM_ITEM_PINNED) continue;
        const struct sm_slot *sl = slot_of_item(u, i);
        if (sl->state == SM_SLOT_READY) return i;
        if (half == u->n && sm_slot_half_ready(sl, SM_HALF_GATE_UP)) half = i;
    }
    return half;
}

/* Wait for a reader to report; the time counts as demand wait. False: nobody ever would. */
static bool wait_for_readers(struct sm_store *s)
{
    if (!sm_sched_busy(&s->sched)) return false;
    const uint64_t start = sm_now_ns();
    (void)pthread_cond_wait(&s->sched.done, &s->sched.mu);
    s->stats.demand_wait_ns += sm_now_ns() - start;
    return true;
}

/* An item that was waited for: its misses are late, once. */
static void count_late(struct sm_store *s, struct sm_use *u, unsigned i)
{
    s->stats.misses_late += u->missed[i];
    u->missed[i] = 0;
}

static smol_status failure(const struct sm_use *u, smol_error *err)
{
    if (err && err->code == SMOL_OK) *err = u->err;
    return u->status;
}

/* Verify: compare the half of a slot with the file, once, when it is first used. */
static smol_status check_first_use(struct sm_store *s, struct sm_expert_pool *p,
                                   struct sm_slot *sl, unsigned half, smol_error *err)
{
    struct sm_run run;
    unsigned of;
    if (!s->opt.verify || sl->checked[half]) return SMOL_OK;
    for (uint32_t piece = 0; piece < p->n_pieces; piece++) {
        sm_piece_run(s, p, sm_slot_index(p, sl), sl->expert, piece, &run, &of);
        if (of == half) SM_TRY(sm_run_verify(s, &s->check_stage, &run, err));
    }
    sl->checked[half] = true;
    return SMOL_OK;
}

static const float *bias_of(const uint8_t *base, const struct sm_expert_shape *s)
{
    return s->n_out ? (const float *)(const void *)(base + s->offset_bytes) : NULL;
}

static void set_pointers(const struct sm_expert_pool *p, const struct sm_slot *sl,
                         struct sm_expert *e)
{
    const struct sm_pool_info *i = &p->info;
    const uint8_t *base = sl->data;
    e->gate = base + i->gate.offset_bytes;
    e->down = base + i->down.offset_bytes;
    if (i->fused) e->up = e->gate + i->gate.slot_bytes / 2; /* whole groups on both sides */
    else e->up = base + i->up.offset_bytes;
    e->gate_bias = bias_of(base, &i->gate_bias);
    e->up_bias = i->fused && e->gate_bias ? e->gate_bias + i->gate_bias.n_in / 2
                                          : bias_of(base, &i->up_bias);
    e->down_bias = bias_of(base, &i->down_bias);
}

smol_status sm_pager_take(struct sm_store *s, unsigned *i, struct sm_expert *e, smol_error *err)
{
    struct sm_use *u = &s->use;
    smol_status st = SMOL_OK;
    unsigned item = u->n;
    bool waited = false;
    *i = 0;
    *e = (struct sm_expert){0};
    assert(u->active && u->n_taken < u->n);
    sm_sched_lock(&s->sched);
    while (u->status == SMOL_OK) {
        item = ready_item(u);
        if (item < u->n) break;
        start_missing(s, u);
        if (!wait_for_readers(s)) {
            st = SM_FAIL(err, LIMIT, "all slots of a pool are held at once");
            break;
        }
        waited = true;
    }
    if (u->status != SMOL_OK) st = failure(u, err);
    if (st != SMOL_OK) {
        sm_sched_unlock(&s->sched);
        return st;
    }
    u->state[item] = SM_ITEM_TAKEN;
    slot_of_item(u, item)->n_uses++;
    u->n_taken++;
    if (waited) count_late(s, u, item);
    if (u->was_read[item]) u->n_ahead--;
    start_missing(s, u);
    sm_sched_unlock(&s->sched);
    struct sm_slot *sl = slot_of_item(u, item);
    SM_TRY(check_first_use(s, u->pool, sl, SM_HALF_GATE_UP, err));
    set_pointers(u->pool, sl, e);
    *i = item;
    return SMOL_OK;
}

bool sm_pager_has_ready(struct sm_store *s)
{
    struct sm_use *u = &s->use;
    assert(u->active);
    sm_sched_lock(&s->sched);
    const bool ready = u->n_taken < u->n && (u->status != SMOL_OK || ready_item(u) < u->n);
    sm_sched_unlock(&s->sched);
    return ready;
}

smol_status sm_pager_take_down(struct sm_store *s, unsigned i, smol_error *err)
{
    struct sm_use *u = &s->use;
    smol_status st = SMOL_OK;
    assert(u->active && i < u->n && u->state[i] == SM_ITEM_TAKEN);
    struct sm_slot *sl = slot_of_item(u, i);
    sm_sched_lock(&s->sched);
    while (u->status == SMOL_OK && !sm_slot_half_ready(sl, SM_HALF_DOWN)) {
        if (wait_for_readers(s)) {
            count_late(s, u, i);
            continue;
        }
        st = SM_FAIL(err, LIMIT, "nobody reads what is waited for");
        break;
    }
    if (u->status != SMOL_OK) st = failure(u, err);
    sm_sched_unlock(&s->sched);
    return st != SMOL_OK ? st : check_first_use(s, u->pool, sl, SM_HALF_DOWN, err);
}

/* ---- give and end ---------------------------------------------------------------------------- */

/* The caller is done with a slot: what failed is forgotten, what still arrives may arrive. */
static void unpin(struct sm_expert_pool *p, struct sm_slot *sl)
{
    assert(sl->pins);
    sl->pins--;
    if (sl->state == SM_SLOT_FAILED && !sl->pins) sm_slot_clear(p, sl);
}

void sm_pager_give(struct sm_store *s, unsigned i)
{
    struct sm_use *u = &s->use;
    assert(u->active && i < u->n && u->state[i] == SM_ITEM_TAKEN);
    sm_sched_lock(&s->sched);
    unpin(u->pool, slot_of_item(u, i));
    u->state[i] = SM_ITEM_GIVEN;
    start_missing(s, u);
    sm_sched_unlock(&s->sched);
}

static bool is_draining(const struct sm_expert_pool *p)
{
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slot[i].state == SM_SLOT_DRAINING) return true;
    return false;
}

void sm_pager_end(struct sm_store *s)
{
    struct sm_use *u = &s->use;
    struct sm_expert_pool *p = u->pool;
    bool early = false;
    assert(u->active);
    sm_sched_lock(&s->sched);
    early = u->status != SMOL_OK;
    for (unsigned i = 0; i < u->n; i++) {
        early = early || u->state[i] != SM_ITEM_GIVEN;
        if (u->state[i] != SM_ITEM_PINNED && u->state[i] != SM_ITEM_TAKEN) continue;
        struct sm_slot *sl = slot_of_item(u, i);
        u->state[i] = SM_ITEM_GIVEN;
        unpin(p, sl);
        if (sl->state == SM_SLOT_LOADING && !sl->pins) sm_slot_cancel(s, p, sl);
    }
    u->active = false;
    /* After a failure or a stop nothing of this use stays under way. */
    while (early && is_draining(p)) (void)pthread_cond_wait(&s->sched.done, &s->sched.mu);
    sm_spares_return(s, p);
    sm_slots_check(s, p);
    sm_sched_unlock(&s->sched);
}

/* ---- the logical pool ------------------------------------------------------------------------ */

void sm_pager_note(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned k)
{
    assert(pool < s->n_pools);
    struct sm_expert_pool *p = s->pool[pool];
    s->stats.expert_uses += k;
    if (k > p->k_max) p->k_max = k;
    if (!p->complete) s->stats.expert_misses += sm_policy_touch(&p->policy, ids, k);
}

const uint8_t *sm_pager_held(const struct sm_store *s, uint32_t pool)
{
    return s->pool[pool]->complete ? NULL : s->pool[pool]->policy.held;
}

void sm_pager_note_range(struct sm_store *s, uint32_t pool, float range)
{
    sm_policy_add_range(&s->pool[pool]->policy, range);
}

float sm_pager_range(const struct sm_store *s, uint32_t pool)
{
    return sm_policy_range(&s->pool[pool]->policy);
}

bool sm_pager_complete(const struct sm_store *s, uint32_t pool)
{
    return s->pool[pool]->complete;
}
