/* SPDX-License-Identifier: MIT */
/* Matrix products and other work on rows, split over the thread pool. Work is claimed piece by
 * piece from atomic counters, so a worker that is interrupted delays only the piece it holds; which
 * worker computes a piece cannot change a bit, since no sum crosses a piece. */
#include "graph/graph.h"
#include "store/stream.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

struct for_job {
    sm_item_fn fn;
    void *arg;
    uint32_t n;
    atomic_uint next;
};

static void run_items(void *arg, unsigned worker, unsigned n_workers)
{
    struct for_job *j = arg;
    (void)n_workers;
    for (;;) {
        const uint32_t i = atomic_fetch_add_explicit(&j->next, 1, memory_order_relaxed);
        if (i >= j->n) return;
        j->fn(j->arg, i, worker);
    }
}

void sm_graph_for(struct sm_graph *g, uint32_t n, sm_item_fn fn, void *arg)
{
    struct for_job j = {.fn = fn, .arg = arg, .n = n};
    if (n == 1 || sm_pool_size(g->pool) == 1) {
        for (uint32_t i = 0; i < n; i++) fn(arg, i, 0);
        return;
    }
    atomic_init(&j.next, 0);
    sm_pool_run(g->pool, run_items, &j);
}

/* ---- products ------------------------------------------------------------------------------- */

struct product_job {
    const struct sm_kern *kern;
    struct sm_store *store;
    const struct sm_product *p;
    unsigned n;
    uint32_t first[SM_MAX_PRODUCTS + 1]; /* first piece of each product */
    uint32_t rows[SM_MAX_PRODUCTS];      /* rows of a piece, a multiple of 8 */
    const struct sm_stream_item *streamed[SM_MAX_PRODUCTS]; /* NULL: in memory */
    uint32_t per_chunk;                  /* pieces of a streamed chunk */
    /* Each worker has a run of pieces to itself, which it reads in order as the caches expect, and
     * then takes what others have left. One run where weights are streamed in the order of use. */
    unsigned n_runs;
    struct piece_run { _Alignas(SM_ALIGN) atomic_uint next; uint32_t end; } run[SM_POOL_MAX];
};

/* n rows from `row` on, which lie at `data`. */
static void run_rows(const struct product_job *j, const struct sm_product *p, uint32_t row,
                     uint32_t n, const uint8_t *data)
{
    if (p->x8)
        j->kern->mul_x8[p->type](p->y + row, p->ldy, data, (n + 7) / 8, p->acts);
    else
        j->kern->mul_rows[p->type](p->y + row, p->ldy, data, n, p->n_in, p->x, sm_pad8(p->n_in),
                                   p->n_tok);
}

/* Bytes from the start of a matrix to `row`, a multiple of 8. */
static size_t rows_before(const struct sm_product *p, uint32_t row)
{
    return p->x8 ? row / 8 * (size_t)sm_x8_bytes(p->type, 8, p->n_in)
                 : row * (size_t)sm_row_bytes(p->type, p->n_in);
}

/* A piece of a chunk, as soon as the chunk is there. */
static void run_streamed(const struct product_job *j, unsigned i, uint32_t piece, unsigned worker)
{
    const struct sm_product *p = &j->p[i];
    const struct sm_stream_item *it = j->streamed[i];
    const uint32_t chunk = piece / j->per_chunk, first = chunk * sm_stream_chunk_rows(it);
    const uint32_t left = p->n_out - first, all = sm_stream_chunk_rows(it);
    const uint32_t n = left < all ? left : all, row = piece % j->per_chunk * j->rows[i];
    const uint8_t *data = sm_stream_take(j->store, it, chunk, worker);
    if (!data) return; /* sm_graph_status says why */
    if (row < n)
        run_rows(j, p, first + row, n - row < j->rows[i] ? n - row : j->rows[i],
                 data + rows_before(p, row));
    sm_stream_give(j->store, it, chunk, j->per_chunk);
}

static void run_piece(const struct product_job *j, unsigned i, uint32_t piece)
{
    const struct sm_product *p = &j->p[i];
    const uint32_t row = piece * j->rows[i];
    const uint32_t n = p->n_out - row < j->rows[i] ? p->n_out - row : j->rows[i];
    run_rows(j, p, row, n, p->data + rows_before(p, row));
}

/* The next piece of a worker's run, or of the first one behind it that has any left; UINT32_MAX:
 * none has. */
