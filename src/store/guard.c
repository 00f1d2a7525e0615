/* SPDX-License-Identifier: MIT */
/* The guard: when the system has less memory left than the reserve, or will have at the next look
 * if it goes on falling as fast, pools give slots back, a few from every layer; when they are at
 * their floor and it still sinks, the run ends with an error, before the system ends it or hangs.
 * It looks at what is there now, so a budget that is lowered while we run (a cgroup limit) is
 * followed. Called by the thread that loads, and by the decoding thread between layers; 10 looks a
 * second, up to 50 when memory is short, but not more than cost 2 % of the time. */
#include "store/store_int.h"

#define LOOK_EVERY_NS 100000000u
#define LOOK_SOON_NS 20000000u
#define LOOK_COST 50u /* times what a look took must pass before the next */
#define SOON 4        /* reserves: with less than so many left it looks soon */
/* at the floor: so many looks in a row below a quarter of the reserve, or two at which it falls to
 * nothing */
#define LAST_LOOKS 5u

static uint64_t clamp(uint64_t v, uint64_t least, uint64_t most)
{
    return v < least ? least : v > most ? most : v;
}

void sm_store_guard(struct sm_store *s, uint64_t reserve_bytes, uint32_t floor)
{
    sm_memory_watch_free(s->guard.watch);
    s->guard = (struct sm_guard){.reserve_bytes = (int64_t)reserve_bytes, .left_bytes = INT64_MIN,
                                 .floor = floor < 2 ? 2 : floor, .watch = sm_memory_watch_new(),
                                 .probe = sm_memory_watch_look};
}

/* Take one slot from the pool: an empty one, else that of the coldest expert. Under sched.mu. */
static bool give_back(struct sm_expert_pool *p)
{
    struct sm_slot *sl = sm_slots_empty(p);
    if (!sl) {
        sl = sm_slots_victim(p);
        if (!sl) return false;
        sm_slot_clear(p, sl);
    }
    sm_pages_drop(sm_slot_off(p, sl), p->info.slot_bytes);
    return true;
}

static uint64_t shrink(struct sm_store *s, uint64_t bytes)
{
    uint64_t given = 0, spare = 1;
    bool any = true;
    (void)pthread_mutex_lock(&s->sched.mu);
    for (; given < bytes && spare; given += spare) spare = sm_spares_give_up(s);
    while (given < bytes && any) {
        any = false;
        for (uint32_t i = 0; i < s->n_pools; i++) { /* one of each, so that the layers stay alike */
            struct sm_expert_pool *p = s->pool[i];
            if (p->complete || sm_pool_own(p) <= s->guard.floor || !give_back(p)) continue;
            sm_policy_shrink(&p->policy, sm_pool_own(p));
            given += p->info.slot_bytes;
            any = true;
        }
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
    s->guard.given_bytes += given;
    return given;
}

smol_status sm_store_guard_look(struct sm_store *s, smol_error *err)
{
    struct sm_guard *g = &s->guard;
    struct sm_memory m;
    const uint64_t now = sm_now_ns();
    if (!g->probe || now < g->next_ns) return SMOL_OK;
    g->next_ns = now + LOOK_EVERY_NS;
    g->probe(g->watch, &m);
    if (!m.total_bytes) return SMOL_OK; /* the system does not say */
    const int64_t both = m.margin_bytes + (int64_t)m.rss_bytes; /* what we touch is planned */
    const int64_t goal = g->goal_bytes - (int64_t)g->given_bytes;
    const int64_t coming = goal > (int64_t)m.rss_bytes ? goal - (int64_t)m.rss_bytes : 0;
    const int64_t left = m.margin_bytes - coming;
    const int64_t fall = g->left_bytes > both ? g->left_bytes - both : 0;
    g->left_bytes = both;
    const uint64_t soon_ns = clamp(LOOK_COST * (sm_now_ns() - now), LOOK_SOON_NS, LOOK_EVERY_NS);
    if (left - fall < SOON * g->reserve_bytes) g->next_ns = now + soon_ns;
    if (left - fall >= g->reserve_bytes) {
        g->n_low = 0;
        return SMOL_OK;
    }
    const uint64_t given = shrink(s, (uint64_t)(2 * g->reserve_bytes + fall - left));
    const bool soon = fall > 0 && left < 3 * fall; /* it would be gone in three looks */
    if (given || (!soon && left - fall >= g->reserve_bytes / 4)) {
        g->n_low = 0;
        return SMOL_OK;
    }
    g->n_low += soon ? LAST_LOOKS / 2 + 1 : 1;
    if (g->n_low < LAST_LOOKS) return SMOL_OK;
    return SM_FAIL(err, NOMEM, "the system runs out of memory: %.1f MiB are left and %s",
                   left > 0 ? (double)left / 1048576.0 : 0.0,
                   s->n_pools ? "the pools cannot give more" : "nothing can be given back");
}
