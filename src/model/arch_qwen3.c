/* SPDX-License-Identifier: MIT */
/* qwen3 and qwen3moe: llama with an RMS norm on every query and key head before the rotation, half
 * pairing, a head width of its own (H D need not be E); the MoE form has a softmax router over all
 * experts, always renormalised, and no shared expert. */
#include "model/bind.h"

#define QWEN3_ATTENTION                                                                            \
    {                                                                                              \
        .qkv = "attn_qkv", .q = "attn_q", .k = "attn_k", .v = "attn_v", .o = "attn_output",        \
        .q_norm = "attn_q_norm", .k_norm = "attn_k_norm" /* {D} */                                 \
    }

const struct sm_arch sm_arch_qwen3 = {
    .name = "qwen3",
    .tied_head_allowed = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = QWEN3_ATTENTION,
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
};

const struct sm_arch sm_arch_qwen3moe = {
    .name = "qwen3moe",
    .tied_head_allowed = true,
    .moe = true,
    .gating = SM_GATING_SOFTMAX,
    .always_norm = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = QWEN3_ATTENTION,
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",       /* {E, n} F32 */
                .gate = "ffn_gate_exps",        /* {E, Fe, n} */
                .up = "ffn_up_exps",            /* {E, Fe, n} */
                .down = "ffn_down_exps",        /* {Fe, E, n} */
                .gate_up = "ffn_gate_up_exps"}, /* {E, 2 Fe, n} */
};
