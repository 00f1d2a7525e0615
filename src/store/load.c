/* SPDX-License-Identifier: MIT */
/* Allocate, and read everything that stays: resident tensors and complete pools, by all readers in
 * parallel, in file order, straight into the final place. The only other copy of a weight at any
 * moment is the run in a reader's staging buffer. Memory that is read into is touched by that; the
 * slots of the other pools are touched meanwhile by the loading thread, and the guard looks. */
#include "base/log.h"
#include "store/store_int.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TOUCH_BYTES ((size_t)8 << 20) /* between two looks at progress, cancel and memory */

/* ---- what there is to read; under sched.mu --------------------------------------------------- */

static bool next_resident(struct sm_store *s, struct sm_run *run)
{
    struct sm_bulk *b = &s->sched.bulk;
    while (b->i_order < b->n_order) {
        const struct sm_weight_node *node = b->order[b->i_order];
        const struct sm_weight *w = &node->w;
        if (b->row == w->n_out) {
            b->row = 0;
            b->i_order++;
            continue;
        }
        const size_t row_bytes = (size_t)sm_row_bytes(w->type, w->n_in);
        const uint32_t n = sm_run_rows(w->n_out - b->row, row_bytes, SM_RUN_BYTES, w->info->place);
        const size_t before =
            w->x8 ? (size_t)sm_x8_bytes(w->type, b->row, w->n_in) : (size_t)b->row * row_bytes;
        *run = sm_weight_run(s, w, b->row, n, s->resident + node->offset + before);
        b->row += n;
        return true;
    }
    return false;
}

static bool next_of_pools(struct sm_store *s, struct sm_run *run)
{
    struct sm_bulk *b = &s->sched.bulk;
    unsigned half;
    while (b->pool < s->n_pools) {
        const struct sm_expert_pool *p = s->pool[b->pool];
        if (!p->complete || b->expert == p->info.n_expert) {
            b->pool++;
            b->expert = b->piece = 0;
        } else if (b->piece == p->n_pieces) {
            b->expert++;
            b->piece = 0;
        } else {
            sm_piece_run(s, p, b->expert, b->expert, b->piece++, run, &half);
            return true;
        }
    }
    return false;
}

bool sm_bulk_next(struct sm_store *s, struct sm_run *run)
{
    if (s->sched.bulk.stop) return false;
    return next_resident(s, run) || next_of_pools(s, run);
}

static bool bulk_exhausted(const struct sm_store *s)
{
    const struct sm_bulk *b = &s->sched.bulk;
    return b->stop || b->bytes_done == b->bytes_total;
}

void sm_bulk_land(struct sm_store *s, const struct sm_run *run, smol_status status,
                  const smol_error *err)
{
    struct sm_bulk *b = &s->sched.bulk;
    if (status == SMOL_OK) {
        b->bytes_done += (uint64_t)run->n_rows * run->row_bytes;
    } else if (b->status == SMOL_OK) {
        b->status = status;
        b->err = *err;
        b->stop = true;
    }
}

/* ---- allocation ------------------------------------------------------------------------------ */

static int by_place(const void *x, const void *y)
{
    const struct sm_weight_node *a = *(struct sm_weight_node *const *)x,
                                *b = *(struct sm_weight_node *const *)y;
    if (a->w.info->file != b->w.info->file) return a->w.info->file < b->w.info->file ? -1 : 1;
    return a->w.info->at < b->w.info->at ? -1 : a->w.info->at > b->w.info->at;
}

static smol_status new_resident(struct sm_store *s, smol_error *err)
{
    struct sm_bulk *b = &s->sched.bulk;
    void *arena;
    if (!s->n_resident) return SMOL_OK;
    if (s->resident_bytes > SIZE_MAX)
        return SM_FAIL(err, NOMEM, "%llu bytes of weights are more than an address can hold",
                       (unsigned long long)s->resident_bytes);
    SM_TRY(sm_pages_reserve(&arena, (size_t)s->resident_bytes, err));
    s->resident = arena;
    b->order = sm_mem_new(s->n_resident * sizeof(struct sm_weight_node *));
    if (!b->order) return SM_FAIL(err, NOMEM, "no memory for a list of weights");
    for (struct sm_weight_node *n = s->first; n; n = n->next) {
        if (n->w.home != SM_HOME_RESIDENT) continue;
        n->w.data = s->resident + n->offset;
        b->order[b->n_order++] = n;
        b->bytes_total += (uint64_t)n->w.n_out * sm_row_bytes(n->w.type, n->w.n_in);
    }
    qsort(b->order, b->n_order, sizeof *b->order, by_place);
    return SMOL_OK;
}

