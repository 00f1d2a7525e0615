/* SPDX-License-Identifier: MIT */
#include "graph/prefetch_int.h"
#include "quant/encode.h"
#include "store/pager.h"
#include "store/trace.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/* Four bits foresee as much as eight (74.2 % of tiny-moe's misses with 12 slots). */
#define ROUTER_TYPE SM_Q4_0
#define WIDE_TOKENS 16u    /* what so many tokens want together is hardly ever wrong */
#define SHIFT_SLOWEST 0.01f /* of a difference of logits, once a hundred were seen */

static size_t router_bytes(uint32_t n_embd, uint32_t n_expert)
{
    return n_embd % 32 ? 0
                       : sm_round_up((size_t)sm_x8_bytes(ROUTER_TYPE, n_expert, n_embd), SM_ALIGN);
}

static void layout(struct sm_prefetch *a, const struct sm_prefetch_shape *shape, struct sm_arena *m)
{
    const size_t n_guess = (size_t)a->n_layers * SM_PREFETCH_MAX;
    const uint32_t places = sm_token_memory_places(shape->n_vocab);
    a->layer = SM_ARENA_NEW(m, struct sm_prefetch_layer, a->n_layers);
    a->guess = SM_ARENA_NEW(m, struct sm_prefetch_guess, n_guess + a->n_layers);
    for (unsigned i = 0; i < SM_PREFETCH_MAX; i++) {
        struct sm_acts *q = &a->in[i].acts[0];
        *q = (struct sm_acts){.n_tok = 1, .n_cols = a->n_embd, .block = 32};
        a->in[i].x = SM_ARENA_NEW(m, float, sm_pad8(a->n_embd));
        q->q = SM_ARENA_NEW(m, int8_t, a->n_embd);
        q->d = SM_ARENA_NEW(m, float, a->n_embd / 32 + 1);
        q->s = SM_ARENA_NEW(m, int16_t, a->n_embd / 16 + 1);
        a->logits[i] = SM_ARENA_NEW(m, float, sm_pad8(a->n_expert));
    }
    a->said = SM_ARENA_NEW(m, float, n_guess * sm_pad8(a->n_expert));
    a->shift = SM_ARENA_NEW(m, float, n_guess * sm_pad8(a->n_expert));
    a->n_compared = SM_ARENA_NEW(m, uint32_t, n_guess);
    a->recall_worth = sm_arena_take(m, a->n_layers * sizeof *a->recall_worth);
    a->rows = sm_arena_take(m, 8 * (size_t)sm_row_bytes(ROUTER_TYPE, a->n_embd & ~31u));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        uint8_t *router = sm_arena_take(m, router_bytes(a->n_embd, a->n_expert));
        if (m->base) a->layer[i].router = router;
    }
    void *memory = sm_arena_take(m, sm_token_memory_bytes(places, a->n_layers, a->n_expert,
                                                          shape->n_used));
    if (m->base)
        sm_token_memory_init(&a->memory, places, a->n_layers, a->n_expert, shape->n_used, memory);
}

static struct sm_prefetch of_shape(const struct sm_prefetch_shape *s)
{
    return (struct sm_prefetch){.n_layers = s->n_layers, .n_embd = s->n_embd,
                                .n_expert = s->n_expert};
}

size_t sm_prefetch_bytes(const struct sm_prefetch_shape *shape)
{
    struct sm_prefetch a = of_shape(shape);
    struct sm_arena m = {0};
    layout(&a, shape, &m);
    return m.used;
}

void sm_prefetch_init(struct sm_prefetch *a, uint32_t depth, const struct sm_prefetch_shape *shape,
                      float eps, void *mem)
{
    struct sm_arena m = {.base = mem, .capacity = sm_prefetch_bytes(shape)};
    *a = of_shape(shape);
    a->depth = depth;
    a->eps = eps;
    layout(a, shape, &m);
    sm_prefetch_judge_init(a);
}

