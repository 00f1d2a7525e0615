/* SPDX-License-Identifier: MIT */
#include "infer/session.h"
#include "infer/speculate.h"

#include <string.h>

smol_status sm_session_check(const struct sm_session *s, const int32_t *tokens, size_t n,
                             smol_error *err)
{
    const struct sm_engine *e = s->e;
    if (n > e->plan.ctx)
        return SM_FAIL(err, LIMIT, "%zu tokens do not fit the context of %u (--ctx)", n,
                       e->plan.ctx);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (uint32_t)tokens[i] >= e->model->hp.n_vocab)
            return SM_FAIL(err, ARG, "token %zu is %d, expected 0 to %u", i, tokens[i],
                           e->model->hp.n_vocab - 1);
    return SMOL_OK;
}

#define CATCH_UP_AUTO 128u /* rows of a prompt that the next-token block gets in auto mode */

/* Go back to at most n tokens. Keys and values are simply overwritten later; a recurrent state can
 * only go back to its copy, or to nothing. */
static void go_back(struct sm_session *s, uint32_t n)
{
    struct sm_engine *e = s->e;
    s->have_logits = false;
    s->row = 0;
    if (n <= s->n_pure) s->n_pure = UINT32_MAX;
    if (!e->recur_bytes) {
        s->n = n;
        sm_next_cut(e, n);
        return;
    }
    if (s->have_copy && s->n_copy <= n) {
        memcpy(e->session, e->snapshot, e->recur_bytes);
        s->n = s->n_copy;
    } else {
        memset(e->session, 0, e->recur_bytes);
        s->have_copy = false;
        s->n = 0;
    }
    sm_next_cut(e, s->n);
}

void sm_session_clear(struct sm_session *s)
{
    sm_session_settle(s);
    s->have_copy = false;
    go_back(s, 0);
}

/* Keep a copy of the recurrent states where the last wave of a prompt begins: a conversation that
 * changes its last message, or asks for another answer, goes back to there. */
static void keep_copy(struct sm_session *s)
{
    struct sm_engine *e = s->e;
    if (!e->recur_bytes || s->n == 0) return;
    memcpy(e->snapshot, e->session, e->recur_bytes);
    s->n_copy = s->n;
    s->have_copy = true;
}

/* sm_engine_run of the tokens that follow; after a failure the session holds what it can vouch
 * for. */
static smol_status run(struct sm_session *s, const int32_t *tokens, uint32_t n, bool want_logits,
                       smol_error *err)
{
    s->row = 0;
    const smol_status st = sm_engine_run(s->e, tokens, n, s->n, want_logits, err);
    if (st != SMOL_OK) go_back(s, sm_model_keeps(s->e->model, s->n + n, s->n) ? s->n : 0);
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
        if (s->n + step == n && n - first > 1) keep_copy(s);
        SM_TRY(run(s, tokens + s->n, step, s->n + step == n, err));
        memcpy(e->tokens + s->n, tokens + s->n, step * sizeof *tokens);
        s->n += step;
        if (e->draft.mode != SM_DRAFT_AUTO) SM_TRY(sm_next_catch_up(e, s->n, UINT32_MAX, err));
        else if (s->n == n) SM_TRY(sm_next_catch_up(e, s->n, CATCH_UP_AUTO, err));
        if (e->progress && n - first > 1)
            e->progress(e->progress_arg, "prompt", s->n - first, n - first);
    }
    s->have_logits = n > 0;
    return SMOL_OK;
}

smol_status sm_session_open(struct sm_session *s, struct sm_engine *e, smol_error *err)
{
    *s = (struct sm_session){0};
    if (e->in_use) return SM_FAIL(err, LIMIT, "this model already has a session");
    e->in_use = true;
    s->e = e;
    sm_session_clear(s);
    return SMOL_OK;
}

void sm_session_close(struct sm_session *s)
{
    if (s->e) s->e->in_use = false;
    s->e = NULL;
}

smol_status sm_session_sync(struct sm_session *s, const int32_t *tokens, size_t n, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint64_t start = sm_now_ns();
    sm_session_settle(s);
    SM_TRY(sm_session_check(s, tokens, n, err));
    uint32_t same = sm_same_tokens(tokens, n, e->tokens, s->n);
    if (same == n && same == s->n && s->have_logits) return SMOL_OK;
    if (same == n && n > 0) same--; /* the last token is read again for its logits */
    if (same < s->n) go_back(s, sm_model_keeps(e->model, s->n, same) ? same : 0);
    s->have_logits = false;
    e->n_prompt += n - s->n;
    const smol_status st = read_on(s, tokens, (uint32_t)n, err);
    e->ns_prompt += sm_now_ns() - start;
    return st;
}

smol_status sm_session_append(struct sm_session *s, int32_t token, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint64_t start = sm_now_ns();
    sm_session_settle(s);
    SM_TRY(sm_session_check(s, &token, 1, err));
    if (s->n >= e->plan.ctx)
        return SM_FAIL(err, LIMIT, "the context of %u tokens is full", e->plan.ctx);
    s->have_logits = false;
    const uint64_t streamed = sm_store_streamed(e->store);
    SM_TRY(run(s, &token, 1, true, err));
    e->tokens[s->n++] = token;
    s->have_logits = true;
    e->n_generated++;
    e->decode_streamed_bytes += sm_store_streamed(e->store) - streamed;
    e->ns_decode += sm_now_ns() - start;
    return SMOL_OK;
}

const float *sm_session_logits(const struct sm_session *s)
{
    const struct sm_engine *e = s->e;
    return s->have_logits ? e->graph.logits + (size_t)s->row * sm_pad8(e->model->hp.n_vocab) : NULL;
}

