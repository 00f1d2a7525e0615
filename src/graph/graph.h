/* SPDX-License-Identifier: MIT */
/* Operations on rows of activations, shared by all architectures. docs/arithmetic.md is the
 * specification of every result. One thread (worker 0) calls everything here; the work inside is
 * split over the thread pool so that each value is computed by one thread from start to end.
 * Nothing here allocates after sm_graph_layout: scratch comes from one arena.
 *
 * Rows of n floats are sm_pad8(n) floats apart everywhere, since x8 products write groups of 8. */
#ifndef SM_GRAPH_H
#define SM_GRAPH_H

#include "base/mem.h"
#include "kern/kern.h"
#include "plat/plat.h"
#include "store/store.h"

static inline uint32_t sm_pad8(uint32_t n) { return (n + 7u) & ~7u; }

/* T row vectors of n floats as the input of matrices. The quantised forms are made when the first
 * matrix asks for them and shared by all. */
struct sm_rows {
    const float *x; /* [n_tok] rows, sm_pad8(n) apart */
    uint32_t n_tok, n;
    struct sm_acts acts[2]; /* blocks of 32, of 256 */
    bool made[2];
};

/* Scratch rows that may be inputs of matrices: floats plus room for both quantised forms. */
struct sm_scratch_rows {
    float *x;
    struct sm_acts acts[2];
};

/* Sizes that fix the scratch memory; maxima over all layers. */
struct sm_graph_dims {
    uint32_t max_tok;      /* rows of a batch */
    uint32_t n_ffn_tok;    /* of these, computed at once by an ffn, dense or of one expert */
    uint32_t n_embd;
    uint32_t max_qkv;      /* q, k and v values of a token, each padded to 8 */
    uint32_t max_attn_out; /* heads * value width */
    uint32_t max_ffn;      /* widest gate of a dense or shared ffn; wider of both for experts */
    uint32_t n_expert, n_used; /* 0 without experts */
    uint32_t n_vocab;
    uint32_t n_rot;        /* rotated channels */
    uint32_t max_q_per_kv, max_dv;
    uint32_t max_ring_head; /* key and value channels of a head of a sliding window */
    uint32_t max_lora;     /* channels between two halves of a query projection */
    uint32_t max_mla_in, max_mla_latent, max_mla_q; /* latent attention, all heads of a token: */
                           /* plain channels, latent rows, latent queries; */
    uint32_t n_mla_tok;    /* tokens at once */
    uint32_t n_logit_rows; /* rows of logits held at once */
    uint32_t n_hist;       /* rows of g->qkv in front of a batch (convolutions) */
    uint32_t max_delta_tile; /* floats of a tile of recurrent state */
};

/* sums of SM_ATTN_TOK tokens and the heads that share a key/value head: all chunks, one chunk */
struct sm_attn_scratch { float *m, *l, *o, *cm, *cl, *co; uint8_t *ring; };

/* Who wants to see what goes into matrices (infer/calibrate.h). Called by worker 0 before the
 * product, for the tokens of a wave in their order. Rows are `ld` floats apart, as wide as the
 * matrix has columns, and not yet quantised. */
struct sm_observer {
    /* Into matrix `mat` of a weight (0, or which of a stack). */
    void (*weight)(struct sm_observer *o, const struct sm_weight *w, uint32_t mat, const float *x,
                   size_t ld, uint32_t n_tok);
    /* Into one expert of a pool; hidden: into its down matrix, else into gate and up. */
    void (*expert)(struct sm_observer *o, uint32_t pool, uint32_t expert, bool hidden,
                   const float *x, size_t ld, uint32_t n_tok);
};

struct sm_prefetch;
struct sm_trace;

struct sm_graph {
    const struct sm_kern *kern;
    struct sm_pool *pool;
    struct sm_store *store;
    struct sm_trace *trace; /* NULL: routing is not recorded (store/trace.h) */
    struct sm_prefetch *prefetch; /* NULL: nothing is read ahead (prefetch.h) */
    struct sm_observer *observer; /* NULL: nobody listens */
    struct sm_graph_dims dims;

    const int32_t *tokens;         /* of the pass that is running (borrowed) */
    float *x;                      /* [max_tok][n_embd] the residual stream */
    struct sm_scratch_rows norm;   /* [max_tok][n_embd] normalised input of mixer or ffn */
    float *y;                      /* [max_tok][n_embd] output of mixer or ffn; norm.x in a model */
                                   /* without experts */
    float *rope_cs;                /* [max_tok][n_rot] cosines then sines of each token */
    float *logits;                 /* [n_logit_rows][n_vocab] */

    /* of a mixer, until it has written y: the memory is that of the ffn's rows below */
    float *qkv;                    /* [n_hist + max_tok][max_qkv] */
    struct sm_scratch_rows attn;   /* [max_tok][max_attn_out] */
    struct sm_attn_scratch *attn_scratch; /* one per worker */
    struct sm_scratch_rows lora;   /* [max_tok][max_lora] */
    struct sm_scratch_rows mla_in, mla_z; /* [n_mla_tok][max_mla_in], [n_mla_tok][max_mla_latent] */
    float *mla_q;                  /* [n_mla_tok][max_mla_q] */
    float **delta_scratch;         /* [n_threads][max_delta_tile] */

