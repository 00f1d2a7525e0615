/* SPDX-License-Identifier: MIT */
#include "graph/prefetch.h"
#include "quant/encode.h"
#include "store/pager.h"
#include "store/trace.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

/* Four bits foresee as much as eight (74.2 % of tiny-moe's misses with 12 slots). */
#define ROUTER_TYPE SM_Q4_0
#define DECAY 0.02f       /* of a share, per candidate seen */
/* a wrong read on a busy flash hurts twice as much as a right one helps */
#define WRONG_COST 2.0f
#define WORTH_MIN 0.4f
/* tokens after which a distance that is not worth it is looked at again */
#define LOOK_EVERY 16u
#define FAR_GAIN 0.25f    /* of the time waited for reads, what one more distance saves at best */
#define NARROW_BUSY 0.6f  /* share of the time from which on speculation takes one reader */
#define WIDE_TOKENS 16u   /* what so many tokens want together is hardly ever wrong */
#define WATCH_EVERY 4u    /* tokens between looks at the flash */
#define JUDGE_EVERY 32u   /* tokens between judgements of the whole */
#define PAUSE_FIRST 128u
#define PAUSE_MAX 4096u

static size_t router_bytes(uint32_t n_embd, uint32_t n_expert)
{
    return n_embd % 32 ? 0
                       : sm_round_up((size_t)sm_x8_bytes(ROUTER_TYPE, n_expert, n_embd), SM_ALIGN);
}

static void layout(struct sm_prefetch *a, struct sm_arena *m)
{
    a->layer = SM_ARENA_NEW(m, struct sm_prefetch_layer, a->n_layers);
    a->guess = SM_ARENA_NEW(m, struct sm_prefetch_guess, (size_t)a->n_layers * SM_PREFETCH_MAX);
    for (unsigned i = 0; i < SM_PREFETCH_MAX; i++) {
        struct sm_acts *q = &a->in[i].acts[0];
        *q = (struct sm_acts){.n_tok = 1, .n_cols = a->n_embd, .block = 32};
        a->in[i].x = SM_ARENA_NEW(m, float, sm_pad8(a->n_embd));
        q->q = SM_ARENA_NEW(m, int8_t, a->n_embd);
        q->d = SM_ARENA_NEW(m, float, a->n_embd / 32 + 1);
        q->s = SM_ARENA_NEW(m, int16_t, a->n_embd / 16 + 1);
        a->logits[i] = SM_ARENA_NEW(m, float, sm_pad8(a->n_expert));
    }
    a->rows = sm_arena_take(m, 8 * (size_t)sm_row_bytes(ROUTER_TYPE, a->n_embd & ~31u));
    for (uint32_t i = 0; i < a->n_layers; i++) {
        uint8_t *router = sm_arena_take(m, router_bytes(a->n_embd, a->n_expert));
        if (m->base) a->layer[i].router = router;
    }
}

size_t sm_prefetch_bytes(uint32_t n_layers, uint32_t n_embd, uint32_t n_expert)
{
    struct sm_prefetch a = {.n_layers = n_layers, .n_embd = n_embd, .n_expert = n_expert};
    struct sm_arena m = {0};
    layout(&a, &m);
    return m.used;
}

