/* SPDX-License-Identifier: MIT */
#include "infer/draft.h"

#include <string.h>

#define BLEND 0.0625        /* weight of a new observation */
#define WORTH 1.03          /* a draft must promise this much, or auto takes a plain step */
#define FIRST_PLAIN 4u      /* auto begins with this many plain steps, to know what they cost */
#define REMEASURE_FIRST 4u  /* auto takes a plain step after this many passes with drafts, then */
#define REMEASURE 64u       /* after twice as many each time, up to these; the others take one */
#define REMEASURE_STEP 4u   /* for the gain alone: after four times as many each time */
#define COLD_PASSES 2u      /* of a run: no measure of a plain step */
#define GAIN_PLAIN 2u       /* plain steps and passes with drafts, before a gain is told */
#define GAIN_PASSES 4u
#define UNUSUAL 2.0         /* times the median: so much of a time counts */
#define TRIAL_SHARE 0.015   /* of the time: what trials that lose may cost */
#define PAUSE_MIN 16u
#define PAUSE_MAX 256u
#define BLEND_TRIAL 0.5     /* the same for what a trial after a pause shows */
#define MATCH_MAX 16u

void sm_draft_init(struct sm_draft *d, enum sm_draft_mode mode, bool have_next)
{
    static const float first[SM_FROM_COUNT] = {0.6f, 0.3f, 0.5f, 0.8f, 0.7f};
    memset(d, 0, sizeof *d);
    d->mode = mode;
    d->have_next = have_next;
    d->pause = PAUSE_MIN;
    d->remeasure = REMEASURE_FIRST;
    for (int s = 0; s < SM_FROM_COUNT; s++)
        for (uint32_t i = 0; i < SM_DRAFT_MAX; i++) d->right[s][i] = first[s];
}

/* The n-th observation into a running mean; the first ones count alike. */
static double blend(const struct sm_draft *d, double old, double now, uint32_t n)
{
    double weight = d->trial ? BLEND_TRIAL : BLEND;
    if (n && weight < 1.0 / n) weight = 1.0 / n;
    return old > 0 ? old + weight * (now - old) : now;
}

/* Expected time of a pass over n tokens: measured, or a line through what was. Unknown slope: a
 * quarter of a plain step for each further token. */
static double pass_ns(const struct sm_draft *d, uint32_t n)
{
    uint32_t known = 0;
    double slope = d->pass_ns[1] * 0.25;
    if (d->pass_ns[n] > 0) return d->pass_ns[n];
    for (uint32_t i = 2; i <= SM_DRAFT_MAX + 1; i++)
        if (d->pass_ns[i] > 0 && (i < n || !known)) known = i;
    if (!known) return d->pass_ns[1] + (n - 1) * slope;
    slope = d->pass_ns[1] > 0 ? (d->pass_ns[known] - d->pass_ns[1]) / (known - 1) : 0;
    const double ns = d->pass_ns[known] + ((double)n - known) * slope;
    return ns > d->pass_ns[1] ? ns : d->pass_ns[1];
}

/* Tokens per nanosecond of drafting n tokens from a source. */
static double rate(const struct sm_draft *d, enum sm_draft_source s, uint32_t n)
{
    double tokens = 1, all_right = 1;
    for (uint32_t i = 0; i < n; i++) {
        all_right *= (double)d->right[s][i];
        tokens += all_right;
    }
    const double ns = pass_ns(d, n + 1) + (s == SM_FROM_NEXT ? n * d->next_ns : 0);
    return ns > 0 ? tokens / ns : tokens;
}

struct best { struct sm_draft_choice c; double rate; };

static void consider(const struct sm_draft *d, enum sm_draft_source s, uint32_t n_max,
                     struct best *b)
{
    for (uint32_t n = 1; n <= n_max && n <= SM_DRAFT_MAX; n++) {
        const double r = rate(d, s, n);
        if (r > b->rate) *b = (struct best){{n, s}, r};
    }
}

static struct best best_of(const struct sm_draft *d, const struct sm_draft_offer *o)
{
    struct best b = {{0, SM_FROM_NEXT}, 0};
    if (o->n_oracle) {
        consider(d, SM_FROM_ORACLE, o->n_oracle < o->room ? o->n_oracle : o->room, &b);
        return b;
    }
    if (d->mode != SM_DRAFT_MTP && o->matched)
        consider(d, o->matched >= 5 ? SM_FROM_LOOKUP_SURE
                    : o->matched >= 3 ? SM_FROM_LOOKUP_LONG : SM_FROM_LOOKUP,
                 o->room, &b);
    if (d->mode != SM_DRAFT_LOOKUP && d->have_next) consider(d, SM_FROM_NEXT, o->room, &b);
    return b;
}

/* Plain steps after a trial of one draft from a source that is expected to lose: so many that the
 * loss is TRIAL_SHARE of their time. */
static uint32_t pause_for(const struct sm_draft *d, enum sm_draft_source s)
{
    const double tokens = 1 + (double)d->right[s][0];
    const double lost = tokens / rate(d, s, 1) - tokens * d->pass_ns[1];
    const double steps = lost / d->pass_ns[1] / TRIAL_SHARE;
    return steps > PAUSE_MAX ? PAUSE_MAX : steps > d->pause ? (uint32_t)steps : d->pause;
}

