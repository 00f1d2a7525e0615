/* SPDX-License-Identifier: MIT */
/* One decoding step of this model on made-up weights: the same products in the same dispatches, so
 * that what a step costs besides reading weights (wakeups, barriers, quantising, small matrices) is
 * in it. */
#include "infer/measure.h"

#include "graph/graph.h"

#include <string.h>

/* past the caches of small devices; used round and round */
#define WEIGHT_BYTES ((size_t)16 << 20)
#define MATRIX_BYTES ((uint64_t)2 << 20) /* of one matrix; the rest of its rows take as long */
/* of dense weights and of experts; the rest takes as long */
#define PART_BYTES ((uint64_t)24 << 20)
#define LONG_ENOUGH_NS ((uint64_t)20 * 1000 * 1000)
#define MAX_PASSES 16 /* small models are opened by the hundred in tests */

struct step {
    struct sm_graph g;
    uint32_t n_used;
    uint32_t widest;            /* input of any matrix */
    uint64_t most_out;          /* results of any dispatch */
    uint8_t *w;                 /* weights */
    size_t w_bytes, w_at;
    struct sm_scratch_rows in;  /* [n_used] */
    float *y, *sum;             /* [most_out] results, and what becomes of them */
};

static void layout(struct step *s, struct sm_arena *a)
{
    const size_t rows = s->n_used, n = sm_round_up(s->widest, 256);
    for (unsigned i = 0; i < 2; i++) {
        struct sm_acts *q = &s->in.acts[i];
        *q = (struct sm_acts){.n_tok = s->n_used, .n_cols = (uint32_t)n, .block = i ? 256 : 32};
        q->q = SM_ARENA_NEW(a, int8_t, rows * n);
        q->d = SM_ARENA_NEW(a, float, rows * n / q->block);
        q->s = SM_ARENA_NEW(a, int16_t, rows * n / 16);
    }
    s->in.x = SM_ARENA_NEW(a, float, rows * n);
    s->y = SM_ARENA_NEW(a, float, s->most_out);
    s->sum = SM_ARENA_NEW(a, float, s->most_out);
    s->w = sm_arena_take(a, s->w_bytes);
}

static uint64_t matrix_bytes(uint32_t type, bool x8, uint64_t n_out, uint32_t n_in)
{
    return x8 ? sm_x8_bytes(type, n_out, n_in) : n_out * sm_row_bytes(type, n_in);
}

/* Weights for n_out rows from the block that goes round. */
static const uint8_t *weights(struct step *s, uint64_t bytes)
{
    if (s->w_at + bytes > s->w_bytes) s->w_at = 0;
    const uint8_t *at = s->w + s->w_at;
    s->w_at += sm_round_up((size_t)bytes, SM_ALIGN);
    return at;
}

/* Rows of a matrix that stand for all of them. */
static uint32_t some_rows(const struct step *s, uint32_t type, bool x8, uint32_t n_in,
                          uint32_t n_out)
{
    const uint64_t eight = matrix_bytes(type, x8, 8, n_in);
    const uint64_t most = s->w_bytes < MATRIX_BYTES ? s->w_bytes : MATRIX_BYTES;
    const uint64_t fit = eight ? most / eight * 8 : 0;
    return n_out < fit ? n_out : (uint32_t)fit;
}

/* The quantised form of row `row` for an x8 matrix. */
static void quantize(struct step *s, uint32_t type, uint32_t n_in, uint32_t row)
{
    const unsigned block = sm_traits_of(type)->act_block;
    const struct sm_acts *a = &s->in.acts[block == 256];
    (block == 256 ? s->g.kern->quantize_256 : s->g.kern->quantize_32)(
        s->in.x + (size_t)row * sm_pad8(n_in), n_in, a->q + (size_t)row * n_in,
        a->d + (size_t)row * (n_in / block), a->s + (size_t)row * (n_in / 16));
}

