/* SPDX-License-Identifier: MIT */
/* Prefetching: which experts the next layers will ask for, so that their reads start now.
 *
 * Two sources. When layer L has routed one token, 4-bit copies of the routers of layers L+1 … L+a
 * see the same residual under their own norm weight and choose as those layers really choose;
 * before the first layer the token's embedding stands in. What such a copy says too much or too
 * little of an expert on average is taken off its logit. And before the first layer it is looked up
 * which experts this token had in each layer when it was last seen (store/token_memory.h). What is
 * missing is asked for as NEXT. Of several tokens the next layer sees all, so that its first reads
 * are under way while attention is computed. A prediction cannot touch an answer: it only moves
 * reads.
 *
 * It adapts (prefetch_judge.c). The share of missing candidates that were then used is kept
 * (decayed) for every distance, rank and what the token's memory says of them; a candidate is read
 * when that share promises more than a wrong read would cost at the present load of the flash; a
 * distance is looked at when some rank of it is worth it (beyond the next layer only while compute
 * waits for reads for longer than a look takes); and everything stops for a while when predictions
 * cost more time than their reads can have saved.
 */
#ifndef SM_PREFETCH_H
#define SM_PREFETCH_H

#include "graph/moe.h"
#include "store/token_memory.h"

#define SM_PREFETCH_MAX 3u    /* layers looked ahead at most */
#define SM_PREFETCH_AUTO UINT32_MAX
#define SM_PREFETCH_RANKS 32u /* candidates of a prediction at most */
#define SM_PREFETCH_RECALL SM_PREFETCH_MAX /* the guess of a layer that memory made */

/* What memory says of a router's candidate: the token is not known, it did not have this expert
 * when it was last seen, it had it. */
enum { SM_RECALL_UNKNOWN, SM_RECALL_NO, SM_RECALL_YES, SM_RECALL_WORDS };

struct sm_prefetch_layer {
    const struct sm_moe *moe;
    const struct sm_weight *norm; /* [n_embd] ffn norm of that layer */
    const uint8_t *router;    /* x8 Q4_0, NULL: this layer cannot be predicted */
};

/* One standing prediction: what a layer was expected to choose. */
struct sm_prefetch_guess {
    uint32_t n;                          /* candidates, best first; 0: none standing */
    uint32_t row;                        /* of sm_prefetch.worth (routers) */
    uint16_t id[SM_PREFETCH_RANKS];
    uint8_t word[SM_PREFETCH_RANKS];     /* of a router's candidate: SM_RECALL_…; of memory's: */
                                         /* 1: it had it twice */
    bool missing[SM_PREFETCH_RANKS];     /* was neither in the pool nor coming */
    bool refuted[SM_PREFETCH_RANKS];     /* memory's: the layer before did not expect it */
};

struct sm_prefetch_shape { uint32_t n_layers, n_embd, n_expert, n_used, n_vocab; };

struct sm_prefetch {
    uint32_t depth;                      /* 0 … SM_PREFETCH_MAX, or SM_PREFETCH_AUTO */
    uint32_t n_layers, n_embd, n_expert; /* layers with experts; the most experts of any */
    float eps;
    struct sm_prefetch_layer *layer;     /* [n_layers] by pool index */
    struct sm_prefetch_guess *guess;     /* [n_layers][SM_PREFETCH_MAX + 1], distance - 1; recall */
    struct sm_scratch_rows in[SM_PREFETCH_MAX]; /* [1][n_embd] */
    float *logits[SM_PREFETCH_MAX];      /* [pad8(n_expert)] */
    /* [n_layers][SM_PREFETCH_MAX][pad8(n_expert)]: logits of the standing guess, and what the real
     * ones were above them on average; how many were compared */
    float *said, *shift;
    uint32_t *n_compared;                /* [n_layers][SM_PREFETCH_MAX] */
    uint8_t *rows;                       /* 8 rows of a router, while they are copied */
    struct sm_token_memory memory;

    /* Share of missing candidates that were used, of routers by distance - 1, word and rank (the
     * second half of the rows: predictions from the embedding); of memory by layer and whether the
     * token had it twice; of memory's that the layer before did not expect. */
    float worth[2 * SM_PREFETCH_MAX][SM_RECALL_WORDS][SM_PREFETCH_RANKS];
    float (*recall_worth)[2];            /* [n_layers] */
    float refuted_worth[2];
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
    int32_t place;                       /* of the present token in memory, -1: not known */
};

/* Bytes of everything for n_layers layers with at most n_expert experts. */
size_t sm_prefetch_bytes(const struct sm_prefetch_shape *shape);
/* Lay out a in `mem` (zeroed, sm_prefetch_bytes long). */
void sm_prefetch_init(struct sm_prefetch *a, uint32_t depth, const struct sm_prefetch_shape *shape,
                      float eps, void *mem);
/* Layer number `i` (its pool index): copies the router, which must be loaded. */
void sm_prefetch_add(struct sm_prefetch *a, uint32_t i, const struct sm_moe *moe,
                     const struct sm_weight *norm);

/* Layer `pool` has chosen for n_tok tokens, whose residuals are in g->x, and its reads are under
 * way: the next layer's are asked for, in the order in which a wave takes them. Uses g->picked and
 * g->router. */
void sm_prefetch_wave(struct sm_graph *g, uint32_t pool, uint32_t n_tok);

/* The steps of one token, worker 0; g->prefetch may be NULL. Embedded: g->x holds the embedding of
 * g->tokens[0]. Scored: the logits of layer `pool` are in g->router. Routed: it has chosen `ids`
 * from the residual g->x and its reads are under way. */
void sm_prefetch_embedded(struct sm_graph *g);
void sm_prefetch_scored(struct sm_graph *g, uint32_t pool);
void sm_prefetch_routed(struct sm_graph *g, uint32_t pool, const uint16_t *ids, uint32_t k);

#endif
