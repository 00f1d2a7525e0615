/* SPDX-License-Identifier: MIT */
#include "infer/session.h"

#include <string.h>

smol_status sm_session_open(struct sm_session *s, struct sm_engine *e, smol_error *err)
{
    *s = (struct sm_session){0};
    if (e->in_use) return SM_FAIL(err, LIMIT, "this model already has a session");
    e->in_use = true;
    s->e = e;
    return SMOL_OK;
}

void sm_session_close(struct sm_session *s)
{
    if (s->e) s->e->in_use = false;
    s->e = NULL;
}

static smol_status check_tokens(const struct sm_session *s, const int32_t *tokens, size_t n,
                                smol_error *err)
{
    const struct sm_engine *e = s->e;
    if (n > e->plan.ctx)
        return SM_FAIL(err, LIMIT, "%zu tokens do not fit the context of %u", n, e->plan.ctx);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->model->hp.n_vocab)
            return SM_FAIL(err, ARG, "token %zu is %d, expected 0 to %u", i, tokens[i],
                           e->model->hp.n_vocab - 1);
    return SMOL_OK;
}

/* sm_engine_run of the tokens that follow. What a layer remembers may be half-way between two
 * positions after a failure; then nothing is left to go on from. */
static smol_status run(struct sm_session *s, const int32_t *tokens, uint32_t n, bool want_logits,
                       smol_error *err)
{
    const smol_status st = sm_engine_run(s->e, tokens, n, s->n, want_logits, err);
    if (st != SMOL_OK && !sm_model_keeps(s->e->model, s->n + n, s->n)) s->n = 0;
    return st;
}

/* Read tokens [s->n, n) in waves of the plan's chunk. */
static smol_status read_on(struct sm_session *s, const int32_t *tokens, uint32_t n, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint32_t first = s->n;
    while (s->n < n) {
        const uint32_t step = n - s->n < e->plan.chunk ? n - s->n : e->plan.chunk;
        s->have_logits = false;
        SM_TRY(run(s, tokens + s->n, step, s->n + step == n, err));
        memcpy(e->tokens + s->n, tokens + s->n, step * sizeof *tokens);
        s->n += step;
        if (e->progress && n - first > 1)
            e->progress(e->progress_arg, "prompt", s->n - first, n - first);
    }
    s->have_logits = n > 0;
    return SMOL_OK;
}

smol_status sm_session_sync(struct sm_session *s, const int32_t *tokens, size_t n, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint64_t start = sm_now_ns();
    uint32_t same = 0;
    SM_TRY(check_tokens(s, tokens, n, err));
    while (same < n && same < s->n && tokens[same] == e->tokens[same]) same++;
    if (same == n && same == s->n && s->have_logits) return SMOL_OK;
    if (same == n && n > 0) same--; /* the last token is read again for its logits */
    if (same < s->n && !sm_model_keeps(e->model, s->n, same)) same = 0;
    s->n = same;
    s->have_logits = false;
    e->n_prompt += n - same;
    const smol_status st = read_on(s, tokens, (uint32_t)n, err);
    e->ns_prompt += sm_now_ns() - start;
    return st;
}

smol_status sm_session_append(struct sm_session *s, int32_t token, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint64_t start = sm_now_ns();
    SM_TRY(check_tokens(s, &token, 1, err));
    if (s->n >= e->plan.ctx) return SM_FAIL(err, LIMIT, "the context of %u tokens is full", e->plan.ctx);
    s->have_logits = false;
    SM_TRY(run(s, &token, 1, true, err));
    e->tokens[s->n++] = token;
    s->have_logits = true;
    e->n_generated++;
    e->ns_decode += sm_now_ns() - start;
    return SMOL_OK;
}

smol_status sm_session_score(struct sm_session *s, const int32_t *tokens, size_t n, smol_score_fn fn,
                             void *arg, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint32_t ld = sm_pad8(e->model->hp.n_vocab);
    const uint64_t start = sm_now_ns();
    SM_TRY(check_tokens(s, tokens, n, err));
    s->n = 0;
    s->have_logits = false;
    while (s->n < n) {
        const uint32_t left = (uint32_t)n - s->n, step = left < e->plan.chunk ? left : e->plan.chunk;
        SM_TRY(run(s, tokens + s->n, step, false, err));
        for (uint32_t at = 0; at < step; at += e->logit_rows) {
            const uint32_t rows = step - at < e->logit_rows ? step - at : e->logit_rows;
            SM_TRY(sm_model_logits(e->model, &e->graph, at, rows, err));
            for (uint32_t r = 0; r < rows; r++)
                SM_TRY(fn(arg, s->n + at + r, e->graph.logits + (size_t)r * ld));
        }
        memcpy(e->tokens + s->n, tokens + s->n, step * sizeof *tokens);
        s->n += step;
    }
    e->n_prompt += n;
    e->ns_prompt += sm_now_ns() - start;
    return SMOL_OK;
}
