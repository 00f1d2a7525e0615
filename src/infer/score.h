/* SPDX-License-Identifier: MIT */
/* Judging text: log-probabilities, perplexity, bits per byte, and a detector of loops.
 * Pure functions and plain structs; a struct belongs to one thread. */
#ifndef SM_SCORE_H
#define SM_SCORE_H

#include "base/status.h"
#include <stdbool.h>

/* ln sum exp(l_i) in f64: max + ln(1 + sum over the others in id order of exp(l_i - max)), where
 * the first largest is the 1 and terms with l_i - max < -38 (below half an ulp of the 1) are left
 * out. NaN when a logit is NaN or +infinity; -infinity when all are. */
double sm_score_log_sum_exp(const float *logits, size_t n);
/* ln of the softmax probability of one token (0 <= id < n). */
double sm_score_logprob(const float *logits, size_t n, int32_t id);

/* Running sums of an evaluation. */
struct sm_score {
    double nll, nll_squared; /* sums of -ln p and of its square */
    uint64_t n_tok, n_bytes; /* scored tokens and the bytes of text they stand for */
    uint64_t n_best;         /* tokens that were the most probable one */
};
void sm_score_add(struct sm_score *s, double logprob, bool best, uint64_t n_bytes);
double sm_score_perplexity(const struct sm_score *s);       /* exp(nll / n_tok); NaN for none */
double sm_score_perplexity_error(const struct sm_score *s); /* one standard error; NaN below 2 */
double sm_score_bits_per_byte(const struct sm_score *s);    /* nll / (ln 2 * n_bytes); NaN */

/* ---- loops ---- */

/* Detects that the text has begun to repeat itself: its last n_tok tokens are some run of at most
 * SM_LOOP_PERIOD tokens again and again. */
#define SM_LOOP_PERIOD 64u
struct sm_loop {
    int32_t last[SM_LOOP_PERIOD];  /* ring of the newest tokens */
    uint32_t same[SM_LOOP_PERIOD]; /* [d - 1]: how many newest tokens equal the one d before */
    uint64_t n;
};
void sm_loop_init(struct sm_loop *l);
/* One more token. Returns the period of the loop (1 ... SM_LOOP_PERIOD), the shortest if there are
 * several, or 0: a run of period d counts when it has come at least n_times (>= 2) in full and
 * covers at least n_tok tokens. */
uint32_t sm_loop_put(struct sm_loop *l, int32_t id, uint32_t n_times, uint32_t n_tok);

#endif
