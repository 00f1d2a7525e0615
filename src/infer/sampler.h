/* SPDX-License-Identifier: MIT */
/* From logits to a token: the chain
 *
 *     logit bias -> penalties -> DRY -> top-n-sigma -> top-k -> typical -> top-p -> min-p -> XTC
 *     -> temperature -> draw          (Mirostat: logit bias -> temperature -> Mirostat)
 *
 * with the formulas of docs/arithmetic.md section 9. The same logits, settings, seed and accepted
 * tokens give the same token on every machine. Everything is allocated by sm_sampler_new; nothing
 * after it allocates or fails. A sampler belongs to one thread at a time. */
#ifndef SM_SAMPLER_H
#define SM_SAMPLER_H

#include "base/status.h"
#include <stdbool.h>

#define SM_SEED_RANDOM (-1)

struct sm_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -infinity bans the token */
};

/* Start from sm_sampler_defaults(); the value that switches a stage off is in brackets. */
struct sm_sampler_params {
    int64_t seed;            /* 0 ... 2^32 - 1, or SM_SEED_RANDOM */
    float temp;              /* 0.8; below 1e-6 the best token is taken */
    float temp_range;        /* 0 [0]: dynamic temperature temp +- range by entropy */
    float temp_exponent;     /* 1 */
    int32_t top_k;           /* 40 [0] */
    float top_p;             /* 0.95 [1] */
    float min_p;             /* 0.05 [0] */
    float typical;           /* 1 [1] */
    float top_n_sigma;       /* -1 [<= 0] */
    float xtc_probability;   /* 0 [0] */
    float xtc_threshold;     /* 0.1 [> 0.5] */
    uint32_t min_keep;       /* 0: candidates that top-p, min-p, typical and XTC leave at least */
    /* 64 [0]: window of the penalties in tokens; -1, at most: the context */
    int32_t repeat_last;
    float repeat_penalty;    /* 1 [1] */
    float frequency_penalty; /* 0 [0] */
    float presence_penalty;  /* 0 [0] */
    float dry_multiplier;    /* 0 [0] */
    float dry_base;          /* 1.75 */
    int32_t dry_allowed;     /* 2: a repeat of this many tokens is not penalised */
    int32_t dry_last;        /* 64 [0]: window of DRY in tokens; -1, at most: the context */
    int32_t mirostat;        /* 0 [0], 1 or 2 */
    float mirostat_tau;      /* 5 bits */
    float mirostat_eta;      /* 0.1 */
    int32_t mirostat_m;      /* 100: tokens that version 1 estimates from */
    bool ignore_eos;         /* false: ban every end token */
    uint32_t n_bias;
    const struct sm_logit_bias *bias; /* copied by sm_sampler_new */
};

void sm_sampler_defaults(struct sm_sampler_params *p);
/* The settings of the public header (NULL: the defaults), without their list of biases. */
struct sm_sampler_params sm_sampler_settings(const smol_sampling *p);
/* Refuses what is out of range with one sentence that names the flag: ARG. Ids of the bias list are
 * checked against n_vocab unless that is 0. */
SM_NODISCARD smol_status sm_sampler_check(const struct sm_sampler_params *p, uint32_t n_vocab,
                                          smol_error *err);

struct sm_dry_breakers; /* dry_breakers.h */

/* What a sampler needs to know of the model and the run. */
struct sm_sampler_model {
    uint32_t n_vocab;
    uint32_t n_ctx;         /* tokens; no window is larger */
    const int32_t *end_ids; /* for ignore_eos; copied */
    uint32_t n_end;
    const struct sm_dry_breakers *breakers; /* NULL: none; borrowed, must outlive the sampler */
    uint32_t entropy;                       /* the seed when the settings say SM_SEED_RANDOM */
};

struct sm_sampler;
/* Checks the settings (ARG), then allocates everything (NOMEM). */
SM_NODISCARD smol_status sm_sampler_new(struct sm_sampler **out, const struct sm_sampler_params *p,
                                        const struct sm_sampler_model *model, smol_error *err);
void sm_sampler_free(struct sm_sampler *s); /* NULL is fine */
/* Bytes that sm_sampler_new holds (or would hold) for these settings. */
size_t sm_sampler_memory_for(const struct sm_sampler_params *p,
                             const struct sm_sampler_model *model);
size_t sm_sampler_memory(const struct sm_sampler *s);
uint32_t sm_sampler_seed(const struct sm_sampler *s); /* in use, so that a run can be repeated */

/* A token became part of the text: prompt tokens too, in order. An id out of range is ignored. */
void sm_sampler_accept(struct sm_sampler *s, int32_t id);

/* Draw from logits[n_vocab] (only read). -1 when a logit is NaN or +infinity, or when no token is
 * allowed: the caller ends the run with an error. Does not accept the token. */
int32_t sm_sampler_sample(struct sm_sampler *s, const float *logits);

/* The candidates of the last draw with their final probabilities, in candidate order. Valid until
 * the next call. `logit` is after all stages, `p` sums to about 1; `work` is scratch. */
struct sm_candidate {
    int32_t id;
    float logit, p, work;
};
const struct sm_candidate *sm_sampler_candidates(const struct sm_sampler *s, size_t *n);

/* The k largest of logits[n_vocab] before any stage, largest first, ties to the lower id, with
 * ln p under the plain softmax (f64). k is cut to SM_TOP_MAX and n_vocab; the number is returned,
 * 0 when a logit is NaN or +infinity. Disturbs nothing but sm_sampler_candidates. */
#define SM_TOP_MAX 64u
struct sm_token_logprob {
    int32_t id;
    float logit;
    double logprob;
};
size_t sm_sampler_top(struct sm_sampler *s, const float *logits, uint32_t k,
                      struct sm_token_logprob *out);

/* Back to the state after sm_sampler_new: seed, empty history. */
void sm_sampler_reset(struct sm_sampler *s);

/* The state (generators, history, Mirostat) as bytes in the caller's buffer of
 * sm_sampler_state_size() bytes. Loading checks everything and leaves the sampler as it was when
 * the bytes do not fit it: FORMAT. The bytes are the same on every machine. */
size_t sm_sampler_state_size(const struct sm_sampler *s);
void sm_sampler_state_save(const struct sm_sampler *s, void *buf);
SM_NODISCARD smol_status sm_sampler_state_load(struct sm_sampler *s, const void *buf, size_t n,
                                               smol_error *err);

#endif
