/* SPDX-License-Identifier: MIT */
#include "graph/gqa.h"
#include "base/fmath.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Where q, k and v of a token stand in its row of g->qkv. A fused matrix leaves no gaps. */
struct row_map { uint32_t k, v, all; };

static struct row_map map_row(const struct sm_gqa *a)
{
    const uint32_t nq = a->n_head * a->dk, nk = a->n_kv * a->dk, nv = a->n_kv * a->dv;
    if (a->wqkv) return (struct row_map){nq, nq + nk, sm_pad8(nq + nk + nv)};
    return (struct row_map){sm_pad8(nq), sm_pad8(nq) + sm_pad8(nk),
                            sm_pad8(nq) + sm_pad8(nk) + sm_pad8(nv)};
}

uint32_t sm_gqa_row(const struct sm_gqa *a) { return map_row(a).all; }

static const float *values(const struct sm_weight *w)
{
    return w ? (const float *)(const void *)w->data : NULL;
}

static struct sm_product project(struct sm_graph *g, const struct sm_weight *w, struct sm_rows *in,
                                 float *y, size_t ldy)
{
    return sm_graph_product(g, w->type, w->x8, w->n_in, w->n_out, w->data, in, y, ldy);
}

/* ---- after the projection: bias, norm, rotation, store ---------------------------------------- */

struct token_job {
    struct sm_graph *g;
    const struct sm_gqa *a;
    struct sm_kv_cache *kv;
    struct row_map map;
    uint32_t pos0;
    atomic_int bad;
};

/* Norm and rotation of n_head heads of queries or keys. */
static void finish_heads(struct token_job *j, float *x, uint32_t n_head,
                         const struct sm_weight *norm, const float *cs)
{
    const struct sm_kern *k = j->g->kern;
    const struct sm_gqa *a = j->a;
    const uint32_t n = a->norm_rows ? n_head * a->dk : a->dk; /* values of a norm */
    bool finite = true;
    for (float *p = x; norm && p < x + (size_t)n_head * a->dk; p += n)
        finite &= isfinite(k->rms_norm(p, p, values(norm), n, a->eps)) != 0;
    if (!finite) atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
    for (uint32_t h = 0; h < n_head; h++)
        (a->rope->adjacent ? k->rope_adjacent : k->rope_half)(x + (size_t)h * a->dk, cs,
                                                              a->rope->n_rot);
}

static void finish_token(void *arg, uint32_t t, unsigned worker)
{
    struct token_job *j = arg;
    const struct sm_gqa *a = j->a;
    const struct sm_kern *kern = j->g->kern;
    struct sm_kv_cache *kv = j->kv;
    float *q = j->g->qkv + (size_t)t * j->map.all, *k = q + j->map.k, *v = q + j->map.v;
    const float *cs = j->g->rope_cs + (size_t)t * a->rope->n_rot;
    (void)worker;
    if (a->bq) kern->add(q, values(a->bq), (size_t)a->n_head * a->dk);
    if (a->bk) kern->add(k, values(a->bk), (size_t)a->n_kv * a->dk);
    if (a->bv) kern->add(v, values(a->bv), (size_t)a->n_kv * a->dv);
    finish_heads(j, q, a->n_head, a->q_norm, cs);
    finish_heads(j, k, a->n_kv, a->k_norm, cs);
    for (uint32_t h = 0; h < a->n_kv; h++) {
        kern->kv_store[kv->type](kv->k + (j->pos0 + t) * kv->k_stride + h * kv->k_head_bytes,
                                 k + (size_t)h * a->dk, a->dk);
        kern->kv_store[kv->type](kv->v + (j->pos0 + t) * kv->v_stride + h * kv->v_head_bytes,
                                 v + (size_t)h * a->dv, a->dv);
    }
}

/* ---- attention: one item is one token and one key/value head ----------------------------------- */

