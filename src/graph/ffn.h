/* SPDX-License-Identifier: MIT */
/* Feed-forward parts: dense SwiGLU and mixture of experts with optional shared expert. */
#ifndef SM_FFN_H
#define SM_FFN_H

#include "graph/graph.h"
#include "graph/route.h"

struct sm_ffn {
    const struct sm_weight *gate, *up, *down; /* {E, F} {E, F} {F, E} */
};

struct sm_moe {
    struct sm_router router;
    const struct sm_weight *router_w;     /* {E, n_expert} */
    uint32_t pool;                        /* of the store */
    uint32_t n_ffn;                       /* width of an expert */
    bool has_shared;
    struct sm_ffn shared;
};

/* y = down(silu(gate in) * (up in)). */
void sm_ffn_run(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y);
/* y = routed experts + shared expert. Fails when an expert cannot be read. */
SM_NODISCARD smol_status sm_moe_run(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in,
                                    float *y, smol_error *err);

#endif
