/* SPDX-License-Identifier: MIT */
/* The states of slots. Everything here runs under sched.mu and is small; the transitions are
 *
 *   EMPTY --start--> LOADING --last piece landed--> READY --clear (unpinned)--> EMPTY
 *                    LOADING --cancel (unpinned)--> DRAINING --last read landed--> EMPTY
 *                    DRAINING --revive--> LOADING
 *                    LOADING --a read failed, last read landed--> FAILED (pinned) | EMPTY
 *                    FAILED --clear (unpinned)--> EMPTY
 *   EMPTY --memory given up--> OFF --borrowed--> EMPTY (spares.c, guard.c)
 *
 * A slot is cleared only when no read into it is under way, so a completion always belongs to the
 * load that started it; the generation number it carries is asserted, not used. */
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

static size_t slots_bytes(uint32_t n) { return sm_round_up(sizeof(struct sm_slot) * n, SM_ALIGN); }
static size_t map_bytes(uint32_t n) { return sm_round_up(sizeof(uint16_t) * n, SM_ALIGN); }

size_t sm_slots_table_bytes(uint32_t n_expert)
{
    return slots_bytes(n_expert) + map_bytes(n_expert) + sm_policy_bytes(n_expert);
}

void sm_slots_init(struct sm_expert_pool *p, const struct sm_policy_ops *ops, uint32_t n_own)
{
    const uint32_t n = p->info.n_expert;
    uint8_t *at = p->tables;
    p->slot = (struct sm_slot *)p->tables;
    p->slot_of = (uint16_t *)(void *)(at + slots_bytes(n));
    sm_policy_init(&p->policy, ops, n, n_own, at + slots_bytes(n) + map_bytes(n));
    for (uint32_t e = 0; e < n; e++) p->slot_of[e] = SM_NO_SLOT;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        p->slot[i].pool = p->index;
        if (i < n_own) p->slot[i].data = p->arena + (size_t)i * p->info.slot_bytes;
        else p->slot[i].state = SM_SLOT_OFF;
    }
    p->n_off = p->n_slots - n_own;
}

void sm_slot_start(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl,
                   uint16_t expert, enum sm_io_class io_class)
{
    assert(sl->state == SM_SLOT_EMPTY && !sl->n_flying && !sl->pins && !sl->queued);
    assert(p->slot_of[expert] == SM_NO_SLOT);
    p->slot_of[expert] = (uint16_t)sm_slot_index(p, sl);
    sl->expert = expert;
    sl->generation++;
    sl->next_piece = 0;
    sl->left[SM_HALF_DOWN] =
        p->part[SM_PART_DOWN].n_pieces + p->part[SM_PART_DOWN_BIAS].n_pieces;
    sl->left[SM_HALF_GATE_UP] = p->n_pieces - sl->left[SM_HALF_DOWN];
    sl->checked[SM_HALF_GATE_UP] = sl->checked[SM_HALF_DOWN] = false;
    sl->failed = false;
    sl->ahead = sl->guess = sl->began_ahead = io_class != SM_IO_DEMAND;
    sl->landed_bytes = 0;
    p->n_guessed += sl->guess;
    sl->io_class = (uint8_t)io_class;
    sl->state = SM_SLOT_LOADING;
    sm_sched_push(&s->sched, sl);
}

uint8_t *sm_slot_off(struct sm_expert_pool *p, struct sm_slot *sl)
{
    uint8_t *data = sl->data;
    assert(sl->state == SM_SLOT_EMPTY && data);
    sl->state = SM_SLOT_OFF;
    sl->data = NULL;
    p->n_off++;
    return data;
}

void sm_slot_clear(struct sm_expert_pool *p, struct sm_slot *sl)
{
    assert(!sl->n_flying && !sl->pins && !sl->queued);
    assert(p->slot_of[sl->expert] == sm_slot_index(p, sl));
    if (sl->guess) p->guess_wasted_bytes += sl->landed_bytes;
    p->slot_of[sl->expert] = SM_NO_SLOT;
    sl->state = SM_SLOT_EMPTY;
    sl->failed = sl->ahead = sl->guess = false;
}

void sm_slot_cancel(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl)
{
    assert(sl->state == SM_SLOT_LOADING && !sl->pins);
    if (sl->queued) sm_sched_remove(&s->sched, sl);
    sl->state = SM_SLOT_DRAINING;
    if (!sl->n_flying) sm_slot_clear(p, sl);
}

void sm_slot_revive(struct sm_store *s, struct sm_slot *sl, enum sm_io_class io_class)
{
    assert(sl->state == SM_SLOT_DRAINING && sl->n_flying && !sl->failed);
    sl->state = SM_SLOT_LOADING;
    sl->io_class = (uint8_t)io_class;
    const struct sm_expert_pool *p = s->pool[sl->pool];
    if (sl->next_piece < p->n_pieces) sm_sched_push(&s->sched, sl);
}

