/* SPDX-License-Identifier: MIT */
#include "infer/sampler.h"

#include <float.h>

void sm_sampler_defaults(struct sm_sampler_params *p)
{
    *p = (struct sm_sampler_params){
        .seed = SM_SEED_RANDOM,
        .temp = 0.8f,
        .temp_exponent = 1.0f,
        .top_k = 40,
        .top_p = 0.95f,
        .min_p = 0.05f,
        .typical = 1.0f,
        .top_n_sigma = -1.0f,
        .xtc_threshold = 0.1f,
        .repeat_last = 64,
        .repeat_penalty = 1.0f,
        .dry_base = 1.75f,
        .dry_allowed = 2,
        .dry_last = 64,
        .mirostat_tau = 5.0f,
        .mirostat_eta = 0.1f,
        .mirostat_m = 100,
    };
}

struct sm_sampler_params sm_sampler_settings(const smol_sampling *p)
{
    struct sm_sampler_params d;
    sm_sampler_defaults(&d);
    if (!p) return d;
    d.temp = p->temp;
    d.top_p = p->top_p;
    d.min_p = p->min_p;
    d.typical = p->typical;
    d.temp_range = p->temp_range;
    d.temp_exponent = p->temp_exponent;
    d.top_n_sigma = p->top_n_sigma;
    d.xtc_probability = p->xtc_probability;
    d.xtc_threshold = p->xtc_threshold;
    d.mirostat = p->mirostat;
    d.mirostat_tau = p->mirostat_tau;
    d.mirostat_eta = p->mirostat_eta;
    d.top_k = p->top_k;
    d.seed = p->seed;
    d.repeat_penalty = p->repeat_penalty;
    d.frequency_penalty = p->frequency_penalty;
    d.presence_penalty = p->presence_penalty;
    d.repeat_last = p->repeat_last;
    d.dry_multiplier = p->dry_multiplier;
    d.dry_base = p->dry_base;
    d.dry_allowed = p->dry_allowed;
    d.dry_last = p->dry_last;
    return d;
}

static smol_status check_reals(const struct sm_sampler_params *p, smol_error *err)
{
    const struct {
        const char *flag, *what;
        float value, lo, hi;
    } t[] = {
        {"--temp", "the temperature", p->temp, 0.0f, 1000.0f},
        {"--temp-range", "the range of the temperature", p->temp_range, 0.0f, 1000.0f},
        {"--temp-exponent", "the exponent of the temperature", p->temp_exponent, 0.0f, 100.0f},
        {"--top-p", "the probability to keep", p->top_p, 0.0f, 1.0f},
        {"--min-p", "the smallest share of the best probability", p->min_p, 0.0f, 1.0f},
        {"--typical", "the typical probability to keep", p->typical, 0.0f, 1.0f},
        {"--top-n-sigma", "the number of standard deviations", p->top_n_sigma, -1.0f, 1000.0f},
        {"--xtc-probability", "the probability of XTC", p->xtc_probability, 0.0f, 1.0f},
        {"--xtc-threshold", "the threshold of XTC", p->xtc_threshold, 0.0f, 1.0f},
        {"--repeat-penalty", "the repeat penalty", p->repeat_penalty, 0.01f, 100.0f},
        {"--frequency-penalty", "the frequency penalty", p->frequency_penalty, -100.0f, 100.0f},
        {"--presence-penalty", "the presence penalty", p->presence_penalty, -100.0f, 100.0f},
        {"--dry-multiplier", "the DRY multiplier", p->dry_multiplier, 0.0f, 1000.0f},
        {"--dry-base", "the DRY base", p->dry_base, 0.0f, 1000.0f},
        {"--mirostat-tau", "the wanted surprise", p->mirostat_tau, 0.0f, 100.0f},
        {"--mirostat-eta", "the learning rate", p->mirostat_eta, 0.0f, 10.0f},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (!(t[i].value >= t[i].lo && t[i].value <= t[i].hi))
            return SM_FAIL(err, ARG, "%s: %s must be from %g to %g, not %g", t[i].flag, t[i].what,
                           (double)t[i].lo, (double)t[i].hi, (double)t[i].value);
    return SMOL_OK;
}

static smol_status check_integers(const struct sm_sampler_params *p, smol_error *err)
{
    const struct {
        const char *flag, *what;
        int64_t value, lo, hi;
    } t[] = {
        {"--seed", "the seed (-1: random)", p->seed, -1, UINT32_MAX},
        {"--top-k", "the number of tokens to keep (0: all)", p->top_k, -1, INT32_MAX},
        {"--repeat-last", "the window in tokens (-1: the context)", p->repeat_last, -1,
         SMOL_WINDOW_MAX},
        {"--dry-allowed-length", "the length in tokens", p->dry_allowed, 1, 1 << 20},
        {"--dry-penalty-last-n", "the window in tokens (-1: the context)", p->dry_last, -1,
         SMOL_WINDOW_MAX},
        {"--mirostat", "the version (0: off)", p->mirostat, 0, 2},
        {"--mirostat-m", "the number of tokens", p->mirostat_m, 2, 1 << 20},
    };
    for (size_t i = 0; i < sizeof t / sizeof *t; i++)
        if (t[i].value < t[i].lo || t[i].value > t[i].hi)
            return SM_FAIL(err, ARG, "%s: %s must be from %lld to %lld, not %lld", t[i].flag,
                           t[i].what, (long long)t[i].lo, (long long)t[i].hi,
                           (long long)t[i].value);
    return SMOL_OK;
}

smol_status sm_sampler_check(const struct sm_sampler_params *p, uint32_t n_vocab, smol_error *err)
{
    SM_TRY(check_reals(p, err));
    SM_TRY(check_integers(p, err));
    for (uint32_t i = 0; i < p->n_bias; i++) {
        const struct sm_logit_bias *b = &p->bias[i];
        if (b->id < 0 || (n_vocab && (uint32_t)b->id >= n_vocab))
            return SM_FAIL(err, ARG, "logit bias: token %ld is not in the vocabulary of %lu",
                           (long)b->id, (unsigned long)n_vocab);
        if (!(b->bias <= FLT_MAX)) /* -infinity bans a token */
            return SM_FAIL(err, ARG, "logit bias of token %ld is not a number or is +infinity",
                           (long)b->id);
    }
    return SMOL_OK;
}
