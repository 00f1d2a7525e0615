/* SPDX-License-Identifier: MIT */
/* The text thread and the decode thread. */
#include "doc.h"
#include "errors.h"
#include "flash_view.h"
#include "server.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void lock(struct sm_server *s) { (void)pthread_mutex_lock(&s->mu); }
static void unlock(struct sm_server *s) { (void)pthread_mutex_unlock(&s->mu); }

/* ---- text thread ---------------------------------------------------------------------------- */

/* Beyond this an answer is not sent, so it need not be made. */
#define ANSWER_MAX ((long)SM_SERVE_OUT_ALL_MAX)

/* The answer, or why there is none. */
static void hand_over(struct sm_job *j, struct sm_doc *d, bool made)
{
    struct sm_refusal e = {0};
    if (made && sm_job_write(j, d->text, d->n)) {
        sm_job_finish(j, 200);
        return;
    }
    if (made)
        (void)sm_refuse(&e, 413, "answer_too_long", NULL,
                        "the answer has more than %zu bytes", SM_SERVE_OUT_ALL_MAX);
    else (void)sm_refuse(&e, 503, "no_memory", NULL, "no memory for the answer");
    sm_job_refuse(j, &e);
}

static void answer_tokenize(struct sm_server *s, struct sm_job *j)
{
    const struct sm_request *r = &j->request;
    struct sm_doc d;
    char piece[512];
    if (!sm_doc_begin(&d)) {
        hand_over(j, &d, false);
        return;
    }
    sm_json_open(&d.j, NULL, '{');
    sm_json_open(&d.j, "tokens", '[');
    for (size_t i = 0; i < j->n_ids && ftell(d.f) <= ANSWER_MAX; i++) {
        if (!r->with_pieces) {
            sm_json_int(&d.j, NULL, j->ids[i]);
            continue;
        }
        size_t n = smol_piece(s->vocab, j->ids[i], true, piece, sizeof piece);
        if (n > sizeof piece) n = sizeof piece;
        sm_json_open(&d.j, NULL, '{');
        sm_json_int(&d.j, "id", j->ids[i]);
        sm_json_bytes(&d.j, "piece", piece, n);
        sm_json_close(&d.j);
    }
    sm_json_close(&d.j);
    sm_json_close(&d.j);
    hand_over(j, &d, sm_doc_end(&d));
    free(d.text);
}

static void answer_detokenize(struct sm_server *s, struct sm_job *j)
{
    const struct sm_request *r = &j->request;
    struct sm_doc d;
    char piece[512], *text = NULL;
    size_t n_text = 0;
    FILE *f = open_memstream(&text, &n_text);
    for (size_t i = 0; f && i < r->n_ids && ftell(f) <= ANSWER_MAX; i++) {
        const size_t n = smol_piece(s->vocab, r->ids[i], true, piece, sizeof piece);
        (void)fwrite(piece, 1, n < sizeof piece ? n : sizeof piece, f);
    }
    const bool begun = f && fclose(f) == 0 && text && sm_doc_begin(&d);
    if (begun) {
        sm_json_open(&d.j, NULL, '{');
        sm_json_bytes(&d.j, "content", text, n_text);
        sm_json_close(&d.j);
    }
    hand_over(j, &d, begun && sm_doc_end(&d));
    if (begun) free(d.text);
    free(text);
}

/* A conversation as the model's template writes it. The same request gives the same tokens whatever
 * was asked before: what a session happens to hold (smol_chat_params.kept) is left out of it. */
static bool encode_chat(struct sm_server *s, struct sm_job *j, struct sm_refusal *e)
{
    const struct sm_request *r = &j->request;
    const smol_chat_params p = {.thinking = r->thinking};
    smol_chat_info info = {0};
    smol_error err = {0};
    if (smol_chat_encode(s->vocab, r->messages, r->n_messages, &p, &j->ids, &j->n_ids, &info,
                         &err) != SMOL_OK) {
        sm_refuse_failure(e, &err);
        return false;
    }
    if (info.note[0] && !s->noted_template && !s->config.quiet)
        fprintf(stderr, "smol: note: %s\n", info.note);
    s->noted_template |= info.note[0] != '\0';
    j->inside = info.reasoning;
    if (info.can_think || r->thinking < 0 || (r->thinking == 0 && !info.reasoning)) return true;
    return sm_refuse(e, 400, "unsupported_parameter", "chat_template_kwargs.enable_thinking",
                     "the template of this model does not let thinking be switched %s",
                     r->thinking ? "on" : "off");
}

