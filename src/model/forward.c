/* SPDX-License-Identifier: MIT */
/* The forward pass: x = x + mixer(norm(x)); x = x + ffn(norm(x)), layer by layer. */
#include "graph/prefetch.h"
#include "model/model.h"
#include "store/trace.h"

#include "base/bits.h"
#include <stdatomic.h>
#include <string.h>

static smol_status embed(const struct sm_model *m, struct sm_graph *g, const int32_t *tokens,
                         uint32_t n_tok, smol_error *err)
{
    const uint32_t ld = sm_pad8(m->hp.n_embd);
    for (uint32_t t = 0; t < n_tok; t++)
        SM_TRY(sm_store_row(g->store, m->embd, (uint32_t)tokens[t], g->x + (size_t)t * ld, err));
    return SMOL_OK;
}

static void mix(struct sm_graph *g, const struct sm_layer *l, struct sm_layer_state *st,
                struct sm_rows *in, uint32_t pos0)
{
    switch (l->mixer) {
    case SM_MIXER_GQA: sm_gqa_run(g, &l->gqa, &st->kv, in, pos0, g->y); break;
    case SM_MIXER_MLA: sm_mla_run(g, &l->mla, &st->kv, in, pos0, g->y); break;
    case SM_MIXER_SHORTCONV: sm_shortconv_run(g, &l->conv, &st->conv, in, g->hold, g->y); break;
    case SM_MIXER_DELTA: sm_delta_run(g, &l->delta, &st->recur, in, g->hold, g->y); break;
    }
}

static smol_status run_layer(const struct sm_model *m, struct sm_graph *g, uint32_t i,
                             struct sm_layer_state *st, uint32_t n_tok, uint32_t pos0,
                             smol_error *err)
{
    const struct sm_layer *l = &m->layers[i];
    const uint32_t E = m->hp.n_embd;
    struct sm_rows in;
    g->layer = (int)i;
    sm_graph_rms_norm(g, g->norm.x, g->x, l->mixer_norm, n_tok, E, m->hp.eps);
    in = sm_rows_of(&g->norm, n_tok, E);
    mix(g, l, st, &in, pos0);
    sm_graph_add(g, g->x, g->y, n_tok, E);

    if (l->no_ffn) return SMOL_OK;
    sm_graph_rms_norm(g, g->norm.x, g->x, l->ffn_norm, n_tok, E, m->hp.eps);
    in = sm_rows_of(&g->norm, n_tok, E);
    if (l->is_moe) SM_TRY(sm_moe_run(g, &l->moe, &in, g->y, err));
    else sm_ffn_run(g, &l->dense, &in, g->y);
    sm_graph_add(g, g->x, g->y, n_tok, E);
    return SMOL_OK;
}

smol_status sm_model_forward(const struct sm_model *m, struct sm_graph *g,
                             struct sm_layer_state *st, const int32_t *tokens, uint32_t n_tok,
                             uint32_t pos0, const volatile bool *cancel, smol_error *err)
{
    g->bad_layer = -1;
    g->tokens = tokens;
    SM_TRY(embed(m, g, tokens, n_tok, err));
    for (uint32_t t = 0; g->trace && t < n_tok; t++) sm_trace_token(g->trace, (uint32_t)tokens[t]);
    if (n_tok == 1) sm_prefetch_embedded(g);
    sm_rope_fill(g, &m->rope, g->rope_cs, pos0, n_tok);
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        if (cancel && *cancel) return SM_FAIL(err, CANCELLED, "stopped");
        SM_TRY(sm_store_guard_look(g->store, err));
        SM_TRY(run_layer(m, g, i, &st[i], n_tok, pos0, err));
        SM_TRY(sm_graph_status(g, err));
    }
    if (g->bad_layer >= 0)
        return SM_FAIL(err, FORMAT, "layer %d gives values that are not finite", g->bad_layer);
    return SMOL_OK;
}

struct finite_job { const float *x; uint32_t ld, n; atomic_int bad; };

static void check_row(void *arg, uint32_t t, unsigned worker)
{
    struct finite_job *j = arg;
    const float *x = j->x + (size_t)t * j->ld;
    uint32_t worst[4] = {0}; /* largest exponent and fraction; one chain of maxima would be slow */
    (void)worker;
    for (uint32_t i = 0; i < j->n; i++) {
        const uint32_t bits = sm_bits_of_f32(x[i]) & 0x7fffffffu;
        worst[i % 4] = bits > worst[i % 4] ? bits : worst[i % 4];
    }
    for (unsigned k = 0; k < 4; k++)
        if (worst[k] >= 0x7f800000u) atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
}