    /* of an ffn, until it has written y */
    float *gate, *up;              /* [max(n_ffn_tok, n_used)][max_ffn] */
    struct sm_scratch_rows hidden; /* silu(gate) * up, in the place of gate; both quantised forms */
                                   /* have one place: one matrix reads it */

    /* of an ffn of experts */
    float *router;                 /* [max_tok][n_expert] */
    uint16_t *chosen;              /* [max_tok][n_used] ascending expert index (route.h) */
    float *weight;                 /* [max_tok][n_used] */
    float *acc;                    /* [max_tok][n_embd] */
    uint32_t *users, *users_at;    /* (token, rank) by expert: list, and starts [n_expert + 1] */
    uint16_t *touched;             /* [n_expert] */
    struct sm_scratch_rows picked; /* [n_ffn_tok][n_embd] gathered inputs of one expert's tokens */
    float *expert_out;             /* [max(n_ffn_tok, n_used)][n_embd] */

    bool hold;     /* the batch may be taken back: recurrent states stay as they are */
    int bad_layer; /* first layer whose sum of squares was not finite, -1: none */
    int layer;     /* the layer that is running */
    uint64_t n_dropped; /* choices of experts that a lever left out */
};

/* Lay out the scratch of g->dims in `a` (only counts while a->base is NULL). */
void sm_graph_layout(struct sm_graph *g, struct sm_arena *a, unsigned n_threads);

/* ---- rows and products (linear.c) ------------------------------------------------------------ */

/* The values of an F32 weight; NULL for NULL. */
static inline const float *sm_floats_of(const struct sm_weight *w)
{
    return w ? (const float *)(const void *)w->data : NULL;
}

/* View scratch as the input of matrices: n_tok rows of n floats. */
struct sm_rows sm_rows_of(const struct sm_scratch_rows *s, uint32_t n_tok, uint32_t n);
/* n_tok rows of `rows` from row `first`; forms that were made are shared. */
struct sm_rows sm_rows_part(const struct sm_rows *rows, uint32_t first, uint32_t n_tok);
/* Of `left` tokens, those that an ffn computes at once. */
static inline uint32_t sm_graph_block(const struct sm_graph *g, uint32_t left)
{
    return left < g->dims.n_ffn_tok ? left : g->dims.n_ffn_tok;
}
/* out = rms_norm(x) * w for n_tok rows; remembers a sum of squares that is not finite. */
void sm_graph_rms_norm(struct sm_graph *g, float *out, const float *x, const struct sm_weight *w,
                       uint32_t n_tok, uint32_t n, float eps);
/* x += y over n_tok rows of n floats. */
void sm_graph_add(struct sm_graph *g, float *x, const float *y, uint32_t n_tok, uint32_t n);

/* One product: y[t * ldy + r] = row r of the matrix times input row t. */
struct sm_product {
    float *y;
    size_t ldy;
    uint32_t type;
    bool x8;
    uint32_t n_in, n_out;
    const uint8_t *data;
    const struct sm_acts *acts; /* x8 matrices */
    const float *x;             /* float rows, sm_pad8(n_in) apart */
    uint32_t n_tok;
};
#define SM_MAX_PRODUCTS 64u
/* Run up to SM_MAX_PRODUCTS products, split over the workers together. */
void sm_graph_products(struct sm_graph *g, const struct sm_product *p, unsigned n);
/* The first failure to read weights that products needed since this was last called; what they gave
 * is worth nothing then. Between calls of sm_graph_products. */
SM_NODISCARD smol_status sm_graph_status(struct sm_graph *g, smol_error *err);
/* Describe the product of a matrix at `data` with rows; makes the quantised form if needed. */
struct sm_product sm_graph_product(struct sm_graph *g, uint32_t type, bool x8, uint32_t n_in,
                                   uint32_t n_out, const uint8_t *data, struct sm_rows *in,
                                   float *y, size_t ldy);
/* The same for all of a weight. */
struct sm_product sm_graph_weight(struct sm_graph *g, const struct sm_weight *w, struct sm_rows *in,
                                  float *y, size_t ldy);
/* y = W in (+ bias when not NULL) for a resident weight. */
void sm_graph_linear(struct sm_graph *g, const struct sm_weight *w, const struct sm_weight *bias,
                     struct sm_rows *in, float *y, size_t ldy);
/* Make the quantised form of rows for an activation block of 32 or 256. */
void sm_graph_quantize(struct sm_graph *g, struct sm_rows *rows, unsigned block);
/* Call fn(arg, i, worker) for every i < n, each once, split over the workers. */
typedef void (*sm_item_fn)(void *arg, uint32_t i, unsigned worker);
void sm_graph_for(struct sm_graph *g, uint32_t n, sm_item_fn fn, void *arg);

#endif