void sm_prefetch_init(struct sm_prefetch *a, uint32_t depth, uint32_t n_layers, uint32_t n_embd,
                      uint32_t n_expert, float eps, void *mem)
{
    *a = (struct sm_prefetch){.depth = depth, .n_layers = n_layers, .n_embd = n_embd,
                           .n_expert = n_expert, .eps = eps, .off_tokens = PAUSE_FIRST,
                           .waits = 1, .far_pays = true};
    struct sm_arena m = {.base = mem, .capacity = sm_prefetch_bytes(n_layers, n_embd, n_expert)};
    layout(a, &m);
    /* Start from what was counted on the trained tiny-moe: 77 and 67 % of the misses are foreseen
     * from one and two layers before; candidates behind the k-th are right now and then. */
    for (unsigned d = 0; d < 2 * SM_PREFETCH_MAX; d++)
        for (unsigned r = 0; r < SM_PREFETCH_RANKS; r++)
            a->worth[d][r] = 0.75f - 0.1f * (float)(d % SM_PREFETCH_MAX + d / SM_PREFETCH_MAX);
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

/* ---- judging --------------------------------------------------------------------------------- */

/* The least share of right reads that is worth it. A wrong one delays others while the flash is
 * busy, and always costs the expert that made room: on tiny-moe with 16 slots, reading whatever was
 * likely at all (20 %) made 35 % more reads necessary. Beyond the next layer a read can only win
 * the time in which the flash would rest: on one that never does it changes the order of reads and
 * adds the wrong ones. */
static float least_worth(const struct sm_prefetch *a, uint32_t row)
{
    const float cost = WRONG_COST * a->busy;
    float least = cost / (1 + cost);
    if (row % SM_PREFETCH_MAX && least < a->busy) least = a->busy;
    return least > WORTH_MIN ? least : WORTH_MIN;
}

/* True when some rank of this distance is worth a read, or it is time to find out again. */
static bool distance_pays(const struct sm_prefetch *a, uint32_t d, uint32_t row, uint32_t k)
{
    if (a->depth != SM_PREFETCH_AUTO) return d < a->depth;
    if (a->n_tokens % LOOK_EVERY == 0) return true;
    if (d && !a->far_pays) return false;
    const float least = least_worth(a, row);
    for (uint32_t r = 0; r < k && r < SM_PREFETCH_RANKS; r++)
        if (a->worth[row][r] >= least) return true;
    return false;
}

/* Since the last call: how busy the flash was, for how much of the time compute waited for it, and
 * whether that is so much that looking farther than one layer can be worth its time. */
static void watch(struct sm_prefetch *a, const struct sm_store_stats *st)
{
    const uint64_t now = sm_now_ns();
    if (a->then.ns && now > a->then.ns && st->flash_busy_ns >= a->then.busy_ns &&
        st->demand_wait_ns >= a->then.wait_ns) {
        const float time = (float)(now - a->then.ns);
        a->busy += 0.25f * ((float)(st->flash_busy_ns - a->then.busy_ns) / time - a->busy);
        a->waits += 0.25f * ((float)(st->demand_wait_ns - a->then.wait_ns) / time - a->waits);
        if (a->n_looks) { /* the share of the time that one more distance would take */
            const float tokens = (float)(a->n_tokens - a->then.token);
            const float look = (float)a->ns_looks / (float)a->n_looks * (float)a->n_layers *
                               tokens / time;
            a->look += 0.25f * (look - a->look);
            a->far_pays = FAR_GAIN * a->waits > a->look;
        }
    }
    a->then.token = a->n_tokens;
    a->then.ns = now;
    a->then.busy_ns = st->flash_busy_ns;
    a->then.wait_ns = st->demand_wait_ns;
    a->ns_looks = a->n_looks = 0;
}

/* What one byte takes, times the bytes that came in time, against the time spent on predicting and
 * on wrong reads. Generous to looking ahead: it pauses only when it has clearly lost. */
static void judge(struct sm_prefetch *a, const struct sm_store *s, const struct sm_store_stats *st)
{
    const bool known = a->from.ns && st->flash_busy_ns >= a->from.busy_ns &&
                       st->prefetch_used >= a->from.used;
    if (known) {
        const double per_byte =
            st->bytes_read ? (double)st->flash_busy_ns / (double)st->bytes_read : 0;
        const double used = (double)(st->prefetch_used - a->from.used) *
                            (double)sm_store_pool(s, 0)->expert_file_bytes;
        const double wasted = st->prefetch_wasted_bytes > a->from.wasted
                                  ? (double)(st->prefetch_wasted_bytes - a->from.wasted) : 0;
        if (used * per_byte < (double)a->ns_spent + wasted * per_byte * (double)a->busy) {
            a->off_until = a->n_tokens + a->off_tokens;
            if (a->off_tokens < PAUSE_MAX) a->off_tokens *= 2;
        } else {
            a->off_tokens = PAUSE_FIRST;
        }
    }
    a->from.ns = sm_now_ns();
    a->from.busy_ns = st->flash_busy_ns;
    a->from.used = st->prefetch_used;
    a->from.wasted = st->prefetch_wasted_bytes;
    a->ns_spent = 0;
}

/* ---- predicting ------------------------------------------------------------------------------ */

/* Ask for what a prediction promises, best first. */
static void ask(struct sm_graph *g, uint32_t pool, struct sm_prefetch_guess *q)
{
    const struct sm_prefetch *a = g->prefetch;
    const float least = a->depth == SM_PREFETCH_AUTO ? least_worth(a, q->row) : 0;
    uint16_t missing[SM_PREFETCH_RANKS], wanted[SM_PREFETCH_RANKS];
    const unsigned n_missing = sm_pager_missing(g->store, pool, q->id, q->n, missing);
    unsigned n = 0, at = 0;
    for (uint32_t r = 0; r < q->n; r++) {
        q->missing[r] = at < n_missing && missing[at] == q->id[r];
        at += q->missing[r];
        if (!q->missing[r] || a->worth[q->row][r] >= least) wanted[n++] = q->id[r];
    }
    (void)sm_pager_prefetch(g->store, pool, wanted, n, SM_PREFETCH_NEXT);
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
                            a->logits[i], sm_pad8(a->n_expert));
}

