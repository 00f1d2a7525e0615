/* SPDX-License-Identifier: MIT */
#include "graph/gqa.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>

/* Where q, k and v of a token stand in its row of g->qkv. A fused matrix leaves no gaps. */
struct row_map { uint32_t k, v, all; };

/* Floats from one query head to the next. */
static uint32_t q_step(const struct sm_gqa *a) { return a->gated ? a->dk + a->dv : a->dk; }

static struct row_map map_row(const struct sm_gqa *a)
{
    const uint32_t nq = a->n_head * q_step(a), nk = a->n_kv * a->dk, nv = a->n_kv * a->dv;
    if (a->wqkv) return (struct row_map){nq, nq + nk, sm_pad8(nq + nk + nv)};
    return (struct row_map){sm_pad8(nq), sm_pad8(nq) + sm_pad8(nk),
                            sm_pad8(nq) + sm_pad8(nk) + sm_pad8(nv)};
}

uint32_t sm_gqa_row(const struct sm_gqa *a) { return map_row(a).all; }

/* ---- after the projection: bias, norm, rotation, store --------------------------------------- */

struct token_job {
    struct sm_graph *g;
    const struct sm_gqa *a;
    struct sm_kv_cache *kv;
    struct row_map map;
    uint32_t pos0;
    atomic_int bad;
    struct sm_attend core;
    struct sm_attend_split cut;
    uint32_t first, end; /* tokens of all items */
};

/* Norm and rotation of n_head heads of queries or keys, `step` floats apart. */
static void finish_heads(struct token_job *j, float *x, uint32_t n_head, uint32_t step,
                         const struct sm_weight *norm, const float *cs)
{
    const struct sm_kern *k = j->g->kern;
    const struct sm_gqa *a = j->a;
    const uint32_t n = a->norm_rows ? n_head * a->dk : a->dk; /* values of a norm */
    bool finite = true;
    for (uint32_t h = 0; norm && h < (a->norm_rows ? 1 : n_head); h++) {
        float *head = x + (size_t)h * step;
        finite &= isfinite(k->rms_norm(head, head, sm_floats_of(norm), n, a->eps)) != 0;
    }
    if (!finite) atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
    for (uint32_t h = 0; h < n_head; h++)
        (a->rope->adjacent ? k->rope_adjacent : k->rope_half)(x + (size_t)h * step, cs,
                                                              a->rope->n_rot);
}

static void store_token(const struct token_job *j, uint32_t t)
{
    const struct sm_gqa *a = j->a;
    const float *k = j->g->qkv + (size_t)t * j->map.all + j->map.k;
    const float *v = j->g->qkv + (size_t)t * j->map.all + j->map.v;
    for (uint32_t h = 0; h < a->n_kv; h++)
        sm_kv_store(j->g->kern, j->kv, j->pos0 + t, h, k + (size_t)h * a->dk,
                    v + (size_t)h * a->dv);
}

static void finish_token(void *arg, uint32_t t, unsigned worker)
{
    struct token_job *j = arg;
    const struct sm_gqa *a = j->a;
    const struct sm_kern *kern = j->g->kern;
    float *q = j->g->qkv + (size_t)t * j->map.all, *k = q + j->map.k, *v = q + j->map.v;
    const float *cs = j->g->rope_cs + (size_t)t * a->rope->n_rot;
    (void)worker;
    if (a->bq) kern->add(q, sm_floats_of(a->bq), (size_t)a->n_head * a->dk);
    if (a->bk) kern->add(k, sm_floats_of(a->bk), (size_t)a->n_kv * a->dk);
    if (a->bv) kern->add(v, sm_floats_of(a->bv), (size_t)a->n_kv * a->dv);
    finish_heads(j, q, a->n_head, q_step(a), a->q_norm, cs);
    finish_heads(j, k, a->n_kv, a->dk, a->k_norm, cs);
    if (!j->kv->ring) store_token(j, t);
}

