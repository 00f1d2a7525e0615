/* SPDX-License-Identifier: MIT */
/* Mixture of experts. One token: the chosen experts are computed in the order in which they are in
 * RAM, side by side, and added up in ascending index. Several tokens (a prompt wave): expert by
 * expert in ascending index, each with all of its tokens, so that each is read at most once. */
#include "graph/moe.h"
#include "base/fmath.h"
#include "graph/prefetch.h"
#include "store/pager.h"
#include "store/trace.h"

#include <assert.h>
#include <string.h>

struct route_job { struct sm_graph *g; const struct sm_moe *m; };

static void route_token(void *arg, uint32_t t, unsigned worker)
{
    const struct route_job *j = arg;
    const uint32_t k = j->m->router.n_used;
    const struct sm_route_view view = {sm_pager_held(j->g->store, j->m->pool),
                                       sm_pager_range(j->g->store, j->m->pool)};
    (void)worker;
    sm_route(j->g->kern, &j->m->router, view,
             j->g->router + (size_t)t * sm_pad8(j->m->router.n_expert),
             j->g->chosen + (size_t)t * k, j->g->weight + (size_t)t * k);
}

/* Experts that a token really uses: all unless a lever dropped some. */
static uint32_t n_chosen(const struct sm_graph *g, const struct sm_moe *m, uint32_t t)
{
    const uint32_t k = m->router.n_used;
    uint32_t n = k;
    while (n > 1 && g->chosen[(size_t)t * k + n - 1] == SM_NO_EXPERT) n--;
    return n;
}

/* Route all tokens and tell the store, in their order. A lever looks at the logical pool, which
 * every token moves on: then one token after the other, as decoding would. */
static void route(struct sm_graph *g, const struct sm_moe *m, uint32_t n_tok)
{
    const uint32_t k = m->router.n_used;
    const bool in_turn = sm_lever_on(&m->router.lever);
    struct route_job j = {g, m};
    if (!in_turn) sm_graph_for(g, n_tok, route_token, &j);
    for (uint32_t t = 0; t < n_tok; t++) {
        if (in_turn) route_token(&j, t, 0);
        const float *scores = g->router + (size_t)t * sm_pad8(m->router.n_expert);
        const uint32_t n = n_chosen(g, m, t);
        sm_pager_note(g->store, m->pool, g->chosen + (size_t)t * k, n);
        if (m->router.lever.bias_range)
            sm_pager_note_range(g->store, m->pool, sm_route_range(&m->router, scores));
        if (g->trace) sm_trace_scores(g->trace, m->pool, scores);
        g->n_dropped += k - n;
    }
}

/* The product of one matrix of an expert. */
static struct sm_product expert_product(struct sm_graph *g, const struct sm_expert_shape *s,
                                        uint32_t n_out, const uint8_t *data, struct sm_rows *in,
                                        float *y)
{
    return sm_graph_product(g, s->type, s->x8, s->n_in, n_out, data, in, y, sm_pad8(n_out));
}

/* Rows that go into an expert, for who listens. */
static void observe(struct sm_graph *g, const struct sm_moe *m, uint32_t expert, bool hidden,
                    const struct sm_rows *in)
{
    if (g->observer)
        g->observer->expert(g->observer, m->pool, expert, hidden, in->x, sm_pad8(in->n),
                            in->n_tok);
}

struct hidden_job {
    struct sm_graph *g;
    const struct sm_moe *m;
    const struct sm_expert *e; /* of each item, or of all (one_expert) */
    bool one_expert;
    struct sm_rows *rows; /* of g->hidden, all items */
    const unsigned *item; /* which rows, or NULL: 0.. */
    uint32_t n;
    unsigned block;       /* activation block of the down matrix, 0: floats */
};

/* Gate and up of one row to hidden, and its quantised form. */
static void hidden_row(void *arg, uint32_t i, unsigned worker)
{
    const struct hidden_job *j = arg;
    const struct sm_kern *k = j->g->kern;
    const size_t r = j->item ? j->item[i] : i, at = r * sm_pad8(j->n), n = j->n;
    (void)worker;
    const struct sm_expert *e = &j->e[j->one_expert ? 0 : i];
    if (e->gate_bias) k->add(j->g->gate + at, e->gate_bias, n);
    if (e->up_bias) k->add(j->g->up + at, e->up_bias, n);
    sm_gate_apply(k, &j->m->form, j->g->hidden.x + at, j->g->gate + at, j->g->up + at, n);
    if (j->block) {
        const struct sm_acts *a = &j->rows->acts[j->block == 256];
        (j->block == 256 ? k->quantize_256 : k->quantize_32)(
            j->g->hidden.x + at, n, a->q + r * n, a->d + r * (n / j->block), a->s + r * (n / 16));
    }
}

