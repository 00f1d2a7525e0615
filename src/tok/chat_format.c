/* SPDX-License-Identifier: MIT */
#include "tok/chat_format.h"

#include "tok/chat_formats.h"

#include <stdlib.h>
#include <string.h>

const struct sm_chat_format *sm_chat_format_at(size_t i)
{
    return i < sm_chat_n_formats ? &sm_chat_formats[i] : NULL;
}

const char *sm_chat_format_name(const struct sm_chat_format *f) { return f->name; }

const struct sm_chat_format *sm_chat_format_by_name(const char *name)
{
    for (size_t i = 0; i < sm_chat_n_formats; i++)
        if (!strcmp(sm_chat_formats[i].name, name)) return &sm_chat_formats[i];
    return NULL;
}

const struct sm_chat_format *sm_chat_format_find(const char *text, size_t n)
{
    for (size_t i = 0; i < sm_chat_n_rules; i++) {
        const struct sm_chat_rule *r = &sm_chat_rules[i];
        bool all = true;
        for (size_t k = 0; k < sizeof r->has / sizeof *r->has && r->has[k] && all; k++)
            all = memmem(text, n, r->has[k], strlen(r->has[k])) != NULL;
        if (all) return sm_chat_format_by_name(r->format);
    }
    return NULL;
}

/* ---- rendering ---- */

static void put(struct sm_chat_segments *s, const char *text, size_t n, bool markup)
{
    if (n == 0) return;
    s->v[s->n++] = (struct sm_chat_segment){.text = text, .n = n, .markup = markup};
    s->n_bytes += n;
}

static void put_markup(struct sm_chat_segments *s, const char *text)
{
    if (text) put(s, text, strlen(text), true);
}

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static void trim(const char **text, size_t *n)
{
    while (*n && is_space((*text)[*n - 1])) --*n;
    while (*n && is_space(**text)) {
        ++*text;
        --*n;
    }
}

static smol_status role_of(const smol_message *m, size_t i, enum sm_chat_role *role,
                           smol_error *err)
{
    const char *name = m->role ? m->role : "";
    if (!strcmp(name, "user")) *role = SM_CHAT_USER;
    else if (!strcmp(name, "assistant")) *role = SM_CHAT_ASSISTANT;
    else if (!strcmp(name, "system") || !strcmp(name, "developer")) *role = SM_CHAT_SYSTEM;
    else
        return SM_FAIL(err, UNSUPPORTED,
                       "message %zu: role \"%.40s\" is not known (system, user, assistant)", i + 1,
                       name);
    return SMOL_OK;
}

static void render(const struct sm_chat_format *f, const smol_message *messages, size_t n,
                   bool answer, struct sm_chat_segments *s)
{
    bool open = false, opened_before = false; /* a block of system and user text */
    enum sm_chat_role role = SM_CHAT_USER;
    put_markup(s, f->begin);
    if (n == 0 || role_of(&messages[0], 0, &role, NULL) != SMOL_OK || role != SM_CHAT_SYSTEM)
        put_markup(s, f->no_system);
    for (size_t i = 0; i < n; i++) {
        const char *text = messages[i].content;
        size_t n_text = text ? messages[i].n_bytes : 0;
        if (role_of(&messages[i], i, &role, NULL) != SMOL_OK) continue; /* checked before */
        if (f->flags & SM_CHAT_TRIM(role)) trim(&text, &n_text);
        if (role == SM_CHAT_SYSTEM && ((f->flags & SM_CHAT_NO_SYSTEM) || (f->turn && !n_text)))
            continue;
        if (f->turn && role != SM_CHAT_ASSISTANT && !open) {
            put_markup(s, opened_before && f->turn_again ? f->turn_again : f->turn);
            open = opened_before = true;
        }
        if (i > 0) put_markup(s, f->between);
        put_markup(s, f->role[role].before);
        put(s, text, n_text, false);
        put_markup(s, f->role[role].after);
        if (role != SM_CHAT_SYSTEM) open = false;
    }
    if (answer) put_markup(s, f->answer);
}

smol_status sm_chat_render(const struct sm_chat_format *f, const smol_message *messages, size_t n,
                           bool answer, struct sm_chat_segments *out, smol_error *err)
{
    enum sm_chat_role role;
    *out = (struct sm_chat_segments){0};
    if (n > SM_CHAT_MESSAGES_MAX)
        return SM_FAIL(err, LIMIT, "a conversation of %zu messages; at most %u are possible", n,
                       SM_CHAT_MESSAGES_MAX);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++) {
        SM_TRY(role_of(&messages[i], i, &role, err));
        if (__builtin_add_overflow(bytes, messages[i].n_bytes, &bytes) || bytes > SIZE_MAX / 2)
            return SM_FAIL(err, LIMIT, "the conversation is too long");
    }
    /* begin, no_system, answer; per message: turn, between, before, content, after */
    out->v = calloc(3 + 5 * n, sizeof *out->v);
    if (!out->v) return SM_FAIL(err, NOMEM, "no memory for a conversation of %zu messages", n);
    render(f, messages, n, answer, out);
    return SMOL_OK;
}

void sm_chat_segments_free(struct sm_chat_segments *s)
{
    free(s->v);
    free(s->owned);
    *s = (struct sm_chat_segments){0};
}

smol_status sm_chat_join(const struct sm_chat_segments *s, size_t max, char **text,
                         uint8_t **typed, size_t *n, smol_error *err)
{
    *text = NULL;
    *n = 0;
    if (s->n_bytes > max)
        return SM_FAIL(err, LIMIT, "the conversation has %zu bytes; at most %zu are possible",
                       s->n_bytes, max);
    char *p = s->n_bytes < SIZE_MAX / 2 ? malloc((typed ? 2 : 1) * s->n_bytes + 1) : NULL;
    if (!p) return SM_FAIL(err, NOMEM, "no memory for a conversation of %zu bytes", s->n_bytes);
    size_t at = 0;
    for (size_t i = 0; i < s->n; i++) {
        memcpy(p + at, s->v[i].text, s->v[i].n);
        if (typed) memset(p + s->n_bytes + 1 + at, !s->v[i].markup, s->v[i].n);
        at += s->v[i].n;
    }
    p[at] = 0;
    *text = p;
    if (typed) *typed = (uint8_t *)p + s->n_bytes + 1;
    *n = at;
    return SMOL_OK;
}