static struct sm_product product(struct step *s, uint32_t type, bool x8, uint32_t n_in,
                                 uint32_t n_out, uint32_t row, struct sm_acts *acts, float *y)
{
    struct sm_product p = {.y = y, .ldy = sm_pad8(n_out), .type = type, .x8 = x8, .n_in = n_in,
                           .n_out = n_out, .data = weights(s, matrix_bytes(type, x8, n_out, n_in)),
                           .x = s->in.x, .n_tok = 1};
    if (!x8) return p;
    const unsigned block = sm_traits_of(type)->act_block;
    *acts = s->in.acts[block == 256];
    *acts = (struct sm_acts){acts->q + (size_t)row * n_in, acts->d + (size_t)row * (n_in / block),
                             acts->s + (size_t)row * (n_in / 16), 1, n_in, block};
    p.acts = acts;
    return p;
}

/* One weight, a large one in part: nanoseconds for all of it. */
static double run_weight(struct step *s, const struct sm_weight *w)
{
    const uint64_t start = sm_now_ns();
    struct sm_acts acts;
    if (w->n_out == 1) {
        if (w->type != SM_F32) return 0;
        (void)s->g.kern->rms_norm(s->y, s->in.x, NULL, w->n_in, 1e-6f);
        return (double)(sm_now_ns() - start);
    }
    const uint32_t rows = some_rows(s, w->type, w->x8, w->n_in, w->n_out);
    if (!rows) return 0;
    if (w->x8) quantize(s, w->type, w->n_in, 0);
    const struct sm_product p = product(s, w->type, w->x8, w->n_in, rows, 0, &acts, s->y);
    sm_graph_products(&s->g, &p, 1);
    /* results come over from the caches of other cores */
    s->g.kern->axpy(s->sum, 0.001f, s->y, rows);
    return (double)(sm_now_ns() - start) * (double)w->n_out / (double)rows;
}

struct hidden_job { struct step *s; const struct sm_pool_info *info; };

static void hidden_row(void *arg, uint32_t i, unsigned worker)
{
    const struct hidden_job *j = arg;
    const uint32_t n = j->info->down.n_in, ld = sm_pad8(n);
    const float *gate = j->s->y + i * (size_t)(j->info->fused ? sm_pad8(2 * n) : 2 * ld);
    (void)worker;
    j->s->g.kern->silu_mul(j->s->sum + i * (size_t)ld, gate, gate + (j->info->fused ? n : ld), n);
    if (j->info->down.x8) quantize(j->s, j->info->down.type, n, i);
}

/* The experts of one token in one layer. */
static double run_experts(struct step *s, const struct sm_pool_info *info)
{
    const uint64_t start = sm_now_ns();
    const struct sm_expert_shape *part[2] = {&info->gate, info->fused ? NULL : &info->up};
    struct sm_product p[SM_MAX_PRODUCTS];
    struct sm_acts acts[SM_MAX_PRODUCTS];
    const uint32_t k = s->n_used < SM_MAX_PRODUCTS / 2 ? s->n_used : SM_MAX_PRODUCTS / 2;
    struct hidden_job j = {s, info};
    unsigned n = 0;
    float *y = s->y;
    if (info->gate.x8) quantize(s, info->gate.type, info->gate.n_in, 0);
    for (uint32_t i = 0; i < 2 * k; i++) {
        const struct sm_expert_shape *e = part[i % 2];
        if (!e) continue;
        p[n] = product(s, e->type, e->x8, e->n_in, e->n_out, 0, &acts[n], y);
        n++;
        y += sm_pad8(e->n_out);
    }
    sm_graph_products(&s->g, p, n);
    sm_graph_for(&s->g, k, hidden_row, &j);
    y = s->y;
    for (uint32_t i = 0; i < k; i++, y += sm_pad8(info->down.n_out))
        p[i] = product(s, info->down.type, info->down.x8, info->down.n_in, info->down.n_out, i,
                       &acts[i], y);
    sm_graph_products(&s->g, p, k);
    for (uint32_t i = 0; i < k; i++) s->g.kern->axpy(s->sum, 0.001f, p[i].y, info->down.n_out);
    return (double)(sm_now_ns() - start) * (double)s->n_used / (double)k;
}

