/* SPDX-License-Identifier: MIT */
/* gpt-oss: biases on every projection, a sink per query head, a sliding window on every other block
 * beginning with the first, softmax over the chosen experts alone, experts with biases and a
 * clamped gate, YaRN with its usual gain. The second norm is called post_attention_norm. */
#include "model/bind.h"

static smol_status read_keys(struct sm_bind *b)
{
    return sm_key_need_u32(b, "attention.sliding_window", 1, 1u << 30, &b->m->hp.window);
}

static smol_status bind_mixer(struct sm_bind *b, struct sm_layer *l)
{
    SM_TRY(sm_bind_gqa(b, &b->m->arch->attn, &l->gqa));
    l->gqa.window = b->layer % 2 == 0 ? b->m->hp.window : 0;
    return SMOL_OK;
}

const struct sm_arch sm_arch_gpt_oss = {
    .name = "gpt-oss",
    .moe = true,
    .gating = SM_GATING_SOFTMAX_CHOSEN,
    .mixer_norm = "attn_norm",
    .ffn_norm = "post_attention_norm",
    .attn = {.q = "attn_q",             /* {E, H D} */
             .k = "attn_k",             /* {E, G D} */
             .v = "attn_v",             /* {E, G D} */
             .o = "attn_output",        /* {H D, E} */
             .sinks = "attn_sinks",     /* {H} */
             .biases = true},
    .experts = {.router = "ffn_gate_inp",   /* {E, n} F32, bias {n} */
                .gate = "ffn_gate_exps",    /* {E, Fe, n}, bias {Fe, n} */
                .up = "ffn_up_exps",        /* {E, Fe, n}, bias {Fe, n} */
                .down = "ffn_down_exps",    /* {Fe, E, n}, bias {E, n} */
                .biases = true,
                .form = {SM_GATE_OAI, 7}},
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
};
