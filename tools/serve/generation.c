/* SPDX-License-Identifier: MIT */
/* One request through the model: read the prompt, write the answer as it comes. */
#include "answer.h"
#include "errors.h"
#include "flash_view.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>

struct run {
    struct sm_server *server;
    struct sm_job *job;
    smol_sampler *sampler;
    struct sm_answer answer;
    smol_reasoning split;          /* of a chat */
    struct part {
        FILE *f;
        char *text;
        size_t n;
    } part[2];                     /* of a whole answer: what is said, what was thought */
    size_t n_text;                 /* bytes the generator handed on */
    size_t n_bytes;                /* bytes of all tokens drawn */
    struct sm_answer_token *token; /* drawn, with logprobs */
    size_t n_tokens, cap_tokens, n_sent;
    bool out_of_memory;
};

static const struct sm_answer_text nothing = {.bytes = ""};

/* ---- what the generator reports ------------------------------------------------------------- */

static void note_logprobs(struct run *r, int32_t id, const float *logits)
{
    const int wanted = r->job->request.n_logprobs;
    const size_t n_vocab = smol_model_n_vocab(r->server->model);
    if (r->n_tokens == r->cap_tokens) {
        const size_t cap = r->cap_tokens ? 2 * r->cap_tokens : 16;
        struct sm_answer_token *more = realloc(r->token, cap * sizeof *more);
        if (!more) {
            r->out_of_memory = true;
            return;
        }
        r->token = more;
        r->cap_tokens = cap;
    }
    struct sm_answer_token *t = &r->token[r->n_tokens++];
    t->id = id;
    t->logprob = smol_logprob(logits, n_vocab, id);
    t->begin = r->n_bytes;
    t->n_top = (unsigned)smol_sampler_top(r->sampler, logits, (unsigned)wanted, t->top);
}

static void on_token(void *arg, int32_t id, const float *logits)
{
    struct run *r = arg;
    if (r->job->request.n_logprobs >= 0) {
        note_logprobs(r, id, logits);
        r->n_bytes += smol_piece(r->server->vocab, id, false, NULL, 0);
    }
    sm_view_look(r->server->view, "decode", 0, 0);
}

/* Tokens of which a part has been handed on. */
static size_t tokens_shown(const struct run *r)
{
    size_t n = r->n_sent;
    while (n < r->n_tokens && r->token[n].begin < r->n_text) n++;
    return n;
}

static bool send_chunk(struct run *r, bool first, const struct sm_answer_text *text,
                       const char *finish)
{
    size_t n_event = 0;
    const size_t shown = tokens_shown(r);
    char *event =
        sm_answer_chunk(&r->answer, first, text, r->token ? r->token + r->n_sent : NULL,
                        shown - r->n_sent, finish, &n_event);
    const bool good = event && sm_job_write(r->job, event, n_event);
    r->n_sent = shown;
    free(event);
    return good;
}

static bool on_part(void *arg, bool reasoning, const char *bytes, size_t n)
{
    struct run *r = arg;
    const struct sm_answer_text text = {.bytes = bytes,
                                        .n = reasoning ? 0 : n,
                                        .thoughts = bytes,
                                        .n_thoughts = reasoning ? n : 0};
    if (r->job->request.stream) return send_chunk(r, false, &text, NULL);
    return fwrite(bytes, 1, n, r->part[reasoning].f) == n;
}

static bool on_text(void *arg, const char *bytes, size_t n)
{
    struct run *r = arg;
    r->n_text += n;
    if (r->out_of_memory) return false;
    if (!r->job->request.stream && r->n_text > SM_SERVE_OUT_ALL_MAX) return false;
    if (r->job->kind != SM_REQUEST_CHAT) return on_part(r, false, bytes, n);
    return smol_reasoning_put(&r->split, bytes, n, on_part, r);
}

/* ---- the run -------------------------------------------------------------------------------- */

static void refuse(struct run *r, const struct sm_refusal *e)
{
    size_t n = 0;
    if (!r->job->request.stream || !r->job->stream) {
        sm_job_refuse(r->job, e);
        return;
    }
    /* in the middle of a stream an error is an event */
    char *text = sm_error_text(e, &n);
    if (text && sm_job_write(r->job, "data: ", 6) && sm_job_write(r->job, text, n))
        (void)sm_job_write(r->job, "\n", 1);
    free(text);
    sm_job_finish(r->job, e->status);
}

static smol_status read_prompt(struct run *r, smol_session *session, smol_error *err)
{
    const struct sm_job *j = r->job;
    smol_stats before, after;
    for (size_t i = 0; i < j->n_ids; i++) smol_sampler_accept(r->sampler, j->ids[i]);
    sm_states_turn(&r->server->states, session, j->ids, j->n_ids);
    smol_model_stats(r->server->model, &before);
    const smol_status st = smol_session_sync(session, j->ids, j->n_ids, err);
    smol_model_stats(r->server->model, &after);
    const uint64_t read = after.tokens_prompt - before.tokens_prompt;
    r->answer.n_cached = read < j->n_ids ? j->n_ids - (size_t)read : 0;
    r->answer.seconds_prompt = after.seconds_prompt - before.seconds_prompt;
    return st;
}