/* Everything once: nanoseconds of a token. */
static double run_step(struct step *s)
{
    const uint32_t n_pools = sm_store_n_pools(s->g.store);
    double dense = 0, experts = 0;
    /* bytes: of all weights, of those measured, really used */
    uint64_t all = 0, seen = 0, done = 0;
    uint32_t pools = 0;
    const struct sm_store *store = s->g.store;
    for (const struct sm_weight *w = sm_store_next(store, NULL); w; w = sm_store_next(store, w)) {
        if (w->home == SM_HOME_BY_ROW) continue;
        const uint64_t bytes = matrix_bytes(w->type, w->x8, w->n_out, w->n_in);
        all += bytes;
        if (done >= PART_BYTES) continue;
        dense += run_weight(s, w);
        seen += bytes;
        done += bytes < MATRIX_BYTES ? bytes : MATRIX_BYTES;
    }
    if (seen) dense *= (double)all / (double)seen;
    for (done = 0; pools < n_pools && done < PART_BYTES; pools++) {
        const struct sm_pool_info *info = sm_store_pool(s->g.store, pools);
        experts += run_experts(s, info);
        done += s->n_used * info->expert_file_bytes;
    }
    if (pools) experts *= (double)n_pools / (double)pools;
    return dense + experts;
}

/* Sizes of the scratch; false: nothing to measure. */
static bool measure_shapes(struct step *s)
{
    uint64_t largest = 0;
    const struct sm_store *store = s->g.store;
    for (const struct sm_weight *w = sm_store_next(store, NULL); w; w = sm_store_next(store, w)) {
        if (w->home == SM_HOME_BY_ROW) continue;
        if (w->n_in > s->widest) s->widest = w->n_in;
        if (sm_pad8(w->n_out) > s->most_out) s->most_out = sm_pad8(w->n_out);
    }
    if (s->widest > s->most_out) s->most_out = s->widest; /* norms */
    for (uint32_t i = 0; i < sm_store_n_pools(s->g.store); i++) {
        const struct sm_pool_info *p = sm_store_pool(s->g.store, i);
        const uint64_t mid = sm_pad8(p->gate.n_out) + (p->fused ? 0 : sm_pad8(p->up.n_out));
        const uint64_t one = mid > sm_pad8(p->down.n_out) ? mid : sm_pad8(p->down.n_out);
        const uint64_t n = s->n_used * one;
        if (n > s->most_out) s->most_out = n;
        if (p->gate.n_in > s->widest) s->widest = p->gate.n_in;
        if (p->down.n_in > s->widest) s->widest = p->down.n_in;
        if (p->gate.slot_bytes > largest) largest = p->gate.slot_bytes;
        if (p->down.slot_bytes > largest) largest = p->down.slot_bytes;
    }
    return s->widest > 0 && largest <= s->w_bytes;
}

double sm_measure_step(const struct sm_kern *k, struct sm_pool *pool, struct sm_store *store,
                       uint32_t n_used, uint64_t max_bytes)
{
    struct step s = {.g = {.kern = k, .pool = pool, .store = store}, .n_used = n_used ? n_used : 1,
                     .w_bytes = max_bytes < WEIGHT_BYTES ? (size_t)max_bytes : WEIGHT_BYTES};
    struct sm_arena a = {0};
    double ns = 0;
    unsigned n = 0;
    if (!measure_shapes(&s)) return 0;
    layout(&s, &a);
    const size_t bytes = a.used;
    uint8_t *block = sm_mem_new(bytes);
    if (!block) return 0;
    a = (struct sm_arena){.base = block, .capacity = bytes};
    layout(&s, &a);
    memset(s.w, 0x11, s.w_bytes); /* small numbers in every format, none of them subnormal */
    for (size_t i = 0; i < (size_t)s.n_used * s.widest; i++) s.in.x[i] = (float)(i % 17) - 8;
    (void)run_step(&s); /* wakes cores */
    const uint64_t start = sm_now_ns();
    for (; n < MAX_PASSES && sm_now_ns() - start < LONG_ENOUGH_NS; n++)
        ns += run_step(&s);
    sm_mem_free(block, bytes);
    return n ? ns / n * 1e-3 : 0;
}
