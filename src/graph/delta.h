/* SPDX-License-Identifier: MIT */
/* The recurrent mixers `gated-delta` (Qwen3.5) and `kda` (Ling-3.0): a delta rule behind a short
 * causal convolution. docs/arithmetic.md section 5. Only the step form exists: a tile of 32 value
 * rows of one head passes all tokens of a batch while its state stays in cache.
 *
 * A batch that may have to be taken back is run with `hold`: the state is only read, the inputs of
 * its tokens are kept, and sm_delta_keep lets the first of them pass for good. The state itself is
 * the checkpoint, so no second copy exists. */
#ifndef SM_DELTA_H
#define SM_DELTA_H

#include "graph/graph.h"

struct sm_delta {
    /* one decay per key channel, three convolutions, sigmoid output gate */
    bool kda;
    uint32_t n_k, n_v;        /* heads; value head h uses key head h mod n_k */
    uint32_t dk, dv;          /* widths of a key and of a value head, multiples of 8 */
    uint32_t taps;            /* of the convolution, 2 .. SM_MAX_TAPS */
    float eps, bound;         /* bound < 0: of the decay (kda) */
    const struct sm_weight *wqkv;       /* {E, 2 n_k dk + n_v dv} or NULL, then: */
    const struct sm_weight *wq, *wk, *wv;
    /* F32 [channels][taps] of q, k, v; conv[1] NULL: [0] has all */
    const struct sm_weight *conv[3];
    const struct sm_weight *wz;         /* {E, n_v dv} output gate */
    const struct sm_weight *wdecay;     /* {E, n_v}; kda {E, n_v dk} */
    const struct sm_weight *wbeta;      /* {E, n_v} */
    const struct sm_weight *dt, *a;     /* F32 {n_v} {n_v}; kda {n_v dk} {n_v} */
    const struct sm_weight *norm;       /* F32 {dv} */
    const struct sm_weight *wo;         /* {n_v dv, E} */
};

/* What such a layer remembers; the memory belongs to the session. */
struct sm_recur {
    float *conv; /* [taps - 1][channels] inputs of the convolution, oldest first */
    float *s;    /* [n_v][tiles][dk][SM_DELTA_ROWS] */
    size_t conv_floats, s_floats;
    float *held; /* [cap_held][floats of a token] inputs of the tokens of a held batch */
    uint32_t cap_held, n_held;
};

/* Floats of a token in g->qkv. */
uint32_t sm_delta_row(const struct sm_delta *d);
/* Take the memory of the state (only counts while a->base is NULL). */
void sm_delta_layout(const struct sm_delta *d, struct sm_arena *a, struct sm_recur *st);
/* Take the memory for batches of up to `cap` held tokens. */
void sm_delta_hold_layout(const struct sm_delta *d, struct sm_arena *a, struct sm_recur *st,
                          uint32_t cap);
/* y = mixer(in) for the next in->n_tok tokens; hold: the state stays (n_tok <= cap_held). */
void sm_delta_run(struct sm_graph *g, const struct sm_delta *d, struct sm_recur *st,
                  struct sm_rows *in, bool hold, float *y);
/* The first n tokens of the held batch pass for good, the others are forgotten. */
void sm_delta_keep(struct sm_graph *g, const struct sm_delta *d, struct sm_recur *st, uint32_t n);

#endif
