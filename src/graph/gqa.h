/* SPDX-License-Identifier: MIT */
/* The mixer `gqa`: causal attention with grouped key/value heads. One description covers llama,
 * qwen3 and bailingmoe2; what a model does not have stays NULL or zero. */
#ifndef SM_GQA_H
#define SM_GQA_H

#include "graph/attend.h"
#include "graph/rope.h"

struct sm_gqa {
    uint32_t n_head, n_kv, dk, dv;           /* n_head is a multiple of n_kv */
    const struct sm_weight *wqkv;            /* {E, n_head dk + n_kv (dk + dv)} or NULL, then: */
    /* {E, n_head dk} {E, n_kv dk} {E, n_kv dv}; gated: see below */
    const struct sm_weight *wq, *wk, *wv;
    const struct sm_weight *bq, *bk, *bv, *bo;
    const struct sm_weight *q_norm, *k_norm; /* {dk} per head, before the rotation; or, with */
    bool norm_rows;                          /* norm_rows, {n_head dk} {n_kv dk} over all heads */
    const struct sm_weight *wo;              /* {n_head dv, E} */
    const struct sm_weight *sinks;           /* {n_head} F32 or NULL */
    /* wq yields dk query, then dv gate channels per head */
    bool gated;
    uint32_t window;                         /* positions seen, 0: all */
    float eps;
    const struct sm_rope *rope;
};

/* q, k and v values of a token in g->qkv, each part padded to 8. */
uint32_t sm_gqa_row(const struct sm_gqa *a);
/* y = mixer(in) for in->n_tok tokens at positions pos0 ...; appends their keys and values to `kv`.
 * g->rope_cs holds the rotation of the batch. */
void sm_gqa_run(struct sm_graph *g, const struct sm_gqa *a, struct sm_kv_cache *kv,
                struct sm_rows *in, uint32_t pos0, float *y);

#endif