static void finish_stream(struct run *r, const char *finish)
{
    size_t n = 0;
    bool good = send_chunk(r, false, &nothing, finish);
    if (good && r->job->request.include_usage) {
        char *text = sm_answer_usage_chunk(&r->answer, &n);
        good = text && sm_job_write(r->job, text, n);
        free(text);
    }
    if (good) (void)sm_job_write(r->job, "data: [DONE]\n\n", 14);
    sm_job_finish(r->job, 200);
}

static void finish_whole(struct run *r, const char *finish)
{
    size_t n = 0;
    const bool good = !fflush(r->part[0].f) && !fflush(r->part[1].f);
    const struct sm_answer_text all = {r->part[0].text, r->part[0].n, r->part[1].text,
                                       r->part[1].n};
    char *text =
        good ? sm_answer_whole(&r->answer, &all, r->token, tokens_shown(r), finish, &n) : NULL;
    if (text && sm_job_write(r->job, text, n)) {
        sm_job_finish(r->job, 200);
    } else {
        struct sm_refusal e = {0};
        (void)sm_refuse(&e, 500, "answer_too_long", NULL, "the answer is too long for this server");
        sm_job_refuse(r->job, &e);
    }
    free(text);
}

/* Before the answer leaves: who has it may ask for the figures at once. */
static void count(struct run *r)
{
    struct sm_server *s = r->server;
    smol_stats now;
    smol_model_stats(s->model, &now);
    (void)pthread_mutex_lock(&s->mu);
    s->figures.stats = now;
    s->figures.prompt_tokens += r->answer.n_prompt;
    s->figures.cached_tokens += r->answer.n_cached;
    s->figures.generated_tokens += r->answer.n_generated;
    (void)pthread_mutex_unlock(&s->mu);
}

static smol_status answer(struct run *r, smol_session *session, smol_outcome *out, smol_error *err)
{
    struct sm_job *j = r->job;
    const struct sm_request *q = &j->request;
    const smol_generation g = {.max_tokens = q->max_tokens,
                               .stop = q->stop,
                               .n_stop = q->n_stop,
                               .text = on_text,
                               .token = on_token,
                               .arg = r,
                               .cancel = &r->server->cancel};
    smol_status st = smol_sampler_new(&r->sampler, r->server->model, &q->sampling, err);
    if (st != SMOL_OK) return st;
    r->answer.seed = smol_sampler_seed(r->sampler);
    if (q->stream && (!sm_job_begin_stream(j) || !send_chunk(r, true, &nothing, NULL)))
        return SMOL_CANCELLED;
    st = read_prompt(r, session, err);
    if (st != SMOL_OK) return st;
    const uint64_t start = sm_serve_now_ns();
    st = smol_generate(session, r->sampler, &g, out, err);
    if (j->kind == SM_REQUEST_CHAT) (void)smol_reasoning_end(&r->split, on_part, r);
    r->answer.seconds_decode = (double)(sm_serve_now_ns() - start) * 1e-9;
    r->answer.n_generated = out->n_tokens;
    return st;
}

/* The server's end cut the answer: its client must not take it for a whole one. */
static bool ended_by_server(struct run *r, smol_status st, smol_reason reason)
{
    struct sm_server *s = r->server;
    if (st != SMOL_CANCELLED && (st != SMOL_OK || reason != SMOL_CANCEL)) return false;
    (void)pthread_mutex_lock(&s->mu);
    const bool ended = s->cancel && (s->stopping || s->closing) && !r->job->cancelled;
    (void)pthread_mutex_unlock(&s->mu);
    return ended;
}

void sm_decode_run(struct sm_server *s, smol_session *session, struct sm_job *j)
{
    struct run r = {.server = s,
                    .job = j,
                    .answer = {.request = &j->request,
                               .model = s->config.model_name,
                               .vocab = s->vocab,
                               .n_prompt = j->n_ids}};
    smol_outcome out = {0, SMOL_ENDED};
    smol_error err = {0};
    struct sm_refusal e = {0};
    sm_answer_init(&r.answer);
    smol_reasoning_begin(&r.split, j->inside);
    for (unsigned i = 0; i < 2 && !j->request.stream; i++)
        r.part[i].f = open_memstream(&r.part[i].text, &r.part[i].n);
    smol_status st = SMOL_NOMEM;
    if (j->request.stream || (r.part[0].f && r.part[1].f)) st = answer(&r, session, &out, &err);
    count(&r);
    const bool ended = ended_by_server(&r, st, out.reason);
    if (ended) {
        sm_refuse_stopping(&e);
        refuse(&r, &e);
    } else if (st == SMOL_CANCELLED || sm_job_cancelled(j)) {
        (void)sm_refuse(&e, 503, "cancelled", NULL, "the request was given up");
        refuse(&r, &e);
    } else if (st != SMOL_OK || r.out_of_memory) {
        if (r.out_of_memory) (void)sm_refuse(&e, 503, "no_memory", NULL, "no memory for logprobs");
        else sm_refuse_failure(&e, &err);
        refuse(&r, &e);
    } else {
        const char *finish =
            out.reason == SMOL_ENDED || out.reason == SMOL_STOPPED ? "stop" : "length";
        if (j->request.stream) finish_stream(&r, finish);
        else finish_whole(&r, finish);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (r.part[i].f) (void)fclose(r.part[i].f);
        free(r.part[i].text);
    }
    free(r.token);
    smol_sampler_free(r.sampler);
}
