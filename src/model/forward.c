/* SPDX-License-Identifier: MIT */
/* The forward pass: x = x + mixer(norm(x)); x = x + ffn(norm(x)), layer by layer. */
#include "model/model.h"

#include "base/bits.h"
#include <stdatomic.h>

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
    case SM_MIXER_SHORTCONV: sm_shortconv_run(g, &l->conv, &st->conv, in, pos0, g->y); break;
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

    sm_graph_rms_norm(g, g->norm.x, g->x, l->ffn_norm, n_tok, E, m->hp.eps);
    in = sm_rows_of(&g->norm, n_tok, E);
    if (l->is_moe) SM_TRY(sm_moe_run(g, &l->moe, &in, g->y, err));
    else sm_ffn_run(g, &l->dense, &in, g->y);
    sm_graph_add(g, g->x, g->y, n_tok, E);
    return SMOL_OK;
}

smol_status sm_model_forward(const struct sm_model *m, struct sm_graph *g, struct sm_layer_state *st,
                             const int32_t *tokens, uint32_t n_tok, uint32_t pos0,
                             const volatile bool *cancel, smol_error *err)
{
    g->bad_layer = -1;
    SM_TRY(embed(m, g, tokens, n_tok, err));
    sm_rope_fill(g, &m->rope, g->rope_cs, pos0, n_tok);
    for (uint32_t i = 0; i < m->hp.n_layer; i++) {
        if (cancel && *cancel) return SM_FAIL(err, CANCELLED, "stopped");
        SM_TRY(run_layer(m, g, i, &st[i], n_tok, pos0, err));
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

smol_status sm_model_logits(const struct sm_model *m, struct sm_graph *g, uint32_t first, uint32_t n,
                            smol_error *err)
{
    const uint32_t E = m->hp.n_embd, V = m->hp.n_vocab;
    g->layer = (int)m->hp.n_layer;
    sm_graph_rms_norm(g, g->norm.x, g->x + (size_t)first * sm_pad8(E), m->out_norm, n, E,
                      m->hp.eps);
    struct sm_rows in = sm_rows_of(&g->norm, n, E);
    sm_graph_linear(g, m->head, NULL, &in, g->logits, sm_pad8(V));
    struct finite_job j = {g->logits, sm_pad8(V), V, 0};
    sm_graph_for(g, n, check_row, &j);
    if (g->bad_layer >= 0 || j.bad)
        return SM_FAIL(err, FORMAT, "the output after layer %u gives values that are not finite",
                       m->hp.n_layer - 1);
    return SMOL_OK;
}
