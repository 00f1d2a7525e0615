/* SPDX-License-Identifier: MIT */
/* A model is a list of layers, each a mixer and a feed-forward part, between an embedding and a
 * head. An architecture (arch_*.c) is a table that says which tensors these are; it never sees
 * where a weight lives. Source of every shape: docs/models.md and the GGUF keys named beside it. */
#ifndef SM_MODEL_H
#define SM_MODEL_H

#include "graph/delta.h"
#include "graph/gqa.h"
#include "graph/mla.h"
#include "graph/moe.h"
#include "graph/shortconv.h"

#define SM_MODEL_MAX_BLOCKS 1024u /* next-token blocks included; also the most expert pools */

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
    uint32_t attn_interval; /* full_attention_interval: every n-th block attends (qwen35) */
    struct {                /* ssm.*: recurrent blocks */
        uint32_t n_k, n_v, dk, dv, taps;
        float bound;        /* kda.gate_lower_bound */
    } delta;
};

/* One mixer file in src/graph each. */
enum sm_mixer { SM_MIXER_GQA, SM_MIXER_MLA, SM_MIXER_SHORTCONV, SM_MIXER_DELTA };

struct sm_layer {
    const struct sm_weight *mixer_norm, *ffn_norm; /* {E} */
    enum sm_mixer mixer;
    struct sm_gqa gqa;        /* SM_MIXER_GQA */
    struct sm_mla mla;        /* SM_MIXER_MLA */
    struct sm_shortconv conv; /* SM_MIXER_SHORTCONV */
    struct sm_delta delta;    /* SM_MIXER_DELTA */
    bool is_moe, no_ffn;      /* no_ffn: said of the next-token blocks of some files */
    struct sm_ffn dense;
    struct sm_moe moe;
    const struct sm_weight *choice_bias; /* {n_expert} of the router, or NULL */
};

/* What the mixer of a layer remembers of the positions behind it; the session owns the memory. */
struct sm_layer_state {
    struct sm_kv_cache kv;          /* mixers that attend */
    struct sm_shortconv_state conv; /* SM_MIXER_SHORTCONV */
    struct sm_recur recur;          /* SM_MIXER_DELTA */
};

/* The model's own draft: a block behind the main stack that sees a token and the hidden row of the
 * position before it. docs/arithmetic.md section 5. */
struct sm_next {
    const struct sm_weight *embd;                 /* by row */
    const struct sm_weight *token_norm, *row_norm; /* {E} */
    const struct sm_weight *join;                 /* {2E, E} */
    const struct sm_weight *norm;                 /* {E} after the block */
    const struct sm_weight *head;                 /* {E, n_vocab} */
};

struct sm_arch;

struct sm_model {
    const struct sm_arch *arch;
    struct sm_hparams hp;
    struct sm_layer *layers; /* [sm_model_n_blocks()] */
    uint32_t ring_slack;     /* rows of rings beyond the window: tokens that may be taken back */
    bool have_next;          /* a next-token block follows the main stack and is loaded */
    struct sm_next next;
    const struct sm_weight *embd, *out_norm, *head;
    const struct sm_weight *rope_factors; /* {n_rot / 2} or NULL */
    struct sm_rope rope;
};

/* Blocks that run: the main stack and the next-token block. */
static inline uint32_t sm_model_n_blocks(const struct sm_model *m)
{
    return m->hp.n_layer + (m->have_next ? 1 : 0);
}

/* Read the hyper-parameters and declare every weight in the store; want_next: also the first
 * next-token block, when the file has one. */
SM_NODISCARD smol_status sm_model_new(struct sm_model **out, const struct sm_gguf *g,
                                      struct sm_store *store, bool want_next, smol_error *err);
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
/* After n positions: is all still there that position `to` <= n and later ones need? */
bool sm_model_keeps(const struct sm_model *m, uint32_t n, uint32_t to);
/* Whether the context can go on without its oldest part (infer/shift.h): UNSUPPORTED says what the
 * model has that cannot be moved. */
SM_NODISCARD smol_status sm_model_can_shift(const struct sm_model *m, enum sm_kv_type type,
                                            smol_error *err);
/* Bytes of the recurrent states, whatever the context; 0: the model has none. */
size_t sm_model_recur_bytes(const struct sm_model *m);
/* Lay out the states st[sm_model_n_blocks()]: the recurrent ones first, in one piece of
 * sm_model_recur_bytes, then the caches for `capacity` positions. */
void sm_model_state_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st,
                           enum sm_kv_type type, uint32_t capacity);

/* Room for taking back batches of up to `cap` tokens (only counts while a->base is NULL). */
void sm_model_hold_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st,
                          uint32_t cap);
/* After sm_model_forward with g->hold: the first n tokens of the batch stay, the others never were.
 * Keys and values need nothing, they are overwritten. */
void sm_model_keep(const struct sm_model *m, struct sm_graph *g, struct sm_layer_state *st,
                   uint32_t n);
/* Memory of prefetching (graph/prefetch.h), and its set-up once the weights are loaded; `mem` is
 * zeroed and outlives `a`. 0 bytes: a model without experts. */
size_t sm_model_prefetch_bytes(const struct sm_model *m);
/* Without prefetching nothing but products reads the routers: they may be streamed. Before
 * loading. */
void sm_model_release_routers(const struct sm_model *m, struct sm_store *s);
void sm_model_prefetch(const struct sm_model *m, struct sm_prefetch *a, uint32_t depth, void *mem);

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
/* Hidden rows first .. first + n - 1 of the last batch, after the last norm, sm_pad8(n_embd)
 * apart. */
void sm_model_hidden(const struct sm_model *m, struct sm_graph *g, uint32_t first, uint32_t n,
                     float *out);
/* Run the next-token block over n_tok tokens at rows pos0 ... of its own cache; hidden row t is the
 * one of the position before token t. With `out` the last row's own hidden row goes there and its
 * logits to row 0 of g->logits. */
SM_NODISCARD smol_status sm_model_next(const struct sm_model *m, struct sm_graph *g,
                                       struct sm_layer_state *st, const int32_t *tokens,
                                       const float *hidden, uint32_t n_tok, uint32_t pos0,
                                       float *out, smol_error *err);

#endif
