/* SPDX-License-Identifier: MIT */
#include "graph/attend.h"
#include "base/fmath.h"

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

/* A sink is a chunk with one score, a sum of 1 and no values. */
static void join_sinks(struct sm_attn_scratch *s, const float *sinks, uint32_t n_q, uint32_t dv)
{
    for (uint32_t h = 0; h < n_q; h++) {
        s->cm[h] = sinks[h];
        s->cl[h] = 1;
    }
    memset(s->co, 0, (size_t)n_q * dv * sizeof *s->co);
    join_chunk(s, n_q, dv, false);
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

void sm_attend_item(struct sm_graph *g, unsigned worker, const struct sm_attend *a,
                    const struct sm_kv_cache *kv, const struct sm_attend_split *cut, uint32_t item,
                    uint32_t pos, const float *q, size_t ldq, float *out, size_t ldo)
{
    struct sm_attn_scratch *s = &g->attn_scratch[worker];
    const uint32_t head = item / cut->per_kv, shared = a->n_head / a->n_kv;
    const uint32_t q0 = item % cut->per_kv * cut->n_q; /* among those that share the head */
    const uint32_t n_q = shared - q0 < cut->n_q ? shared - q0 : cut->n_q;
    const uint32_t end = pos + 1; /* one past the last visible position */
    const uint32_t begin = a->window && end > a->window ? end - a->window : 0;
    const uint32_t first_head = head * shared + q0;
    struct sm_attn_chunk c = {
        .q = q + first_head * ldq, .ldq = ldq, .k_stride = kv->k_stride, .v_stride = kv->v_stride,
        .n_q = n_q, .dk = a->dk, .dv = a->dv, .scale = a->scale, .m = s->cm, .l = s->cl,
        .o = s->co, .ldo = a->dv};
    for (uint32_t at = begin & ~255u; at < end; at += 256) {
        c.first = begin > at ? begin - at : 0;
        c.last = end - at < 256 ? end - at : 256;
        if (kv->ring) {
            gather(kv, &c, at, head, s->ring);
        } else {
            c.k = kv->k + at * kv->k_stride + head * kv->k_head_bytes;
            c.v = kv->v + at * kv->v_stride + head * kv->v_head_bytes;
        }
        g->kern->attn_chunk[kv->type](&c);
        join_chunk(s, n_q, a->dv, at == (begin & ~255u));
    }
    if (a->sinks) join_sinks(s, a->sinks + first_head, n_q, a->dv);
    out += first_head * ldo;
    for (uint32_t h = 0; h < n_q; h++)
        for (uint32_t d = 0; d < a->dv; d++)
            out[h * ldo + d] = s->o[(size_t)h * a->dv + d] / s->l[h];
}
