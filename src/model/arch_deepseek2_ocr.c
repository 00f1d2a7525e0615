/* SPDX-License-Identifier: MIT */
/* deepseek2-ocr (the language model of DeepSeek-OCR): deepseek2 without latent attention, that is
 * plain attention with a key/value head per query head and half pairing, the first blocks dense, a
 * softmax router, shared experts as one wide feed-forward part. */
#include "model/bind.h"

const struct sm_arch sm_arch_deepseek2_ocr = {
    .name = "deepseek2-ocr",
    .moe = true,
    .gating = SM_GATING_SOFTMAX,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .attn = {.q = "attn_q",             /* {E, H D} */
             .k = "attn_k",             /* {E, H D} */
             .v = "attn_v",             /* {E, H D} */
             .o = "attn_output"},       /* {H D, E} */
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",          /* {E, n} F32 */
                .choice_bias = "exp_probs_b",      /* {n} F32 or absent */
                .gate = "ffn_gate_exps",           /* {E, Fe, n} */
                .up = "ffn_up_exps",               /* {E, Fe, n} */
                .down = "ffn_down_exps",           /* {Fe, E, n} */
                .shared_gate = "ffn_gate_shexp",   /* {E, Fs}, Fs = Fe * expert_shared_count */
                .shared_up = "ffn_up_shexp",       /* {E, Fs} */
                .shared_down = "ffn_down_shexp"},  /* {Fs, E} */
};
