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
    bool norm_rows;        /* the norms act on the rows of all heads together */
    bool biases;           /* q.bias, k.bias, v.bias, o.bias may exist */
    const char *sinks;     /* scores without a value, one a query head */
    bool gated;            /* q has a gate behind each query head */
};
struct sm_moe_names {
    const char *router, *choice_bias; /* choice_bias + ".bias" */
    const char *gate, *up, *down;     /* stacked experts */
    const char *gate_up;              /* fused form of the first two */
    const char *shared_gate, *shared_up, *shared_down;
    bool biases;                      /* router.bias, gate.bias, up.bias, down.bias may exist */
    struct sm_gate form;              /* of the routed experts */
    const char *shared_scale;         /* {E}, of the shared expert */
};

struct sm_arch {
    const char *name;          /* general.architecture */
    bool rope_adjacent;        /* pairs (2j, 2j+1) */
    bool tied_head_allowed;    /* output.weight may be missing */
    bool moe;                  /* expert keys are read */
    uint32_t gating;           /* when expert_gating_func is absent */
    bool always_norm;          /* expert weights always normalised */
    const char *mixer_norm, *ffn_norm;
    const char *out_norm;      /* NULL: output_norm */
    struct sm_gqa_names attn;
    const char *ffn_gate, *ffn_up, *ffn_down; /* dense layers */
    struct sm_moe_names experts;
    /* Keys of this architecture alone, read after the common ones; NULL: none. */
    smol_status (*read_keys)(struct sm_bind *b);
    /* Choose the mixer of block b->layer and declare its weights; NULL: sm_bind_gqa with `attn`. */
    smol_status (*bind_mixer)(struct sm_bind *b, struct sm_layer *l);
    /* What a layer has besides, when all else is bound; NULL: nothing. */
    smol_status (*finish_layer)(struct sm_bind *b, struct sm_layer *l);
};

extern const struct sm_arch sm_arch_llama, sm_arch_qwen3, sm_arch_qwen3moe, sm_arch_bailingmoe2,
    sm_arch_olmoe, sm_arch_gpt_oss, sm_arch_deepseek2, sm_arch_lfm2moe, sm_arch_qwen35,
    sm_arch_qwen35moe, sm_arch_bailingmoe3, sm_arch_deepseek2_ocr;

/* ---- pieces for the arch_*.c files ----------------------------------------------------------- */

/* A resident matrix or vector by its full name. n_out 0: any number of rows. */
SM_NODISCARD smol_status sm_bind_named(struct sm_bind *b, const char *name, uint32_t n_in,
                                       uint32_t n_out, bool optional, const struct sm_weight **out);
/* The same, not held in RAM: rows are read when a token needs them. */
SM_NODISCARD smol_status sm_bind_by_row(struct sm_bind *b, const char *name, uint32_t n_in,
                                        uint32_t n_out, const struct sm_weight **out);
/* blk.<layer>.<base>.weight {n_in, n_out}; n_out 0: any number of rows. */
SM_NODISCARD smol_status sm_bind_matrix(struct sm_bind *b, const char *base, uint32_t n_in,
                                        uint32_t n_out, const struct sm_weight **out);
/* A stack of n_mat matrices {n_in, n_out}, held as n_out n_mat rows. */
SM_NODISCARD smol_status sm_bind_stack(struct sm_bind *b, const char *base, uint32_t n_in,
                                       uint32_t n_out, uint32_t n_mat,
                                       const struct sm_weight **out);
/* blk.<layer>.<base>.<suffix> {n}, F32 in every file; base NULL: *out = NULL; suffix NULL: none. */
SM_NODISCARD smol_status sm_bind_vector(struct sm_bind *b, const char *base, const char *suffix,
                                        uint32_t n, bool optional, const struct sm_weight **out);
/* The kernels of a causal convolution, blk.<layer>.<base>.weight {taps, n} or {taps, 1, n}, F32. */
SM_NODISCARD smol_status sm_bind_taps(struct sm_bind *b, const char *base, uint32_t taps,
                                      uint32_t n, const struct sm_weight **out);
/* blk.<layer>.<base>.weight exists. */
bool sm_bind_has(const struct sm_bind *b, const char *base);
SM_NODISCARD smol_status sm_bind_gqa(struct sm_bind *b, const struct sm_gqa_names *n,
                                     struct sm_gqa *a);
/* Latent attention by the names that all files use; hp.mla must be filled. */
SM_NODISCARD smol_status sm_bind_mla(struct sm_bind *b, struct sm_mla *a);
/* Its keys into hp.mla. */
SM_NODISCARD smol_status sm_key_mla(struct sm_bind *b);
SM_NODISCARD smol_status sm_bind_ffn(struct sm_bind *b, const char *gate, const char *up,
                                     const char *down, struct sm_ffn *f);

/* "<arch>.<name>" into buf; returns buf. */
const char *sm_key_name(const struct sm_bind *b, const char *name, char buf[128]);
/* A key of the architecture in lo..hi; absent keeps *out (need: FORMAT). */
SM_NODISCARD smol_status sm_key_u32(struct sm_bind *b, const char *name, uint32_t lo, uint32_t hi,
                                    uint32_t *out);
SM_NODISCARD smol_status sm_key_need_u32(struct sm_bind *b, const char *name, uint32_t lo,
                                         uint32_t hi, uint32_t *out);
SM_NODISCARD smol_status sm_key_f64(struct sm_bind *b, const char *name, double lo, double hi,
                                    double *out);

/* ---- what model.c calls ---------------------------------------------------------------------- */

/* Declare all weights of a layer as the arch's table says. */
SM_NODISCARD smol_status sm_bind_layer(struct sm_bind *b, uint32_t i, struct sm_layer *l);
/* The next-token block behind the main stack; after sm_bind_ends. */
SM_NODISCARD smol_status sm_bind_next(struct sm_bind *b);
/* Embedding, final norm and head. */
SM_NODISCARD smol_status sm_bind_ends(struct sm_bind *b);
/* Read <arch>.* keys into b->m->hp. */
SM_NODISCARD smol_status sm_hparams_read(struct sm_bind *b);

#endif