static uint32_t claim(struct product_job *j, unsigned worker)
{
    for (unsigned k = 0; k < j->n_runs; k++) {
        struct piece_run *r = &j->run[(worker + k) % j->n_runs];
        if (atomic_load_explicit(&r->next, memory_order_relaxed) >= r->end) continue;
        const uint32_t at = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (at < r->end) return at;
    }
    return UINT32_MAX;
}

static void run_products(void *arg, unsigned worker, unsigned n_workers)
{
    struct product_job *j = arg;
    (void)n_workers;
    for (uint32_t at; (at = claim(j, worker)) != UINT32_MAX;) {
        unsigned i = 0;
        while (at >= j->first[i + 1]) i++;
        if (j->streamed[i]) run_streamed(j, i, at - j->first[i], worker);
        else run_piece(j, i, at - j->first[i]);
    }
}

/* Pieces of about equal work: some per worker, but none smaller than two groups of 8 rows. */
static uint32_t piece_rows(uint64_t all_rows, unsigned n_workers, uint32_t n_out)
{
    uint64_t rows = all_rows / (n_workers * 8u);
    rows = rows < 16 ? 16 : rows > 512 ? 512 : rows & ~(uint64_t)15;
    return rows > n_out ? sm_pad8(n_out) : (uint32_t)rows;
}

/* Pieces of one product; sets their rows. */
static uint32_t cut_product(struct product_job *j, unsigned i, uint64_t all_rows,
                            unsigned n_workers)
{
    const uint32_t n_out = j->p[i].n_out;
    j->streamed[i] = sm_stream_of(j->store, j->p[i].data);
    if (j->streamed[i]) {
        sm_stream_begin(j->store, j->streamed[i]);
        j->rows[i] =
            sm_pad8((sm_stream_chunk_rows(j->streamed[i]) + j->per_chunk - 1) / j->per_chunk);
        return sm_stream_n_chunks(j->streamed[i]) * j->per_chunk;
    }
    j->rows[i] = n_workers == 1 ? sm_pad8(n_out) : piece_rows(all_rows, n_workers, n_out);
    return (n_out + j->rows[i] - 1) / j->rows[i];
}

static bool any_streamed(const struct product_job *j)
{
    for (unsigned i = 0; i < j->n; i++)
        if (j->streamed[i]) return true;
    return false;
}

void sm_graph_products(struct sm_graph *g, const struct sm_product *p, unsigned n)
{
    const unsigned n_workers = sm_pool_size(g->pool);
    struct product_job j; /* not emptied: most of it is runs */
    uint64_t all_rows = 0;
    uint32_t pieces = 0;
    assert(n <= SM_MAX_PRODUCTS);
    j.kern = g->kern;
    j.store = g->store;
    j.p = p;
    j.n = n;
    j.per_chunk = n_workers == 1 ? 1 : 2 * n_workers;
    for (unsigned i = 0; i < n; i++) all_rows += p[i].n_out;
    for (unsigned i = 0; i < n; i++) {
        j.first[i] = pieces;
        pieces += cut_product(&j, i, all_rows, n_workers);
    }
    j.first[n] = pieces;
    j.n_runs = any_streamed(&j) ? 1 : n_workers;
    for (unsigned w = 0; w < j.n_runs; w++) {
        atomic_init(&j.run[w].next, (uint32_t)((uint64_t)pieces * w / j.n_runs));
        j.run[w].end = (uint32_t)((uint64_t)pieces * (w + 1) / j.n_runs);
    }
    if (n_workers == 1 || pieces == 1) run_products(&j, 0, 1);
    else sm_pool_run(g->pool, run_products, &j);
}

struct sm_product sm_graph_product(struct sm_graph *g, uint32_t type, bool x8, uint32_t n_in,
                                   uint32_t n_out, const uint8_t *data, struct sm_rows *in,
                                   float *y, size_t ldy)
{
    struct sm_product p = {.y = y, .ldy = ldy, .type = type, .x8 = x8, .n_in = n_in,
                           .n_out = n_out, .data = data, .x = in->x, .n_tok = in->n_tok};
    assert(in->n == n_in);
    if (x8) {
        const unsigned block = sm_traits_of(type)->act_block;
        sm_graph_quantize(g, in, block);
        p.acts = &in->acts[block == 256];
    }
    return p;
}

struct sm_product sm_graph_weight(struct sm_graph *g, const struct sm_weight *w, struct sm_rows *in,
                                  float *y, size_t ldy)
{
    if (g->observer)
        g->observer->weight(g->observer, w, 0, in->x, sm_pad8(in->n), in->n_tok);
    return sm_graph_product(g, w->type, w->x8, w->n_in, w->n_out, w->data, in, y, ldy);
}

