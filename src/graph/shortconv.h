/* SPDX-License-Identifier: MIT */
/* The mixer `short-conv` (lfm2moe): a causal convolution of a few taps between two gates. It
 * remembers its last taps - 1 inputs and nothing else. */
#ifndef SM_SHORTCONV_H
#define SM_SHORTCONV_H

#include "graph/graph.h"

struct sm_shortconv {
    /* channels E; taps 2 .. SM_MAX_TAPS, the last meets the present input */
    uint32_t n, taps;
    const struct sm_weight *wi;     /* {E, 3 E}: input gate b, output gate c, values */
    const struct sm_weight *kernel; /* F32 {taps, E} */
    const struct sm_weight *wo;     /* {E, E} */
};

/* The last taps - 1 inputs [taps - 1][n], oldest first; the memory belongs to the session. */
struct sm_shortconv_state {
    float *past;
    float *held; /* [cap_held][n] inputs of a batch that may be taken back */
    uint32_t cap_held, n_held;
};

uint32_t sm_shortconv_row(const struct sm_shortconv *c); /* floats of a token in g->qkv */
/* Take the memory of the state (only counts while a->base is NULL). */
void sm_shortconv_layout(const struct sm_shortconv *c, struct sm_arena *a,
                         struct sm_shortconv_state *st);
/* Take the memory for batches of up to `cap` tokens that may be taken back. */
void sm_shortconv_hold_layout(const struct sm_shortconv *c, struct sm_arena *a,
                              struct sm_shortconv_state *st, uint32_t cap);
/* y = mixer(in) for the next in->n_tok tokens; a text begins with zeros remembered. hold: nothing
 * is remembered until sm_shortconv_keep says how many of the tokens stay. */
void sm_shortconv_run(struct sm_graph *g, const struct sm_shortconv *c,
                      struct sm_shortconv_state *st, struct sm_rows *in, bool hold, float *y);
void sm_shortconv_keep(const struct sm_shortconv *c, struct sm_shortconv_state *st, uint32_t n);

#endif
