/* SPDX-License-Identifier: MIT */
/* The filters and temperatures, and drawing. */
#include "base/fmath.h"
#include "infer/sampler_stage.h"

#include <float.h>
#include <math.h>

/* A division can overflow; a capped logit keeps its place and the softmax stays a number. */
static inline float cap(float x) { return x > FLT_MAX ? FLT_MAX : x; }

static float largest(const struct sm_cands *c)
{
    float m = c->v[0].logit;
    for (size_t i = 1; !c->sorted && i < c->n; i++)
        if (c->v[i].logit > m) m = c->v[i].logit;
    return m;
}

void sm_stage_softmax(struct sm_cands *c)
{
    const float max = largest(c);
    float sum = 0.0f;
    for (size_t i = 0; i < c->n; i++) {
        c->v[i].p = sm_exp_f32(c->v[i].logit - max);
        sum += c->v[i].p;
    }
    for (size_t i = 0; i < c->n; i++) c->v[i].p /= sum;
}

/* -sum p ln p; a probability of 0 adds nothing. */
static double entropy(const struct sm_cands *c)
{
    double h = 0.0;
    for (size_t i = 0; i < c->n; i++) {
        const double p = (double)c->v[i].p;
        if (p > 0.0) h -= p * sm_log(p);
    }
    return h;
}

void sm_stage_top_n_sigma(float *logit, size_t n_vocab, float n_sigma)
{
    if (!(n_sigma > 0.0f)) return;
    double sum = 0.0, squares = 0.0, max = -DBL_MAX;
    size_t n = 0;
    for (size_t i = 0; i < n_vocab; i++) {
        const double l = (double)logit[i];
        if (l < (double)-FLT_MAX) continue;
        sum += l;
        if (l > max) max = l;
        n++;
    }
    if (n == 0) return;
    const double mean = sum / (double)n;
    for (size_t i = 0; i < n_vocab; i++) {
        const double l = (double)logit[i];
        if (l >= (double)-FLT_MAX) squares += (l - mean) * (l - mean);
    }
    const double bar = max - (double)n_sigma * sqrt(squares / (double)n);
    for (size_t i = 0; i < n_vocab; i++)
        if ((double)logit[i] < bar) logit[i] = -INFINITY;
}

void sm_stage_typical(struct sm_cands *c, float p, size_t min_keep)
{
    if (p >= 1.0f || c->n == 0) return;
    sm_stage_softmax(c);
    const double h = entropy(c);
    /* Sorting is by larger logit: the score goes there, negated, and the logit waits in `work`. */
    for (size_t i = 0; i < c->n; i++) {
        struct sm_candidate *t = &c->v[i];
        const double d = t->p > 0.0f ? -sm_log((double)t->p) - h : INFINITY;
        t->work = t->logit;
        t->logit = (float)(d > 0.0 ? -d : d);
    }
    c->sorted = false;
    float sum = 0.0f;
    size_t n = 0;
    for (size_t ready = 0; n < c->n;) {
        if (n == ready) {
            struct sm_cands rest = {.v = c->v + ready, .n = c->n - ready};
            const size_t step = ready ? 3 * ready : 64;
            sm_cands_sort_first(&rest, step);
            ready = step < rest.n ? ready + step : c->n;
        }
        sum += c->v[n++].p;
        if (sum > p && n >= min_keep) break;
    }
    for (size_t i = 0; i < n; i++) c->v[i].logit = c->v[i].work;
    c->n = n;
}

void sm_stage_top_p(struct sm_cands *c, float p, size_t min_keep)
{
    if (p >= 1.0f || c->n == 0) return;
    sm_stage_softmax(c);
    float sum = 0.0f;
    size_t n = 0;
    for (size_t ready = c->sorted ? c->n : 0; n < c->n;) {
        if (n == ready) {
            struct sm_cands rest = {.v = c->v + ready, .n = c->n - ready};
            const size_t step = ready ? 3 * ready : 64;
            sm_cands_sort_first(&rest, step);
            ready = step < rest.n ? ready + step : c->n;
        }
        sum += c->v[n++].p;
        if (sum >= p && n >= min_keep) break;
    }
    c->n = n;
    c->sorted = true;
}

void sm_stage_min_p(struct sm_cands *c, float p, size_t min_keep)
{
    if (p <= 0.0f || c->n == 0) return;
    const float bar = largest(c) + sm_log_f32(p);
    size_t n = 0;
    for (size_t i = 0; i < c->n; i++) n += c->v[i].logit >= bar;
    if (n < min_keep) {
        n = min_keep < c->n ? min_keep : c->n;
        sm_cands_sort_first(c, n);
        c->sorted = true;
        c->n = n;
        return;
    }
    n = 0;
    for (size_t i = 0; i < c->n; i++)
        if (c->v[i].logit >= bar) c->v[n++] = c->v[i];
    c->n = n;
}

void sm_stage_xtc(struct sm_cands *c, float probability, float threshold, size_t min_keep,
                  struct sm_rng *rng)
{
    if (probability <= 0.0f || threshold > 0.5f || c->n < 2) return;
    if (sm_rng_f32(rng) > probability) return;
    sm_stage_softmax(c);
    sm_cands_sort(c);
    size_t k = 0;
    while (k < c->n && c->v[k].p >= threshold) k++;
    if (k < 2 || c->n - (k - 1) < min_keep) return;
    c->v += k - 1;
    c->n -= k - 1;
}

/* All but the largest become -infinity; the first one in candidate order wins a tie. */
static void only_best(struct sm_cands *c)
{
    size_t best = 0;
    for (size_t i = 1; i < c->n; i++)
        if (c->v[i].logit > c->v[best].logit) best = i;
    for (size_t i = 0; i < c->n; i++)
        if (i != best) c->v[i].logit = -INFINITY;
}

void sm_stage_temp(struct sm_cands *c, float temp)
{
    if (temp < 1e-6f) {
        only_best(c);
        return;
    }
    for (size_t i = 0; i < c->n; i++) c->v[i].logit = cap(c->v[i].logit / temp);
}

void sm_stage_temp_dynamic(struct sm_cands *c, float temp, float range, float exponent)
{
    if (range <= 0.0f) {
        sm_stage_temp(c, temp);
        return;
    }
    if (c->n < 2) return;
    const double lo = temp > range ? (double)temp - (double)range : 0.0;
    const double hi = (double)temp + (double)range;
    sm_stage_softmax(c);
    const double share = entropy(c) / sm_log((double)c->n);
    const double none = exponent > 0.0f ? 0.0 : 1.0;
    const double scale = share > 0.0 ? sm_pow(share, (double)exponent) : none;
    sm_stage_temp(c, (float)(lo + (hi - lo) * scale));
}

size_t sm_stage_draw(struct sm_cands *c, struct sm_rng *rng)
{
    sm_stage_softmax(c);
    double sum = 0.0, cumulative = 0.0;
    for (size_t i = 0; i < c->n; i++) sum += (double)c->v[i].p;
    const double u = sm_rng_f64(rng);
    size_t last = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (!(c->v[i].p > 0.0f)) continue;
        last = i; /* rounding may leave the whole sum just below u */
        cumulative += (double)c->v[i].p / sum;
        if (cumulative >= u) break;
    }
    return last;
}
