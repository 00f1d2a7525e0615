/* SPDX-License-Identifier: MIT */
/* bailingmoe2 (Ling-mini-2.0): grouped-query attention with a norm on every head, then a rotation
 * of half of its channels; the first blocks are dense; then a sigmoid router with a bias on the
 * choice and groups of experts, one shared expert, next-token blocks behind the main stack. */
#include "model/bind.h"

const struct sm_arch sm_arch_bailingmoe2 = {
    .name = "bailingmoe2",
    .moe = true,
    .gating = SM_GATING_SIGMOID,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = {.qkv = "attn_qkv",  /* {E, (H + 2G) D} rows: all q heads, all k heads, all v heads */
             .o = "attn_output", /* {H D, E} */
             .q_norm = "attn_q_norm", .k_norm = "attn_k_norm"}, /* {D} */
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",          /* {E, n} F32 */
                .choice_bias = "exp_probs_b",      /* {n} F32 */
                .gate = "ffn_gate_exps",           /* {E, Fe, n} */
                .up = "ffn_up_exps",               /* {E, Fe, n} */
                .down = "ffn_down_exps",           /* {Fe, E, n} */
                .shared_gate = "ffn_gate_shexp",   /* {E, Fs} */
                .shared_up = "ffn_up_shexp",       /* {E, Fs} */
                .shared_down = "ffn_down_shexp"},  /* {Fs, E} */
};
