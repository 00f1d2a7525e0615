/* SPDX-License-Identifier: MIT */
/* One answer of a chat: fit the conversation into the context, read what is new, write the answer.
 */
#include "talk.h"
#include "base/status.h"
#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "lib/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is printed ---- */

const char *sm_chat_dim(const struct sm_chat *c) { return c->colour ? "\033[2m" : ""; }
const char *sm_chat_plain(const struct sm_chat *c) { return c->colour ? "\033[0m" : ""; }

struct text {
    char *p;
    size_t n, cap;
};

static bool append(struct text *t, const char *p, size_t n)
{
    if (t->cap - t->n <= n) {
        size_t cap = t->cap ? t->cap : 256;
        while (cap - t->n <= n) cap *= 2;
        char *grown = realloc(t->p, cap);
        if (!grown) return false;
        t->p = grown;
        t->cap = cap;
    }
    memcpy(t->p + t->n, p, n);
    t->n += n;
    t->p[t->n] = 0;
    return true;
}

struct writer {
    struct sm_chat *c;
    smol_reasoning split;
    struct text parts[2]; /* the answer, what was thought */
    bool thinking;        /* what is printed now */
    bool broken;
    int error; /* errno of what broke */
};

static bool on_part(void *arg, bool reasoning, const char *bytes, size_t n)
{
    struct writer *w = arg;
    if (reasoning != w->thinking) {
        if (reasoning) fputs(sm_chat_dim(w->c), stdout);
        else printf("%s\n\n", sm_chat_plain(w->c));
        w->thinking = reasoning;
    }
    const bool printed = sm_print_text(stdout, bytes, n, w->c->terminal) && fflush(stdout) == 0;
    w->broken = !printed || !append(&w->parts[reasoning], bytes, n);
    if (w->broken) w->error = errno;
    return !w->broken;
}

static bool on_text(void *arg, const char *bytes, size_t n)
{
    struct writer *w = arg;
    return smol_reasoning_put(&w->split, bytes, n, on_part, w);
}

static void print_status(const struct sm_chat *c, const smol_stats *a, const smol_stats *b,
                         const smol_outcome *out)
{
    static const char *const ends[] = {"", ", stop string", ", limit reached", ", context full",
                                       ", interrupted"};
    if (c->o->quiet) return;
    const double s = b->seconds_decode - a->seconds_decode;
    const uint64_t made = b->tokens_generated - a->tokens_generated;
    const uint64_t uses = b->expert_uses - a->expert_uses,
                   misses = b->expert_misses - a->expert_misses;
    fprintf(stderr, "%s[%zu tokens", sm_chat_dim(c), out->n_tokens);
    if (s > 0 && made) fprintf(stderr, " at %.1f/s", (double)made / s);
    fprintf(stderr, ", read %llu in %.1f s",
            (unsigned long long)(b->tokens_prompt - a->tokens_prompt),
            b->seconds_prompt - a->seconds_prompt);
    if (misses)
        fprintf(stderr, ", hits %.0f %%, waited %.1f s",
                100.0 * (double)(uses - misses) / (double)uses,
                b->demand_wait_seconds - a->demand_wait_seconds);
    else if (b->streamed_bytes > a->streamed_bytes)
        fprintf(stderr, ", streamed %.1f MB, waited %.1f s",
                (double)(b->streamed_bytes - a->streamed_bytes) * 1e-6,
                b->demand_wait_seconds - a->demand_wait_seconds);
    fprintf(stderr, ", context %zu of %u%s]%s\n", smol_session_length(c->session),
            smol_model_plan(c->model)->ctx, ends[out->reason], sm_chat_plain(c));
}

/* ---- the conversation as tokens ---- */

static smol_status encode(struct sm_chat *c, int32_t **ids, size_t *n_ids, smol_chat_info *info,
                          smol_error *err)
{
    size_t n = 0;
    smol_message *m = sm_talk_messages(&c->talk, &n);
    const smol_vocab *v = smol_model_vocab(c->model);
    size_t n_kept = 0;
    const int32_t *kept = smol_session_tokens(c->session, &n_kept);
    const smol_chat_params p = {.thinking = c->thinking, .kept = kept, .n_kept = n_kept};
    smol_status st;
    *ids = NULL;
    if (!m) return SM_FAIL(err, NOMEM, "no memory for the conversation");
    *info = (smol_chat_info){0};
    if (!c->o->raw) {
        st = smol_chat_encode(v, m, n, &p, ids, n_ids, info, err);
    } else { /* the texts as they are, one behind the other */
        struct text all = {0};
        bool good = true;
        for (size_t i = 0; good && i < n; i++) good = append(&all, m[i].content, m[i].n_bytes);
        st = good ? smol_tokenize(v, all.p, all.n, SMOL_ADD_SPECIAL, ids, n_ids, err)
                  : SM_FAIL(err, NOMEM, "no memory for the conversation");
        free(all.p);
    }
    free(m);
    return st;
}

/* Tokens that must stay free for the answer. */
static size_t room_wanted(const struct sm_chat *c)
{
    const size_t ctx = smol_model_plan(c->model)->ctx;
    const size_t most = ctx / 4 < 256 ? ctx / 4 : 256;
    const int64_t n = c->o->n_predict;
    return n >= 0 && (size_t)n < most ? (size_t)n : most;
}

