/* SPDX-License-Identifier: MIT */
/* A model is a list of layers, each a mixer and a feed-forward part, between an embedding and a
 * head. An architecture (arch_*.c) is a table that says which tensors these are; it never sees
 * where a weight lives. Source of every shape: docs/models.md and the GGUF keys named beside it. */
#ifndef SM_MODEL_H
#define SM_MODEL_H

#include "graph/ffn.h"
#include "graph/gqa.h"
#include "graph/mla.h"
#include "graph/shortconv.h"

struct sm_mla_params {   /* latent attention */
    uint32_t n_latent;   /* attention.kv_lora_rank R */
    uint32_t n_plain;    /* attention.key_length_mla less the rotated channels */
    uint32_t dv;         /* attention.value_length_mla */
    double scale;        /* of scores */
};

struct sm_hparams {
    uint32_t n_block;      /* block_count, including next-token blocks */
    uint32_t n_layer;      /* blocks of the main stack */
    uint32_t n_embd;       /* embedding_length E */
    uint32_t n_vocab;      /* rows of the embedding */
    uint32_t n_ctx_train;  /* context_length */
    uint32_t n_head;       /* attention.head_count H */
    uint32_t dk, dv;       /* attention.key_length, value_length */
    float eps;             /* attention.layer_norm_rms_epsilon */
    uint32_t n_dense;      /* leading_dense_block_count */
    uint32_t n_expert, n_used, n_group, n_group_used, gating;
    bool expert_norm;      /* expert_weights_norm */
    float expert_scale;    /* expert_weights_scale */
    struct sm_mla_params mla;
    uint32_t conv_taps;    /* shortconv.l_cache */
    uint32_t window;       /* attention.sliding_window, 0: none */
    struct sm_rope_params rope;
};

/* One mixer file in src/graph each. */
enum sm_mixer { SM_MIXER_GQA, SM_MIXER_MLA, SM_MIXER_SHORTCONV };

struct sm_layer {
    const struct sm_weight *mixer_norm, *ffn_norm; /* {E} */
    enum sm_mixer mixer;
    struct sm_gqa gqa; /* SM_MIXER_GQA */
    struct sm_mla mla; /* SM_MIXER_MLA */
    struct sm_shortconv conv; /* SM_MIXER_SHORTCONV */
    bool is_moe;
    struct sm_ffn dense;
    struct sm_moe moe;
    const struct sm_weight *choice_bias; /* {n_expert} of the router, or NULL */
};

/* What the mixer of a layer remembers of the positions behind it; the session owns the memory. */
struct sm_layer_state {
    struct sm_kv_cache kv;          /* mixers that attend */
    struct sm_shortconv_state conv; /* SM_MIXER_SHORTCONV */
};

struct sm_arch;

struct sm_model {
    const struct sm_arch *arch;
    struct sm_hparams hp;
    struct sm_layer *layers; /* [hp.n_layer] */
    const struct sm_weight *embd, *out_norm, *head;
    const struct sm_weight *rope_factors; /* {n_rot / 2} or NULL */
    struct sm_rope rope;
};

/* Read the hyper-parameters and declare every weight in the store. */
SM_NODISCARD smol_status sm_model_new(struct sm_model **out, const struct sm_gguf *g,
                                      struct sm_store *store, smol_error *err);
void sm_model_free(struct sm_model *m); /* NULL is fine */
/* What needs weights in RAM: the rotary frequencies, the router biases. After sm_store_load. */
void sm_model_ready(struct sm_model *m);
/* general.architecture of the model; static. */
const char *sm_model_arch(const struct sm_model *m);
/* Names of all architectures, separated by spaces, into buf. */
void sm_model_arch_names(char *buf, size_t n);

/* Scratch sizes for batches of max_tok tokens and n_logit_rows rows of logits. */
struct sm_graph_dims sm_model_dims(const struct sm_model *m, uint32_t max_tok,
                                   uint32_t n_logit_rows);
/* False when the format cannot hold a head of this model. */
bool sm_model_kv_fits(const struct sm_model *m, enum sm_kv_type type);
/* Key/value bytes of one position in all layers that see the whole context. */
size_t sm_model_kv_bytes(const struct sm_model *m, enum sm_kv_type type);
/* Bytes of the rings of layers with a sliding window, for contexts up to ctx. */
size_t sm_model_window_bytes(const struct sm_model *m, enum sm_kv_type type, uint32_t ctx);
/* Bytes of recurrent state, whatever the context. */
size_t sm_model_recur_bytes(const struct sm_model *m);
/* After n positions: is all still there that position `to` <= n and later ones need? */
bool sm_model_keeps(const struct sm_model *m, uint32_t n, uint32_t to);
/* Lay out the states st[n_layer] for `capacity` positions. */
void sm_model_state_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st,
                           enum sm_kv_type type, uint32_t capacity);

/* Run n_tok tokens (1 .. max_tok, ids below n_vocab) at positions pos0 ... through all layers; the
 * residual rows stay in g->x. CANCELLED between layers when *cancel becomes true. */
SM_NODISCARD smol_status sm_model_forward(const struct sm_model *m, struct sm_graph *g,
                                          struct sm_layer_state *st, const int32_t *tokens,
                                          uint32_t n_tok, uint32_t pos0,
                                          const volatile bool *cancel, smol_error *err);
/* Logits of rows first .. first + n - 1 of the last batch into g->logits, n <= n_logit_rows, rows
 * sm_pad8(n_vocab) apart. Values that are not finite are FORMAT and name the layer. */
SM_NODISCARD smol_status sm_model_logits(const struct sm_model *m, struct sm_graph *g,
                                         uint32_t first, uint32_t n, smol_error *err);

#endif
