/* SPDX-License-Identifier: MIT */
#include "graph/graph.h"

static void acts_layout(struct sm_acts *a, struct sm_arena *arena, uint32_t n_tok, uint32_t n,
                        uint32_t block)
{
    a->block = block;
    a->n_tok = n_tok;
    a->n_cols = n;
    a->q = SM_ARENA_NEW(arena, int8_t, (size_t)n_tok * n);
    a->d = SM_ARENA_NEW(arena, float, (size_t)n_tok * (n / block + 1));
    a->s = SM_ARENA_NEW(arena, int16_t, (size_t)n_tok * (n / 16 + 1));
}

static void rows_layout(struct sm_scratch_rows *r, struct sm_arena *arena, uint32_t n_tok,
                        uint32_t n)
{
    r->x = SM_ARENA_NEW(arena, float, (size_t)n_tok * sm_pad8(n));
    acts_layout(&r->acts[0], arena, n_tok, n, 32);
    acts_layout(&r->acts[1], arena, n_tok, n, 256);
}

static void attn_layout(struct sm_graph *g, struct sm_arena *a, unsigned n_threads)
{
    /* several tokens at once when at most 16 heads share a key (sm_attend_tokens) */
    const uint32_t one = g->dims.max_q_per_kv, dv = g->dims.max_dv;
    const uint32_t few = (one < 16 ? one : 16) * SM_ATTN_TOK, nq = one > few ? one : few;
    for (unsigned i = 0; i < n_threads; i++) {
        struct sm_attn_scratch s;
        s.m = SM_ARENA_NEW(a, float, nq);
        s.l = SM_ARENA_NEW(a, float, nq);
        s.cm = SM_ARENA_NEW(a, float, nq);
        s.cl = SM_ARENA_NEW(a, float, nq);
        s.o = SM_ARENA_NEW(a, float, (size_t)nq * dv);
        s.co = SM_ARENA_NEW(a, float, (size_t)nq * dv);
        /* keys and values of a chunk, in the largest format */
        s.ring = sm_arena_take(a, (size_t)256 * g->dims.max_ring_head * sizeof(float));
        if (a->base) g->attn_scratch[i] = s;
    }
}

static void mla_layout(struct sm_graph *g, struct sm_arena *a)
{
    const struct sm_graph_dims *d = &g->dims;
    if (d->max_lora) rows_layout(&g->lora, a, d->max_tok, d->max_lora);
    rows_layout(&g->mla_in, a, d->n_mla_tok, d->max_mla_in);
    rows_layout(&g->mla_z, a, d->n_mla_tok, d->max_mla_latent);
    g->mla_q = SM_ARENA_NEW(a, float, (size_t)d->n_mla_tok * d->max_mla_q);
}

static void delta_layout(struct sm_graph *g, struct sm_arena *a, unsigned n_threads)
{
    for (unsigned i = 0; i < n_threads; i++) {
        float *tile = SM_ARENA_NEW(a, float, g->dims.max_delta_tile);
        if (a->base) g->delta_scratch[i] = tile;
    }
}

/* What lives from the first projection of a mixer to its last. */
static void mixer_layout(struct sm_graph *g, struct sm_arena *a, unsigned n_threads)
{
    const struct sm_graph_dims *d = &g->dims;
    g->qkv = SM_ARENA_NEW(a, float, ((size_t)d->max_tok + d->n_hist) * d->max_qkv);
    rows_layout(&g->attn, a, d->max_tok, d->max_attn_out);
    attn_layout(g, a, n_threads);
    if (d->n_mla_tok) mla_layout(g, a);
    if (d->max_delta_tile) delta_layout(g, a, n_threads);
}

/* Gate, up and hidden rows: hidden takes the place of gate, and since one matrix reads it, its two
 * quantised forms one place. */
static void gate_layout(struct sm_graph *g, struct sm_arena *a, uint32_t wide)
{
    const uint32_t n = g->dims.max_ffn;
    struct sm_acts *q = g->hidden.acts;
    g->gate = SM_ARENA_NEW(a, float, (size_t)wide * sm_pad8(n));
    g->up = SM_ARENA_NEW(a, float, (size_t)wide * sm_pad8(n));
    g->hidden.x = g->gate;
    acts_layout(&q[0], a, wide, n, 32);
    q[1] = q[0];
    q[1].block = 256;
}

static void expert_layout(struct sm_graph *g, struct sm_arena *a, uint32_t wide)
{
    const struct sm_graph_dims *d = &g->dims;
    const size_t T = d->max_tok;
    g->router = SM_ARENA_NEW(a, float, T * sm_pad8(d->n_expert));
    g->chosen = SM_ARENA_NEW(a, uint16_t, T * d->n_used);
    g->weight = SM_ARENA_NEW(a, float, T * d->n_used);
    g->acc = SM_ARENA_NEW(a, float, T * sm_pad8(d->n_embd));
    g->users = SM_ARENA_NEW(a, uint32_t, T * d->n_used);
    g->users_at = SM_ARENA_NEW(a, uint32_t, d->n_expert + 1);
    g->touched = SM_ARENA_NEW(a, uint16_t, d->n_expert);
    rows_layout(&g->picked, a, d->n_ffn_tok, d->n_embd);
    g->expert_out = SM_ARENA_NEW(a, float, (size_t)wide * sm_pad8(d->n_embd));
}

/* What lives while an ffn is computed. */
static void ffn_layout(struct sm_graph *g, struct sm_arena *a)
{
    const struct sm_graph_dims *d = &g->dims;
    /* decoding computes all chosen experts of a token side by side */
    const uint32_t wide = d->n_used > d->n_ffn_tok ? d->n_used : d->n_ffn_tok;
    gate_layout(g, a, wide);
    if (d->n_expert) expert_layout(g, a, wide);
}

/* A mixer and an ffn never run at once: their scratch shares one place. */
void sm_graph_layout(struct sm_graph *g, struct sm_arena *a, unsigned n_threads)
{
    const struct sm_graph_dims *d = &g->dims;
    const size_t T = d->max_tok;
    g->x = SM_ARENA_NEW(a, float, T * sm_pad8(d->n_embd));
    rows_layout(&g->norm, a, d->max_tok, d->n_embd);
    /* without experts, what writes y has read all of norm before */
    g->y = d->n_expert ? SM_ARENA_NEW(a, float, T * sm_pad8(d->n_embd)) : g->norm.x;
    g->rope_cs = SM_ARENA_NEW(a, float, T * (d->n_rot + 2));
    g->logits = SM_ARENA_NEW(a, float, (size_t)d->n_logit_rows * sm_pad8(d->n_vocab));
    g->attn_scratch = SM_ARENA_NEW(a, struct sm_attn_scratch, n_threads);
    g->delta_scratch = SM_ARENA_NEW(a, float *, n_threads);
    const size_t shared = a->used;
    mixer_layout(g, a, n_threads);
    const size_t mixer_end = a->used;
    a->used = shared;
    ffn_layout(g, a);
    if (a->used < mixer_end) a->used = mixer_end;
}
