/* SPDX-License-Identifier: MIT */
#include "tok/chat_template.h"
#include "tok/jinja.h"

#include <stdlib.h>
#include <string.h>

/* Bounds of a rendering: the template and its values; of each message its values and what a loop
 * does with them (the models' templates take 4 to 6 kB and up to 1500 steps); its texts in a dozen
 * versions. */
#define BASE_BYTES ((size_t)16 << 20)
#define BASE_STEPS ((uint64_t)1000000)
#define MESSAGE_BYTES ((size_t)12 << 10)
#define MESSAGE_STEPS 2000u

struct variant {
    bool empty_contents, merge_system;
};

static struct sm_jval *member(struct sm_jinja *j, const struct sm_jval *v, const char *name)
{
    return v && v->type == SM_J_DICT ? sm_jinja_find(j, v->u.dict, name, strlen(name)) : NULL;
}

/* OpenAI's clients send the arguments of a call as JSON text; templates go through them. */
static void parse_arguments(struct sm_jinja *j, struct sm_jval *message)
{
    const struct sm_jval *calls = member(j, message, "tool_calls");
    for (size_t i = 0; calls && calls->type == SM_J_LIST && i < calls->u.list->n; i++) {
        const struct sm_jval *f = member(j, &calls->u.list->v[i], "function");
        struct sm_jval *a = member(j, f ? f : &calls->u.list->v[i], "arguments"), object;
        smol_error ignored = {0};
        if (a && a->type == SM_J_STR &&
            sm_jinja_from_json(j, a->u.s.p, a->u.s.n, &object, &ignored) == SMOL_OK &&
            object.type == SM_J_DICT)
            *a = object;
    }
}

static smol_status no_memory(smol_error *err)
{
    return SM_FAIL(err, LIMIT, "the conversation is too long for its template");
}

static bool put_text(struct sm_jinja *j, struct sm_jdict *d, const char *key, const char *p,
                     size_t n)
{
    struct sm_jval v;
    return sm_jinja_typed(j, p, n, &v) && sm_jinja_put(j, d, sm_jinja_text(key), v);
}

static smol_status message_value(struct sm_jinja *j, const smol_message *m, struct variant variant,
                                 struct sm_jval *out, smol_error *err)
{
    struct sm_jval extra;
    smol_error why = {0};
    bool good = sm_jinja_dict(j, out);
    /* the role is compared and may be printed between markup: never the user's own text */
    good = good &&
           put_text(j, out->u.dict, "role", m->role ? m->role : "", m->role ? strlen(m->role) : 0);
    if (!m->content && !variant.empty_contents)
        good = good && sm_jinja_put(j, out->u.dict, sm_jinja_text("content"), sm_jinja_none());
    else
        good = good && put_text(j, out->u.dict, "content", m->content, m->content ? m->n_bytes : 0);
    if (m->reasoning)
        good = good &&
               put_text(j, out->u.dict, "reasoning_content", m->reasoning, strlen(m->reasoning));
    if (!good) return no_memory(err);
    if (!m->extra) return SMOL_OK;
    if (sm_jinja_from_json(j, m->extra, strlen(m->extra), &extra, &why) != SMOL_OK ||
        extra.type != SM_J_DICT)
        return SM_FAIL(err, ARG, "the further members of a message are no JSON object: %.100s",
                       why.msg);
    for (size_t i = 0; i < extra.u.dict->n; i++)
        if (!sm_jinja_put(j, out->u.dict, extra.u.dict->v[i].key, extra.u.dict->v[i].value))
            return no_memory(err);
    parse_arguments(j, out);
    return SMOL_OK;
}

/* The system message as the beginning of the first user message. */
static smol_status merged_value(struct sm_jinja *j, const smol_message *m, struct sm_jval *out,
                                smol_error *err)
{
    struct sm_jbuf b = {.j = j};
    struct sm_jval content = {.type = SM_J_STR};
    SM_TRY(message_value(j, &m[1], (struct variant){0}, out, err));
    sm_jbuf_text(&b, m[0].content, m[0].n_bytes, true);
    sm_jbuf_text(&b, "\n\n", 2, true);
    sm_jbuf_text(&b, m[1].content, m[1].n_bytes, true);
    SM_TRY(sm_jbuf_end(&b, &content.u.s));
    return sm_jinja_put(j, out->u.dict, sm_jinja_text("content"), content) ? SMOL_OK
                                                                           : no_memory(err);
}

static smol_status set_messages(struct sm_jinja *j, const smol_message *m, size_t n,
                                struct variant variant, smol_error *err)
{
    struct sm_jval list, v;
    if (!sm_jinja_list(j, &list)) return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        if (i == 0 && variant.merge_system) SM_TRY(merged_value(j, m + i++, &v, err));
        else SM_TRY(message_value(j, &m[i], variant, &v, err));
        if (!sm_jinja_append(j, list.u.list, v)) return no_memory(err);
    }
    return sm_jinja_set(j, "messages", list) ? SMOL_OK : no_memory(err);
}