/* Encode, dropping the oldest turns until the conversation and an answer fit. */
static smol_status encode_fitting(struct sm_chat *c, int32_t **ids, size_t *n_ids,
                                  smol_chat_info *info, smol_error *err)
{
    const size_t ctx = smol_model_plan(c->model)->ctx, room = room_wanted(c);
    const size_t before = c->talk.n_dropped;
    for (;;) {
        const smol_status st = encode(c, ids, n_ids, info, err);
        if (st != SMOL_OK) return st;
        if (*n_ids + room <= ctx || !sm_talk_drop(&c->talk)) break;
        smol_free(*ids);
    }
    const bool dropped = c->talk.n_dropped > before;
    size_t n_held = 0;
    if (dropped && !c->o->quiet)
        fprintf(stderr,
                "smol: note: the context of %zu tokens is full: the oldest %zu messages are "
                "left out, the others are %s\n",
                ctx, c->talk.n_dropped, c->o->ctx_shift ? "moved up" : "read again");
    if (*n_ids < ctx && dropped && c->o->ctx_shift)
        return smol_session_shift(c->session, *ids, *n_ids, &n_held, err);
    if (*n_ids < ctx) return SMOL_OK;
    smol_free(*ids);
    *ids = NULL;
    return SM_FAIL(err, LIMIT,
                "the message has %zu tokens; with its answer it does not fit the context of %zu "
                "(--ctx)",
                *n_ids, ctx);
}

static void note_template(struct sm_chat *c, const smol_chat_info *info)
{
    c->can_think = info->can_think;
    if (info->note[0] && !c->noted_template && !c->o->quiet)
        fprintf(stderr, "smol: note: %s\n", info->note);
    c->noted_template = true;
}

/* ---- the answer ---- */

static smol_status generate(struct sm_chat *c, const int32_t *ids, size_t n_ids, struct writer *w,
                            smol_outcome *out, smol_error *err)
{
    smol_sampler *sampler = NULL;
    const smol_generation g = {.max_tokens = c->o->n_predict,
                               .stop = c->o->stop,
                               .n_stop = c->o->n_stop,
                               .text = on_text,
                               .arg = w,
                               .cancel = &sm_interrupted};
    c->sampling.seed = (int64_t)(uint32_t)(c->seed + c->n_answers);
    smol_status st = smol_sampler_new(&sampler, c->model, &c->sampling, err);
    for (size_t i = 0; st == SMOL_OK && i < n_ids; i++) smol_sampler_accept(sampler, ids[i]);
    if (st == SMOL_OK && c->fresh && c->cache[0]) {
        size_t n = 0;
        smol_error ignored = {0}; /* a note has been given; the prompt is read instead */
        (void)!smol_cache_restore(c->session, c->cache, ids, n_ids, &n, &ignored);
        c->fresh = false;
    }
    if (st == SMOL_OK) st = smol_session_sync(c->session, ids, n_ids, err);
    sm_progress_clear();
    if (st == SMOL_OK) st = smol_generate(c->session, sampler, &g, out, err);
    (void)smol_reasoning_end(&w->split, on_part, w);
    smol_sampler_free(sampler);
    return st;
}

/* What ends the chat: the program's exit code is this answer's. */
static void end_with(struct sm_chat *c, int code)
{
    c->code = code;
    c->quit = true;
}

/* Why there is no answer. A message that cannot be answered ends no chat, but a script sees it. */
static void explain(struct sm_chat *c, const struct writer *w, smol_status st,
                    const smol_error *err)
{
    if (w->broken && w->error == EPIPE) { /* the reader had enough */
        end_with(c, SM_EXIT_DONE);
    } else if (w->broken) {
        end_with(c, sm_complain(SM_EXIT_FAILED, "cannot write the answer: %s", strerror(w->error)));
    } else if (st == SMOL_CANCELLED) { /* stopped before the answer began */
        if (!c->o->quiet) fprintf(stderr, "%s[interrupted]%s\n", sm_chat_dim(c), sm_chat_plain(c));
    } else {
        const int code = sm_report(err);
        if (st != SMOL_ARG && st != SMOL_LIMIT) end_with(c, code);
        else if (!c->person) c->code = SM_EXIT_FAILED;
    }
}

bool sm_chat_answer(struct sm_chat *c)
{
    struct writer w = {.c = c};
    smol_stats before, after;
    smol_outcome out = {0, SMOL_ENDED};
    smol_chat_info info;
    smol_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0;
    sm_interrupted = false;
    smol_model_stats(c->model, &before);
    smol_status st = encode_fitting(c, &ids, &n_ids, &info, &err);
    if (st == SMOL_OK) {
        note_template(c, &info);
        smol_reasoning_begin(&w.split, info.reasoning);
        st = generate(c, ids, n_ids, &w, &out, &err);
    }
    smol_free(ids);
    const struct text *answer = &w.parts[0], *thought = &w.parts[1];
    fputs(sm_chat_plain(c), stdout);
    if (answer->n + thought->n) fputc('\n', stdout);
    if (!w.broken && fflush(stdout) != 0) {
        w.broken = true;
        w.error = errno;
    }
    (void)sm_trace_good(c->o);
    bool answered = st == SMOL_OK && !w.broken;
    if (answered) {
        c->n_answers++;
        answered = sm_talk_add(&c->talk, SM_TALK_ASSISTANT, answer->p ? answer->p : "", answer->n,
                               thought->p);
        if (!answered) st = SM_FAIL(&err, NOMEM, "no memory for the conversation");
    }
    if (!answered) explain(c, &w, st, &err);
    smol_model_stats(c->model, &after);
    if (answered) print_status(c, &before, &after, &out);
    sm_interrupted = false;
    free(w.parts[0].p);
    free(w.parts[1].p);
    return answered;
}
