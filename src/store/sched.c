/* SPDX-License-Identifier: MIT */
/* The I/O scheduler: a few reader threads and one queue of slots per class. A slot stays in its
 * queue while pieces of it wait to be started; a reader takes the next piece of the first slot of
 * the most urgent class. So one expert is read by several readers in parallel, gate and up before
 * down, and a DEMAND piece waits for at most one piece per reader. The queues are links inside the
 * slots: nothing is allocated and nothing can overflow. */
#include "store/store_int.h"

#include <assert.h>

void sm_sched_push(struct sm_sched *q, struct sm_slot *sl)
{
    assert(!sl->queued && sl->io_class < SM_IO_CLASSES);
    const unsigned c = sl->io_class;
    struct sm_slot *before = q->tail[c]; /* what is needed sooner goes first, else in order */
    while (c == SM_IO_NEXT && before && before->due > sl->due) before = before->prev;
    struct sm_slot *after = before ? before->next : q->head[c];
    sl->prev = before;
    sl->next = after;
    if (before) before->next = sl;
    else q->head[c] = sl;
    if (after) after->prev = sl;
    else q->tail[c] = sl;
    sl->queued = true;
    (void)pthread_cond_broadcast(&q->work);
}

void sm_sched_remove(struct sm_sched *q, struct sm_slot *sl)
{
    assert(sl->queued);
    const unsigned c = sl->io_class;
    if (sl->prev) sl->prev->next = sl->next;
    else q->head[c] = sl->next;
    if (sl->next) sl->next->prev = sl->prev;
    else q->tail[c] = sl->prev;
    sl->prev = sl->next = NULL;
    sl->queued = false;
}

void sm_sched_raise(struct sm_sched *q, struct sm_slot *sl, enum sm_io_class io_class)
{
    if (sl->io_class <= io_class) return;
    const bool queued = sl->queued;
    if (queued) sm_sched_remove(q, sl);
    sl->io_class = (uint8_t)io_class;
    if (queued) sm_sched_push(q, sl);
}

bool sm_sched_busy(const struct sm_sched *q)
{
    for (unsigned c = 0; c < SM_IO_CLASSES; c++)
        if (q->n_flying[c] || q->head[c]) return true;
    return false;
}

/* The slot whose next piece is the most urgent, NULL if none may start. */
static struct sm_slot *most_urgent(const struct sm_sched *q)
{
    unsigned below = 0; /* pieces under way of this class and less urgent ones */
    for (unsigned c = SM_IO_NEXT; c < SM_IO_CLASSES; c++) below += q->n_flying[c];
    for (unsigned c = 0; c < SM_IO_CLASSES; c++) {
        const unsigned flying = c == SM_IO_DEMAND ? q->n_flying[c] : below;
        if (q->head[c] && flying < q->cap[c]) return q->head[c];
        if (c != SM_IO_DEMAND) below -= q->n_flying[c];
    }
    return NULL;
}

/* Read one piece. Called with the lock held, which is released meanwhile. */
static void read_piece(struct sm_reader *r, struct sm_slot *sl)
{
    struct sm_store *s = r->store;
    struct sm_sched *q = &s->sched;
    struct sm_expert_pool *p = s->pool[sl->pool];
    const unsigned io_class = sl->io_class;
    const uint32_t generation = sl->generation;
    struct sm_run run;
    unsigned half;
    smol_error err = {0};
    sm_piece_run(s, p, sm_slot_index(p, sl), sl->expert, sl->next_piece++, &run, &half);
    if (sl->next_piece == p->n_pieces) sm_sched_remove(q, sl);
    sl->n_flying++;
    q->n_flying[io_class]++;
    sm_busy_begin(&q->busy);
    sm_slots_check(s, p);
    (void)pthread_mutex_unlock(&q->mu);

    const smol_status st = sm_run_read(s, &r->stage, &run, &err);

    (void)pthread_mutex_lock(&q->mu);
    q->n_flying[io_class]--;
    sm_busy_end(&q->busy);
    sl->landed_bytes += (uint64_t)run.n_rows * run.row_bytes;
    if (st == SMOL_OK) q->expert_bytes += (uint64_t)run.n_rows * run.row_bytes;
    if (sm_slot_land(s, p, sl, half, generation, st, &err)) (void)pthread_cond_broadcast(&q->done);
    if (q->head[SM_IO_NEXT] || q->head[SM_IO_WARM]) /* a cap may have opened */
        (void)pthread_cond_signal(&q->work);
    sm_slots_check(s, p);
}