static unsigned act_block(const struct sm_expert_shape *s)
{
    return s->x8 ? sm_traits_of(s->type)->act_block : 0;
}

/* ---- one token ------------------------------------------------------------------------------- */

struct expert_set {
    unsigned n, item[SM_MAX_USED]; /* indices into the chosen list */
    struct sm_expert e[SM_MAX_USED];
};

/* Wait for one expert, then take everything else that is ready. */
static smol_status take_ready(struct sm_graph *g, struct expert_set *set, unsigned left,
                              smol_error *err)
{
    set->n = 0;
    do {
        SM_TRY(sm_pager_take(g->store, &set->item[set->n], &set->e[set->n], err));
        set->n++;
    } while (set->n < left && set->n < SM_MAX_PRODUCTS / 2 && sm_pager_has_ready(g->store));
    return SMOL_OK;
}

static smol_status run_set(struct sm_graph *g, const struct sm_moe *m, struct expert_set *set,
                           struct sm_rows *in, smol_error *err)
{
    const struct sm_pool_info *pi = sm_store_pool(g->store, m->pool);
    const struct sm_expert_shape *up = pi->fused ? &pi->gate : &pi->up;
    const size_t ld = sm_pad8(m->n_ffn), ld_out = sm_pad8(pi->down.n_out);
    struct sm_product p[SM_MAX_PRODUCTS];
    struct sm_rows one[SM_MAX_USED]; /* hidden row of each expert as an input of its own */
    for (unsigned i = 0; i < set->n; i++) {
        observe(g, m, g->chosen[set->item[i]], false, in);
        p[2 * i] = expert_product(g, &pi->gate, m->n_ffn, set->e[i].gate, in,
                                  g->gate + set->item[i] * ld);
        p[2 * i + 1] = expert_product(g, up, m->n_ffn, set->e[i].up, in,
                                      g->up + set->item[i] * ld);
    }
    sm_graph_products(g, p, 2 * set->n);
    struct sm_rows h = sm_rows_of(&g->hidden, m->router.n_used, m->n_ffn);
    struct hidden_job j = {g, m, set->e, false, &h, set->item, m->n_ffn, act_block(&pi->down)};
    sm_graph_for(g, set->n, hidden_row, &j);
    h.made[0] = h.made[1] = true; /* the form that is needed */
    for (unsigned i = 0; i < set->n; i++) {
        one[i] = sm_rows_part(&h, set->item[i], 1);
        observe(g, m, g->chosen[set->item[i]], true, &one[i]);
        SM_TRY(sm_pager_take_down(g->store, set->item[i], err));
        p[i] = expert_product(g, &pi->down, pi->down.n_out, set->e[i].down, &one[i],
                              g->expert_out + set->item[i] * ld_out);
    }
    sm_graph_products(g, p, set->n);
    for (unsigned i = 0; i < set->n; i++) {
        if (set->e[i].down_bias)
            g->kern->add(g->expert_out + set->item[i] * ld_out, set->e[i].down_bias,
                         pi->down.n_out);
        sm_pager_give(g->store, set->item[i]);
    }
    return SMOL_OK;
}

static smol_status run_token(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in,
                             uint32_t k, smol_error *err)
{
    const uint32_t ld = sm_pad8(g->dims.n_embd);
    struct expert_set set;
    for (unsigned left = k; left; left -= set.n) {
        SM_TRY(take_ready(g, &set, left, err));
        SM_TRY(run_set(g, m, &set, in, err));
    }
    memset(g->acc, 0, g->dims.n_embd * sizeof *g->acc);
    for (uint32_t i = 0; i < k; i++)
        g->kern->axpy(g->acc, g->weight[i], g->expert_out + (size_t)i * ld, g->dims.n_embd);
    return SMOL_OK;
}