/* Logits of the n rows of g->norm into g->logits. */
static smol_status run_head(const struct sm_model *m, struct sm_graph *g,
                            const struct sm_weight *head, uint32_t n, smol_error *err)
{
    const uint32_t V = m->hp.n_vocab;
    struct sm_rows in = sm_rows_of(&g->norm, n, m->hp.n_embd);
    sm_graph_linear(g, head, NULL, &in, g->logits, sm_pad8(V));
    SM_TRY(sm_graph_status(g, err));
    struct finite_job j = {g->logits, sm_pad8(V), V, 0};
    sm_graph_for(g, n, check_row, &j);
    if (g->bad_layer >= 0 || j.bad)
        return SM_FAIL(err, FORMAT, "the output after layer %d gives values that are not finite",
                       g->layer - 1);
    return SMOL_OK;
}

smol_status sm_model_logits(const struct sm_model *m, struct sm_graph *g, uint32_t first,
                            uint32_t n, smol_error *err)
{
    const uint32_t E = m->hp.n_embd;
    g->layer = (int)m->hp.n_layer;
    sm_graph_rms_norm(g, g->norm.x, g->x + (size_t)first * sm_pad8(E), m->out_norm, n, E,
                      m->hp.eps);
    return run_head(m, g, m->head, n, err);
}

void sm_model_keep(const struct sm_model *m, struct sm_graph *g, struct sm_layer_state *st,
                   uint32_t n)
{
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        const struct sm_layer *l = &m->layers[i];
        if (l->mixer == SM_MIXER_DELTA) sm_delta_keep(g, &l->delta, &st[i].recur, n);
        if (l->mixer == SM_MIXER_SHORTCONV) sm_shortconv_keep(&l->conv, &st[i].conv, n);
    }
}

/* ---- the next-token block -------------------------------------------------------------------- */

void sm_model_hidden(const struct sm_model *m, struct sm_graph *g, uint32_t first, uint32_t n,
                     float *out)
{
    const uint32_t E = m->hp.n_embd;
    sm_graph_rms_norm(g, out, g->x + (size_t)first * sm_pad8(E), m->out_norm, n, E, m->hp.eps);
}

struct join_job { const struct sm_model *m; struct sm_graph *g; const float *hidden; };

/* g->attn row t = [norm of the embedding in g->x; norm of the hidden row]. */
static void join_row(void *arg, uint32_t t, unsigned worker)
{
    const struct join_job *j = arg;
    const struct sm_next *x = &j->m->next;
    const uint32_t E = j->m->hp.n_embd;
    const size_t at = (size_t)t * sm_pad8(E);
    float *row = j->g->attn.x + (size_t)t * sm_pad8(2 * E);
    (void)worker;
    j->g->kern->rms_norm(row, j->g->x + at, sm_floats_of(x->token_norm), E, j->m->hp.eps);
    j->g->kern->rms_norm(row + E, j->hidden + at, sm_floats_of(x->row_norm), E, j->m->hp.eps);
}

smol_status sm_model_next(const struct sm_model *m, struct sm_graph *g, struct sm_layer_state *st,
                          const int32_t *tokens, const float *hidden, uint32_t n_tok, uint32_t pos0,
                          float *out, smol_error *err)
{
    const uint32_t E = m->hp.n_embd, ld = sm_pad8(E), i = m->hp.n_layer;
    struct join_job j = {m, g, hidden};
    g->bad_layer = -1;
    for (uint32_t t = 0; t < n_tok; t++)
        SM_TRY(sm_store_row(g->store, m->next.embd, (uint32_t)tokens[t], g->x + (size_t)t * ld,
                            err));
    sm_graph_for(g, n_tok, join_row, &j);
    struct sm_rows in = sm_rows_of(&g->attn, n_tok, 2 * E);
    sm_graph_linear(g, m->next.join, NULL, &in, g->x, ld);
    sm_rope_fill(g, &m->rope, g->rope_cs, pos0, n_tok);
    SM_TRY(run_layer(m, g, i, &st[i], n_tok, pos0, err));
    if (!out) return SMOL_OK;
    g->layer = (int)i + 1;
    sm_graph_rms_norm(g, g->norm.x, g->x + (size_t)(n_tok - 1) * ld, m->next.norm, 1, E, m->hp.eps);
    memcpy(out, g->norm.x, E * sizeof *out);
    return run_head(m, g, m->next.head, 1, err);
}
