/* SPDX-License-Identifier: MIT */
#include "store/stream.h"
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

/* ---- what is streamed ------------------------------------------------------------------------ */

static size_t row_bytes_of(const struct sm_weight *w)
{
    return (size_t)sm_row_bytes(w->type, w->n_in);
}

/* Matrices that are multiplied and nothing else: no vectors, no small ones, none that is pinned. */
static bool can_stream(const struct sm_store *s, const struct sm_weight_node *n)
{
    const size_t least = s->opt.stream_min_bytes ? s->opt.stream_min_bytes : SM_STREAM_MIN_BYTES;
    return n->w.home != SM_HOME_BY_ROW && !n->pinned && n->w.n_out > 8 && n->w.n_in >= 32 &&
           n->bytes >= least;
}

void sm_store_pin(struct sm_store *s, const struct sm_weight *w, bool pinned)
{
    for (struct sm_weight_node *n = s->first; n; n = n->next)
        if (&n->w == w) n->pinned = pinned;
}

uint64_t sm_store_streamable(const struct sm_store *s)
{
    uint64_t sum = 0;
    for (const struct sm_weight_node *n = s->first; n; n = n->next)
        if (can_stream(s, n)) sum += sm_round_up64(n->bytes, SM_ALIGN);
    return sum;
}

/* Large reads, but a ring that is small beside what it saves. */
static size_t chunk_target(const struct sm_store *s)
{
    const uint64_t share = s->stream.bytes / (8 * SM_STREAM_CELLS);
    if (s->opt.stream_bytes) return s->opt.stream_bytes;
    if (share > SM_STREAM_BYTES) return SM_STREAM_BYTES;
    return share > SM_STREAM_MIN_BYTES ? (size_t)share : SM_STREAM_MIN_BYTES;
}

/* Chunks of like size that are whole groups of 8 rows, in a pack whole units. */
static void cut(const struct sm_store *s, struct sm_stream_item *it)
{
    const struct sm_weight *w = &it->node->w;
    const struct sm_place *p = w->info->place;
    const size_t most = chunk_target(s);
    const uint32_t step = p && p->n_units > 1 ? p->unit_rows : 8;
    const uint64_t all = (uint64_t)w->n_out * row_bytes_of(w), n = (all + most - 1) / most;
    const uint64_t even = (w->n_out + n - 1) / n, rows = (even + step - 1) / step * step;
    it->chunk_rows = p && p->n_units == 1 ? (w->n_out + 7) & ~7u : (uint32_t)rows;
    it->n_chunks = (w->n_out + it->chunk_rows - 1) / it->chunk_rows;
}

static size_t chunk_bytes(const struct sm_stream_item *it)
{
    const struct sm_weight *w = &it->node->w;
    return w->x8 ? (size_t)sm_x8_bytes(w->type, it->chunk_rows, w->n_in)
                 : it->chunk_rows * row_bytes_of(w);
}

void sm_stream_forget(struct sm_store *s)
{
    struct sm_stream *t = &s->stream;
    sm_pages_free(t->ring, (size_t)t->ring_bytes);
    sm_mem_free(t->item, t->n_items * sizeof *t->item);
    sm_mem_free(t->item_of, t->n_chunks * sizeof *t->item_of);
    memset(t, 0, sizeof *t);
}

/* Mark by an even spread: of every stretch of declared bytes the same share is streamed. */
static uint64_t mark(struct sm_store *s, uint64_t want, uint64_t all)
{
    uint64_t seen = 0, streamed = 0;
    for (struct sm_weight_node *n = s->first; n; n = n->next) {
        if (n->w.home == SM_HOME_STREAMED) n->w.home = SM_HOME_RESIDENT;
        n->w.data = NULL;
        if (!can_stream(s, n)) continue;
        const uint64_t bytes = sm_round_up64(n->bytes, SM_ALIGN);
        seen += bytes;
        const double due = (double)want * ((double)seen / (double)all);
        if (!want || (double)streamed >= due) continue;
        n->w.home = SM_HOME_STREAMED;
        streamed += bytes;
        s->stream.n_items++;
    }
    return streamed;
}

static void place_resident(struct sm_store *s)
{
    s->resident_bytes = 0;
    s->n_resident = 0;
    for (struct sm_weight_node *n = s->first; n; n = n->next) {
        if (n->w.home != SM_HOME_RESIDENT) continue;
        n->offset = (size_t)s->resident_bytes;
        s->resident_bytes = sm_round_up64(s->resident_bytes + n->bytes, SM_ALIGN);
        s->n_resident++;
    }
}

