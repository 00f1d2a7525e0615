/* SPDX-License-Identifier: MIT */
/* The chain: what is allocated, in which order the stages run, and the state between draws. */
#include "base/bits.h"
#include "base/mem.h"
#include "infer/sampler_stage.h"
#include "infer/score.h"

#include <float.h>
#include <math.h>
#include <string.h>

struct sm_sampler {
    struct sm_sampler_params p;
    uint32_t n_vocab, seed;
    size_t memory;              /* bytes of the one block that holds everything */
    struct sm_logit_bias *bias; /* the caller's list, then the end tokens when they are banned */
    uint32_t n_bias;
    bool penalties, dry;
    uint32_t repeat_last;
    struct sm_dry dry_settings;
    float *logit;              /* [n_vocab] */
    struct sm_candidate *room; /* [n_room] */
    size_t n_room;
    struct sm_cands last; /* the candidates of the last draw */
    struct sm_history history;
    struct sm_token_map map;
    struct sm_rng rng, rng_xtc;
    float mu;
};

/* ---- made and freed ---- */

/* No larger than the context: the plan counts this memory. */
static uint32_t window(int32_t n, uint32_t n_ctx)
{
    const uint32_t most = n_ctx < SMOL_WINDOW_MAX ? n_ctx : (uint32_t)SMOL_WINDOW_MAX;
    return n < 0 || (uint32_t)n > most ? most : (uint32_t)n;
}

static size_t candidates_needed(const struct sm_sampler_params *p, uint32_t n_vocab)
{
    const size_t chain = sm_top_k_capacity(n_vocab, p->mirostat ? 0 : p->top_k);
    const size_t top = sm_top_k_capacity(n_vocab, (int32_t)SM_TOP_MAX);
    return chain > top ? chain : top;
}

/* Lays the sampler out in the arena; `s` is a scratch struct while counting. */
static void lay_out(struct sm_sampler *s, struct sm_arena *a, const struct sm_sampler_params *p,
                    const struct sm_sampler_model *m)
{
    s->p = *p;
    s->n_vocab = m->n_vocab;
    s->penalties =
        !p->mirostat && p->repeat_last != 0 &&
        (p->repeat_penalty != 1.0f || p->frequency_penalty != 0.0f || p->presence_penalty != 0.0f);
    s->dry = !p->mirostat && p->dry_last != 0 && p->dry_multiplier != 0.0f && p->dry_base >= 1.0f;
    s->repeat_last = s->penalties ? window(p->repeat_last, m->n_ctx) : 0;
    s->dry_settings = (struct sm_dry){.multiplier = p->dry_multiplier,
                                      .base = p->dry_base,
                                      .allowed = (uint32_t)p->dry_allowed,
                                      .last = s->dry ? window(p->dry_last, m->n_ctx) : 0,
                                      .breakers = m->breakers};
    const uint32_t dry_last = s->dry_settings.last;
    s->history.capacity = s->repeat_last > dry_last ? s->repeat_last : dry_last;
    s->map.slots = sm_token_map_slots(s->history.capacity);
    s->n_bias = p->n_bias + (p->ignore_eos ? m->n_end : 0);
    s->n_room = candidates_needed(p, m->n_vocab);

    s->bias = SM_ARENA_NEW(a, struct sm_logit_bias, s->n_bias);
    s->logit = SM_ARENA_NEW(a, float, m->n_vocab);
    s->room = SM_ARENA_NEW(a, struct sm_candidate, s->n_room);
    s->history.id = SM_ARENA_NEW(a, int32_t, s->history.capacity);
    s->map.id = SM_ARENA_NEW(a, int32_t, s->map.slots);
    s->map.value = SM_ARENA_NEW(a, int32_t, s->map.slots);
    s->dry_settings.run = SM_ARENA_NEW(a, int32_t, dry_last);
}

size_t sm_sampler_memory_for(const struct sm_sampler_params *p,
                             const struct sm_sampler_model *model)
{
    struct sm_arena a = {0};
    struct sm_sampler scratch;
    (void)sm_arena_take(&a, sizeof scratch);
    lay_out(&scratch, &a, p, model);
    return a.used;
}