/* ---- attention: an item is some tokens and some heads that share a key/value head ------------ */

static void attend(void *arg, uint32_t item, unsigned worker)
{
    const struct token_job *j = arg;
    const struct sm_gqa *a = j->a;
    const uint32_t most = sm_attend_tokens(a->n_head, a->n_kv);
    const uint32_t t = j->first + item / j->cut.n_item * most;
    const size_t tok_out = sm_pad8(a->n_head * a->dv);
    const struct sm_attend_rows rows = {
        .pos = j->pos0 + t, .n_tok = j->end - t < most ? j->end - t : most,
        .q = j->g->qkv + (size_t)t * j->map.all, .ldq = q_step(a), .tok_q = j->map.all,
        .out = j->g->attn.x + t * tok_out, .ldo = a->dv, .tok_out = tok_out};
    sm_attend_item(j->g, worker, &j->core, j->kv, &j->cut, item % j->cut.n_item, &rows);
}

/* The gates stand behind the query heads. */
static void gate_token(void *arg, uint32_t t, unsigned worker)
{
    const struct token_job *j = arg;
    const struct sm_gqa *a = j->a;
    const float *q = j->g->qkv + (size_t)t * j->map.all;
    float *y = j->g->attn.x + (size_t)t * sm_pad8(a->n_head * a->dv);
    (void)worker;
    for (uint32_t h = 0; h < a->n_head; h++, y += a->dv)
        j->g->kern->sigmoid_mul(y, q + (size_t)h * q_step(a) + a->dk, y, a->dv);
}

static void attend_all(struct token_job *j, uint32_t n_tok)
{
    const uint32_t most = sm_attend_tokens(j->a->n_head, j->a->n_kv);
    const uint32_t n_tile = j->kv->ring ? 1 : (n_tok + most - 1) / most;
    j->cut = sm_attend_cut(j->g, &j->core, n_tile);
    j->end = n_tok;
    if (!j->kv->ring) {
        sm_graph_for(j->g, n_tile * j->cut.n_item, attend, j);
        return;
    }
    /* in a ring the key of a token takes the place of one that the token before still sees */
    for (; j->first < n_tok; j->first++) {
        store_token(j, j->first);
        j->end = j->first + 1;
        sm_graph_for(j->g, j->cut.n_item, attend, j);
    }
}

void sm_gqa_run(struct sm_graph *g, const struct sm_gqa *a, struct sm_kv_cache *kv,
                struct sm_rows *in, uint32_t pos0, float *y)
{
    struct token_job j = {
        .g = g, .a = a, .kv = kv, .map = map_row(a), .pos0 = pos0,
        .core = {.n_head = a->n_head, .n_kv = a->n_kv, .dk = a->dk, .dv = a->dv,
                 .window = a->window, .scale = (float)(1 / sqrt((double)a->dk)),
                 .sinks = sm_floats_of(a->sinks)}};
    const size_t ld = j.map.all;
    struct sm_product p[3];
    assert(kv->ring || pos0 + in->n_tok <= kv->capacity);
    if (a->wqkv) {
        p[0] = sm_graph_weight(g, a->wqkv, in, g->qkv, ld);
        sm_graph_products(g, p, 1);
    } else {
        p[0] = sm_graph_weight(g, a->wq, in, g->qkv, ld);
        p[1] = sm_graph_weight(g, a->wk, in, g->qkv + j.map.k, ld);
        p[2] = sm_graph_weight(g, a->wv, in, g->qkv + j.map.v, ld);
        sm_graph_products(g, p, 3);
    }
    sm_graph_for(g, in->n_tok, finish_token, &j);
    if (j.bad && g->bad_layer < 0) g->bad_layer = g->layer;
    attend_all(&j, in->n_tok);
    if (a->gated) sm_graph_for(g, in->n_tok, gate_token, &j);
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, a->n_head * a->dv);
    sm_graph_linear(g, a->wo, a->bo, &out, y, sm_pad8(a->wo->n_out));
}
