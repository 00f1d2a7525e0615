/* SPDX-License-Identifier: MIT */
#include "infer/generate.h"
#include "infer/stop.h"

#include <stdlib.h>
#include <string.h>

struct writer {
    const smol_generation *g;
    bool refused; /* the receiver wants no more */
};

static void hand_on(void *arg, const char *text, size_t n)
{
    struct writer *w = arg;
    if (!w->refused && w->g->text && !w->g->text(w->g->arg, text, n)) w->refused = true;
}

static smol_status make_stop(struct sm_stop **out, const smol_generation *g, smol_error *err)
{
    struct sm_stop_string strings[SM_STOP_MAX];
    if (g->n_stop > SM_STOP_MAX)
        return SM_FAIL(err, ARG, "%zu stop strings, at most %u", g->n_stop, SM_STOP_MAX);
    for (size_t i = 0; i < g->n_stop; i++) {
        strings[i].text = g->stop[i];
        strings[i].n = strlen(g->stop[i]);
    }
    return sm_stop_new(out, strings, g->n_stop, err);
}

/* Draw the next token; FORMAT when the logits allow none. */
static smol_status draw(struct sm_session *s, struct sm_sampler *sampler, const smol_generation *g,
                        int32_t *id, smol_error *err)
{
    const float *logits = sm_session_logits(s);
    if (!logits) return SM_FAIL(err, ARG, "nothing was read before the answer");
    *id = sm_sampler_sample(sampler, logits);
    if (*id < 0) return SM_FAIL(err, FORMAT, "no token is possible: the logits are not numbers");
    sm_sampler_accept(sampler, *id);
    if (g->token) g->token(g->arg, *id, logits);
    return SMOL_OK;
}

/* Why the loop ends before the next token, or -1. */
static int done_before(const struct sm_session *s, const smol_generation *g,
                       const struct writer *w, size_t n)
{
    if (w->refused || (g->cancel && *g->cancel)) return SMOL_CANCEL;
    if (g->max_tokens >= 0 && n >= (size_t)g->max_tokens) return SMOL_LENGTH;
    if (s->n >= s->e->plan.ctx) return SMOL_FULL;
    return -1;
}

/* Tokens that may still follow the one that is fed now. */
static uint32_t room_left(const smol_generation *g, size_t n)
{
    if (g->max_tokens < 0) return UINT32_MAX;
    const uint64_t left = (uint64_t)g->max_tokens - n;
    return left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

/* The loop. `record`, when it is not NULL, gets the ids of all tokens drawn; it has room for
 * them. */
static smol_status write_answer(struct sm_session *s, struct sm_sampler *sampler,
                                const smol_generation *g, int32_t *record, smol_outcome *out,
                                smol_error *err)
{
    struct writer w = {g, false};
    struct sm_tok_stream stream;
    struct sm_stop *stop = NULL;
    char text[SM_TOK_PIECE_MAX];
    smol_status st = SMOL_OK;
    int reason;
    *out = (smol_outcome){0, SMOL_ENDED};
    if (!s->e->tok) return SM_FAIL(err, UNSUPPORTED, "the model has no vocabulary");
    SM_TRY(make_stop(&stop, g, err));
    sm_tok_stream_init(&stream, s->e->tok, g->special);
    while ((reason = done_before(s, g, &w, out->n_tokens)) < 0) {
        int32_t id = -1;
        SM_TRY_OUT(st, draw(s, sampler, g, &id, err));
        if (record) record[out->n_tokens] = id;
        out->n_tokens++;
        if (sm_tok_is_end(s->e->tok, id)) {
            reason = SMOL_ENDED;
            break;
        }
        const size_t n = sm_tok_stream_put(&stream, id, text);
        if (n && sm_stop_put(stop, text, n, hand_on, &w)) {
            reason = SMOL_STOPPED;
            break;
        }
        st = sm_session_feed(s, id, room_left(g, out->n_tokens), err);
        if (st == SMOL_CANCELLED) {
            reason = SMOL_CANCEL;
            st = SMOL_OK;
            if (err) *err = (smol_error){0};
            break;
        }
        if (st == SMOL_NOMEM) { /* the guard: what was said so far is given out whole */
            reason = SMOL_MEMORY;
            break;
        }
        if (st != SMOL_OK) goto out;
    }
    if (reason != SMOL_STOPPED) {
        const size_t n = sm_tok_stream_end(&stream, text);
        if (!n || !sm_stop_put(stop, text, n, hand_on, &w)) sm_stop_end(stop, hand_on, &w);
    }
    out->reason = (smol_reason)reason;
out:
    sm_session_settle(s);
    sm_stop_free(stop);
    return st;
}

/* --draft-oracle: the answer once in silence, to know it; then back to where it began. */
static smol_status rehearse(struct sm_session *s, struct sm_sampler *sampler,
                            const smol_generation *g, int32_t *record, size_t *n, smol_error *err)
{
    struct sm_engine *e = s->e;
    const size_t size = sm_sampler_state_size(sampler), n_text = s->n;
    smol_generation silent = *g;
    smol_outcome outcome;
    struct sm_store_stats before;
    void *state = malloc(size);
    int32_t *text = malloc((n_text + 1) * sizeof *text);
    smol_status st = SMOL_OK;
    silent.text = NULL;
    silent.token = NULL;
    if (!state || !text) {
        st = SM_FAIL(err, NOMEM, "no memory for the rehearsal of the answer");
        goto out;
    }
    sm_store_stats(e->store, &before);
    sm_sampler_state_save(sampler, state);
    memcpy(text, e->tokens, n_text * sizeof *text);
    SM_TRY_OUT(st, write_answer(s, sampler, &silent, record, &outcome, err));
    *n = outcome.n_tokens;
    SM_TRY_OUT(st, sm_sampler_state_load(sampler, state, size, err));
    const uint64_t n_prompt = e->n_prompt, ns_prompt = e->ns_prompt;
    SM_TRY_OUT(st, sm_session_sync(s, text, n_text, err));
    e->n_prompt = n_prompt; /* its last token was read again */
    e->ns_prompt = ns_prompt;
    e->n_generated = e->ns_decode = e->decode_streamed_bytes = 0;
    sm_draft_again(&e->draft);
    sm_engine_leave_out(e, &before);
out:
    free(state);
    free(text);
    return st;
}

smol_status sm_generate(struct sm_session *s, struct sm_sampler *sampler, const smol_generation *g,
                        smol_outcome *out, smol_error *err)
{
    size_t n = 0;
    smol_status st;
    if (s->e->oracle <= 0 || s->n == 0) return write_answer(s, sampler, g, NULL, out, err);
    int32_t *record = malloc((s->e->plan.ctx + 2) * sizeof *record);
    if (!record) return SM_FAIL(err, NOMEM, "no memory for the rehearsal of the answer");
    st = rehearse(s, sampler, g, record, &n, err);
    s->oracle = record;
    s->n_oracle = (uint32_t)n;
    if (st == SMOL_OK) st = write_answer(s, sampler, g, NULL, out, err);
    s->oracle = NULL;
    s->n_oracle = 0;
    free(record);
    return st;
}