static smol_status check_model(const struct sm_sampler_params *p, const struct sm_sampler_model *m,
                               smol_error *err)
{
    if (m->n_vocab == 0 || m->n_vocab > INT32_MAX / 4)
        return SM_FAIL(err, ARG, "a vocabulary of %lu tokens cannot be sampled from",
                       (unsigned long)m->n_vocab);
    SM_TRY(sm_sampler_check(p, m->n_vocab, err));
    for (uint32_t i = 0; p->ignore_eos && i < m->n_end; i++)
        if (m->end_ids[i] < 0 || (uint32_t)m->end_ids[i] >= m->n_vocab)
            return SM_FAIL(err, ARG, "end token %ld is not in the vocabulary of %lu",
                           (long)m->end_ids[i], (unsigned long)m->n_vocab);
    return SMOL_OK;
}

smol_status sm_sampler_new(struct sm_sampler **out, const struct sm_sampler_params *p,
                           const struct sm_sampler_model *model, smol_error *err)
{
    *out = NULL;
    SM_TRY(check_model(p, model, err));
    const size_t n = sm_sampler_memory_for(p, model);
    struct sm_arena a = {.base = sm_mem_new(n), .capacity = n};
    if (!a.base) return SM_FAIL(err, NOMEM, "no memory for a sampler of %zu bytes", n);
    struct sm_sampler *s = sm_arena_take(&a, sizeof *s);
    lay_out(s, &a, p, model);
    s->memory = n;
    s->seed = p->seed == SM_SEED_RANDOM ? model->entropy : (uint32_t)p->seed;
    if (p->n_bias) memcpy(s->bias, p->bias, p->n_bias * sizeof *s->bias);
    for (uint32_t i = p->n_bias; i < s->n_bias; i++)
        s->bias[i] = (struct sm_logit_bias){model->end_ids[i - p->n_bias], -INFINITY};
    s->p.bias = NULL;
    sm_sampler_reset(s);
    *out = s;
    return SMOL_OK;
}

void sm_sampler_free(struct sm_sampler *s)
{
    if (s) sm_mem_free(s, s->memory);
}

size_t sm_sampler_memory(const struct sm_sampler *s) { return s->memory; }
uint32_t sm_sampler_seed(const struct sm_sampler *s) { return s->seed; }

void sm_sampler_reset(struct sm_sampler *s)
{
    sm_rng_seed(&s->rng, s->seed);
    sm_rng_seed(&s->rng_xtc, s->seed);
    s->history.n = s->history.next = 0;
    s->mu = 2.0f * s->p.mirostat_tau;
    s->last = (struct sm_cands){.v = s->room};
}

/* ---- drawing ---- */

void sm_sampler_accept(struct sm_sampler *s, int32_t id)
{
    if (id >= 0 && (uint32_t)id < s->n_vocab) sm_history_put(&s->history, id);
}

/* False when one is NaN or +infinity. */
static bool are_numbers(const float *logits, size_t n)
{
    int bad = 0;
    size_t i = 0;
    for (; i + 32 <= n; i += 32) /* a fixed count lets compilers use vectors */
        for (size_t k = 0; k < 32; k++) bad |= !(logits[i + k] <= FLT_MAX);
    for (; i < n; i++) bad |= !(logits[i] <= FLT_MAX);
    return !bad;
}

static void apply_bias(struct sm_sampler *s)
{
    for (uint32_t i = 0; i < s->n_bias; i++) {
        float *l = &s->logit[s->bias[i].id];
        *l += s->bias[i].bias;
        if (*l > FLT_MAX) *l = FLT_MAX;
    }
}

/* All candidates, largest first; those at -infinity stay behind the others in id order. */
static void take_all_sorted(struct sm_cands *c, const float *logit, size_t n_vocab)
{
    struct sm_cands finite = {.v = c->v};
    for (size_t i = 0; i < n_vocab; i++)
        if (logit[i] >= -FLT_MAX)
            c->v[finite.n++] = (struct sm_candidate){.id = (int32_t)i, .logit = logit[i]};
    c->n = finite.n;
    for (size_t i = 0; i < n_vocab; i++)
        if (!(logit[i] >= -FLT_MAX))
            c->v[c->n++] = (struct sm_candidate){.id = (int32_t)i, .logit = logit[i]};
    sm_cands_sort(&finite);
    c->sorted = true;
}

