/* SPDX-License-Identifier: MIT */
/* Prefetching: which experts the next layers will ask for, so that their reads start now.
 *
 * When layer L has routed one token, 4-bit copies of the routers of layers L+1 … L+a see the same
 * residual under their own norm weight and choose as those layers really choose; before the first
 * layer the token's embedding stands in. What is missing is asked for as NEXT. Of several tokens
 * the next layer sees all, so that its first reads are under way while attention is computed. A
 * prediction cannot touch an answer: it only moves reads.
 *
 * It adapts. For every distance and rank the share of missing candidates that were then used is
 * kept (decayed); a candidate is read when that share promises more than a wrong read would cost at
 * the present load of the flash; a distance is looked at when some rank of it is worth it (beyond
 * the next layer only while compute waits for reads for longer than a look takes); and everything
 * stops for a while when predictions cost more time than their reads can have saved.
 */
#ifndef SM_PREFETCH_H
#define SM_PREFETCH_H

#include "graph/moe.h"

#define SM_PREFETCH_MAX 3u    /* layers looked ahead at most */
#define SM_PREFETCH_AUTO UINT32_MAX
#define SM_PREFETCH_RANKS 32u /* candidates of a prediction at most */

struct sm_prefetch_layer {
    const struct sm_moe *moe;
    const struct sm_weight *norm; /* [n_embd] ffn norm of that layer */
    const uint8_t *router;    /* x8 Q4_0, NULL: this layer cannot be predicted */
};

/* One standing prediction: what a layer was expected to choose, from some layers before. */
struct sm_prefetch_guess {
    uint32_t n;                          /* candidates, best first; 0: none standing */
    uint32_t row;                        /* of sm_prefetch.worth */
    uint16_t id[SM_PREFETCH_RANKS];
    bool missing[SM_PREFETCH_RANKS];        /* was neither in the pool nor coming */
};

struct sm_prefetch {
    uint32_t depth;                      /* 0 … SM_PREFETCH_MAX, or SM_PREFETCH_AUTO */
    uint32_t n_layers, n_embd, n_expert; /* layers with experts; the most experts of any */
    float eps;
    struct sm_prefetch_layer *layer;        /* [n_layers] by pool index */
    struct sm_prefetch_guess *guess;        /* [n_layers][SM_PREFETCH_MAX], distance - 1 */
    struct sm_scratch_rows in[SM_PREFETCH_MAX]; /* [1][n_embd] */
    float *logits[SM_PREFETCH_MAX];         /* [pad8(n_expert)] */
    uint8_t *rows;                       /* 8 rows of a router, while they are copied */

    /* Share of missing candidates that were used, by distance - 1 and rank; the second half of the
     * rows: predictions from the embedding. */
    float worth[2 * SM_PREFETCH_MAX][SM_PREFETCH_RANKS];
    uint64_t n_tokens, off_until, off_tokens;  /* off_tokens: length of the next pause */
    uint64_t ns_spent;                   /* on predictions since the last judgement */
    struct { uint64_t ns, busy_ns, used, wasted; } from; /* counters then; ns 0: none */
    /* counters at the last look at the flash; ns 0: none */
    struct { uint64_t ns, busy_ns, wait_ns, token; } then;
    uint64_t ns_looks, n_looks;          /* since then: predictions of one layer each */
    /* decayed shares of the time: flash was read, compute waited for it, looking one distance */
    float busy, waits, look;
    bool wide;                           /* reads of a wave took all readers but one */
    bool far_pays;                       /* looking beyond the next layer may be worth its time */
};

/* Bytes of everything for n_layers layers with at most n_expert experts. */
size_t sm_prefetch_bytes(uint32_t n_layers, uint32_t n_embd, uint32_t n_expert);
/* Lay out a in `mem` (zeroed, sm_prefetch_bytes long). */
void sm_prefetch_init(struct sm_prefetch *a, uint32_t depth, uint32_t n_layers, uint32_t n_embd,
                      uint32_t n_expert, float eps, void *mem);
/* Layer number `i` (its pool index): copies the router, which must be loaded. */
void sm_prefetch_add(struct sm_prefetch *a, uint32_t i, const struct sm_moe *moe,
                     const struct sm_weight *norm);

/* Layer `pool` has chosen for n_tok tokens, whose residuals are in g->x, and its reads are under
 * way: the next layer's are asked for, in the order in which a wave takes them. Uses g->picked and
 * g->router. */
void sm_prefetch_wave(struct sm_graph *g, uint32_t pool, uint32_t n_tok);

/* The steps of one token, worker 0; g->prefetch may be NULL. Embedded: g->x holds the embedding.
 * Routed: layer `pool` has chosen `ids` from the residual g->x and its reads are under way. */
void sm_prefetch_embedded(struct sm_graph *g);
void sm_prefetch_routed(struct sm_graph *g, uint32_t pool, const uint16_t *ids, uint32_t k);

#endif