struct sm_draft_choice sm_draft_choose(struct sm_draft *d, const struct sm_draft_offer *o)
{
    const struct sm_draft_choice none = {0, SM_FROM_NEXT};
    d->trial = false;
    const bool free_choice = d->mode == SM_DRAFT_AUTO && !o->n_oracle;
    if (d->mode == SM_DRAFT_OFF && !o->n_oracle) return none;
    if (free_choice && d->n_plain < FIRST_PLAIN) return none;
    if (!o->n_oracle && d->since_plain >= d->remeasure) {
        const uint32_t next = d->remeasure * (free_choice ? 2 : REMEASURE_STEP);
        d->remeasure = next < REMEASURE ? next : REMEASURE;
        return none;
    }
    struct best b = best_of(d, o);
    if (!b.c.n || !free_choice) return b.c;
    if (!(d->pass_ns[2] > 0)) b.c.n = 1; /* nothing is known of longer passes: a short one first */
    if (b.rate >= WORTH / d->pass_ns[1]) {
        d->pause = PAUSE_MIN;
        return b.c;
    }
    if (d->rest) {
        d->rest--;
        return none;
    }
    d->trial = true;
    /* a short trial, then a longer pause when it still loses */
    d->rest = pause_for(d, b.c.source);
    d->pause = d->pause * 2 < PAUSE_MAX ? d->pause * 2 : PAUSE_MAX;
    b.c.n = 1;
    return b.c;
}

/* ---- the gain -------------------------------------------------------------------------------- */

static void put(struct sm_draft_times *t, double ns) { t->ns[t->n++ % SM_DRAFT_TIMES] = ns; }

static double median(const struct sm_draft_times *t)
{
    double v[SM_DRAFT_TIMES];
    const uint32_t n = t->n < SM_DRAFT_TIMES ? t->n : SM_DRAFT_TIMES;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = i;
        for (; k && v[k - 1] > t->ns[i]; k--) v[k] = v[k - 1];
        v[k] = t->ns[i];
    }
    return n ? v[(n - 1) / 2] : 0;
}

/* A time beside others of its kind: no more than is usual. */
static double usual(const struct sm_draft_times *t, double ns)
{
    const double most = UNUSUAL * median(t);
    return ns < most ? ns : most;
}

static double mean(const struct sm_draft_times *t)
{
    const uint32_t n = t->n < SM_DRAFT_TIMES ? t->n : SM_DRAFT_TIMES;
    const double most = UNUSUAL * median(t);
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += t->ns[i] < most ? t->ns[i] : most;
    return n ? sum / n : 0;
}

/* A plain step is one either way: what the machine makes of it is no matter of drafts. */
static void gain_timed(struct sm_draft_gain *g, uint32_t n_tok, double ns)
{
    const double guess_ns = g->guess_ns;
    struct sm_draft_times *t = &g->pass[n_tok];
    const bool known = g->plain.n >= GAIN_PLAIN;
    g->guess_ns = 0;
    g->counted = false;
    if (n_tok == 1) {
        if (g->n_passes++ >= COLD_PASSES) {
            put(&g->plain, ns);
            g->plain_ns = mean(&g->plain);
        }
        if (!known) return;
        g->with_ns += g->plain_ns + guess_ns;
        g->without_ns += g->plain_ns;
        return;
    }
    g->n_passes++;
    put(t, ns);
    if (!known || t->n == 1) return;
    g->with_ns += usual(t, ns) + guess_ns;
    g->without_ns += g->plain_ns;
    g->counted = true;
    g->n_counted++;
}

void sm_draft_again(struct sm_draft *d)
{
    const struct sm_draft_times plain = d->gain.plain;
    sm_draft_init(d, d->mode, d->have_next);
    d->gain.plain = plain;
    d->gain.plain_ns = mean(&plain);
}

/* ---- what was observed ----------------------------------------------------------------------- */

void sm_draft_timed(struct sm_draft *d, uint32_t n_tok, double ns)
{
    d->since_plain = n_tok == 1 ? 0 : d->since_plain + 1;
    d->n_plain += n_tok == 1;
    d->n_passes[n_tok]++;
    d->pass_ns[n_tok] = blend(d, d->pass_ns[n_tok], ns, d->n_passes[n_tok]);
    gain_timed(&d->gain, n_tok, ns);
}

void sm_draft_timed_next(struct sm_draft *d, uint32_t n, double ns)
{
    if (!n) return;
    d->next_ns = blend(d, d->next_ns, ns / n, 0);
    put(&d->gain.next, ns / n);
    d->gain.guess_ns += n * usual(&d->gain.next, ns / n);
}

void sm_draft_result(struct sm_draft *d, struct sm_draft_choice c, uint32_t n_right, bool ended)
{
    float *right = d->right[c.source];
    d->proposed += c.n;
    d->accepted += n_right;
    if (d->gain.counted) d->gain.without_ns += n_right * d->gain.plain_ns;
    d->gain.counted = false;
    for (uint32_t i = 0; i < n_right; i++) right[i] += (float)BLEND * (1 - right[i]);
    if (n_right < c.n && !ended) right[n_right] *= 1 - (float)BLEND;
}

double sm_draft_gain(const struct sm_draft *d)
{
    const struct sm_draft_gain *g = &d->gain;
    if (g->plain.n < GAIN_PLAIN || g->n_counted < GAIN_PASSES || g->with_ns <= 0) return 0;
    return g->without_ns / g->with_ns;
}

uint32_t sm_draft_lookup(const int32_t *tokens, uint32_t n, uint32_t *at)
{
    uint32_t best = 1;
    *at = 0;
    for (uint32_t end = n - 1; n > 2 && end >= 2; end--) { /* tokens[.. end-1] end like the text? */
        uint32_t len = 0;
        if (tokens[end - 1] != tokens[n - 1]) continue;
        while (len < MATCH_MAX && len < end && tokens[end - 1 - len] == tokens[n - 1 - len]) len++;
        if (len <= best) continue;
        best = len;
        *at = end;
        if (best == MATCH_MAX) break;
    }
    return best >= 2 ? best : 0;
}