struct bias_job { const struct sm_kern *kern; float *y; size_t ldy; const float *b; uint32_t n; };

static void add_bias(void *arg, uint32_t t, unsigned worker)
{
    const struct bias_job *j = arg;
    (void)worker;
    j->kern->add(j->y + t * j->ldy, j->b, j->n);
}

void sm_graph_linear(struct sm_graph *g, const struct sm_weight *w, const struct sm_weight *bias,
                     struct sm_rows *in, float *y, size_t ldy)
{
    const struct sm_product p = sm_graph_weight(g, w, in, y, ldy);
    sm_graph_products(g, &p, 1);
    if (bias) {
        struct bias_job j = {g->kern, y, ldy, sm_floats_of(bias), w->n_out};
        sm_graph_for(g, in->n_tok, add_bias, &j);
    }
}

/* ---- rows ----------------------------------------------------------------------------------- */

struct sm_rows sm_rows_of(const struct sm_scratch_rows *s, uint32_t n_tok, uint32_t n)
{
    struct sm_rows r = {.x = s->x, .n_tok = n_tok, .n = n};
    for (int i = 0; i < 2; i++) {
        r.acts[i] = s->acts[i];
        r.acts[i].n_tok = n_tok;
        r.acts[i].n_cols = n;
    }
    return r;
}

struct sm_rows sm_rows_part(const struct sm_rows *rows, uint32_t first, uint32_t n_tok)
{
    struct sm_rows part = *rows;
    const size_t n = rows->n;
    part.n_tok = n_tok;
    part.x += (size_t)first * sm_pad8(rows->n);
    for (unsigned i = 0; i < 2; i++) {
        part.acts[i].n_tok = n_tok;
        part.acts[i].q += first * n;
        part.acts[i].d += first * (n / part.acts[i].block);
        part.acts[i].s += first * (n / 16);
    }
    return part;
}

smol_status sm_graph_status(struct sm_graph *g, smol_error *err)
{
    return sm_stream_status(g->store, err);
}

struct quantize_job {
    const struct sm_rows *rows;
    const struct sm_acts *a;
    sm_quantize_fn fn;
};

static void quantize_row(void *arg, uint32_t t, unsigned worker)
{
    const struct quantize_job *j = arg;
    const size_t n = j->rows->n;
    (void)worker;
    j->fn(j->rows->x + (size_t)t * sm_pad8(j->rows->n), n, j->a->q + t * n,
          j->a->d + t * (n / j->a->block), j->a->s + t * (n / 16));
}

void sm_graph_quantize(struct sm_graph *g, struct sm_rows *rows, unsigned block)
{
    const unsigned i = block == 256;
    if (rows->made[i]) return;
    assert(rows->acts[0].q != rows->acts[1].q || !rows->made[!i]); /* one place, one form */
    struct quantize_job j = {rows, &rows->acts[i],
                             i ? g->kern->quantize_256 : g->kern->quantize_32};
    sm_graph_for(g, rows->n_tok, quantize_row, &j);
    rows->made[i] = true;
}

struct norm_job {
    const struct sm_kern *kern;
    float *out;
    const float *x, *w;
    uint32_t n;
    float eps;
    atomic_int bad;
};

static void norm_row(void *arg, uint32_t t, unsigned worker)
{
    struct norm_job *j = arg;
    const size_t at = (size_t)t * sm_pad8(j->n);
    (void)worker;
    if (!isfinite(j->kern->rms_norm(j->out + at, j->x + at, j->w, j->n, j->eps)))
        atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
}

void sm_graph_rms_norm(struct sm_graph *g, float *out, const float *x, const struct sm_weight *w,
                       uint32_t n_tok, uint32_t n, float eps)
{
    struct norm_job j = {g->kern, out, x, sm_floats_of(w), n, eps, 0};
    sm_graph_for(g, n_tok, norm_row, &j);
    if (j.bad && g->bad_layer < 0) g->bad_layer = g->layer;
}

struct add_job { const struct sm_kern *kern; float *x; const float *y; uint32_t n; };

static void add_row(void *arg, uint32_t t, unsigned worker)
{
    const struct add_job *j = arg;
    const size_t at = (size_t)t * sm_pad8(j->n);
    (void)worker;
    j->kern->add(j->x + at, j->y + at, j->n);
}

void sm_graph_add(struct sm_graph *g, float *x, const float *y, uint32_t n_tok, uint32_t n)
{
    struct add_job j = {g->kern, x, y, n};
    sm_graph_for(g, n_tok, add_row, &j);
}
