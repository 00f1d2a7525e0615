/* SPDX-License-Identifier: MIT */
/* Feed-forward parts: dense SwiGLU and mixture of experts with optional shared expert. */
#ifndef SM_FFN_H
#define SM_FFN_H

#include "graph/graph.h"
#include "graph/route.h"

/* What a gated feed-forward part makes of its gate g and up u (docs/arithmetic.md section 5). */
enum sm_gate_form {
    SM_GATE_SILU, /* silu(g) u; a limit > 0 clamps silu(g) from above and u on both sides */
    SM_GATE_OAI   /* g sigmoid(1.702 g) (u + 1), g clamped from above and u on both sides to limit */
};
struct sm_gate {
    enum sm_gate_form form;
    float limit;  /* 0: none */
};
/* h[i] of n gates and ups; h may be g. Any thread. */
void sm_gate_apply(const struct sm_kern *k, const struct sm_gate *f, float *h, const float *g,
                   const float *u, size_t n);

struct sm_ffn {
    const struct sm_weight *gate, *up, *down; /* {E, F} {E, F} {F, E} */
    struct sm_gate form;
};

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

/* y = down(silu(gate in) * (up in)). */
void sm_ffn_run(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y);
/* y = routed experts + shared expert. Fails when an expert cannot be read. */
SM_NODISCARD smol_status sm_moe_run(struct sm_graph *g, const struct sm_moe *m, struct sm_rows *in,
                                    float *y, smol_error *err);

#endif
