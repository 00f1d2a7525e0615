/* SPDX-License-Identifier: MIT */
#include "graph/mla.h"
#include "base/fmath.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Where the parts of a token stand in its row of g->qkv. */
struct row_map { uint32_t q, gate, all; };

static struct row_map map_row(const struct sm_mla *a)
{
    const uint32_t q = sm_pad8(a->n_latent + a->n_rot);
    const uint32_t gate = q + sm_pad8(a->n_head * (a->n_plain + a->n_rot));
    return (struct row_map){q, gate, gate + (a->gate ? sm_pad8(a->n_head) : 0)};
}

uint32_t sm_mla_row(const struct sm_mla *a) { return map_row(a).all; }

struct mla_job {
    struct sm_graph *g;
    const struct sm_mla *a;
    struct sm_kv_cache *kv;
    struct row_map map;
    uint32_t pos0;
    uint32_t first, n_tok; /* the tokens in hand */
    struct sm_attend core;
    struct sm_attend_split cut;
    atomic_int bad;
};

/* Queries, the latent row and the gates of all tokens. */
static void project_all(struct mla_job *j, struct sm_rows *in)
{
    struct sm_graph *g = j->g;
    const struct sm_mla *a = j->a;
    const size_t ld = j->map.all;
    struct sm_product p[3];
    unsigned n = 0;
    p[n++] = sm_graph_weight(g, a->wkv_a, in, g->qkv, ld);
    if (a->gate) p[n++] = sm_graph_weight(g, a->gate, in, g->qkv + j->map.gate, ld);
    if (a->wq) {
        p[n++] = sm_graph_weight(g, a->wq, in, g->qkv + j->map.q, ld);
        sm_graph_products(g, p, n);
        return;
    }
    const uint32_t rank = a->wq_a->n_out;
    p[n++] = sm_graph_weight(g, a->wq_a, in, g->lora.x, sm_pad8(rank));
    sm_graph_products(g, p, n);
    sm_graph_rms_norm(g, g->lora.x, g->lora.x, a->q_norm, in->n_tok, rank, a->eps);
    struct sm_rows low = sm_rows_of(&g->lora, in->n_tok, rank);
    sm_graph_linear(g, a->wq_b, NULL, &low, g->qkv + j->map.q, ld);
}

/* Norm, rotation and storing of one token. */
static void finish_token(void *arg, uint32_t t, unsigned worker)
{
    struct mla_job *j = arg;
    const struct sm_mla *a = j->a;
    const struct sm_kern *k = j->g->kern;
    float *latent = j->g->qkv + (size_t)t * j->map.all, *q = latent + j->map.q;
    const float *cs = j->g->rope_cs + (size_t)t * a->n_rot;
    void (*rotate)(float *, const float *, size_t) =
        a->rope->adjacent ? k->rope_adjacent : k->rope_half;
    (void)worker;
    if (!isfinite(k->rms_norm(latent, latent, sm_floats_of(a->kv_norm), a->n_latent, a->eps)))
        atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
    rotate(latent + a->n_latent, cs, a->n_rot);
    for (uint32_t h = 0; h < a->n_head; h++)
        rotate(q + (size_t)h * (a->n_plain + a->n_rot) + a->n_plain, cs, a->n_rot);
    sm_kv_store(k, j->kv, j->pos0 + t, 0, latent, NULL);
}

/* ---- the tokens in hand: queries into the latent space --------------------------------------- */

static float *query_of(const struct mla_job *j, uint32_t t, uint32_t h)
{
    const struct sm_mla *a = j->a;
    return j->g->qkv + (size_t)(j->first + t) * j->map.all + j->map.q +
           (size_t)h * (a->n_plain + a->n_rot);
}

/* Floats of a token in g->mla_q. */
static size_t latent_row(const struct sm_mla *a)
{
    return (size_t)a->n_head * (a->n_latent + a->n_rot);
}

