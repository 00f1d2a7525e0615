/* SPDX-License-Identifier: MIT */
/* llama: RMS norm, grouped-query attention, SwiGLU. The converter has permuted the rows of q and k
 * so that rotary pairs are neighbours. Llama 3 divides the frequencies by rope_freqs. */
#include "model/bind.h"

const struct sm_arch sm_arch_llama = {
    .name = "llama",
    .rope_adjacent = true,
    .tied_head_allowed = true,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = {.qkv = "attn_qkv",   /* {E, (H + 2G) D} rows q, k, v: also seen */
             .q = "attn_q",       /* {E, H D} */
             .k = "attn_k",       /* {E, G D} */
             .v = "attn_v",       /* {E, G D} */
             .o = "attn_output",  /* {H D, E} */
             .biases = true},
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down", /* {E, F} {E, F} {F, E} */
};
