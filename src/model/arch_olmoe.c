/* SPDX-License-Identifier: MIT */
/* olmoe: one key/value head per query head; queries and keys are normalised over the whole row
 * before it is cut into heads; a softmax router whose weights are used as they are, no shared
 * expert. The width of an expert is feed_forward_length. */
#include "model/bind.h"

const struct sm_arch sm_arch_olmoe = {
    .name = "olmoe",
    .moe = true,
    .gating = SM_GATING_SOFTMAX,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = {.q = "attn_q",             /* {E, H D} */
             .k = "attn_k",             /* {E, G D} */
             .v = "attn_v",             /* {E, G D} */
             .o = "attn_output",        /* {H D, E} */
             .q_norm = "attn_q_norm",   /* {H D} */
             .k_norm = "attn_k_norm",   /* {G D} */
             .norm_rows = true},
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",   /* {E, n} F32 */
                .gate = "ffn_gate_exps",    /* {E, Fe, n} */
                .up = "ffn_up_exps",        /* {E, Fe, n} */
                .down = "ffn_down_exps"},   /* {Fe, E, n} */
};
