/* SPDX-License-Identifier: MIT */
/* lfm2moe: blocks with a short convolution between blocks that attend as qwen3 does; a sigmoid
 * router with a bias on the choice, always renormalised, no shared expert, the first blocks dense.
 * The last norm is called token_embd_norm. */
#include "model/bind.h"

static smol_status read_keys(struct sm_bind *b)
{
    return sm_key_need_u32(b, "shortconv.l_cache", 2, SM_MAX_TAPS, &b->m->hp.conv_taps);
}

/* A block without key/value heads is a convolution. */
static smol_status bind_mixer(struct sm_bind *b, struct sm_layer *l)
{
    const uint32_t E = b->m->hp.n_embd;
    struct sm_shortconv *c = &l->conv;
    uint64_t n_kv = 0;
    char key[128];
    SM_TRY(sm_gguf_u64_at(b->g, sm_key_name(b, "attention.head_count_kv", key), b->layer, 0,
                          b->m->hp.n_head, &n_kv, NULL, b->err));
    if (n_kv) return sm_bind_gqa(b, &b->m->arch->attn, &l->gqa);
    l->mixer = SM_MIXER_SHORTCONV;
    c->n = E;
    c->taps = b->m->hp.conv_taps;
    SM_TRY(sm_bind_matrix(b, "shortconv.in_proj", E, 3 * E, &c->wi));
    SM_TRY(sm_bind_taps(b, "shortconv.conv", c->taps, E, &c->kernel));
    return sm_bind_matrix(b, "shortconv.out_proj", E, E, &c->wo);
}

const struct sm_arch sm_arch_lfm2moe = {
    .name = "lfm2moe",
    .tied_head_allowed = true,
    .moe = true,
    .gating = SM_GATING_SIGMOID,
    .always_norm = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .out_norm = "token_embd_norm",
    .attn = {.q = "attn_q",             /* {E, H D} */
             .k = "attn_k",             /* {E, G D} */
             .v = "attn_v",             /* {E, G D} */
             .o = "attn_output",        /* {H D, E} */
             .q_norm = "attn_q_norm", .k_norm = "attn_k_norm"}, /* {D} */
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",      /* {E, n} F32 */
                .choice_bias = "exp_probs_b",  /* {n} F32 */
                .gate = "ffn_gate_exps",       /* {E, Fe, n} */
                .up = "ffn_up_exps",           /* {E, Fe, n} */
                .down = "ffn_down_exps"},      /* {Fe, E, n} */
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
};