void sm_prefetch_add(struct sm_prefetch *a, uint32_t i, const struct sm_moe *moe,
                     const struct sm_weight *norm)
{
    struct sm_prefetch_layer *l = &a->layer[i];
    const struct sm_weight *w = moe->router_w;
    l->moe = moe;
    l->norm = norm;
    if (a->n_embd % 32 || w->n_in != a->n_embd || w->n_out > a->n_expert) {
        l->router = NULL;
        return;
    }
    const size_t group = (size_t)sm_x8_bytes(ROUTER_TYPE, 8, a->n_embd);
    const size_t row_bytes = (size_t)sm_row_bytes(ROUTER_TYPE, a->n_embd);
    float *row = a->in[0].x; /* free until the first token */
    uint8_t *out = (uint8_t *)(uintptr_t)l->router;
    for (uint32_t r = 0; r < w->n_out; r += 8) {
        const uint32_t n = w->n_out - r < 8 ? w->n_out - r : 8;
        for (uint32_t j = 0; j < n; j++) {
            if (w->x8) sm_x8_decode_row(w->type, w->data, r + j, w->n_in, row);
            else
                sm_decode_row(w->type, w->data + (r + j) * sm_row_bytes(w->type, w->n_in), row,
                              w->n_in);
            sm_encode_row(ROUTER_TYPE, row, a->n_embd, NULL, a->rows + j * row_bytes);
        }
        sm_x8_pack(ROUTER_TYPE, out + r / 8 * group, a->rows, row_bytes, n, a->n_embd);
    }
}

/* ---- predicting ------------------------------------------------------------------------------ */

/* What memory says of each candidate of a router's guess for layer `pool`. */
static void ask_memory(const struct sm_graph *g, uint32_t pool, struct sm_prefetch_guess *q)
{
    const struct sm_prefetch *a = g->prefetch;
    struct sm_token_experts had;
    sm_token_memory_get(&a->memory, a->place, pool, &had);
    for (uint32_t r = 0; r < q->n; r++) {
        if (!had.n) q->word[r] = SM_RECALL_UNKNOWN;
        else q->word[r] = sm_ids_have(had.id, had.n, q->id[r]) ? SM_RECALL_YES : SM_RECALL_NO;
    }
}

/* Ask for what a guess promises, best first. */
static void ask(struct sm_graph *g, uint32_t pool, uint32_t d, struct sm_prefetch_guess *q)
{
    const struct sm_prefetch *a = g->prefetch;
    const bool recall = d == SM_PREFETCH_RECALL;
    float least = sm_prefetch_least(a, recall ? pool > 0 : d > 0);
    uint16_t missing[SM_PREFETCH_RANKS], wanted[SM_PREFETCH_RANKS];
    const unsigned n_missing = sm_pager_missing(g->store, pool, q->id, q->n, missing);
    unsigned n = 0, at = 0;
    if (!recall && a->depth != SM_PREFETCH_AUTO) least = 0;
    for (uint32_t r = 0; r < q->n; r++) {
        const float worth = recall ? a->recall_worth[pool][q->word[r]]
                                   : a->worth[q->row][q->word[r]][r];
        q->missing[r] = at < n_missing && missing[at] == q->id[r];
        q->refuted[r] = false;
        at += q->missing[r];
        if (!q->missing[r] || worth >= least) wanted[n++] = q->id[r];
    }
    (void)sm_pager_prefetch(g->store, pool, wanted, n, SM_PREFETCH_NEXT);
}

/* What the token had in each layer when it was last seen, nearest layer first. */
static void recall(struct sm_graph *g)
{
    struct sm_prefetch *a = g->prefetch;
    struct sm_token_experts had;
    a->place = sm_token_memory_find(&a->memory, g->tokens[0]);
    for (uint32_t pool = 0; a->place >= 0 && pool < a->n_layers; pool++) {
        struct sm_prefetch_guess *q = sm_prefetch_guess_of(a, pool, SM_PREFETCH_RECALL);
        if (sm_pager_complete(g->store, pool)) continue;
        sm_token_memory_get(&a->memory, a->place, pool, &had);
        q->n = had.n < SM_PREFETCH_RANKS ? had.n : SM_PREFETCH_RANKS;
        for (uint32_t r = 0; r < q->n; r++) {
            q->id[r] = had.id[r];
            q->word[r] = had.twice >> r & 1;
        }
        ask(g, pool, SM_PREFETCH_RECALL, q);
    }
}

/* The layer before `pool` has looked: what memory expected and that layer does not is seldom right.
 * It is given up where that is not worth a read. */
static void refute(struct sm_graph *g, uint32_t pool, const struct sm_prefetch_guess *next)
{
    const struct sm_prefetch *a = g->prefetch;
    struct sm_prefetch_guess *q = sm_prefetch_guess_of(a, pool, SM_PREFETCH_RECALL);
    const float least = sm_prefetch_least(a, false);
    for (uint32_t r = 0; r < q->n; r++) {
        if (!q->missing[r] || sm_ids_have(next->id, next->n, q->id[r])) continue;
        q->refuted[r] = true;
        if (a->refuted_worth[q->word[r]] < least) sm_pager_drop(g->store, pool, &q->id[r], 1);
    }
}

