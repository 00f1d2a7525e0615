/* SPDX-License-Identifier: MIT */
/* Rotary position embedding: the frequencies of a model and the cosines and sines of a batch.
 * Formulas: docs/arithmetic.md section 5. */
#ifndef SM_ROPE_H
#define SM_ROPE_H

#include "graph/graph.h"

#define SM_ROPE_MAX_PAIRS 256u

struct sm_rope {
    uint32_t n_rot; /* rotated channels, even */
    bool adjacent;  /* pairs (2j, 2j+1); else (j, j + n_rot/2) */
    double gain;    /* on cosine and sine */
    double freq[SM_ROPE_MAX_PAIRS]; /* radians per position */
};

/* Parameters as they stand in a file. */
struct sm_rope_params {
    uint32_t n_rot;
    bool adjacent;
    double base;
    double linear_factor;  /* positions are divided by it; 1: none */
    bool yarn;
    double yarn_factor, yarn_ctx, yarn_beta_fast, yarn_beta_slow;
    bool yarn_no_gain;     /* the gain on cosine and sine is cancelled */
    const float *factors;  /* n_rot/2 divisors, or NULL */
};

/* Fill `r`; n_rot even and at most 2 * SM_ROPE_MAX_PAIRS (checked where it is read). */
void sm_rope_init(struct sm_rope *r, const struct sm_rope_params *p);
/* cs[t * n_rot ..]: n_rot/2 cosines, then n_rot/2 sines, of positions pos0 + t for t < n_tok. */
void sm_rope_fill(struct sm_graph *g, const struct sm_rope *r, float *cs, uint32_t pos0,
                  uint32_t n_tok);

#endif
