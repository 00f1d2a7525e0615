/* SPDX-License-Identifier: MIT */
/* qwen35 and qwen35moe (Qwen3.5): gated DeltaNet blocks, and every few blocks one with full
 * attention whose output has a sigmoid gate of its own; dense, or a softmax router over all
 * experts, renormalised, with a shared expert that is scaled by a sigmoid. One next-token block at
 * the end. */
#include "model/bind.h"

#include <stdio.h>

static smol_status read_keys(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    uint32_t inner = 0;
    hp->attn_interval = 4;
    SM_TRY(sm_key_u32(b, "full_attention_interval", 1, 1024, &hp->attn_interval));
    SM_TRY(sm_key_need_u32(b, "ssm.conv_kernel", 2, SM_MAX_TAPS, &hp->delta.taps));
    SM_TRY(sm_key_need_u32(b, "ssm.state_size", 8, 1024, &hp->delta.dk));
    SM_TRY(sm_key_need_u32(b, "ssm.group_count", 1, 1024, &hp->delta.n_k));
    SM_TRY(sm_key_need_u32(b, "ssm.time_step_rank", 1, 1024, &hp->delta.n_v));
    SM_TRY(sm_key_need_u32(b, "ssm.inner_size", 8, 1u << 20, &inner));
    if (inner % hp->delta.n_v || hp->delta.n_v % hp->delta.n_k)
        return SM_FAIL(b->err, FORMAT,
                       "%u recurrent channels cannot be cut into %u heads over %u keys", inner,
                       hp->delta.n_v, hp->delta.n_k);
    hp->delta.dv = inner / hp->delta.n_v;
    if (hp->delta.dk % 8 || hp->delta.dv % 8 || hp->delta.dv > 1024)
        return SM_FAIL(b->err, UNSUPPORTED, "recurrent heads of %u x %u are not supported",
                       hp->delta.dk, hp->delta.dv);
    return SMOL_OK;
}

static smol_status bind_delta(struct sm_bind *b, struct sm_delta *d)
{
    const struct sm_hparams *hp = &b->m->hp;
    const uint32_t E = hp->n_embd;
    *d = (struct sm_delta){.n_k = hp->delta.n_k, .n_v = hp->delta.n_v, .dk = hp->delta.dk,
                           .dv = hp->delta.dv, .taps = hp->delta.taps, .eps = hp->eps};
    const uint32_t inner = d->n_v * d->dv, channels = 2 * d->n_k * d->dk + inner;
    SM_TRY(sm_bind_matrix(b, "attn_qkv", E, channels, &d->wqkv));
    SM_TRY(sm_bind_matrix(b, "attn_gate", E, inner, &d->wz));
    SM_TRY(sm_bind_taps(b, "ssm_conv1d", d->taps, channels, &d->conv[0]));
    SM_TRY(sm_bind_matrix(b, "ssm_alpha", E, d->n_v, &d->wdecay));
    SM_TRY(sm_bind_matrix(b, "ssm_beta", E, d->n_v, &d->wbeta));
    SM_TRY(sm_bind_vector(b, "ssm_dt", "bias", d->n_v, false, &d->dt));
    SM_TRY(sm_bind_vector(b, "ssm_a", NULL, d->n_v, false, &d->a)); /* negative: -exp(A_log) */
    SM_TRY(sm_bind_vector(b, "ssm_norm", "weight", d->dv, false, &d->norm));
    return sm_bind_matrix(b, "ssm_out", inner, E, &d->wo);
}

/* Every attn_interval-th block attends; an array of flags wins over that. Next-token blocks
 * attend. */
static smol_status is_recurrent(struct sm_bind *b, bool *out)
{
    const struct sm_hparams *hp = &b->m->hp;
    char key[128];
    uint64_t flag = 0;
    bool found = false;
    *out = b->layer < hp->n_layer && (b->layer + 1) % hp->attn_interval != 0;
    SM_TRY(sm_gguf_u64_at(b->g, sm_key_name(b, "attention.recurrent_layers", key), b->layer, 0, 1,
                          &flag, &found, b->err));
    if (found) *out = flag != 0;
    return SMOL_OK;
}

static smol_status bind_mixer(struct sm_bind *b, struct sm_layer *l)
{
    bool recurrent = false;
    SM_TRY(is_recurrent(b, &recurrent));
    l->mixer = recurrent ? SM_MIXER_DELTA : SM_MIXER_GQA;
    if (recurrent) return bind_delta(b, &l->delta);
    return sm_bind_gqa(b, &b->m->arch->attn, &l->gqa);
}

#define QWEN35_ATTENTION                                                                           \
    {                                                                                              \
        .q = "attn_q", /* {E, 2 H D}: per head D query, then D gate channels */                    \
        .k = "attn_k", .v = "attn_v", .o = "attn_output", .gated = true,                           \
        .q_norm = "attn_q_norm", .k_norm = "attn_k_norm" /* {D} */                                 \
    }

const struct sm_arch sm_arch_qwen35 = {
    .name = "qwen35",
    .tied_head_allowed = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "post_attention_norm",
    .attn = QWEN35_ATTENTION,
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
};

const struct sm_arch sm_arch_qwen35moe = {
    .name = "qwen35moe",
    .tied_head_allowed = true,
    .moe = true,
    .gating = SM_GATING_SOFTMAX,
    .always_norm = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "post_attention_norm",
    .attn = QWEN35_ATTENTION,
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",              /* {E, n} F32 */
                .gate = "ffn_gate_exps",               /* {E, Fe, n} */
                .up = "ffn_up_exps",                   /* {E, Fe, n} */
                .down = "ffn_down_exps",               /* {Fe, E, n} */
                .gate_up = "ffn_gate_up_exps",         /* {E, 2 Fe, n} */
                .shared_gate = "ffn_gate_shexp",       /* {E, Fs} */
                .shared_up = "ffn_up_shexp",           /* {E, Fs} */
                .shared_down = "ffn_down_shexp",       /* {Fs, E} */
                .shared_scale = "ffn_gate_inp_shexp"}, /* {E} */
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
};
