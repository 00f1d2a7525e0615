/* SPDX-License-Identifier: MIT */
/* Inside the sampler: its stages, one function each, so that each can be tested alone.
 * Formulas: docs/arithmetic.md section 9. Nothing here allocates. */
#ifndef SM_SAMPLER_STAGE_H
#define SM_SAMPLER_STAGE_H

#include "base/rng.h"
#include "infer/dry_breakers.h"
#include "infer/sampler.h"

/* Candidates in candidate order. */
struct sm_cands {
    struct sm_candidate *v;
    size_t n;
    bool sorted; /* largest logit first, ties to the lower id */
};

/* ---- on all logits, indexed by id ---- */

/* The last tokens, a ring: at(0) is the newest. */
struct sm_history {
    int32_t *id;
    uint32_t capacity, n, next; /* n tokens held, the next goes to id[next] */
};
static inline int32_t sm_history_at(const struct sm_history *h, uint32_t back)
{
    return h->id[(h->next + 2u * h->capacity - 1u - back) % h->capacity];
}
void sm_history_put(struct sm_history *h, int32_t id);

/* A small hash table from token to number, for the tokens of one window; at most `slots` / 2. */
struct sm_token_map {
    int32_t *id, *value;
    uint32_t slots; /* a power of two */
};
/* Smallest fitting number of slots for a window of n tokens. */
uint32_t sm_token_map_slots(uint32_t n);

void sm_stage_penalties(float *logit, const struct sm_history *h, struct sm_token_map *map,
                        uint32_t last, float repeat, float frequency, float presence);

struct sm_dry {
    float multiplier, base;
    uint32_t allowed, last;
    const struct sm_dry_breakers *breakers; /* NULL: none */
    int32_t *run;                           /* scratch: `last` numbers */
};
void sm_stage_dry(float *logit, const struct sm_history *h, struct sm_token_map *map,
                  const struct sm_dry *dry);

/* Logits below max - n sigma become -infinity. */
void sm_stage_top_n_sigma(float *logit, size_t n_vocab, float n_sigma);

/* ---- on candidates ---- */

/* Capacity that sm_stage_top_k needs in c->v for the k largest of n_vocab. */
size_t sm_top_k_capacity(size_t n_vocab, int32_t k);
/* The k largest of logit[n_vocab], sorted; k <= 0 or >= n_vocab: all, in id order. */
void sm_stage_top_k(struct sm_cands *c, const float *logit, size_t n_vocab, int32_t k);
/* p_i = exp(l_i - max) / sum, in candidate order. */
void sm_stage_softmax(struct sm_cands *c);
/* The first k in sorted order; the rest in any order. k is cut to n. */
void sm_cands_sort_first(struct sm_cands *c, size_t k);
void sm_cands_sort(struct sm_cands *c);

void sm_stage_typical(struct sm_cands *c, float p, size_t min_keep);
void sm_stage_top_p(struct sm_cands *c, float p, size_t min_keep);
void sm_stage_min_p(struct sm_cands *c, float p, size_t min_keep);
void sm_stage_xtc(struct sm_cands *c, float probability, float threshold, size_t min_keep,
                  struct sm_rng *rng);
void sm_stage_temp(struct sm_cands *c, float temp);
void sm_stage_temp_dynamic(struct sm_cands *c, float temp, float range, float exponent);

/* Index of a candidate drawn by its probability (softmax first). */
size_t sm_stage_draw(struct sm_cands *c, struct sm_rng *rng);
/* As sm_stage_draw after cutting the candidates; updates mu. */
size_t sm_stage_mirostat1(struct sm_cands *c, struct sm_rng *rng, float *mu, float tau, float eta,
                          int32_t m, uint32_t n_vocab);
size_t sm_stage_mirostat2(struct sm_cands *c, struct sm_rng *rng, float *mu, float tau, float eta);

#endif