/* The n best that layer `pool` would choose by these products of its router, best first; returns
 * how many there are. */
static uint32_t choose(const struct sm_graph *g, uint32_t pool, float *logits, uint16_t *ids,
                       uint32_t n)
{
    const struct sm_moe *moe = g->prefetch->layer[pool].moe;
    const struct sm_route_view view = {sm_pager_held(g->store, pool),
                                       sm_pager_range(g->store, pool)};
    if (moe->router_b) g->kern->add(logits, sm_floats_of(moe->router_b), moe->router.n_expert);
    return sm_route_rank(g->kern, &moe->router, view, logits, ids, n);
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
            !distance_pays(a, d, row0 + d, l->moe->router.n_used))
            continue;
        p[n] = router_product(g, first + d, n, &in[n]);
        distance[n++] = d;
    }
    if (n) sm_graph_products(g, p, n);
    for (unsigned i = 0; i < n; i++) {
        const uint32_t pool = first + distance[i];
        const struct sm_router *r = &a->layer[pool].moe->router;
        struct sm_prefetch_guess *q = &a->guess[pool * SM_PREFETCH_MAX + distance[i]];
        q->row = row0 + distance[i];
        q->n = r->n_used < SM_PREFETCH_RANKS ? r->n_used : SM_PREFETCH_RANKS;
        q->n = choose(g, pool, a->logits[i], q->id, q->n);
        if (g->trace) sm_trace_ahead(g->trace, pool, distance[i] + 1, q->id, q->n);
        ask(g, pool, q);
    }
    const uint64_t ns = sm_now_ns() - start;
    a->ns_spent += ns;
    a->ns_looks += n ? ns : 0;
    a->n_looks += n;
}

/* Compare what was expected of a layer with what it chose. */
static void learn(struct sm_prefetch *a, uint32_t pool, const uint16_t *ids, uint32_t k)
{
    for (uint32_t d = 0; d < SM_PREFETCH_MAX; d++) {
        struct sm_prefetch_guess *q = &a->guess[pool * SM_PREFETCH_MAX + d];
        for (uint32_t r = 0; r < q->n; r++) {
            bool used = false;
            if (!q->missing[r]) continue;
            for (uint32_t i = 0; i < k; i++) used = used || ids[i] == q->id[r];
            a->worth[q->row][r] += DECAY * ((used ? 1.0f : 0.0f) - a->worth[q->row][r]);
        }
        q->n = 0;
    }
}

static bool is_on(const struct sm_prefetch *a)
{
    return a->depth != SM_PREFETCH_AUTO || a->n_tokens >= a->off_until;
}

/* Now and then: how busy the flash is, and whether looking ahead pays. What a flash that never
 * rests reads ahead is read instead of something else, so one read at a time may be wrong. */
static void consider(struct sm_prefetch *a, struct sm_store *s)
{
    struct sm_store_stats st;
    if (a->n_tokens % WATCH_EVERY) return;
    sm_store_stats(s, &st);
    watch(a, &st);
    sm_pager_narrow(s, a->busy > NARROW_BUSY);
    if (a->n_tokens % JUDGE_EVERY == 0) judge(a, s, &st);
}

void sm_prefetch_embedded(struct sm_graph *g)
{
    struct sm_prefetch *a = g->prefetch;
    if (!a || !a->depth) return;
    a->n_tokens++;
    if (a->depth == SM_PREFETCH_AUTO && is_on(a)) consider(a, g->store);
    if (a->wide) sm_pager_narrow(g->store, a->busy > NARROW_BUSY);
    a->wide = false;
    if (is_on(a)) predict(g, 0, SM_PREFETCH_MAX);
    else a->from.ns = a->then.ns = 0;
}

void sm_prefetch_routed(struct sm_graph *g, uint32_t pool, const uint16_t *ids, uint32_t k)
{
    struct sm_prefetch *a = g->prefetch;
    if (!a || !a->depth || pool >= a->n_layers) return;
    learn(a, pool, ids, k);
    sm_pager_settle(g->store, pool);
    if (is_on(a)) predict(g, pool + 1, 0);
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
    const uint32_t n = choose(j->g, j->pool, j->g->router + (size_t)t * sm_pad8(r->n_expert), ids,
                              r->n_used);
    for (uint32_t i = 0; i < n; i++)
        atomic_store_explicit(&j->wanted[ids[i]], 1, memory_order_relaxed);
}

void sm_prefetch_wave(struct sm_graph *g, uint32_t pool, uint32_t n_tok)
{
    struct sm_prefetch *a = g->prefetch;
    const uint32_t next = pool + 1;
    if (!a || !a->depth || pool >= a->n_layers) return;
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