/* The first largest candidate. */
static size_t best_of(const struct sm_cands *c)
{
    size_t best = 0;
    for (size_t i = 1; !c->sorted && i < c->n; i++)
        if (c->v[i].logit > c->v[best].logit) best = i;
    return best;
}

static bool any_allowed(const struct sm_cands *c) { return c->v[best_of(c)].logit >= -FLT_MAX; }

#define NONE SIZE_MAX

static size_t draw_by_chain(struct sm_sampler *s, struct sm_cands *c)
{
    const struct sm_sampler_params *p = &s->p;
    if (p->top_n_sigma > 0.0f && (p->top_k <= 0 || (uint32_t)p->top_k >= s->n_vocab))
        take_all_sorted(c, s->logit, s->n_vocab);
    else sm_stage_top_k(c, s->logit, s->n_vocab, p->top_k);
    if (!any_allowed(c)) return NONE;
    sm_stage_typical(c, p->typical, p->min_keep);
    sm_stage_top_p(c, p->top_p, p->min_keep);
    sm_stage_min_p(c, p->min_p, p->min_keep);
    sm_stage_xtc(c, p->xtc_probability, p->xtc_threshold, p->min_keep, &s->rng_xtc);
    sm_stage_temp_dynamic(c, p->temp, p->temp_range, p->temp_exponent);
    return sm_stage_draw(c, &s->rng);
}

static size_t draw_by_mirostat(struct sm_sampler *s, struct sm_cands *c)
{
    const struct sm_sampler_params *p = &s->p;
    sm_stage_top_k(c, s->logit, s->n_vocab, 0);
    if (!any_allowed(c)) return NONE;
    sm_stage_temp(c, p->temp);
    return p->mirostat == 1
               ? sm_stage_mirostat1(c, &s->rng, &s->mu, p->mirostat_tau, p->mirostat_eta,
                                    p->mirostat_m, s->n_vocab)
               : sm_stage_mirostat2(c, &s->rng, &s->mu, p->mirostat_tau, p->mirostat_eta);
}

int32_t sm_sampler_sample(struct sm_sampler *s, const float *logits)
{
    const struct sm_sampler_params *p = &s->p;
    struct sm_cands c = {.v = s->room};
    s->last = c;
    if (!are_numbers(logits, s->n_vocab)) return -1;
    memcpy(s->logit, logits, s->n_vocab * sizeof *logits);
    apply_bias(s);
    if (s->penalties)
        sm_stage_penalties(s->logit, &s->history, &s->map, s->repeat_last, p->repeat_penalty,
                           p->frequency_penalty, p->presence_penalty);
    if (s->dry) sm_stage_dry(s->logit, &s->history, &s->map, &s->dry_settings);
    if (!p->mirostat) sm_stage_top_n_sigma(s->logit, s->n_vocab, p->top_n_sigma);
    const size_t i = p->mirostat ? draw_by_mirostat(s, &c) : draw_by_chain(s, &c);
    if (i == NONE) return -1;
    s->last = c;
    return c.v[i].id;
}

const struct sm_candidate *sm_sampler_candidates(const struct sm_sampler *s, size_t *n)
{
    *n = s->last.n;
    return s->last.v;
}

size_t sm_sampler_top(struct sm_sampler *s, const float *logits, uint32_t k,
                      struct sm_token_logprob *out)
{
    struct sm_cands c = {.v = s->room};
    s->last = c;
    if (k == 0 || !are_numbers(logits, s->n_vocab)) return 0;
    if (k > SM_TOP_MAX) k = SM_TOP_MAX;
    const double lse = sm_score_log_sum_exp(logits, s->n_vocab);
    sm_stage_top_k(&c, logits, s->n_vocab, (int32_t)k);
    sm_cands_sort(&c); /* when the whole vocabulary was asked for */
    const size_t n = k < c.n ? k : c.n;
    for (size_t i = 0; i < n; i++)
        out[i] = (struct sm_token_logprob){
            .id = c.v[i].id, .logit = c.v[i].logit, .logprob = (double)c.v[i].logit - lse};
    return n;
}

