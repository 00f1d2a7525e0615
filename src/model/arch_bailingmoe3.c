/* SPDX-License-Identifier: MIT */
/* bailingmoe3 (Ling-3.0): delta-rule blocks with a decay per key channel (KDA), and every few
 * blocks one with latent attention (MLA) whose heads are gated; the first blocks are dense, then a
 * sigmoid router with a bias on the choice and groups, one shared expert; one next-token block at
 * the end. */
#include "model/bind.h"

#include <stdio.h>

static smol_status read_keys(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    char key[128];
    double bound = 0;
    bool safe = true, found = false;
    SM_TRY(sm_key_need_u32(b, "kda.head_dim", 8, 1024, &hp->delta.dk));
    SM_TRY(sm_key_need_u32(b, "ssm.conv_kernel", 2, SM_MAX_TAPS, &hp->delta.taps));
    SM_TRY(sm_key_f64(b, "kda.gate_lower_bound", -1e3, 0, &bound));
    SM_TRY(sm_gguf_bool(b->g, sm_key_name(b, "kda.safe_gate", key), &safe, &found, b->err));
    if (!safe || !(bound < 0))
        return SM_FAIL(b->err, UNSUPPORTED,
                       "recurrent blocks without a bounded decay are not supported");
    if (hp->delta.dk % 8)
        return SM_FAIL(b->err, UNSUPPORTED, "recurrent heads of %u channels are not supported",
                       hp->delta.dk);
    hp->delta.dv = hp->delta.dk;
    hp->delta.n_k = hp->delta.n_v = hp->n_head;
    hp->delta.bound = (float)bound;
    return sm_key_mla(b);
}

/* ssm_a {1, H}, positive: exp(A_log). */
static smol_status bind_rates(struct sm_bind *b, uint32_t n, const struct sm_weight **out)
{
    char name[64];
    (void)snprintf(name, sizeof name, "blk.%u.ssm_a", b->layer);
    SM_TRY(sm_bind_named(b, name, 1, n, false, out));
    if ((*out)->type != SM_F32)
        return SM_FAIL_AT(b->err, UNSUPPORTED, (*out)->info->at, "tensor %s must be F32", name);
    return SMOL_OK;
}

static smol_status bind_kda(struct sm_bind *b, struct sm_delta *d)
{
    const struct sm_hparams *hp = &b->m->hp;
    const uint32_t E = hp->n_embd, n = hp->n_head * hp->delta.dk;
    *d = (struct sm_delta){.kda = true, .n_k = hp->delta.n_k, .n_v = hp->delta.n_v,
                           .dk = hp->delta.dk, .dv = hp->delta.dv, .taps = hp->delta.taps,
                           .eps = hp->eps, .bound = hp->delta.bound};
    SM_TRY(sm_bind_matrix(b, "attn_q", E, n, &d->wq));
    SM_TRY(sm_bind_matrix(b, "attn_k", E, n, &d->wk));
    SM_TRY(sm_bind_matrix(b, "attn_v", E, n, &d->wv));
    SM_TRY(sm_bind_taps(b, "ssm_conv1d_q", d->taps, n, &d->conv[0]));
    SM_TRY(sm_bind_taps(b, "ssm_conv1d_k", d->taps, n, &d->conv[1]));
    SM_TRY(sm_bind_taps(b, "ssm_conv1d_v", d->taps, n, &d->conv[2]));
    SM_TRY(sm_bind_matrix(b, "ssm_g_a", E, n, &d->wz));
    SM_TRY(sm_bind_matrix(b, "ssm_f_a", E, n, &d->wdecay));
    SM_TRY(sm_bind_matrix(b, "ssm_beta", E, hp->n_head, &d->wbeta));
    SM_TRY(sm_bind_vector(b, "ssm_dt", "bias", n, false, &d->dt));
    SM_TRY(bind_rates(b, hp->n_head, &d->a));
    SM_TRY(sm_bind_vector(b, "ssm_norm", "weight", d->dv, false, &d->norm));
    return sm_bind_matrix(b, "attn_output", n, E, &d->wo);
}

/* A block whose entry in head_count_kv is 0 is recurrent; next-token blocks attend. */
static smol_status bind_mixer(struct sm_bind *b, struct sm_layer *l)
{
    char key[128];
    uint64_t n_kv = 1;
    bool found = false;
    SM_TRY(sm_gguf_u64_at(b->g, sm_key_name(b, "attention.head_count_kv", key), b->layer, 0, 4096,
                          &n_kv, &found, b->err));
    const bool recurrent = n_kv == 0 && b->layer < b->m->hp.n_layer;
    l->mixer = recurrent ? SM_MIXER_DELTA : SM_MIXER_MLA;
    return recurrent ? bind_kda(b, &l->delta) : sm_bind_mla(b, &l->mla);
}

/* Optional limits of the activations, a number or one for each block: of the experts, and of the
 * shared expert and dense blocks. */
static smol_status read_limit(struct sm_bind *b, const char *name, float *out)
{
    char key[128];
    double v = 0;
    bool found = false;
    SM_TRY(sm_gguf_f64_at(b->g, sm_key_name(b, name, key), b->layer, &v, &found, b->err));
    if (!(v >= 0 && v <= 1e30))
        return SM_FAIL(b->err, FORMAT, "key %s is %g, expected 0 or more", key, v);
    *out = v > 1e-6 ? (float)v : 0;
    return SMOL_OK;
}

static smol_status finish_layer(struct sm_bind *b, struct sm_layer *l)
{
    float shared = 0;
    SM_TRY(read_limit(b, "swiglu_clamp_exp", &l->moe.form.limit));
    SM_TRY(read_limit(b, "swiglu_clamp_shexp", &shared));
    l->moe.shared.form.limit = l->dense.form.limit = shared;
    return SMOL_OK;
}

const struct sm_arch sm_arch_bailingmoe3 = {
    .name = "bailingmoe3",
    .rope_adjacent = true,
    .tied_head_allowed = true,
    .moe = true,
    .gating = SM_GATING_SIGMOID,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",          /* {E, n} F32 */
                .choice_bias = "exp_probs_b",      /* {n} F32 */
                .gate = "ffn_gate_exps",           /* {E, Fe, n} */
                .up = "ffn_up_exps",               /* {E, Fe, n} */
                .down = "ffn_down_exps",           /* {Fe, E, n} */
                .shared_gate = "ffn_gate_shexp",   /* {E, Fs} */
                .shared_up = "ffn_up_shexp",       /* {E, Fs} */
                .shared_down = "ffn_down_shexp"},  /* {Fs, E} */
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
    .finish_layer = finish_layer,
};