/* Token ids of what the model is to read. */
static smol_status encode(struct sm_server *s, struct sm_job *j, smol_error *err)
{
    struct sm_request *r = &j->request;
    unsigned flags = 0;
    switch (r->kind) {
    case SM_REQUEST_COMPLETION:
        if (r->ids) {
            j->ids = r->ids; /* moves over */
            j->n_ids = r->n_ids;
            r->ids = NULL;
            return SMOL_OK;
        }
        flags = SMOL_ADD_SPECIAL;
        break;
    case SM_REQUEST_TOKENIZE:
        flags =
            (r->add_special ? SMOL_ADD_SPECIAL : 0) | (r->parse_special ? SMOL_PARSE_SPECIAL : 0);
        break;
    default: return SMOL_OK;
    }
    return smol_tokenize(s->vocab, r->text, r->n_text, flags, &j->ids, &j->n_ids, err);
}

/* What can be refused before anything is computed. */
static bool prepare(struct sm_server *s, struct sm_job *j, struct sm_refusal *e)
{
    smol_error err = {0};
    if (!sm_request_parse(&j->request, j->kind, j->body, j->n_body, &s->config.defaults, e))
        return false;
    if (j->kind == SM_REQUEST_CHAT) {
        if (!encode_chat(s, j, e)) return false;
    } else if (encode(s, j, &err) != SMOL_OK) {
        sm_refuse_failure(e, &err);
        return false;
    }
    if (j->kind == SM_REQUEST_TOKENIZE || j->kind == SM_REQUEST_DETOKENIZE) return true;
    const size_t ctx = smol_model_plan(s->model)->ctx;
    if (j->n_ids == 0) return sm_refuse(e, 400, "invalid_value", "prompt", "the prompt is empty");
    if (j->n_ids >= ctx)
        return sm_refuse(
            e, 400, "context_length_exceeded", j->kind == SM_REQUEST_CHAT ? "messages" : "prompt",
            "the prompt has %zu tokens; the context of %zu leaves no room for an answer", j->n_ids,
            ctx);
    return true;
}

/* Into the line before the decode thread; what does not fit is told so. */
static void stand_in_line(struct sm_server *s, struct sm_job *j)
{
    struct sm_refusal e = {0};
    struct sm_queue_item *displaced = NULL;
    (void)snprintf(j->item.client, sizeof j->item.client, "%s", j->client);
    (void)snprintf(j->item.user, sizeof j->item.user, "%s", j->request.user ? j->request.user : "");
    lock(s);
    const bool stopping = s->stopping;
    const bool in =
        !stopping && !j->cancelled && sm_queue_push(&s->line, &j->item, &displaced);
    if (in) {
        j->place = SM_JOB_LINE;
        (void)pthread_cond_signal(&s->decode_work);
    }
    struct sm_job *out = in ? (struct sm_job *)(void *)displaced : j;
    if (out) out->place = SM_JOB_RUNNING; /* ours until it is finished */
    unlock(s);
    if (!out) return;
    if (stopping) sm_refuse_stopping(&e);
    else
        (void)sm_refuse(&e, 429, "queue_full", NULL,
                        "too many requests are waiting; try again later");
    sm_job_refuse(out, &e);
}

static void handle_text(struct sm_server *s, struct sm_job *j)
{
    struct sm_refusal e = {0};
    if (!prepare(s, j, &e)) sm_job_refuse(j, &e);
    else if (j->kind == SM_REQUEST_TOKENIZE) answer_tokenize(s, j);
    else if (j->kind == SM_REQUEST_DETOKENIZE) answer_detokenize(s, j);
    else stand_in_line(s, j);
}

static void *text_main(void *arg)
{
    struct sm_server *s = arg;
    lock(s);
    for (;;) {
        while (!s->text_first && !s->closing) (void)pthread_cond_wait(&s->text_work, &s->mu);
        struct sm_job *j = s->text_first;
        if (s->closing || !j) break;
        s->text_first = j->next;
        if (!s->text_first) s->text_last = NULL;
        s->n_text--;
        j->place = SM_JOB_RUNNING;
        unlock(s);
        handle_text(s, j);
        lock(s);
    }
    unlock(s);
    return NULL;
}

/* ---- decode thread -------------------------------------------------------------------------- */

static void ring(struct sm_server *s)
{
    const uint64_t one = 1;
    if (write(s->bell, &one, sizeof one) < 0) return; /* it rings already */
}