/* The router of layer `pool` as a product, its input being the residual under that layer's norm. */
static struct sm_product router_product(struct sm_graph *g, uint32_t pool, unsigned i,
                                        struct sm_rows *in)
{
    const struct sm_prefetch *a = g->prefetch;
    const struct sm_prefetch_layer *l = &a->layer[pool];
    (void)g->kern->rms_norm(a->in[i].x, g->x, sm_floats_of(l->norm), a->n_embd, a->eps);
    *in = (struct sm_rows){.x = a->in[i].x, .n_tok = 1, .n = a->n_embd};
    in->acts[0] = a->in[i].acts[0];
    return sm_graph_product(g, ROUTER_TYPE, true, a->n_embd, l->moe->router.n_expert, l->router, in,
                            a->logits[i], sm_pad8(l->moe->router.n_expert));
}

static void add_bias(const struct sm_graph *g, const struct sm_moe *moe, float *logits)
{
    if (moe->router_b) g->kern->add(logits, sm_floats_of(moe->router_b), moe->router.n_expert);
}

/* The n best that layer `pool` would choose by these logits, best first; returns how many there
 * are. */
static uint32_t choose(const struct sm_graph *g, uint32_t pool, float *logits, uint16_t *ids,
                       uint32_t n)
{
    const struct sm_route_view view = {sm_pager_held(g->store, pool),
                                       sm_pager_range(g->store, pool)};
    return sm_route_rank(g->kern, &g->prefetch->layer[pool].moe->router, view, logits, ids, n);
}

/* Where the logits of the guess of layer `pool` from distance d (+ 1) are kept. */
static size_t logits_at(const struct sm_prefetch *a, uint32_t pool, uint32_t d)
{
    return ((size_t)pool * SM_PREFETCH_MAX + d) * sm_pad8(a->n_expert);
}

/* The guess that layer `pool` will choose as these logits say, d + 1 layers before. */
static void guess(struct sm_graph *g, uint32_t pool, uint32_t d, uint32_t row, float *logits)
{
    struct sm_prefetch *a = g->prefetch;
    const struct sm_moe *moe = a->layer[pool].moe;
    struct sm_prefetch_guess *q = sm_prefetch_guess_of(a, pool, d);
    const uint32_t n = moe->router.n_used;
    add_bias(g, moe, logits);
    memcpy(a->said + logits_at(a, pool, d), logits, moe->router.n_expert * sizeof *logits);
    g->kern->add(logits, a->shift + logits_at(a, pool, d), moe->router.n_expert);
    q->row = row;
    q->n = choose(g, pool, logits, q->id, n < SM_PREFETCH_RANKS ? n : SM_PREFETCH_RANKS);
    if (g->trace) sm_trace_ahead(g->trace, pool, d + 1, q->id, q->n);
    ask_memory(g, pool, q);
    ask(g, pool, d, q);
    if (d == 0 && pool) refute(g, pool, q);
}

/* Predict the layers first … first + SM_PREFETCH_MAX - 1 from the residual in g->x; row0: of
 * `worth`. */
static void predict(struct sm_graph *g, uint32_t first, uint32_t row0)
{
    struct sm_prefetch *a = g->prefetch;
    struct sm_product p[SM_PREFETCH_MAX];
    struct sm_rows in[SM_PREFETCH_MAX];
    uint32_t distance[SM_PREFETCH_MAX];
    unsigned n = 0;
    const uint64_t start = sm_now_ns();
    for (uint32_t d = 0; d < SM_PREFETCH_MAX && first + d < a->n_layers; d++) {
        const struct sm_prefetch_layer *l = &a->layer[first + d];
        if (!l->router || sm_pager_complete(g->store, first + d) ||
            !sm_prefetch_pays(a, d, row0 + d, l->moe->router.n_used))
            continue;
        p[n] = router_product(g, first + d, n, &in[n]);
        distance[n++] = d;
    }
    if (n) sm_graph_products(g, p, n);
    for (unsigned i = 0; i < n; i++)
        guess(g, first + distance[i], distance[i], row0 + distance[i], a->logits[i]);
    const uint64_t ns = sm_now_ns() - start;
    a->ns_spent += ns;
    a->ns_looks += n ? ns : 0;
    a->n_looks += n;
}

void sm_prefetch_embedded(struct sm_graph *g)
{
    struct sm_prefetch *a = g->prefetch;
    if (!a || !a->depth) return;
    a->n_tokens++;
    sm_prefetch_consider(a, g->store);
    if (a->wide) sm_prefetch_narrow(a, g->store);
    a->wide = false;
    if (sm_prefetch_is_on(a)) {
        recall(g);
        predict(g, 0, SM_PREFETCH_MAX);
    } else {
        a->from.ns = a->then.ns = 0;
    }
}