/* Join chunk (cm, cl, co) to the running (m, l, o) of n_q heads. */
static void join_chunk(struct sm_attn_scratch *s, uint32_t n_q, uint32_t dv, bool first)
{
    for (uint32_t h = 0; h < n_q; h++) {
        float *o = s->o + (size_t)h * dv;
        const float *co = s->co + (size_t)h * dv;
        if (first) {
            s->m[h] = s->cm[h];
            s->l[h] = s->cl[h];
            memcpy(o, co, dv * sizeof *o);
            continue;
        }
        const float m = s->m[h] > s->cm[h] ? s->m[h] : s->cm[h];
        const float keep = sm_exp_f32(s->m[h] - m), part = sm_exp_f32(s->cm[h] - m);
        s->l[h] = fmaf(s->cl[h], part, s->l[h] * keep);
        for (uint32_t d = 0; d < dv; d++) o[d] = fmaf(co[d], part, o[d] * keep);
        s->m[h] = m;
    }
}

static void attend(void *arg, uint32_t item, unsigned worker)
{
    const struct token_job *j = arg;
    const struct sm_gqa *a = j->a;
    const struct sm_kv_cache *kv = j->kv;
    struct sm_attn_scratch *s = &j->g->attn_scratch[worker];
    const uint32_t t = item / a->n_kv, head = item % a->n_kv, n_q = a->n_head / a->n_kv;
    const uint32_t end = j->pos0 + t + 1; /* one past the last visible position */
    const uint32_t begin = a->window && end > a->window ? end - a->window : 0;
    struct sm_attn_chunk c = {
        .q = j->g->qkv + (size_t)t * j->map.all + (size_t)head * n_q * a->dk, .ldq = a->dk,
        .k_stride = kv->k_stride, .v_stride = kv->v_stride, .n_q = n_q, .dk = a->dk, .dv = a->dv,
        .scale = (float)(1 / sqrt((double)a->dk)), .m = s->cm, .l = s->cl, .o = s->co,
        .ldo = a->dv};
    for (uint32_t at = begin & ~255u; at < end; at += 256) {
        c.k = kv->k + at * kv->k_stride + head * kv->k_head_bytes;
        c.v = kv->v + at * kv->v_stride + head * kv->v_head_bytes;
        c.first = begin > at ? begin - at : 0;
        c.last = end - at < 256 ? end - at : 256;
        j->g->kern->attn_chunk[kv->type](&c);
        join_chunk(s, n_q, a->dv, at == (begin & ~255u));
    }
    float *out = j->g->attn.x + (size_t)t * sm_pad8(a->n_head * a->dv);
    for (uint32_t h = 0; h < n_q; h++)
        for (uint32_t d = 0; d < a->dv; d++)
            out[(head * n_q + h) * a->dv + d] = s->o[(size_t)h * a->dv + d] / s->l[h];
}

void sm_gqa_run(struct sm_graph *g, const struct sm_gqa *a, struct sm_kv_cache *kv,
                struct sm_rows *in, uint32_t pos0, float *y)
{
    struct token_job j = {.g = g, .a = a, .kv = kv, .map = map_row(a), .pos0 = pos0};
    const size_t ld = j.map.all;
    struct sm_product p[3];
    assert(pos0 + in->n_tok <= kv->capacity);
    if (a->wqkv) {
        p[0] = project(g, a->wqkv, in, g->qkv, ld);
        sm_graph_products(g, p, 1);
    } else {
        p[0] = project(g, a->wq, in, g->qkv, ld);
        p[1] = project(g, a->wk, in, g->qkv + j.map.k, ld);
        p[2] = project(g, a->wv, in, g->qkv + j.map.v, ld);
        sm_graph_products(g, p, 3);
    }
    sm_graph_for(g, in->n_tok, finish_token, &j);
    if (j.bad && g->bad_layer < 0) g->bad_layer = g->layer;
    sm_graph_for(g, in->n_tok * a->n_kv, attend, &j);
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, a->n_head * a->dv);
    sm_graph_linear(g, a->wo, a->bo, &out, y, sm_pad8(a->wo->n_out));
}
