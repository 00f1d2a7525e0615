/* SPDX-License-Identifier: MIT */
/* Looking ahead: which experts the next layers will ask for, so that their reads start now.
 *
 * When layer L has routed one token, 8-bit copies of the routers of layers L+1 … L+a see the same
 * residual under their own norm weight and choose as those layers really choose; before the first
 * layer the token's embedding stands in. What is missing is asked for as NEXT. A prediction cannot
 * touch an answer: it only moves reads.
 *
 * It adapts. For every distance and rank the share of missing candidates that were then used is kept
 * (decayed); a candidate is read when that share promises more than a wrong read would cost at the
 * present load of the flash, a distance is looked at when some rank of it is worth it, and everything
 * stops for a while when predictions cost more time than their reads can have saved. */
#ifndef SM_AHEAD_H
#define SM_AHEAD_H

#include "graph/moe.h"

#define SM_AHEAD_MAX 3u       /* layers looked ahead at most */
#define SM_AHEAD_AUTO UINT32_MAX
#define SM_AHEAD_RANKS 32u    /* candidates of a prediction at most */

struct sm_ahead_layer {
    const struct sm_moe *moe;
    const float *norm;        /* [n_embd] ffn norm weight of that layer */
    const uint8_t *router;    /* x8 Q8_0, NULL: this layer cannot be predicted */
};

/* One standing prediction: what a layer was expected to choose, from some layers before. */
struct sm_ahead_guess {
    uint32_t n;                          /* candidates, best first; 0: none standing */
    uint32_t row;                        /* of sm_look.worth */
    uint16_t id[SM_AHEAD_RANKS];
    bool missing[SM_AHEAD_RANKS];        /* was neither in the pool nor coming */
};

struct sm_look {
    uint32_t depth;                      /* 0 … SM_AHEAD_MAX, or SM_AHEAD_AUTO */
    uint32_t n_layers, n_embd, n_expert; /* layers with experts; the most experts of any */
    float eps;
    struct sm_ahead_layer *layer;        /* [n_layers] by pool index */
    struct sm_ahead_guess *guess;        /* [n_layers][SM_AHEAD_MAX], distance - 1 */
    struct sm_scratch_rows in[SM_AHEAD_MAX]; /* [1][n_embd] */
    float *logits[SM_AHEAD_MAX];         /* [pad8(n_expert)] */
    uint8_t *rows;                       /* 8 rows of a router, while they are copied */

    /* Share of missing candidates that were used, by distance - 1 and rank; the second half of the
     * rows: predictions from the embedding. */
    float worth[2 * SM_AHEAD_MAX][SM_AHEAD_RANKS];
    uint64_t n_tokens, off_until, off_tokens;  /* off_tokens: length of the next pause */
    uint64_t ns_spent;                   /* on predictions since the last judgement */
    struct { uint64_t ns, busy_ns, used, wasted; } from; /* counters then; ns 0: none */
    uint64_t busy_at_ns, busy_then_ns;
    float busy;                          /* decayed share of the time in which flash was read */
};

/* Bytes of everything for n_layers layers with at most n_expert experts. */
size_t sm_ahead_bytes(uint32_t n_layers, uint32_t n_embd, uint32_t n_expert);
/* Lay out a in `mem` (zeroed, sm_ahead_bytes long). */
void sm_ahead_init(struct sm_look *a, uint32_t depth, uint32_t n_layers, uint32_t n_embd,
                   uint32_t n_expert, float eps, void *mem);
/* Layer number `i` (its pool index): copies the router, which must be loaded. */
void sm_ahead_add(struct sm_look *a, uint32_t i, const struct sm_moe *moe, const float *norm);

/* The steps of one token, worker 0; g->ahead may be NULL. Embedded: g->x holds the embedding.
 * Routed: layer `pool` has chosen `ids` from the residual g->x and its reads are under way. */
void sm_ahead_embedded(struct sm_graph *g);
void sm_ahead_routed(struct sm_graph *g, uint32_t pool, const uint16_t *ids, uint32_t k);

#endif