static void read_bulk(struct sm_reader *r, const struct sm_run *run)
{
    struct sm_store *s = r->store;
    smol_error err = {0};
    s->sched.bulk.n_flying++;
    sm_busy_begin(&s->sched.busy);
    (void)pthread_mutex_unlock(&s->sched.mu);
    const smol_status st = sm_run_read(s, &r->stage, run, &err);
    (void)pthread_mutex_lock(&s->sched.mu);
    s->sched.bulk.n_flying--;
    sm_busy_end(&s->sched.busy);
    sm_bulk_land(s, run, st, &err);
    (void)pthread_cond_broadcast(&s->sched.done);
}

static void read_stream(struct sm_reader *r, const struct sm_run *run, uint32_t cell)
{
    struct sm_store *s = r->store;
    struct sm_sched *q = &s->sched;
    smol_error err = {0};
    sm_busy_begin(&q->busy);
    sm_busy_begin(&q->stream_busy);
    (void)pthread_mutex_unlock(&q->mu);
    const smol_status st = sm_run_read(s, &r->stage, run, &err);
    (void)pthread_mutex_lock(&q->mu);
    sm_busy_end(&q->stream_busy);
    sm_busy_end(&q->busy);
    if (st == SMOL_OK) q->stream_bytes += (uint64_t)run->n_rows * run->row_bytes;
    sm_stream_land(s, cell, st, &err);
    (void)pthread_cond_broadcast(&q->done);
}

static void reader_main(void *arg)
{
    struct sm_reader *r = arg;
    struct sm_sched *q = &r->store->sched;
    struct sm_run run;
    (void)pthread_mutex_lock(&q->mu);
    while (!q->stop) {
        uint32_t cell;
        /* Experts that compute waits for first; streamed weights before speculation, since all of
         * them are needed for certain. */
        if (!q->head[SM_IO_DEMAND] && sm_stream_next(r->store, &run, &cell)) {
            read_stream(r, &run, cell);
            continue;
        }
        struct sm_slot *sl = most_urgent(q);
        if (sl) read_piece(r, sl);
        else if (q->bulk.active && sm_bulk_next(r->store, &run)) read_bulk(r, &run);
        else (void)pthread_cond_wait(&q->work, &q->mu);
    }
    (void)pthread_mutex_unlock(&q->mu);
}

static smol_status init_locks(struct sm_sched *q, smol_error *err)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr)) return SM_FAIL(err, NOMEM, "cannot make a condition");
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    const bool mu = pthread_mutex_init(&q->mu, NULL) == 0;
    const bool work = mu && pthread_cond_init(&q->work, &attr) == 0;
    const bool done = work && pthread_cond_init(&q->done, &attr) == 0;
    (void)pthread_condattr_destroy(&attr);
    if (done) {
        q->ready = true;
        return SMOL_OK;
    }
    if (work) (void)pthread_cond_destroy(&q->work);
    if (mu) (void)pthread_mutex_destroy(&q->mu);
    return SM_FAIL(err, NOMEM, "cannot make a lock");
}

smol_status sm_sched_start(struct sm_store *s, unsigned n_readers, smol_error *err)
{
    struct sm_sched *q = &s->sched;
    assert(!q->ready && n_readers >= 1 && n_readers <= SM_READERS_MAX);
    SM_TRY(init_locks(q, err));
    /* DEMAND may use every reader. Speculation leaves one free where there are several, WARM two:
     * a demand then starts at once instead of after a piece of 2 ms. */
    q->cap[SM_IO_DEMAND] = n_readers;
    q->cap[SM_IO_NEXT] = n_readers > 1 ? n_readers - 1 : 1;
    q->cap[SM_IO_WARM] = n_readers > 2 ? n_readers - 2 : 1;
    for (unsigned i = 0; i < n_readers; i++) {
        struct sm_reader *r = &q->reader[i];
        r->store = s;
        SM_TRY(sm_stage_new(&r->stage, s->run_bytes, s->row_bytes_max, s->opt.verify, err));
        q->n_readers = i + 1;
        SM_TRY(sm_thread_new(&r->thread, reader_main, r, "smol-read", err));
    }
    return SMOL_OK;
}

void sm_sched_stop(struct sm_store *s)
{
    struct sm_sched *q = &s->sched;
    if (!q->ready) return;
    (void)pthread_mutex_lock(&q->mu);
    q->stop = true;
    (void)pthread_cond_broadcast(&q->work);
    (void)pthread_mutex_unlock(&q->mu);
    for (unsigned i = 0; i < SM_READERS_MAX; i++) {
        struct sm_reader *r = &q->reader[i];
        if (r->thread) sm_thread_join(r->thread);
        r->thread = NULL;
        sm_stage_free(&r->stage);
    }
}
