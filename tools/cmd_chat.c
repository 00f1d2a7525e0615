/* SPDX-License-Identifier: MIT */
/* smol chat MODEL: a conversation in a terminal, or line by line from a pipe. */
#include "lib/command.h"
#include "lib/line_edit.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "lib/sampling_args.h"
#include "lib/state_folder.h"
#include "lib/terminal.h"
#include "talk.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_BYTES ((size_t)64 << 10)

void sm_chat_keep(struct sm_chat *c)
{
    smol_error err = {0};
    if (!c->cache[0] || !smol_session_length(c->session)) return;
    if (smol_cache_save(c->session, c->cache, SM_STATES_BYTES, &err) == SMOL_OK || c->o->quiet)
        return;
    fprintf(stderr, "smol: note: the conversation's state is not kept: %s\n", err.msg);
    c->cache[0] = 0;
}

/* ---- messages ---- */

struct entry {
    char *p;
    size_t n, cap;
    bool over; /* longer than SM_LINE_BYTES, or there is no memory: left out */
};

static void add(struct entry *e, const char *text, size_t n)
{
    if (e->over || n > SM_LINE_BYTES || e->n + n > SM_LINE_BYTES) {
        e->over = true;
        return;
    }
    if (e->cap < e->n + n + 1) {
        char *p = realloc(e->p, 2 * (e->n + n + 1));
        if (!p) {
            e->over = true;
            return;
        }
        e->p = p;
        e->cap = 2 * (e->n + n + 1);
    }
    if (n) memcpy(e->p + e->n, text, n);
    e->n += n;
    e->p[e->n] = 0;
}

/* One message: a line, lines joined by a backslash at their end, or what stands between lines that
 * begin and end with three quotes. */
static enum sm_line read_message(struct sm_line_reader *r, struct entry *e)
{
    bool quoted = false;
    e->n = 0;
    e->over = false;
    for (bool first = true;; first = false) {
        const char *text;
        size_t n;
        const enum sm_line got = sm_line_read(r, first ? "> " : ". ", &text, &n);
        if (got == SM_LINE_INTERRUPTED || got == SM_LINE_BROKEN || (got == SM_LINE_END && first))
            return got;
        if (got == SM_LINE_END) break;
        if (got == SM_LINE_LONG) e->over = true;
        if (first && n >= 3 && !memcmp(text, "\"\"\"", 3)) {
            quoted = true;
            text += 3;
            n -= 3;
            if (!n) continue;
        }
        const bool ends = quoted && n >= 3 && !memcmp(text + n - 3, "\"\"\"", 3);
        const bool goes_on = !quoted && n && text[n - 1] == '\\';
        if (e->n) add(e, "\n", 1);
        add(e, text, n - (ends ? 3 : goes_on));
        if (quoted ? ends : !goes_on) break;
    }
    if (e->over) return SM_LINE_LONG;
    if (quoted && e->n && e->p[e->n - 1] == '\n') e->p[--e->n] = 0;
    return SM_LINE_TEXT;
}

/* True: there is a message to answer, or a word to obey. */
static bool has_message(struct sm_chat *c, enum sm_line got, const struct entry *e)
{
    if (got == SM_LINE_LONG) {
        const int code = sm_complain(SM_EXIT_FAILED,
                                     "the message is longer than %zu bytes and is left out",
                                     SM_LINE_BYTES);
        if (!c->person) c->code = code;
    }
    if (got == SM_LINE_BROKEN) {
        c->code = sm_complain(SM_EXIT_FAILED, "cannot read standard input: %s", strerror(errno));
        c->quit = true;
    }
    return got == SM_LINE_TEXT && e->n > 0;
}

/* Make room for a message and its answer. What is forgotten has left the context long since, unless
 * that is as long as a book. */
static void forget_old(struct sm_chat *c, size_t n)
{
    const size_t room = n + ANSWER_BYTES;
    if (!sm_talk_forget(&c->talk, room < c->talk_bytes ? c->talk_bytes - room : 0)) return;
    if (!c->noted_forgotten && !c->o->quiet)
        fprintf(stderr,
                "smol: note: the oldest messages are forgotten: a conversation keeps %zu KiB\n",
                c->talk_bytes >> 10);
    c->noted_forgotten = true;
}