static float *latent_query_of(const struct mla_job *j, uint32_t t, uint32_t h)
{
    return j->g->mla_q + t * latent_row(j->a) + (size_t)h * (j->a->n_latent + j->a->n_rot);
}

/* The rotated channels behind the latent ones; the plain ones side by side as inputs of wk_b. */
static void spread_head(void *arg, uint32_t h, unsigned worker)
{
    const struct mla_job *j = arg;
    const struct sm_mla *a = j->a;
    (void)worker;
    for (uint32_t t = 0; t < j->n_tok; t++) {
        const float *q = query_of(j, t, h);
        memcpy(latent_query_of(j, t, h) + a->n_latent, q + a->n_plain, a->n_rot * sizeof *q);
        if (a->wk_b)
            memcpy(j->g->mla_in.x + ((size_t)h * j->n_tok + t) * a->n_plain, q,
                   a->n_plain * sizeof *q);
    }
}

/* The latent rows are what a joint matrix multiplies, though neither half is taken so here. */
static void observe_latent(struct mla_job *j, uint32_t n_tok)
{
    struct sm_observer *o = j->g->observer;
    if (o && j->a->wkv_b) o->weight(o, j->a->wkv_b, 0, j->g->qkv, j->map.all, n_tok);
}

/* Products with matrices of single heads: rows row0 + h * step .. + n_out of w with the input rows
 * h * n_tok .. + n_tok of `in`, into y + h * y_step. */
static void head_products(struct mla_job *j, const struct sm_weight *w, uint32_t row0,
                          uint32_t step, uint32_t n_out, struct sm_rows *in, float *y,
                          size_t y_step, size_t ldy)
{
    struct sm_product p[SM_MAX_PRODUCTS];
    struct sm_rows part[SM_MAX_PRODUCTS];
    struct sm_observer *o = j->g->observer;
    unsigned n = 0;
    if (w->x8) sm_graph_quantize(j->g, in, sm_traits_of(w->type)->act_block);
    for (uint32_t h = 0; h < j->a->n_head; h++) {
        const uint64_t row = row0 + (uint64_t)h * step;
        const uint64_t before = w->x8 ? sm_x8_bytes(w->type, row, w->n_in)
                                      : row * sm_row_bytes(w->type, w->n_in);
        part[n] = sm_rows_part(in, h * j->n_tok, j->n_tok);
        if (o && w != j->a->wkv_b) o->weight(o, w, h, part[n].x, sm_pad8(in->n), j->n_tok);
        p[n] = sm_graph_product(j->g, w->type, w->x8, w->n_in, n_out, w->data + before, &part[n],
                                y + h * y_step, ldy);
        if (++n < SM_MAX_PRODUCTS && h + 1 < j->a->n_head) continue;
        sm_graph_products(j->g, p, n);
        n = 0;
    }
}

/* The key rows of a joint matrix, taken the other way round: q' += q_p * row p, p ascending. */
static void absorb_head(void *arg, uint32_t h, unsigned worker)
{
    const struct mla_job *j = arg;
    const struct sm_mla *a = j->a;
    const struct sm_weight *w = a->wkv_b;
    const size_t row_bytes = (size_t)sm_row_bytes(w->type, w->n_in);
    float *row = j->g->attn_scratch[worker].co; /* at least R values */
    for (uint32_t t = 0; t < j->n_tok; t++)
        memset(latent_query_of(j, t, h), 0, a->n_latent * sizeof(float));
    for (uint32_t p = 0; p < a->n_plain; p++) {
        const uint32_t r = h * (a->n_plain + a->dv) + p;
        if (w->x8) sm_x8_decode_row(w->type, w->data, r, w->n_in, row);
        else sm_decode_row(w->type, w->data + r * row_bytes, row, w->n_in);
        for (uint32_t t = 0; t < j->n_tok; t++)
            j->g->kern->axpy(latent_query_of(j, t, h), query_of(j, t, h)[p], row, a->n_latent);
    }
}