static smol_status list_chunks(struct sm_store *s, smol_error *err)
{
    struct sm_stream *t = &s->stream;
    uint32_t i = 0, k = 0;
    t->item = sm_mem_new(t->n_items * sizeof *t->item);
    if (!t->item) return SM_FAIL(err, NOMEM, "no memory for the list of streamed weights");
    for (struct sm_weight_node *n = s->first; n; n = n->next) {
        if (n->w.home != SM_HOME_STREAMED) continue;
        struct sm_stream_item *it = &t->item[i++];
        it->node = n;
        cut(s, it);
        it->first = t->n_chunks;
        t->n_chunks += it->n_chunks;
        const size_t held = sm_round_up(chunk_bytes(it), SM_ALIGN);
        if (held > t->cell_bytes) t->cell_bytes = held;
        sm_store_need_run(s, it->chunk_rows < n->w.n_out ? it->chunk_rows : n->w.n_out,
                          row_bytes_of(&n->w), n->w.info->place);
        sm_store_need_row(s, &n->w); /* a tied embedding is read row by row as well */
        n->w.data = (const uint8_t *)it;
    }
    t->item_of = sm_mem_new(t->n_chunks * sizeof *t->item_of);
    if (!t->item_of) return SM_FAIL(err, NOMEM, "no memory for the list of streamed weights");
    for (i = 0; i < t->n_items; i++)
        for (uint32_t c = 0; c < t->item[i].n_chunks; c++) t->item_of[k++] = i;
    t->ring_bytes = sm_round_up64((uint64_t)SM_STREAM_CELLS * t->cell_bytes, sm_page_bytes());
    return SMOL_OK;
}

smol_status sm_store_stream(struct sm_store *s, uint64_t bytes, uint64_t *streamed, smol_error *err)
{
    assert(!s->loaded);
    const uint64_t all = sm_store_streamable(s);
    sm_stream_forget(s);
    *streamed = mark(s, bytes < all ? bytes : all, all ? all : 1);
    s->stream.bytes = *streamed;
    place_resident(s);
    return *streamed ? list_chunks(s, err) : SMOL_OK;
}

/* ---- the ring -------------------------------------------------------------------------------- */

smol_status sm_stream_start(struct sm_store *s, smol_error *err)
{
    struct sm_stream *t = &s->stream;
    void *p;
    if (!t->n_chunks) return SMOL_OK;
    SM_TRY(sm_pages_new(&p, (size_t)t->ring_bytes, err));
    t->ring = p;
    return SMOL_OK;
}

static void leave_gap(struct sm_stream *t)
{
    if (!t->n_gaps || t->read_seq != t->gap[0].from) return;
    t->read_seq = t->gap[0].to;
    memmove(t->gap, t->gap + 1, --t->n_gaps * sizeof *t->gap);
}

/* The next chunk to be read, under sched.mu. */
bool sm_stream_next(struct sm_store *s, struct sm_run *run, uint32_t *cell)
{
    struct sm_stream *t = &s->stream;
    if (!t->on || t->status != SMOL_OK) return false;
    leave_gap(t);
    struct sm_stream_cell *c = &t->cell[t->read_seq % SM_STREAM_CELLS];
    if (c->state != SM_CELL_EMPTY) return false;
    const uint32_t at = (uint32_t)(t->read_seq % t->n_chunks);
    const struct sm_stream_item *it = &t->item[t->item_of[at]];
    const struct sm_weight *w = &it->node->w;
    const uint32_t row = (at - it->first) * it->chunk_rows, left = w->n_out - row;
    *cell = (uint32_t)(t->read_seq % SM_STREAM_CELLS);
    *c = (struct sm_stream_cell){.seq = t->read_seq++, .state = SM_CELL_LOADING};
    *run = sm_weight_run(s, w, row, left < it->chunk_rows ? left : it->chunk_rows,
                         t->ring + (size_t)*cell * t->cell_bytes);
    return true;
}

void sm_stream_land(struct sm_store *s, uint32_t cell, smol_status status, const smol_error *err)
{
    struct sm_stream *t = &s->stream;
    struct sm_stream_cell *c = &t->cell[cell];
    assert(c->state == SM_CELL_LOADING);
    c->state = c->drop ? SM_CELL_EMPTY : SM_CELL_READY;
    if (status == SMOL_OK || c->drop || t->status != SMOL_OK) return;
    t->status = status;
    t->err = *err;
}

/* ---- use ------------------------------------------------------------------------------------- */

const struct sm_stream_item *sm_stream_of(const struct sm_store *s, const uint8_t *data)
{
    const struct sm_stream *t = &s->stream;
    const uintptr_t at = (uintptr_t)data, base = (uintptr_t)t->item;
    if (!t->item || at < base || at >= base + t->n_items * sizeof *t->item) return NULL;
    return &t->item[(at - base) / sizeof *t->item];
}