static void talk(struct sm_chat *c, struct sm_line_reader *r)
{
    struct entry e = {0};
    while (!c->quit) {
        sm_interrupted = false;
        const enum sm_line got = read_message(r, &e);
        if (got == SM_LINE_END) break;
        if (!has_message(c, got, &e)) continue;
        sm_line_remember(r, e.p);
        if (e.p[0] == '/') {
            sm_chat_word(c, e.p);
            (void)fflush(stdout);
            continue;
        }
        forget_old(c, e.n);
        if (!sm_talk_add(&c->talk, SM_TALK_USER, e.p, e.n, NULL)) {
            c->code = sm_complain(SM_EXIT_NOMEM, "no memory for the message");
            break;
        }
        if (!sm_chat_answer(c)) sm_talk_pop(&c->talk);
    }
    free(e.p);
}

static void greet(const struct sm_chat *c, const char *path)
{
    const smol_plan *p = smol_model_plan(c->model);
    const char *slash = strrchr(path, '/');
    if (!c->terminal || c->o->quiet) return;
    const char *name = slash ? slash + 1 : path;
    fputs(sm_chat_dim(c), stdout);
    (void)sm_print_text(stdout, name, strlen(name), true);
    printf(": context %u tokens, %s. /help lists the commands.%s\n", p->ctx,
           p->n_pool && !p->experts_resident ? "experts paged from flash" : "all in memory",
           sm_chat_plain(c));
}

/* False: said. Better before a message is typed than after. */
static bool has_template(struct sm_chat *c)
{
    const smol_vocab *v = smol_model_vocab(c->model);
    const smol_message hello = {.role = "user", .content = "Hello", .n_bytes = 5};
    smol_chat_info info;
    smol_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    if (c->o->raw) return true;
    const smol_status st = smol_chat_encode(v, &hello, 1, NULL, &ids, &n, &info, &err);
    smol_free(ids);
    if (st != SMOL_UNSUPPORTED) return true; /* what else there is belongs to a message */
    c->code = sm_complain(SM_EXIT_FAILED, "%s; with --raw the messages are continued as they are",
                          err.msg);
    return false;
}

/* False: it has been said why, and c->code is what to end with. */
static bool prepare(struct sm_chat *c)
{
    smol_error err = {0};
    c->person = isatty(STDIN_FILENO) == 1;
    c->terminal = isatty(STDOUT_FILENO) == 1;
    c->colour = sm_terminal_colours(STDOUT_FILENO);
    c->thinking = -1;
    c->fresh = true;
    sm_sampling_args(c->o, &c->sampling);
    c->seed = (uint32_t)c->sampling.seed;
    if (c->sampling.seed < 0) {
        struct timespec t;
        (void)clock_gettime(CLOCK_REALTIME, &t);
        c->seed = (uint32_t)t.tv_nsec * 2654435761u ^ (uint32_t)t.tv_sec;
    }
    sm_state_folder(c->cache, sizeof c->cache);
    if (smol_session_new(&c->session, c->model, &err) != SMOL_OK) c->code = sm_report(&err);
    else if (c->o->system && !sm_talk_system(&c->talk, c->o->system))
        c->code = sm_complain(SM_EXIT_NOMEM, "no memory for the system message");
    return c->code == SM_EXIT_DONE;
}

int sm_cmd_chat(const struct sm_options *o, int argc, char **argv)
{
    struct sm_chat c = {.o = o};
    smol_params params;
    smol_error err = {0};
    char history[sizeof c.cache + 16] = "";
    (void)argc;
    sm_catch_interrupts(); /* Ctrl-C stops an answer or a line, never the chat */
    sm_model_params(o, &params);
    c.talk_bytes = 8 * (size_t)o->n_ctx; /* bytes of a token: some five */
    if (c.talk_bytes < SM_TALK_BYTES) c.talk_bytes = SM_TALK_BYTES;
    params.caller_bytes = SM_TALK_SHARE * c.talk_bytes;
    sm_model_learns(o, argv[0], &params);
    if (smol_model_open(&c.model, argv[0], &params, &err) != SMOL_OK) {
        sm_progress_clear();
        return sm_report(&err);
    }
    sm_model_notes(o, c.model);
    struct sm_line_reader *reader = NULL;
    if (has_template(&c) && prepare(&c)) {
        if (c.cache[0]) (void)snprintf(history, sizeof history, "%s/history", c.cache);
        reader = sm_line_open(*history ? history : NULL);
        greet(&c, argv[0]);
        if (reader) talk(&c, reader);
        else c.code = sm_complain(SM_EXIT_NOMEM, "no memory for a line");
        sm_chat_keep(&c);
    }
    sm_line_close(reader);
    if (!sm_write_stats(o, c.model) && c.code == SM_EXIT_DONE) c.code = SM_EXIT_FAILED;
    sm_talk_clear(&c.talk, false);
    smol_session_free(c.session);
    smol_model_free(c.model);
    return c.code;
}
