/* SPDX-License-Identifier: MIT */
#include "infer/score.h"

#include "base/bits.h"
#include "base/fmath.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define NO_NUMBER (sm_f64_of_bits(0x7ff8000000000000u))

double sm_score_log_sum_exp(const float *logits, size_t n)
{
    size_t best = 0;
    int bad = 0;
    for (size_t i = 0; i < n; i++) {
        bad |= !(logits[i] <= FLT_MAX);
        if (logits[i] > logits[best]) best = i;
    }
    if (bad || n == 0) return NO_NUMBER;
    if (!(logits[best] >= -FLT_MAX)) return -INFINITY;
    const double max = (double)logits[best];
    double sum = 1.0;
    for (size_t i = 0; i < n; i++) {
        const double d = (double)logits[i] - max;
        if (d >= -38.0 && i != best) sum += sm_exp(d);
    }
    return max + sm_log(sum);
}

double sm_score_logprob(const float *logits, size_t n, int32_t id)
{
    const double lse = sm_score_log_sum_exp(logits, n);
    return (double)logits[id] - lse;
}

void sm_score_add(struct sm_score *s, double logprob, bool best, uint64_t n_bytes)
{
    s->nll -= logprob;
    s->nll_squared += logprob * logprob;
    s->n_tok++;
    s->n_bytes += n_bytes;
    s->n_best += best;
}

double sm_score_perplexity(const struct sm_score *s)
{
    return s->n_tok ? sm_exp(s->nll / (double)s->n_tok) : NO_NUMBER;
}

double sm_score_perplexity_error(const struct sm_score *s)
{
    if (s->n_tok < 2) return NO_NUMBER;
    const double n = (double)s->n_tok, mean = s->nll / n;
    const double variance = (s->nll_squared / n - mean * mean) / (n - 1.0);
    return variance > 0.0 ? sm_exp(mean) * sqrt(variance) : 0.0;
}

double sm_score_bits_per_byte(const struct sm_score *s)
{
    return s->n_bytes ? s->nll * 0x1.71547652b82fep0 / (double)s->n_bytes : NO_NUMBER;
}

void sm_loop_init(struct sm_loop *l) { memset(l, 0, sizeof *l); }

uint32_t sm_loop_put(struct sm_loop *l, int32_t id, uint32_t n_times, uint32_t n_tok)
{
    uint32_t period = 0;
    for (uint32_t d = 1; d <= SM_LOOP_PERIOD && d <= l->n; d++) {
        uint32_t *same = &l->same[d - 1];
        const int32_t before = l->last[(l->n - d) % SM_LOOP_PERIOD];
        *same = before == id ? (*same < UINT32_MAX ? *same + 1 : *same) : 0;
        /* `same` tokens equal those d before: the run covers same + d tokens */
        const uint64_t covered = (uint64_t)*same + d;
        if (!period && covered >= (uint64_t)d * n_times && covered >= n_tok) period = d;
    }
    l->last[l->n++ % SM_LOOP_PERIOD] = id;
    return period;
}
