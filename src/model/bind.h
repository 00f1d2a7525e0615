/* SPDX-License-Identifier: MIT */
/* Binding of tensors to layers: used by the arch_*.c tables, which name the tensors. */
#ifndef SM_BIND_H
#define SM_BIND_H

#include "model/model.h"

struct sm_bind {
    const struct sm_gguf *g;
    struct sm_store *store;
    struct sm_model *m;
    uint32_t layer; /* tensor names get "blk.<layer>." in front */
    smol_error *err;
};

/* Names without the block prefix and without ".weight"; NULL: this model has no such tensor. */
struct sm_gqa_names {
    const char *qkv;       /* fused q, k, v rows; used instead of the three when it is there */
    const char *q, *k, *v, *o;
    const char *q_norm, *k_norm;
    bool biases;           /* q.bias, k.bias, v.bias, o.bias may exist */
};
struct sm_moe_names {
    const char *router, *choice_bias; /* choice_bias + ".bias" */
    const char *gate, *up, *down;     /* stacked experts */
    const char *gate_up;              /* fused form of the first two */
    const char *shared_gate, *shared_up, *shared_down;
};

struct sm_arch {
    const char *name;          /* general.architecture */
    bool rope_adjacent;        /* pairs (2j, 2j+1) */
    bool tied_head_allowed;    /* output.weight may be missing */
    bool moe;                  /* expert keys are read */
    uint32_t gating;           /* when expert_gating_func is absent */
    bool always_norm;          /* expert weights always normalised */
    const char *mixer_norm, *ffn_norm;
    struct sm_gqa_names attn;
    const char *ffn_gate, *ffn_up, *ffn_down; /* dense layers */
    struct sm_moe_names experts;
};

extern const struct sm_arch sm_arch_llama, sm_arch_qwen3, sm_arch_qwen3moe, sm_arch_bailingmoe2;

/* Declare all weights of a layer as the arch's table says. */
SM_NODISCARD smol_status sm_bind_layer(struct sm_bind *b, uint32_t i, struct sm_layer *l);
/* Embedding, final norm and head. */
SM_NODISCARD smol_status sm_bind_ends(struct sm_bind *b);
/* Read <arch>.* keys into b->m->hp. */
SM_NODISCARD smol_status sm_hparams_read(struct sm_bind *b);

#endif