/* ---- a wave of tokens ------------------------------------------------------------------------ */

/* Sort the uses (token, rank) by expert; returns the number of experts touched. */
static unsigned sort_uses(struct sm_graph *g, const struct sm_moe *m, uint32_t n_tok)
{
    const uint32_t k = m->router.n_used, n = m->router.n_expert, n_use = n_tok * k;
    uint32_t *at = g->users_at;
    unsigned n_touched = 0;
    memset(at, 0, (n + 1) * sizeof *at);
    for (uint32_t i = 0; i < n_use; i++)
        if (g->chosen[i] != SM_NO_EXPERT) at[g->chosen[i] + 1]++;
    for (uint32_t e = 0; e < n; e++) {
        if (at[e + 1]) g->touched[n_touched++] = (uint16_t)e;
        at[e + 1] += at[e];
    }
    for (uint32_t i = 0; i < n_use; i++)
        if (g->chosen[i] != SM_NO_EXPERT) g->users[at[g->chosen[i]]++] = i;
    for (uint32_t e = n; e > 0; e--) at[e] = at[e - 1]; /* back to starts */
    at[0] = 0;
    return n_touched;
}

struct gather_job {
    struct sm_graph *g;
    const struct sm_rows *in;
    const uint32_t *use;
    uint32_t k;
};

static void gather_row(void *arg, uint32_t i, unsigned worker)
{
    const struct gather_job *j = arg;
    const uint32_t t = j->use[i] / j->k, n = j->in->n;
    (void)worker;
    memcpy(j->g->picked.x + (size_t)i * sm_pad8(n), j->in->x + (size_t)t * sm_pad8(n),
           n * sizeof(float));
    for (unsigned b = 0; b < 2; b++) {
        if (!j->in->made[b]) continue;
        const struct sm_acts *from = &j->in->acts[b];
        struct sm_acts *to = &j->g->picked.acts[b];
        const size_t nd = n / from->block, ns = n / 16;
        memcpy(to->q + (size_t)i * n, from->q + (size_t)t * n, n);
        memcpy(to->d + i * nd, from->d + t * nd, nd * sizeof *to->d);
        memcpy(to->s + i * ns, from->s + t * ns, ns * sizeof *to->s);
    }
}

struct spread_job { struct sm_graph *g; const float *bias; const uint32_t *use; uint32_t k; };

static void spread_row(void *arg, uint32_t i, unsigned worker)
{
    const struct spread_job *j = arg;
    const uint32_t ld = sm_pad8(j->g->dims.n_embd), use = j->use[i];
    float *out = j->g->expert_out + (size_t)i * ld;
    (void)worker;
    if (j->bias) j->g->kern->add(out, j->bias, j->g->dims.n_embd);
    j->g->kern->axpy(j->g->acc + (size_t)(use / j->k) * ld, j->g->weight[use], out,
                     j->g->dims.n_embd);
}

/* One expert with some of its tokens (uses of it), added into g->acc. */
static smol_status run_uses(struct sm_graph *g, const struct sm_moe *m, unsigned item,
                            const struct sm_expert *e, const struct sm_rows *in,
                            const uint32_t *use, uint32_t n_tok, smol_error *err)
{
    const struct sm_pool_info *pi = sm_store_pool(g->store, m->pool);
    const struct sm_expert_shape *up = pi->fused ? &pi->gate : &pi->up;
    struct gather_job gj = {g, in, use, m->router.n_used};
    sm_graph_for(g, n_tok, gather_row, &gj);
    struct sm_rows rows = sm_rows_of(&g->picked, n_tok, in->n);
    rows.made[0] = in->made[0];
    rows.made[1] = in->made[1];
    observe(g, m, g->touched[item], false, &rows);
    const struct sm_product p[2] = {expert_product(g, &pi->gate, m->n_ffn, e->gate, &rows, g->gate),
                                    expert_product(g, up, m->n_ffn, e->up, &rows, g->up)};
    sm_graph_products(g, p, 2);
    struct sm_rows h = sm_rows_of(&g->hidden, n_tok, m->n_ffn);
    struct hidden_job hj = {g, m, e, true, &h, NULL, m->n_ffn, act_block(&pi->down)};
    sm_graph_for(g, n_tok, hidden_row, &hj);
    h.made[0] = h.made[1] = true;
    observe(g, m, g->touched[item], true, &h);
    SM_TRY(sm_pager_take_down(g->store, item, err));
    const struct sm_product d =
        expert_product(g, &pi->down, pi->down.n_out, e->down, &h, g->expert_out);
    sm_graph_products(g, &d, 1);
    struct spread_job sj = {g, e->down_bias, use, m->router.n_used};
    sm_graph_for(g, n_tok, spread_row, &sj);
    return SMOL_OK;
}

