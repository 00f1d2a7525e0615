/* SPDX-License-Identifier: MIT */
/* The dense feed-forward part, and the gate that it shares with experts (moe.h). */
#ifndef SM_FFN_H
#define SM_FFN_H

#include "graph/graph.h"

/* What a gated feed-forward part makes of its gate g and up u (docs/arithmetic.md section 5). */
enum sm_gate_form {
    SM_GATE_SILU, /* silu(g) u; a limit > 0 clamps silu(g) from above and u on both sides */
    /* g sigmoid(1.702 g) (u + 1), g clamped from above and u on both sides to limit */
    SM_GATE_OAI
};
struct sm_gate {
    enum sm_gate_form form;
    float limit;  /* 0: none */
};
/* h[i] of n gates and ups; h may be g. Any thread. */
void sm_gate_apply(const struct sm_kern *k, const struct sm_gate *f, float *h, const float *g,
                   const float *u, size_t n);

/* Tokens of a wave that go through an ffn, dense or of one expert, at once. */
#define SM_FFN_TOKENS 128u

struct sm_ffn {
    const struct sm_weight *gate, *up, *down; /* {E, F} {E, F} {F, E} */
    struct sm_gate form;
};

/* y [n_tok][E] = down(gate of (gate in) and (up in)), rows sm_pad8(E) apart. Worker 0. */
void sm_ffn_run(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y);

#endif