static void attend(void *arg, uint32_t item, unsigned worker)
{
    const struct mla_job *j = arg;
    const uint32_t t = item / j->cut.n_item;
    const struct sm_attend_rows rows = {
        .pos = j->pos0 + j->first + t, .n_tok = 1, .q = latent_query_of(j, t, 0),
        .ldq = j->a->n_latent + j->a->n_rot,
        .out = j->g->mla_z.x + (size_t)t * j->a->n_latent,
        .ldo = (size_t)j->n_tok * j->a->n_latent};
    sm_attend_item(j->g, worker, &j->core, j->kv, &j->cut, item % j->cut.n_item, &rows);
}

static void gate_token(void *arg, uint32_t t, unsigned worker)
{
    const struct mla_job *j = arg;
    const struct sm_mla *a = j->a;
    const float *gate = j->g->qkv + (size_t)t * j->map.all + j->map.gate;
    float *y = j->g->attn.x + (size_t)t * sm_pad8(a->n_head * a->dv);
    (void)worker;
    for (uint32_t h = 0; h < a->n_head; h++) {
        const float s = sm_sigmoid_f32(gate[h]);
        for (uint32_t d = 0; d < a->dv; d++) y[(size_t)h * a->dv + d] *= s;
    }
}

static void run_tokens(struct mla_job *j)
{
    struct sm_graph *g = j->g;
    const struct sm_mla *a = j->a;
    const uint32_t n_rows = a->n_head * j->n_tok;
    sm_graph_for(g, a->n_head, spread_head, j);
    if (a->wk_b) {
        struct sm_rows in = sm_rows_of(&g->mla_in, n_rows, a->n_plain);
        head_products(j, a->wk_b, 0, a->n_latent, a->n_latent, &in, g->mla_q,
                      a->n_latent + a->n_rot, latent_row(a));
    } else {
        sm_graph_for(g, a->n_head, absorb_head, j);
    }
    j->cut = sm_attend_cut(g, &j->core, j->n_tok);
    sm_graph_for(g, j->n_tok * j->cut.n_item, attend, j);
    const size_t ld = sm_pad8(a->n_head * a->dv);
    struct sm_rows z = sm_rows_of(&g->mla_z, n_rows, a->n_latent);
    float *y = g->attn.x + j->first * ld;
    if (a->wv_b) head_products(j, a->wv_b, 0, a->dv, a->dv, &z, y, a->dv, ld);
    else head_products(j, a->wkv_b, a->n_plain, a->n_plain + a->dv, a->dv, &z, y, a->dv, ld);
}

void sm_mla_run(struct sm_graph *g, const struct sm_mla *a, struct sm_kv_cache *kv,
                struct sm_rows *in, uint32_t pos0, float *y)
{
    struct mla_job j = {
        .g = g, .a = a, .kv = kv, .map = map_row(a), .pos0 = pos0,
        .core = {.n_head = a->n_head, .n_kv = 1, .dk = a->n_latent + a->n_rot, .dv = a->n_latent,
                 .scale = a->scale}};
    assert(pos0 + in->n_tok <= kv->capacity);
    project_all(&j, in);
    sm_graph_for(g, in->n_tok, finish_token, &j);
    if (j.bad && g->bad_layer < 0) g->bad_layer = g->layer;
    observe_latent(&j, in->n_tok);
    for (; j.first < in->n_tok; j.first += j.n_tok) {
        const uint32_t left = in->n_tok - j.first;
        j.n_tok = left < SM_MLA_TOKENS ? left : SM_MLA_TOKENS;
        run_tokens(&j);
    }
    if (a->gate) sm_graph_for(g, in->n_tok, gate_token, &j);
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, a->n_head * a->dv);
    sm_graph_linear(g, a->wo, NULL, &out, y, sm_pad8(a->wo->n_out));
}