static smol_status new_pool(struct sm_store *s, struct sm_expert_pool *p, uint32_t n_slots,
                            smol_error *err)
{
    void *arena;
    uint64_t bytes;
    const uint32_t n = p->info.n_expert;
    const uint32_t n_own = n_slots < n ? n_slots : n;
    p->n_slots = n_own + sm_spares_places(s, p, n_own);
    assert(n_own >= 2 || n_own == n);
    p->complete = n_own == n;
    if (!sm_mul_ok(p->info.slot_bytes, n_own, &bytes) || bytes > SIZE_MAX)
        return SM_FAIL(err, NOMEM, "%u slots of %zu bytes are more than an address can hold",
                       (unsigned)n_own, p->info.slot_bytes);
    SM_TRY(sm_pages_reserve(&arena, (size_t)bytes, err));
    p->arena = arena;
    p->arena_bytes = (size_t)bytes;
    p->table_bytes = sm_slots_table_bytes(n);
    p->tables = sm_mem_new(p->table_bytes);
    if (!p->tables) return SM_FAIL(err, NOMEM, "no memory for the table of a pool");
    sm_slots_init(p, s->policy, n_own);
    if (p->complete) s->sched.bulk.bytes_total += p->info.expert_file_bytes * n;
    return SMOL_OK;
}

size_t sm_use_table_bytes(uint32_t n_expert_max)
{
    const size_t ids = sm_round_up(sizeof(uint16_t) * n_expert_max, SM_ALIGN);
    const size_t missed = sm_round_up(sizeof(uint32_t) * n_expert_max, SM_ALIGN);
    return 2 * ids + 2 * sm_round_up(n_expert_max, SM_ALIGN) + missed;
}

static smol_status new_use(struct sm_store *s, smol_error *err)
{
    if (!s->n_expert_max) return SMOL_OK;
    const size_t ids = sm_round_up(sizeof(uint16_t) * s->n_expert_max, SM_ALIGN);
    const size_t flags = sm_round_up(s->n_expert_max, SM_ALIGN);
    s->use_bytes = sm_use_table_bytes(s->n_expert_max);
    s->use_tables = sm_mem_new(s->use_bytes);
    if (!s->use_tables) return SM_FAIL(err, NOMEM, "no memory for the table of the pager");
    uint8_t *at = s->use_tables;
    s->use.ids = (uint16_t *)s->use_tables;
    s->use.slot = (uint16_t *)(void *)(at + ids);
    s->use.state = at + 2 * ids;
    s->use.was_read = s->use.state + flags;
    s->use.missed = (uint32_t *)(void *)(s->use.was_read + flags);
    return SMOL_OK;
}

static smol_status allocate(struct sm_store *s, const struct sm_store_plan *plan, smol_error *err)
{
    const bool verify = s->opt.verify;
    SM_TRY(new_resident(s, err));
    SM_TRY(sm_spares_new(s, plan->n_spares, plan->spare_bytes, err));
    for (uint32_t i = 0; i < s->n_pools; i++)
        SM_TRY(new_pool(s, s->pool[i], plan->n_slots[i], err));
    SM_TRY(new_use(s, err));
    SM_TRY(sm_stream_start(s, err));
    if (s->by_row_bytes_max) {
        SM_TRY(sm_stage_new(&s->row_stage, s->by_row_bytes_max, s->by_row_bytes_max, verify, err));
        SM_TRY(sm_rows_new(s, plan->n_row_cells, err));
    }
    if (verify && s->n_pools)
        SM_TRY(sm_stage_new(&s->check_stage, s->run_bytes, s->row_bytes_max, true, err));
    return SMOL_OK;
}

/* ---- load ------------------------------------------------------------------------------------ */

static void wait_a_moment(struct sm_sched *q)
{
    struct timespec t;
    const uint64_t until = sm_now_ns() + 50000000u; /* progress and cancel are looked at */
    t.tv_sec = (time_t)(until / 1000000000u);
    t.tv_nsec = (long)(until % 1000000000u);
    (void)pthread_cond_timedwait(&q->done, &q->mu, &t);
}

/* Touch some slots that the guard has not taken; false: none is left. */
static bool touch_some(struct sm_store *s)
{
    struct sm_bulk *b = &s->sched.bulk;
    size_t done = 0;
    while (b->touch_pool < s->n_pools && done < TOUCH_BYTES) {
        const struct sm_expert_pool *p = s->pool[b->touch_pool];
        if (p->complete || b->touch_slot == p->n_slots) {
            b->touch_pool++;
            b->touch_slot = 0;
            continue;
        }
        const struct sm_slot *sl = &p->slot[b->touch_slot];
        if (sl->data) sm_pages_touch(sl->data, p->info.slot_bytes);
        b->touch_slot++;
        done += p->info.slot_bytes;
    }
    for (; b->touch_spare < s->spares.n_free && done < TOUCH_BYTES; b->touch_spare++) {
        sm_pages_touch(s->spares.free[b->touch_spare], s->spares.slot_bytes);
        done += s->spares.slot_bytes;
    }
    return done > 0;
}