/* Progress of loading goes to the terminal, that of prompts to the watchers. */
static void progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct sm_server *s = arg;
    if (s->model) sm_view_look(s->view, "prompt", done, total);
    else if (s->config.params.progress)
        s->config.params.progress(s->config.params.progress_arg, what, done, total);
}

static bool open_model(struct sm_server *s, smol_session **session)
{
    smol_params p = s->config.params;
    smol_error err = {0};
    smol_sampling largest = s->config.defaults.sampling;
    largest.mirostat = largest.top_k = 0;
    largest.repeat_last = largest.dry_last = -1;
    largest.frequency_penalty = largest.dry_multiplier = 1;
    largest.n_bias = SM_REQUEST_BIAS_MAX;
    p.progress = progress;
    p.progress_arg = s;
    p.cancel = &s->cancel;
    p.caller_bytes = SM_SERVE_BYTES;
    p.sampling = &largest; /* of what a request may ask for */
    smol_model *m = NULL;
    smol_stats stats = {0};
    smol_status st = smol_model_open(&m, s->config.model_path, &p, &err);
    if (st == SMOL_OK) {
        s->model = m;
        s->vocab = smol_model_vocab(m);
        if (!s->vocab) {
            err = (smol_error){.code = SMOL_UNSUPPORTED, .at = UINT64_MAX};
            (void)snprintf(err.msg, sizeof err.msg, "the model has no vocabulary");
            st = SMOL_UNSUPPORTED;
        }
    }
    if (st == SMOL_OK) st = smol_session_new(session, m, &err);
    if (st == SMOL_OK && !sm_view_open(s->view)) {
        err = (smol_error){
            .code = SMOL_NOMEM, .at = UINT64_MAX, .msg = "no memory for the flash view"};
        st = SMOL_NOMEM;
    }
    if (st == SMOL_OK) {
        s->config.defaults.n_vocab = smol_vocab_size(s->vocab);
        smol_model_stats(m, &stats);
    }
    lock(s);
    s->figures.stats = stats;
    s->loaded = st == SMOL_OK;
    s->failed = st != SMOL_OK;
    s->load_error = err;
    unlock(s);
    /* not before it is true: who is told may ask at once */
    if (st == SMOL_OK && s->config.ready) s->config.ready(&s->config, m);
    ring(s);
    return st == SMOL_OK;
}

static struct sm_job *next_job(struct sm_server *s)
{
    struct sm_queue_item *item = NULL;
    lock(s);
    while (!s->closing && !(item = sm_queue_pop(&s->line)))
        (void)pthread_cond_wait(&s->decode_work, &s->mu);
    struct sm_job *j = (struct sm_job *)(void *)item;
    if (j) {
        j->place = SM_JOB_RUNNING;
        s->running = j;
        s->cancel = false;
        s->figures.wait_seconds += (double)(sm_serve_now_ns() - j->ns_arrived) * 1e-9;
    }
    unlock(s);
    return j;
}

static void *decode_main(void *arg)
{
    struct sm_server *s = arg;
    smol_session *session = NULL;
    struct sm_job *j;
    s->states = (struct sm_states){.folder = s->config.state_folder, .quiet = s->config.quiet};
    if (open_model(s, &session)) {
        while ((j = next_job(s)) != NULL) {
            sm_decode_run(s, session, j);
            sm_view_look(s->view, "idle", 0, 0);
        }
        sm_states_end(&s->states, session);
    }
    smol_session_free(session);
    return NULL;
}

/* ---- both ----------------------------------------------------------------------------------- */

static bool start(pthread_t *t, void *(*fn)(void *), struct sm_server *s)
{
    sigset_t all, old;
    (void)sigfillset(&all); /* signals are the event thread's */
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    const bool good = pthread_create(t, NULL, fn, s) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return good;
}

bool sm_work_start(struct sm_server *s)
{
    s->decode_started = start(&s->decode_thread, decode_main, s);
    s->text_started = s->decode_started && start(&s->text_thread, text_main, s);
    return s->text_started;
}

void sm_work_stop(struct sm_server *s)
{
    lock(s);
    s->closing = true;
    s->cancel = true;
    (void)pthread_cond_broadcast(&s->text_work);
    (void)pthread_cond_broadcast(&s->decode_work);
    unlock(s);
    if (s->text_started) (void)pthread_join(s->text_thread, NULL);
    if (s->decode_started) (void)pthread_join(s->decode_thread, NULL);
    if (s->loaded && s->config.done) s->config.done(s->model);
    smol_model_free(s->model);
    s->model = NULL;
}