/* One expert with all of its tokens. */
static smol_status run_expert(struct sm_graph *g, const struct sm_moe *m, unsigned item,
                              const struct sm_expert *e, const struct sm_rows *in, smol_error *err)
{
    const uint32_t id = g->touched[item], end = g->users_at[id + 1];
    for (uint32_t at = g->users_at[id], n; at < end; at += n) {
        n = sm_graph_block(g, end - at);
        SM_TRY(run_uses(g, m, item, e, in, g->users + at, n, err));
    }
    sm_pager_give(g->store, item);
    return SMOL_OK;
}

static smol_status run_wave(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in,
                            unsigned n_touched, smol_error *err)
{
    const struct sm_pool_info *pi = sm_store_pool(g->store, m->pool);
    memset(g->acc, 0, (size_t)in->n_tok * sm_pad8(g->dims.n_embd) * sizeof *g->acc);
    if (act_block(&pi->gate)) sm_graph_quantize(g, in, act_block(&pi->gate));
    if (!pi->fused && act_block(&pi->up)) sm_graph_quantize(g, in, act_block(&pi->up));
    for (unsigned i = 0; i < n_touched; i++) {
        struct sm_expert e;
        unsigned item;
        SM_TRY(sm_pager_take(g->store, &item, &e, err));
        assert(item == i);
        SM_TRY(run_expert(g, m, item, &e, in, err));
    }
    return SMOL_OK;
}

/* acc += sigmoid(scale * x) * shared expert. */
struct shared_job {
    struct sm_graph *g;
    const struct sm_moe *m;
    const struct sm_rows *in;
    const float *y;
};

static void add_scaled_shared(void *arg, uint32_t t, unsigned worker)
{
    const struct shared_job *j = arg;
    const size_t at = (size_t)t * sm_pad8(j->in->n);
    const float *w = sm_floats_of(j->m->shared_scale);
    const float scale = sm_sigmoid_f32(j->g->kern->dot(w, j->in->x + at, j->in->n));
    (void)worker;
    j->g->kern->axpy(j->g->acc + at, scale, j->y + at, j->in->n);
}

/* ---- both ------------------------------------------------------------------------------------ */

smol_status sm_moe_run(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in, float *y,
                       smol_error *err)
{
    const uint32_t n_tok = in->n_tok, n_embd = g->dims.n_embd;
    unsigned n_touched;
    smol_status st;
    sm_graph_linear(g, m->router_w, m->router_b, in, g->router, sm_pad8(m->router.n_expert));
    if (n_tok == 1) sm_prefetch_scored(g, m->pool);
    route(g, m, n_tok);
    n_touched = n_tok > 1 ? sort_uses(g, m, n_tok) : n_chosen(g, m, 0);
    sm_pager_begin(g->store, m->pool, n_tok > 1 ? g->touched : g->chosen, n_touched,
                   n_tok > 1 ? SM_ORDER_ASCENDING : SM_ORDER_ARRIVAL);
    if (n_tok == 1) sm_prefetch_routed(g, m->pool, g->chosen, n_touched);
    else sm_prefetch_wave(g, m->pool, n_tok);
    if (m->has_shared) sm_ffn_run(g, &m->shared, in, y); /* computed while reads are under way */
    st = n_tok > 1 ? run_wave(g, m, in, n_touched, err) : run_token(g, m, in, n_touched, err);
    sm_pager_end(g->store);
    if (st != SMOL_OK) return st;
    struct shared_job sj = {g, m, in, y};
    if (m->has_shared && m->shared_scale) sm_graph_for(g, n_tok, add_scaled_shared, &sj);
    else if (m->has_shared) sm_graph_add(g, g->acc, y, n_tok, n_embd);
    memcpy(y, g->acc, (size_t)n_tok * sm_pad8(n_embd) * sizeof *y);
    return SMOL_OK;
}