void sm_prefetch_scored(struct sm_graph *g, uint32_t pool)
{
    struct sm_prefetch *a = g->prefetch;
    if (!a || !a->depth || pool >= a->n_layers) return;
    for (uint32_t d = 0; d < SM_PREFETCH_MAX; d++) {
        if (!sm_prefetch_guess_of(a, pool, d)->n) continue;
        const float *said = a->said + logits_at(a, pool, d);
        float *shift = a->shift + logits_at(a, pool, d);
        float part = 1.0f / (float)++a->n_compared[(size_t)pool * SM_PREFETCH_MAX + d];
        if (part < SHIFT_SLOWEST) part = SHIFT_SLOWEST;
        for (uint32_t e = 0; e < a->layer[pool].moe->router.n_expert; e++)
            shift[e] += part * (g->router[e] - said[e] - shift[e]);
    }
}

void sm_prefetch_routed(struct sm_graph *g, uint32_t pool, const uint16_t *ids, uint32_t k)
{
    struct sm_prefetch *a = g->prefetch;
    if (!a || !a->depth || pool >= a->n_layers) return;
    sm_prefetch_learn(a, pool, ids, k);
    sm_token_memory_note(&a->memory, g->tokens[0], pool, ids, k);
    sm_pager_settle(g->store, pool);
    if (sm_prefetch_is_on(a)) predict(g, pool + 1, 0);
}

/* ---- several tokens -------------------------------------------------------------------------- */

struct wave_job {
    struct sm_graph *g;
    uint32_t pool;
    atomic_uchar *wanted; /* [n_expert] */
};

static void wave_choose(void *arg, uint32_t t, unsigned worker)
{
    const struct wave_job *j = arg;
    const struct sm_router *r = &j->g->prefetch->layer[j->pool].moe->router;
    uint16_t ids[SM_MAX_USED];
    (void)worker;
    float *logits = j->g->router + (size_t)t * sm_pad8(r->n_expert);
    add_bias(j->g, j->g->prefetch->layer[j->pool].moe, logits);
    const uint32_t n = choose(j->g, j->pool, logits, ids, r->n_used);
    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(&j->wanted[ids[i]], 1, memory_order_relaxed);
}

/* What the tokens of a wave chose, in their order. */
static void note_wave(struct sm_graph *g, uint32_t pool, uint32_t n_tok)
{
    struct sm_prefetch *a = g->prefetch;
    const uint32_t k = a->layer[pool].moe->router.n_used;
    for (uint32_t t = 0; t < n_tok; t++) {
        const uint16_t *ids = g->chosen + (size_t)t * k;
        uint32_t n = k;
        while (n > 1 && ids[n - 1] == SM_NO_EXPERT) n--; /* left out by a lever */
        sm_token_memory_note(&a->memory, g->tokens[t], pool, ids, n);
    }
}

void sm_prefetch_wave(struct sm_graph *g, uint32_t pool, uint32_t n_tok)
{
    struct sm_prefetch *a = g->prefetch;
    const uint32_t next = pool + 1;
    if (!a || !a->depth || pool >= a->n_layers) return;
    note_wave(g, pool, n_tok);
    a->then.ns = 0; /* its time is not that of single tokens */
    sm_pager_settle(g->store, pool);
    if (next >= a->n_layers || !a->layer[next].router || sm_pager_complete(g->store, next)) return;
    const struct sm_prefetch_layer *l = &a->layer[next];
    const uint32_t n_expert = l->moe->router.n_expert;
    atomic_uchar wanted[SM_MAX_EXPERTS] = {0};
    uint16_t ids[SM_MAX_EXPERTS];
    unsigned n = 0;
    struct wave_job j = {g, next, wanted};
    for (uint32_t first = 0, m; first < n_tok; first += m) {
        m = sm_graph_block(g, n_tok - first);
        struct sm_rows in = sm_rows_of(&g->picked, m, a->n_embd);
        sm_graph_rms_norm(g, g->picked.x, g->x + (size_t)first * sm_pad8(a->n_embd), l->norm, m,
                          a->n_embd, a->eps);
        const struct sm_product p = sm_graph_product(g, ROUTER_TYPE, true, a->n_embd, n_expert,
                                                     l->router, &in, g->router, sm_pad8(n_expert));
        sm_graph_products(g, &p, 1);
        sm_graph_for(g, m, wave_choose, &j);
    }
    for (uint32_t e = 0; e < n_expert; e++)
        if (wanted[e]) ids[n++] = (uint16_t)e;
    if (n_tok >= WIDE_TOKENS) {
        sm_pager_narrow(g->store, false);
        a->wide = true;
    }
    (void)sm_pager_prefetch(g->store, next, ids, n, SM_PREFETCH_NEXT);
}