bool sm_slot_land(struct sm_store *s, struct sm_expert_pool *p, struct sm_slot *sl, unsigned half,
                  uint32_t generation, smol_status status, const smol_error *err)
{
    (void)generation; /* asserted only */
    assert(sl->generation == generation && sl->n_flying && sl->left[half]);
    assert(sl->state == SM_SLOT_LOADING || sl->state == SM_SLOT_DRAINING);
    sl->n_flying--;
    if (status == SMOL_OK) {
        sl->left[half]--;
    } else {
        sl->failed = true;
        if (sl->queued) sm_sched_remove(&s->sched, sl);
        if (sl->pins && s->use.status == SMOL_OK) {
            s->use.status = status;
            s->use.err = *err;
        }
    }
    if (sl->state == SM_SLOT_DRAINING) {
        if (!sl->n_flying) sm_slot_clear(p, sl);
        return !sl->n_flying;
    }
    if (sl->failed) {
        if (sl->n_flying) return true;
        sl->state = SM_SLOT_FAILED;
        if (!sl->pins) sm_slot_clear(p, sl);
        return true;
    }
    if (!sl->left[SM_HALF_GATE_UP] && !sl->left[SM_HALF_DOWN]) {
        sl->state = SM_SLOT_READY;
        s->stats.n_expert_reads++;
    }
    return !sl->left[half];
}

struct sm_slot *sm_slots_empty(struct sm_expert_pool *p)
{
    for (uint32_t i = 0; i < p->n_slots; i++)
        if (p->slot[i].state == SM_SLOT_EMPTY) return &p->slot[i];
    return NULL;
}

struct sm_slot *sm_slots_victim(struct sm_expert_pool *p)
{
    struct sm_slot *best = NULL;
    uint64_t best_worth = UINT64_MAX;
    bool best_ahead = true;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        struct sm_slot *sl = &p->slot[i];
        if (sl->state != SM_SLOT_READY || sl->pins) continue;
        const uint64_t worth = sm_policy_worth(&p->policy, sl->expert);
        /* What was read ahead and is still to be used goes last. */
        if (best && (sl->ahead > best_ahead || (sl->ahead == best_ahead && worth >= best_worth)))
            continue;
        best = sl;
        best_worth = worth;
        best_ahead = sl->ahead;
    }
    return best;
}

#ifdef NDEBUG
void sm_slots_check(const struct sm_store *s, const struct sm_expert_pool *p)
{
    (void)s;
    (void)p;
}
#else
static void check_slot(const struct sm_expert_pool *p, const struct sm_slot *sl)
{
    const uint32_t left = sl->left[SM_HALF_GATE_UP] + sl->left[SM_HALF_DOWN];
    if (sl->state == SM_SLOT_EMPTY || sl->state == SM_SLOT_OFF) {
        assert(!sl->pins && !sl->n_flying && !sl->queued);
        assert((sl->state == SM_SLOT_OFF) == !sl->data);
        return;
    }
    /* an expert is in one slot at most: the map is one to one */
    assert(sl->data && sl->expert < p->info.n_expert);
    assert(p->slot_of[sl->expert] == sm_slot_index(p, sl));
    switch (sl->state) {
    case SM_SLOT_LOADING:
        assert(left && sl->n_flying <= left);
        assert(sl->failed || sl->queued == (sl->next_piece < p->n_pieces));
        assert(sl->queued || sl->n_flying);
        assert(sl->failed || left == p->n_pieces - sl->next_piece + sl->n_flying);
        break;
    case SM_SLOT_READY: assert(!left && !sl->n_flying && !sl->queued && !sl->failed); break;
    case SM_SLOT_DRAINING: assert(sl->n_flying && !sl->queued && !sl->pins); break;
    default: assert(sl->state == SM_SLOT_FAILED && !sl->n_flying && !sl->queued && sl->pins);
    }
}

void sm_slots_check(const struct sm_store *s, const struct sm_expert_pool *p)
{
    uint32_t n_used = 0, n_mapped = 0, n_off = 0;
    if (!s->check) return;
    for (uint32_t i = 0; i < p->n_slots; i++) {
        check_slot(p, &p->slot[i]);
        n_off += p->slot[i].state == SM_SLOT_OFF;
        n_used += p->slot[i].state != SM_SLOT_EMPTY && p->slot[i].state != SM_SLOT_OFF;
    }
    uint32_t n_lent = 0;
    for (uint32_t i = 0; i < s->n_pools; i++) n_lent += s->pool[i]->n_lent;
    assert(n_lent + s->spares.n_free == s->spares.n);
    for (uint32_t e = 0; e < p->info.n_expert; e++) n_mapped += p->slot_of[e] != SM_NO_SLOT;
    assert(n_used == n_mapped && n_off == p->n_off && p->n_lent <= sm_pool_live(p));
    const struct sm_use *u = &s->use;
    if (!u->active || u->pool != p) return;
    for (unsigned i = 0; i < u->n; i++) {
        if (u->state[i] != SM_ITEM_PINNED && u->state[i] != SM_ITEM_TAKEN) continue;
        const struct sm_slot *sl = &p->slot[u->slot[i]];
        assert(sl->expert == u->ids[i] && sl->pins);
        /* what is computed on is there */
        assert(u->state[i] != SM_ITEM_TAKEN || sl->failed || !sl->left[SM_HALF_GATE_UP]);
    }
}
#endif
