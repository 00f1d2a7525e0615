/* SPDX-License-Identifier: MIT */
/* The feed-forward part `moe`: a router, routed experts on demand, a shared expert that is always
 * there. route.h chooses, store/pager.h brings the experts. */
#ifndef SM_MOE_H
#define SM_MOE_H

#include "graph/ffn.h"
#include "graph/route.h"

struct sm_moe {
    struct sm_router router;
    const struct sm_weight *router_w;     /* {E, n_expert} */
    const struct sm_weight *router_b;     /* {n_expert} F32 or NULL */
    struct sm_gate form;                  /* of the routed experts */
    uint32_t pool;                        /* of the store */
    uint32_t n_ffn;                       /* width of an expert */
    bool has_shared;
    const struct sm_weight *shared_scale; /* {E} F32: the shared expert times sigmoid of it * x */
    struct sm_ffn shared;
};

/* y [n_tok][E] = routed experts + shared expert, rows sm_pad8(E) apart; docs/arithmetic.md section
 * 6. Worker 0. IO or FORMAT when an expert cannot be read, NOMEM when the system has no memory
 * left. */
SM_NODISCARD smol_status sm_moe_run(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in,
                                    float *y, smol_error *err);

#endif
