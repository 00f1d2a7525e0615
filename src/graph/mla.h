/* SPDX-License-Identifier: MIT */
/* The mixer `mla`: latent attention. Keys and values of all heads are made from one latent row of R
 * numbers; the cache holds that row and one rotated part shared by the heads, R + n_rot numbers a
 * position. The key half is taken into the query, so nothing is expanded (docs/arithmetic.md
 * section 5). */
#ifndef SM_MLA_H
#define SM_MLA_H

#include "graph/attend.h"
#include "graph/rope.h"

#define SM_MLA_TOKENS 16u /* tokens of a batch whose queries are expanded at once */

struct sm_mla {
    uint32_t n_head;
    uint32_t n_plain, n_rot;                  /* channels of a query head: plain, then rotated */
    uint32_t n_latent, dv;                    /* R; values of a head. All multiples of 8 */
    const struct sm_weight *wq;               /* {E, n_head (n_plain + n_rot)} or NULL, then: */
    const struct sm_weight *wq_a, *q_norm, *wq_b; /* {E, Rq} {Rq} {Rq, as wq} */
    const struct sm_weight *wkv_a, *kv_norm;  /* {E, R + n_rot} {R} */
    /* {n_plain, n_head R} {R, n_head dv} or NULL, then: */
    const struct sm_weight *wk_b, *wv_b;
    /* {R, n_head (n_plain + dv)}: per head keys, values */
    const struct sm_weight *wkv_b;
    const struct sm_weight *gate;             /* {E, n_head}: heads times sigmoid of it, or NULL */
    const struct sm_weight *wo;               /* {n_head dv, E} */
    float eps, scale;
    const struct sm_rope *rope;
};

/* Floats of a token in g->qkv. */
uint32_t sm_mla_row(const struct sm_mla *a);
/* y = mixer(in) for in->n_tok tokens at positions pos0 ...; appends their latent rows to `kv`, laid
 * out by sm_kv_layout_latent. g->rope_cs holds the rotation of the batch. */
void sm_mla_run(struct sm_graph *g, const struct sm_mla *a, struct sm_kv_cache *kv,
                struct sm_rows *in, uint32_t pos0, float *y);

#endif