/* ---- drafts ---------------------------------------------------------------------------------- */

static void settle(struct sm_session *s, bool ended)
{
    struct sm_engine *e = s->e;
    if (s->n_tried > 1) {
        sm_draft_result(&e->draft, s->choice, s->n_right - 1, ended);
        sm_engine_keep(e, s->n_right);
    }
    s->n_tried = s->n_right = 0;
}

void sm_session_settle(struct sm_session *s) { settle(s, true); }

/* What tests propose: the token that will be given, or another one. */
static uint32_t ask_oracle(struct sm_session *s, uint32_t n, int32_t *out)
{
    struct sm_engine *e = s->e;
    for (uint32_t i = 0; i < n; i++) {
        const int32_t right = s->oracle[1 + i];
        e->oracle_state = e->oracle_state * 6364136223846793005u + 1442695040888963407u;
        const bool lie = (float)(e->oracle_state >> 40) * 0x1p-24f >= e->oracle;
        out[i] = lie ? (right + 1) % (int32_t)e->model->hp.n_vocab : right;
    }
    return n;
}

/* What followed the last place where the text went as it does now; repeats of short periods go
 * on. */
static uint32_t copy_behind(const struct sm_engine *e, uint32_t at, uint32_t n_text, uint32_t n,
                            int32_t *out)
{
    for (uint32_t i = 0; i < n; i++)
        out[i] = at + i < n_text ? e->tokens[at + i] : out[at + i - n_text];
    return n;
}

/* Drafts behind the token at position s->n, which is in e->tokens, into out. */
static smol_status propose(struct sm_session *s, uint32_t room, int32_t *out, uint32_t *n_out,
                           smol_error *err)
{
    struct sm_engine *e = s->e;
    struct sm_draft *d = &e->draft;
    const uint32_t left = e->plan.ctx - s->n - 1;
    struct sm_draft_offer o = {.room = room < left ? room : left};
    uint32_t at = 0;
    *n_out = 0;
    if (!e->n_draft || !o.room) return SMOL_OK;
    if (o.room > e->n_draft) o.room = e->n_draft;
    if (s->oracle) o.n_oracle = s->n_oracle ? s->n_oracle - 1 : 0;
    else if (d->mode == SM_DRAFT_LOOKUP || d->mode == SM_DRAFT_AUTO)
        o.matched = sm_draft_lookup(e->tokens, s->n + 1, &at);
    s->choice = sm_draft_choose(d, &o);
    if (!s->choice.n) return SMOL_OK;
    if (s->choice.source == SM_FROM_ORACLE) {
        *n_out = ask_oracle(s, s->choice.n, out);
    } else if (s->choice.source == SM_FROM_NEXT) {
        const uint64_t start = sm_now_ns();
        SM_TRY(sm_next_draft(e, s->n, s->choice.n, out, n_out, err));
        sm_draft_timed_next(d, *n_out, (double)(sm_now_ns() - start));
    } else {
        *n_out = copy_behind(e, at, s->n + 1, s->choice.n, out);
    }
    s->choice.n = *n_out;
    return SMOL_OK;
}

smol_status sm_session_feed(struct sm_session *s, int32_t token, uint32_t room, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint64_t start = sm_now_ns();
    smol_status st = SMOL_OK;
    uint32_t n = 0;
    if (s->n_right < s->n_tried && s->tried[s->n_right] == token) { /* the draft was right */
        s->row = s->n_right++;
        s->n++;
        e->n_generated++;
        if (s->oracle && s->n_oracle) s->oracle++, s->n_oracle--;
        return SMOL_OK;
    }
    settle(s, s->n_right == s->n_tried);
    SM_TRY(sm_session_check(s, &token, 1, err));
    if (s->n >= e->plan.ctx)
        return SM_FAIL(err, LIMIT, "the context of %u tokens is full", e->plan.ctx);
    s->tried[0] = e->tokens[s->n] = token;
    s->have_logits = false;
    const uint64_t streamed = sm_store_streamed(e->store);
    SM_TRY(propose(s, room, s->tried + 1, &n, err));
    const uint64_t pass = sm_now_ns();
    if (n == 0) {
        SM_TRY(run(s, &token, 1, true, err));
    } else {
        st = sm_engine_try(e, s->tried, n + 1, s->n, err);
        if (st != SMOL_OK) return st; /* the session is as it was before the token */
        memcpy(e->tokens + s->n, s->tried, (n + 1) * sizeof token);
        s->row = 0;
    }
    s->n_tried = n + 1;
    s->n_right = 1;
    s->n++;
    s->have_logits = true;
    e->n_generated++;
    if (s->oracle && s->n_oracle) s->oracle++, s->n_oracle--;
    e->decode_streamed_bytes += sm_store_streamed(e->store) - streamed;
    if (e->n_draft) sm_draft_timed(&e->draft, n + 1, (double)(sm_now_ns() - pass));
    e->ns_decode += sm_now_ns() - start;
    return SMOL_OK;
}

smol_status sm_session_score(struct sm_session *s, const int32_t *tokens, size_t n,
                             smol_score_fn fn, void *arg, smol_error *err)
{
    struct sm_engine *e = s->e;
    const uint32_t ld = sm_pad8(e->model->hp.n_vocab);
    const uint64_t start = sm_now_ns();
    SM_TRY(sm_session_check(s, tokens, n, err));
    sm_session_clear(s);
    while (s->n < n) {
        const uint32_t left = (uint32_t)n - s->n,
                       step = left < e->plan.chunk ? left : e->plan.chunk;
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