/* What the loading thread does while others read. *more: there is something left to be touched. */
static smol_status meanwhile(struct sm_store *s, const struct sm_store_plan *plan,
                             uint64_t bytes_done, bool *more, smol_error *err)
{
    if (plan->cancel && *plan->cancel) return SM_FAIL(err, CANCELLED, "loading was stopped");
    if (plan->progress)
        plan->progress(plan->progress_arg, "loading", bytes_done, s->sched.bulk.bytes_total);
    *more = touch_some(s);
    if (*more) s->guard.next_ns = 0; /* far more is taken in a moment than while decoding */
    return sm_store_guard_look(s, err);
}

/* The memory that is still to be touched counts as taken. */
static void set_goal(struct sm_store *s, const struct sm_store_plan *plan, unsigned n_readers)
{
    const size_t stage = sm_stage_bytes(s->run_bytes, s->row_bytes_max, s->opt.verify);
    struct sm_memory m;
    if (!s->guard.probe) return;
    s->guard.probe(s->guard.watch, &m);
    s->guard.goal_bytes =
        (int64_t)(m.rss_bytes + s->resident_bytes + n_readers * stage + plan->later_bytes);
    for (uint32_t i = 0; i < s->n_pools; i++)
        s->guard.goal_bytes += (int64_t)s->pool[i]->arena_bytes;
    s->guard.goal_bytes += (int64_t)s->spares.arena_bytes;
}

static smol_status read_all(struct sm_store *s, const struct sm_store_plan *plan, smol_error *err)
{
    struct sm_sched *q = &s->sched;
    struct sm_bulk *b = &q->bulk;
    smol_status own = SMOL_OK; /* of this thread */
    bool more = true, reading = true;
    (void)pthread_mutex_lock(&q->mu);
    b->active = true;
    (void)pthread_cond_broadcast(&q->work);
    while (more || reading) {
        const uint64_t done = b->bytes_done;
        (void)pthread_mutex_unlock(&q->mu);
        if (own == SMOL_OK) own = meanwhile(s, plan, done, &more, err);
        (void)pthread_mutex_lock(&q->mu);
        if (own != SMOL_OK) b->stop = true;
        more = more && !b->stop;
        reading = !bulk_exhausted(s) || b->n_flying;
        if (reading && !more) wait_a_moment(q);
    }
    b->active = false;
    s->guard.goal_bytes = 0;
    const smol_status st = b->status;
    (void)pthread_mutex_unlock(&q->mu);
    if (own != SMOL_OK) return own;
    if (st != SMOL_OK) {
        if (err && err->code == SMOL_OK) *err = b->err;
        return st;
    }
    if (plan->progress)
        plan->progress(plan->progress_arg, "loading", b->bytes_total, b->bytes_total);
    return SMOL_OK;
}

/* Every expert of a complete pool is in the slot of its own number, for good. */
static bool settle_pools(struct sm_store *s)
{
    bool paging = false;
    for (uint32_t i = 0; i < s->n_pools; i++) {
        struct sm_expert_pool *p = s->pool[i];
        paging = paging || !p->complete;
        for (uint32_t e = 0; p->complete && e < p->info.n_expert; e++) {
            p->slot_of[e] = (uint16_t)e;
            p->slot[e].expert = (uint16_t)e;
            p->slot[e].state = SM_SLOT_READY;
        }
    }
    return paging;
}

smol_status sm_store_load(struct sm_store *s, const struct sm_store_plan *plan, smol_error *err)
{
    assert(!s->loaded && (plan->n_slots || !s->n_pools));
    unsigned n_readers = plan->n_readers ? plan->n_readers : 1;
    if (n_readers > SM_READERS_MAX) n_readers = SM_READERS_MAX;
    s->loaded = true;
    if (s->no_source) /* here: a store is declared more than once until its plan fits */
        sm_log_note(
            "the source of the pack (%s) is not beside it: verifying with a second read of the "
            "pack",
            s->no_source);
    SM_TRY(allocate(s, plan, err));
    set_goal(s, plan, n_readers);
    SM_TRY(sm_sched_start(s, n_readers, err));
    SM_TRY(read_all(s, plan, err));
    sm_mem_free(s->sched.bulk.order, s->n_resident * sizeof(struct sm_weight_node *));
    s->sched.bulk.order = NULL;
    const bool paging = settle_pools(s);
    if (!paging && !s->stream.n_chunks) sm_sched_stop(s); /* nothing is left to read */
    s->stats.load_bytes_read = sm_store_file_bytes(s);
    s->read_base = s->stats.load_bytes_read;
    sm_sched_lock(&s->sched);
    sm_busy_reset(&s->sched.busy); /* all figures begin behind the load */
    sm_sched_unlock(&s->sched);
    if (!s->stream.n_chunks) return SMOL_OK;
    (void)pthread_mutex_lock(&s->sched.mu); /* from now on ahead of the first token */
    s->stream.on = true;
    (void)pthread_cond_broadcast(&s->sched.work);
    (void)pthread_mutex_unlock(&s->sched.mu);
    return SMOL_OK;
}
