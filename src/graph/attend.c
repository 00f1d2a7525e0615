/* SPDX-License-Identifier: MIT */
#include "graph/attend.h"
#include "base/fmath.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct sm_attend_split sm_attend_cut(const struct sm_graph *g, const struct sm_attend *a,
                                     uint32_t n_tok)
{
    const uint32_t shared = a->n_head / a->n_kv, enough = 2 * sm_pool_size(g->pool);
    struct sm_attend_split s = {shared, 1, a->n_kv};
    while (sm_pool_size(g->pool) > 1 && s.n_q > 4 && n_tok * s.n_item < enough) {
        s.n_q = (s.n_q + 1) / 2;
        s.per_kv = (shared + s.n_q - 1) / s.n_q;
        s.n_item = a->n_kv * s.per_kv;
    }
    return s;
}

/* Join chunk (cm, cl, co) to the running (m, l, o) of n_q heads from number `from` on. */
static void join_chunk(const struct sm_kern *kern, struct sm_attn_scratch *s, uint32_t from,
                       uint32_t n_q, uint32_t dv, bool first)
{
    for (uint32_t h = from; h < from + n_q; h++) {
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
        kern->join(o, keep, co, part, dv);
        s->m[h] = m;
    }
}

/* A sink is a chunk with one score, a sum of 1 and no values. */
static void join_sinks(const struct sm_kern *kern, struct sm_attn_scratch *s, const float *sinks,
                       uint32_t from, uint32_t n_q, uint32_t dv)
{
    for (uint32_t h = 0; h < n_q; h++) {
        s->cm[from + h] = sinks[h];
        s->cl[from + h] = 1;
    }
    memset(s->co + (size_t)from * dv, 0, (size_t)n_q * dv * sizeof *s->co);
    join_chunk(kern, s, from, n_q, dv, false);
}

/* The rows first .. last-1 of the chunk at position `at`, one head each, out of a ring and side by
 * side: a chunk of a ring may wrap, and kernels want one stride. */
static void gather(const struct sm_kv_cache *kv, struct sm_attn_chunk *c, uint32_t at,
                   uint32_t head, uint8_t *room)
{
    uint8_t *k = room, *v = room + 256 * kv->k_head_bytes;
    for (uint32_t i = c->first; i < c->last; i++) {
        const size_t row = (at + i) % kv->capacity;
        memcpy(k + i * kv->k_head_bytes, kv->k + row * kv->k_stride + head * kv->k_head_bytes,
               kv->k_head_bytes);
        memcpy(v + i * kv->v_head_bytes, kv->v + row * kv->v_stride + head * kv->v_head_bytes,
               kv->v_head_bytes);
    }
    c->k = k;
    c->v = v;
    c->k_stride = kv->k_head_bytes;
    c->v_stride = kv->v_head_bytes;
}

/* The kernel of the level for several tokens, or one token after the other. */
static void run_chunk(const struct sm_kern *k, enum sm_kv_type type,
                      const struct sm_attn_tile *tile)
{
    struct sm_attn_chunk c = tile->c;
    if (k->attn_tile[type] && tile->n_tok > 1) {
        k->attn_tile[type](tile);
        return;
    }
    for (uint32_t t = 0; t < tile->n_tok; t++) {
        c.first = tile->first[t];
        c.last = tile->last[t];
        if (c.first < c.last) k->attn_chunk[type](&c);
        c.q += tile->tok_q;
        c.m += c.n_q;
        c.l += c.n_q;
        c.o += c.n_q * c.ldo;
    }
}

void sm_attend_item(struct sm_graph *g, unsigned worker, const struct sm_attend *a,
                    const struct sm_kv_cache *kv, const struct sm_attend_split *cut, uint32_t item,
                    const struct sm_attend_rows *r)
{
    struct sm_attn_scratch *s = &g->attn_scratch[worker];
    const uint32_t head = item / cut->per_kv, shared = a->n_head / a->n_kv, dv = a->dv;
    const uint32_t q0 = item % cut->per_kv * cut->n_q; /* among those that share the head */
    const uint32_t n_q = shared - q0 < cut->n_q ? shared - q0 : cut->n_q;
    const uint32_t first_head = head * shared + q0, last_end = r->pos + r->n_tok;
    uint32_t begin[SM_ATTN_TOK]; /* first visible position of each token */
    struct sm_attn_tile tile = {
        .c = {.q = r->q + first_head * r->ldq, .ldq = r->ldq, .k_stride = kv->k_stride,
              .v_stride = kv->v_stride, .n_q = n_q, .dk = a->dk, .dv = dv, .scale = a->scale,
              .m = s->cm, .l = s->cl, .o = s->co, .ldo = dv},
        .tok_q = r->tok_q, .n_tok = r->n_tok};
    assert(r->n_tok >= 1 && r->n_tok <= (kv->ring ? 1 : SM_ATTN_TOK));
    for (uint32_t t = 0; t < r->n_tok; t++)
        begin[t] = a->window && r->pos + t + 1 > a->window ? r->pos + t + 1 - a->window : 0;
    for (uint32_t at = begin[0] & ~255u; at < last_end; at += 256) {
        for (uint32_t t = 0; t < r->n_tok; t++) {
            const uint32_t end = r->pos + t + 1;
            tile.first[t] = begin[t] > at ? begin[t] - at : 0;
            tile.last[t] = end < at ? 0 : end - at < 256 ? end - at : 256;
        }
        if (kv->ring) {
            tile.c.first = tile.first[0];
            tile.c.last = tile.last[0];
            gather(kv, &tile.c, at, head, s->ring);
        } else {
            tile.c.k = kv->k + at * kv->k_stride + head * kv->k_head_bytes;
            tile.c.v = kv->v + at * kv->v_stride + head * kv->v_head_bytes;
        }
        run_chunk(g->kern, kv->type, &tile);
        for (uint32_t t = 0; t < r->n_tok; t++)
            if (tile.first[t] < tile.last[t])
                join_chunk(g->kern, s, t * n_q, n_q, dv, at == (begin[t] & ~255u));
    }
    for (uint32_t t = 0; t < r->n_tok; t++) {
        float *out = r->out + t * r->tok_out + first_head * r->ldo;
        if (a->sinks) join_sinks(g->kern, s, a->sinks + first_head, t * n_q, n_q, dv);
        for (uint32_t h = 0; h < n_q; h++) {
            const float *o = s->o + (size_t)(t * n_q + h) * dv, l = s->l[t * n_q + h];
            for (uint32_t d = 0; d < dv; d++) out[h * r->ldo + d] = o[d] / l;
        }
    }
}
