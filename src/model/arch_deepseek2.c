/* SPDX-License-Identifier: MIT */
/* deepseek2 (DeepSeek V2, V3 and their kin): latent attention with the up-projections in one tensor
 * or in two, adjacent pairing, the first blocks dense, shared experts as one wide feed-forward
 * part. With YaRN the gain on cosine and sine is cancelled; the score is scaled instead. */
#include "base/fmath.h"
#include "model/bind.h"

static smol_status read_keys(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    double m = 0; /* 0.1 * mscale_all_dim */
    SM_TRY(sm_key_mla(b));
    if (!hp->rope.yarn) return SMOL_OK;
    SM_TRY(sm_key_f64(b, "rope.scaling.yarn_log_multiplier", 0, 100, &m));
    hp->rope.yarn_no_gain = true;
    const double gain = 1 + m * sm_log(hp->rope.yarn_factor);
    hp->mla.scale = hp->mla.scale * (gain * gain);
    return SMOL_OK;
}

static smol_status bind_mixer(struct sm_bind *b, struct sm_layer *l)
{
    l->mixer = SM_MIXER_MLA;
    return sm_bind_mla(b, &l->mla);
}

const struct sm_arch sm_arch_deepseek2 = {
    .name = "deepseek2",
    .rope_adjacent = true,
    .moe = true,
    .gating = SM_GATING_SOFTMAX,
    .mixer_norm = "attn_norm",
    .ffn_norm = "ffn_norm",
    .ffn_gate = "ffn_gate", .ffn_up = "ffn_up", .ffn_down = "ffn_down",
    .experts = {.router = "ffn_gate_inp",          /* {E, n} F32 */
                .choice_bias = "exp_probs_b",      /* {n} F32 or absent */
                .gate = "ffn_gate_exps",           /* {E, Fe, n} */
                .up = "ffn_up_exps",               /* {E, Fe, n} */
                .down = "ffn_down_exps",           /* {Fe, E, n} */
                .shared_gate = "ffn_gate_shexp",   /* {E, Fs}, Fs = Fe * expert_shared_count */
                .shared_up = "ffn_up_shexp",       /* {E, Fs} */
                .shared_down = "ffn_down_shexp"},  /* {Fs, E} */
    .read_keys = read_keys,
    .bind_mixer = bind_mixer,
};
