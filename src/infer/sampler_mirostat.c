/* SPDX-License-Identifier: MIT */
/* Mirostat (Basu et al. 2020): cut the candidates so that the observed surprise stays near tau. */
#include "base/fmath.h"
#include "infer/sampler_stage.h"

/* Draw from what is left and move mu towards the wanted surprise. */
static size_t draw_and_learn(struct sm_cands *c, struct sm_rng *rng, float *mu, float tau,
                             float eta)
{
    const size_t i = sm_stage_draw(c, rng);
    const double surprise = -sm_log2((double)c->v[i].p);
    *mu = (float)((double)*mu - (double)eta * (surprise - (double)tau));
    return i;
}

size_t sm_stage_mirostat2(struct sm_cands *c, struct sm_rng *rng, float *mu, float tau, float eta)
{
    sm_stage_softmax(c);
    /* The most surprising tokens go; the others keep their order only after sorting, so those that
     * stay are gathered first and sorted then. */
    size_t n = 0;
    const double clear = 0.99 * sm_pow(2.0, -(double)*mu); /* below it no logarithm is needed */
    sm_cands_sort_first(c, 1);
    for (size_t i = 0; i < c->n; i++) {
        const double p = (double)c->v[i].p;
        if (i == 0 || (p > 0.0 && p >= clear && -sm_log2(p) <= (double)*mu)) c->v[n++] = c->v[i];
    }
    c->n = n;
    sm_cands_sort(c);
    return draw_and_learn(c, rng, mu, tau, eta);
}

size_t sm_stage_mirostat1(struct sm_cands *c, struct sm_rng *rng, float *mu, float tau, float eta,
                          int32_t m, uint32_t n_vocab)
{
    sm_stage_softmax(c);
    sm_cands_sort_first(c, (size_t)m < c->n ? (size_t)m : c->n);
    double tb = 0.0, tt = 0.0;
    for (size_t i = 0; i + 1 < (size_t)m && i + 1 < c->n && c->v[i + 1].p > 0.0f; i++) {
        const double t = sm_log((double)(i + 2) / (double)(i + 1));
        tb += t * sm_log((double)c->v[i].p / (double)c->v[i + 1].p);
        tt += t * t;
    }
    const double s = tt > 0.0 ? tb / tt : 0.0, eps = s - 1.0;
    const double base = eps * sm_pow(2.0, (double)*mu) / (1.0 - sm_pow((double)n_vocab, -eps));
    const double k = sm_pow(base, 1.0 / s);
    size_t n = 1; /* also when k is not a number */
    if (k >= (double)c->n) n = c->n;
    else if (k >= 1.0) n = (size_t)k;
    sm_cands_sort_first(c, n);
    c->n = n;
    c->sorted = true;
    return draw_and_learn(c, rng, mu, tau, eta);
}