uint32_t sm_stream_chunk_rows(const struct sm_stream_item *item) { return item->chunk_rows; }
uint32_t sm_stream_n_chunks(const struct sm_stream_item *item) { return item->n_chunks; }

/* Drop what was read ahead between what comes next and `to`. What was begun before and is not read
 * yet comes first: then the gap waits until reading gets there. */
static void skip(struct sm_stream *t, uint64_t to)
{
    t->n_skips++;
    if (t->read_seq < t->next_seq) {
        assert(t->n_gaps < SM_STREAM_GAPS);
        t->gap[t->n_gaps].from = t->next_seq;
        t->gap[t->n_gaps++].to = to;
        return;
    }
    for (uint32_t i = 0; i < SM_STREAM_CELLS; i++) {
        struct sm_stream_cell *c = &t->cell[i];
        if (c->state == SM_CELL_EMPTY || c->seq < t->next_seq || c->seq >= to) continue;
        if (c->state == SM_CELL_LOADING) c->drop = true;
        else c->state = SM_CELL_EMPTY;
    }
    if (t->read_seq < to) t->read_seq = to;
}

void sm_stream_begin(struct sm_store *s, const struct sm_stream_item *item)
{
    struct sm_stream *t = &s->stream;
    struct sm_stream_item *it = &t->item[item - t->item];
    (void)pthread_mutex_lock(&s->sched.mu);
    const uint64_t at = t->next_seq % t->n_chunks;
    const uint64_t ahead = it->first >= at ? it->first - at : it->first + t->n_chunks - at;
    it->seq = t->next_seq + ahead;
    if (ahead && t->status == SMOL_OK) skip(t, it->seq);
    t->next_seq = it->seq + it->n_chunks;
    (void)pthread_cond_broadcast(&s->sched.work);
    (void)pthread_mutex_unlock(&s->sched.mu);
}

const uint8_t *sm_stream_take(struct sm_store *s, const struct sm_stream_item *item, uint32_t chunk,
                              unsigned worker)
{
    struct sm_stream *t = &s->stream;
    const uint64_t seq = item->seq + chunk;
    const uint32_t cell = (uint32_t)(seq % SM_STREAM_CELLS);
    const struct sm_stream_cell *c = &t->cell[cell];
    const uint8_t *data = NULL;
    uint64_t from = 0;
    (void)pthread_mutex_lock(&s->sched.mu);
    while (t->status == SMOL_OK && (c->seq != seq || c->state != SM_CELL_READY)) {
        if (!from) from = sm_now_ns();
        (void)pthread_cond_wait(&s->sched.done, &s->sched.mu);
    }
    if (t->status == SMOL_OK) data = t->ring + (size_t)cell * t->cell_bytes;
    if (from && worker == 0) {
        const uint64_t waited = sm_now_ns() - from;
        s->stats.demand_wait_ns += waited;
        s->stats.stream_wait_ns += waited;
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
    return data;
}

void sm_stream_give(struct sm_store *s, const struct sm_stream_item *item, uint32_t chunk,
                    uint32_t n)
{
    struct sm_stream *t = &s->stream;
    (void)pthread_mutex_lock(&s->sched.mu);
    struct sm_stream_cell *c = &t->cell[(item->seq + chunk) % SM_STREAM_CELLS];
    if (t->status == SMOL_OK && ++c->given == n) {
        c->state = SM_CELL_EMPTY;
        (void)pthread_cond_broadcast(&s->sched.work);
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
}

uint64_t sm_store_streamed(struct sm_store *s)
{
    if (!s->stream.on) return 0;
    (void)pthread_mutex_lock(&s->sched.mu);
    const uint64_t bytes = s->sched.stream_bytes;
    (void)pthread_mutex_unlock(&s->sched.mu);
    return bytes;
}

/* Nothing in the ring is wanted any more: reading goes on with what is begun next. */
static void start_anew(struct sm_stream *t)
{
    for (uint32_t i = 0; i < SM_STREAM_CELLS; i++) {
        if (t->cell[i].state == SM_CELL_LOADING) t->cell[i].drop = true;
        else t->cell[i].state = SM_CELL_EMPTY;
    }
    t->n_gaps = 0;
    t->read_seq = t->next_seq;
    t->status = SMOL_OK;
    t->err = (smol_error){0};
}

smol_status sm_stream_status(struct sm_store *s, smol_error *err)
{
    struct sm_stream *t = &s->stream;
    if (!t->on) return SMOL_OK;
    (void)pthread_mutex_lock(&s->sched.mu);
    const smol_status st = t->status;
    if (st != SMOL_OK) {
        if (err && err->code == SMOL_OK) *err = t->err;
        start_anew(t);
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
    return st;
}