/* ---- the state as bytes ---- */

#define STATE_MAGIC 0x31534d53u /* "SMS1" */
#define STATE_HEAD 7u           /* words before the generators */
#define RNG_WORDS (SM_RNG_WORDS + 1u)

size_t sm_sampler_state_size(const struct sm_sampler *s)
{
    return ((size_t)STATE_HEAD + 2u * RNG_WORDS + s->history.capacity) * 4u;
}

static uint8_t *save_rng(uint8_t *to, const struct sm_rng *r)
{
    for (size_t i = 0; i < SM_RNG_WORDS; i++) sm_st32(to + 4 * i, r->word[i]);
    sm_st32(to + 4u * SM_RNG_WORDS, r->at);
    return to + 4u * RNG_WORDS;
}

void sm_sampler_state_save(const struct sm_sampler *s, void *buf)
{
    uint8_t *to = buf;
    const uint32_t head[STATE_HEAD] = {STATE_MAGIC,          s->n_vocab,      s->history.capacity,
                                       s->history.n,         s->history.next, s->seed,
                                       sm_bits_of_f32(s->mu)};
    for (size_t i = 0; i < STATE_HEAD; i++) sm_st32(to + 4 * i, head[i]);
    to = save_rng(to + 4u * STATE_HEAD, &s->rng);
    to = save_rng(to, &s->rng_xtc);
    for (size_t i = 0; i < s->history.capacity; i++)
        sm_st32(to + 4 * i, (uint32_t)s->history.id[i]);
}

static void load_rng(const uint8_t *from, struct sm_rng *r)
{
    for (size_t i = 0; i < SM_RNG_WORDS; i++) r->word[i] = sm_ld32(from + 4 * i);
    r->at = sm_ld32(from + 4u * SM_RNG_WORDS);
}

smol_status sm_sampler_state_load(struct sm_sampler *s, const void *buf, size_t n, smol_error *err)
{
    const uint8_t *from = buf;
    const size_t want = sm_sampler_state_size(s);
    uint32_t head[STATE_HEAD];
    if (n != want)
        return SM_FAIL(err, FORMAT, "state of a sampler has %zu bytes, expected %zu", n, want);
    for (size_t i = 0; i < STATE_HEAD; i++) head[i] = sm_ld32(from + 4 * i);
    if (head[0] != STATE_MAGIC || head[1] != s->n_vocab || head[2] != s->history.capacity)
        return SM_FAIL(err, FORMAT, "state is of a sampler with other settings");
    const uint8_t *rng = from + 4u * STATE_HEAD, *ids = rng + 8u * RNG_WORDS;
    const float mu = sm_f32_of_bits(head[6]);
    const uint32_t at[2] = {sm_ld32(rng + 4u * SM_RNG_WORDS),
                            sm_ld32(rng + 4u * (RNG_WORDS + SM_RNG_WORDS))};
    bool good = head[3] <= head[2] && (head[4] < head[2] || head[4] == 0) && mu >= -FLT_MAX &&
                mu <= FLT_MAX && at[0] <= SM_RNG_WORDS && at[1] <= SM_RNG_WORDS;
    for (size_t i = 0; i < head[2]; i++) good = good && sm_ld32(ids + 4 * i) < s->n_vocab;
    if (!good) return SM_FAIL(err, FORMAT, "state of a sampler is damaged");
    s->history.n = head[3];
    s->history.next = head[4];
    s->seed = head[5];
    s->mu = mu;
    load_rng(rng, &s->rng);
    load_rng(rng + 4u * RNG_WORDS, &s->rng_xtc);
    for (size_t i = 0; i < head[2]; i++) s->history.id[i] = (int32_t)sm_ld32(ids + 4 * i);
    return SMOL_OK;
}