static smol_status set_variables(struct sm_jinja *j, const struct sm_chat_options *o,
                                 smol_error *err)
{
    struct sm_jval tools = sm_jinja_none();
    smol_error why = {0};
    if (o->tools && (sm_jinja_from_json(j, o->tools, strlen(o->tools), &tools, &why) != SMOL_OK ||
                     tools.type != SM_J_LIST))
        return SM_FAIL(err, ARG, "the tools are no JSON array: %.100s", why.msg);
    bool good = sm_jinja_set(j, "tools", tools) && sm_jinja_set(j, "documents", sm_jinja_none()) &&
                sm_jinja_set(j, "add_generation_prompt", sm_jinja_bool(o->answer));
    if (o->bos) good = good && sm_jinja_set(j, "bos_token", sm_jinja_text(o->bos));
    if (o->eos) good = good && sm_jinja_set(j, "eos_token", sm_jinja_text(o->eos));
    if (o->thinking >= 0)
        good = good && sm_jinja_set(j, "enable_thinking", sm_jinja_bool(o->thinking > 0)) &&
               sm_jinja_set(j, "thinking", sm_jinja_bool(o->thinking > 0));
    return good ? SMOL_OK : no_memory(err);
}

/* Runs of bytes of one kind, over a copy of the text. */
static smol_status to_segments(struct sm_jstr s, struct sm_chat_segments *out, smol_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) n += i == 0 || (s.typed && s.typed[i] != s.typed[i - 1]);
    out->owned = malloc(s.n + 1);
    out->v = calloc(n + 1, sizeof *out->v);
    if (!out->owned || !out->v) {
        sm_chat_segments_free(out);
        return SM_FAIL(err, NOMEM, "no memory for a conversation of %zu bytes", s.n);
    }
    memcpy(out->owned, s.p, s.n);
    out->n_bytes = s.n;
    for (size_t i = 0; i < s.n; i++) {
        const bool markup = !s.typed || !s.typed[i];
        if (i == 0 || markup != out->v[out->n - 1].markup)
            out->v[out->n++] = (struct sm_chat_segment){.text = out->owned + i, .markup = markup};
        out->v[out->n - 1].n++;
    }
    return SMOL_OK;
}

static size_t length_of(const char *text) { return text ? strlen(text) : 0; }

/* False: more than memory can hold. */
static bool set_limits(const smol_message *m, size_t n, const struct sm_chat_options *o,
                       struct sm_jinja_limits *out)
{
    size_t texts = length_of(o->tools);
    *out = (struct sm_jinja_limits){BASE_BYTES, BASE_STEPS, SM_JINJA_DEPTH};
    for (size_t i = 0; i < n; i++) {
        const size_t more = length_of(m[i].reasoning) + length_of(m[i].extra);
        if (m[i].n_bytes > SIZE_MAX / 64 || more > SIZE_MAX / 64) return false;
        texts += m[i].n_bytes + more;
        if (texts > SIZE_MAX / 64) return false;
    }
    out->bytes += n * MESSAGE_BYTES + 16 * texts; /* n is at most 65536 */
    out->steps += n * MESSAGE_STEPS + texts;
    return true;
}

static smol_status render(const char *text, size_t n, const smol_message *messages,
                          size_t n_messages, const struct sm_chat_options *o,
                          struct variant variant, struct sm_chat_segments *out, smol_error *err)
{
    struct sm_jinja_limits limits;
    struct sm_jinja *j = NULL;
    struct sm_jstr s;
    smol_status st;
    if (!set_limits(messages, n_messages, o, &limits)) return no_memory(err);
    SM_TRY(sm_jinja_open(&j, &limits, o->now, err));
    SM_TRY_OUT(st, set_messages(j, messages, n_messages, variant, err));
    SM_TRY_OUT(st, set_variables(j, o, err));
    SM_TRY_OUT(st, sm_jinja_render(j, text, n, &s, err));
    SM_TRY_OUT(st, to_segments(s, out, err));
out:
    sm_jinja_free(j);
    return st;
}

static bool is_role(const smol_message *m, const char *role)
{
    return m->role && !strcmp(m->role, role);
}

smol_status sm_chat_template(const char *text, size_t n, const smol_message *messages,
                             size_t n_messages, const struct sm_chat_options *options,
                             struct sm_chat_segments *out, smol_error *err)
{
    smol_error first = {0};
    *out = (struct sm_chat_segments){0};
    if (n_messages > SM_CHAT_MESSAGES_MAX)
        return SM_FAIL(err, LIMIT, "a conversation of %zu messages; at most %u are possible",
                       n_messages, SM_CHAT_MESSAGES_MAX);
    smol_status st =
        render(text, n, messages, n_messages, options, (struct variant){0}, out, &first);
    bool null_content = false;
    for (size_t i = 0; i < n_messages; i++) null_content |= !messages[i].content;
    if (st == SMOL_FORMAT && null_content) {
        smol_error again = {0};
        const struct variant v = {.empty_contents = true};
        if (render(text, n, messages, n_messages, options, v, out, &again) == SMOL_OK)
            return SMOL_OK;
    }
    if (st == SMOL_ARG && n_messages >= 2 && is_role(&messages[0], "system") &&
        is_role(&messages[1], "user")) {
        smol_error again = {0};
        const struct variant v = {.merge_system = true};
        if (render(text, n, messages, n_messages, options, v, out, &again) == SMOL_OK)
            return SMOL_OK;
    }
    if (st != SMOL_OK && err && err->code == SMOL_OK) *err = first;
    return st;
}

bool sm_chat_template_thinks(const char *text, size_t n)
{
    static const char *const names[] = {"enable_thinking", "if thinking", "thinking is defined",
                                        "not thinking"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (memmem(text, n, names[i], strlen(names[i]))) return true;
    return false;
}
