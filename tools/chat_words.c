/* SPDX-License-Identifier: MIT */
/* The commands inside a chat. */
#include "talk.h"
#include "lib/command.h"
#include "lib/stats_text.h"
#include "lib/terminal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void say(const struct sm_chat *c, const char *text)
{
    fputs(sm_chat_dim(c), stdout);
    (void)sm_print_text(stdout, text, strlen(text), c->terminal);
    printf("%s\n", sm_chat_plain(c));
}

static void word_clear(struct sm_chat *c, const char *arg)
{
    (void)arg;
    sm_chat_keep(c);
    sm_talk_clear(&c->talk, true);
    c->fresh = true;
    say(c, "The conversation begins anew.");
}

static void word_save(struct sm_chat *c, const char *arg)
{
    char why[200];
    if (!*arg) say(c, "/save FILE");
    else if (!sm_talk_save(&c->talk, arg, why, sizeof why)) say(c, why);
    else {
        sm_chat_keep(c);
        say(c, "Saved.");
    }
}

static void word_load(struct sm_chat *c, const char *arg)
{
    char why[200];
    if (!*arg) {
        say(c, "/load FILE");
        return;
    }
    sm_chat_keep(c);
    if (!sm_talk_load(&c->talk, arg, c->talk_bytes + c->talk_bytes / 4, why, sizeof why)) {
        say(c, why);
        return;
    }
    c->fresh = true;
    printf("%s%zu messages%s%s\n", sm_chat_dim(c), c->talk.n, c->talk.n ? "; the last:" : "",
           sm_chat_plain(c));
    if (c->talk.n) {
        const struct sm_talk_message *last = &c->talk.v[c->talk.n - 1];
        (void)sm_print_text(stdout, last->text, last->n, c->terminal);
        fputc('\n', stdout);
    }
}

static void word_system(struct sm_chat *c, const char *arg)
{
    const bool have = c->talk.n && c->talk.v[0].role == SM_TALK_SYSTEM;
    if (!*arg) {
        say(c, have ? c->talk.v[0].text
                    : "There is no system message; /system TEXT sets one, /system - removes it.");
        return;
    }
    if (!sm_talk_system(&c->talk, strcmp(arg, "-") != 0 ? arg : NULL)) say(c, "no memory");
    else say(c, "The system message is changed; the conversation is read again.");
}

static void word_think(struct sm_chat *c, const char *arg)
{
    if (!strcmp(arg, "on")) c->thinking = 1;
    else if (!strcmp(arg, "off")) c->thinking = 0;
    else say(c, "/think on or /think off");
    if (c->noted_template && !c->can_think)
        say(c, "The template of this model knows no such switch.");
}

static void word_stats(struct sm_chat *c, const char *arg)
{
    smol_stats s;
    const smol_plan *p = smol_model_plan(c->model);
    (void)arg;
    smol_model_stats(c->model, &s);
    printf("%s%s, %zu messages, context %zu of %u tokens\n", sm_chat_dim(c), p->arch, c->talk.n,
           smol_session_length(c->session), p->ctx);
    printf("read %llu tokens at %.1f/s, wrote %llu at %.1f/s",
           (unsigned long long)s.tokens_prompt,
           s.seconds_prompt > 0 ? (double)s.tokens_prompt / s.seconds_prompt : 0.0,
           (unsigned long long)s.tokens_generated,
           s.seconds_decode > 0 ? (double)s.tokens_generated / s.seconds_decode : 0.0);
    sm_print_prediction(stdout, &s);
    printf("\nmemory %.1f of %.1f MiB", (double)s.peak_rss_bytes / 1048576.0,
           (double)s.budget_bytes / 1048576.0);
    if (s.expert_uses)
        printf("; experts: %u of %u a layer in memory, %.1f %% of uses missed, waited %.2f s",
               s.pool_slots_per_layer, p->n_expert,
               100.0 * (double)s.expert_misses / (double)s.expert_uses,
               s.demand_wait_seconds - s.stream_wait_seconds);
    sm_print_streamed(stdout, "\n", &s);
    sm_print_drafts(stdout, "\n", &s, false);
    for (unsigned i = 0; i < s.n_loss_levers; i++) printf("\nlossy: %s", s.loss_levers[i]);
    printf("\nseed of the next answer %u%s\n", c->seed + c->n_answers, sm_chat_plain(c));
}

/* Another answer; the one before stays when there is none. */
static void word_regen(struct sm_chat *c, const char *arg)
{
    struct sm_talk *t = &c->talk;
    struct sm_talk_message old = {0};
    const bool answered = t->n && t->v[t->n - 1].role == SM_TALK_ASSISTANT;
    (void)arg;
    if (t->n < answered + (size_t)1 || t->v[t->n - 1 - answered].role != SM_TALK_USER) {
        say(c, "There is no answer yet.");
        return;
    }
    if (answered && c->sampling.temp <= 0)
        say(c, "With --temp 0 it is the same answer each time.");
    if (answered) (void)sm_talk_take(t, &old);
    if (sm_chat_answer(c)) sm_talk_release(&old);
    else if (answered) sm_talk_return(t, old);
}

static void word_quit(struct sm_chat *c, const char *arg)
{
    (void)arg;
    c->quit = true;
}

static void word_help(struct sm_chat *c, const char *arg);

static const struct word {
    const char *name, *arg, *help;
    void (*fn)(struct sm_chat *, const char *);
} words[] = {
    {"help", "", "this list", word_help},
    {"clear", "", "forget the conversation, keep the system message", word_clear},
    {"save", "FILE", "write the conversation to FILE", word_save},
    {"load", "FILE", "go on with a saved conversation", word_load},
    {"system", "TEXT", "set the system message; - removes it", word_system},
    {"think", "on|off", "let the model think before it answers, where its template can",
     word_think},
    {"stats", "", "speed, memory and experts so far", word_stats},
    {"regen", "", "another answer to the last message", word_regen},
    {"quit", "", "end (Ctrl-D does it too)", word_quit},
};
enum { N_WORDS = sizeof words / sizeof *words };

static void word_help(struct sm_chat *c, const char *arg)
{
    (void)arg;
    fputs(sm_chat_dim(c), stdout);
    for (int i = 0; i < N_WORDS; i++) {
        char head[32];
        (void)snprintf(head, sizeof head, "/%s %s", words[i].name, words[i].arg);
        printf("%-16s%s\n", head, words[i].help);
    }
    printf("A line that ends with \\ goes on in the next; \"\"\" begins and ends a text of many "
           "lines.\n"
           "Ctrl-C stops an answer.%s\n",
           sm_chat_plain(c));
}

void sm_chat_word(struct sm_chat *c, char *line)
{
    const char *names[N_WORDS + 1];
    char *arg = strchr(line, ' ');
    if (arg) *arg++ = 0;
    else arg = line + strlen(line);
    while (*arg == ' ') arg++;
    for (int i = 0; i < N_WORDS; i++) {
        names[i] = words[i].name;
        if (strcmp(words[i].name, line + 1) != 0) continue;
        words[i].fn(c, arg);
        return;
    }
    names[N_WORDS] = NULL;
    const char *near = sm_nearest(line + 1, names);
    char text[128];
    (void)snprintf(text, sizeof text, "unknown command %.40s%s%s; /help lists them", line,
                   near ? ", did you mean /" : "", near ? near : "");
    say(c, text);
}
