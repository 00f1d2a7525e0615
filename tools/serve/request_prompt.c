/* SPDX-License-Identifier: MIT */
#include "request_prompt.h"
#include "fields.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- contents ---------------------------------------------------------------------------------
 */

/* The text of one part {"type": "text", "text": "…"}, NULL after a refusal. */
static json_t *part_text(json_t *part, const char *at, struct sm_refusal *e)
{
    static const char *const names[] = {"type", "text", NULL};
    char name[96];
    if (!json_is_object(part)) {
        (void)sm_refuse(e, 400, "invalid_type", at, "%s must be an object, not %s", at,
                        sm_json_kind(part));
        return NULL;
    }
    const char *type = json_string_value(json_object_get(part, "type"));
    (void)snprintf(name, sizeof name, "%.80s.type", at);
    if (!type || strcmp(type, "text") != 0) {
        (void)sm_refuse(e, 400, type ? "unsupported_parameter" : "invalid_type", name,
                        "%s is '%.40s'; only 'text' is supported", name, type ? type : "missing");
        return NULL;
    }
    if (!sm_fields_known(part, names, at, e)) return NULL;
    json_t *text = json_object_get(part, "text");
    (void)snprintf(name, sizeof name, "%.80s.text", at);
    if (json_is_string(text)) return text;
    (void)sm_refuse(e, 400, "invalid_type", name, "%s must be a string, not %s", name,
                    sm_json_kind(text));
    return NULL;
}

static bool join_parts(json_t *parts, const char *at, char **out, size_t *n, struct sm_refusal *e)
{
    size_t total = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        char name[96];
        (void)snprintf(name, sizeof name, "%.72s[%zu]", at, i);
        const json_t *text = part_text(json_array_get(parts, i), name, e);
        if (!text) return false;
        total += json_string_length(text);
    }
    *out = malloc(total + 1);
    if (!*out) return sm_refuse(e, 503, "no_memory", at, "no memory");
    *n = 0;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *text = json_object_get(json_array_get(parts, i), "text");
        memcpy(*out + *n, json_string_value(text), json_string_length(text));
        *n += json_string_length(text);
    }
    (*out)[*n] = '\0';
    return true;
}

static bool read_content(json_t *o, size_t i, smol_message *m, char **joined, struct sm_refusal *e)
{
    char at[64];
    json_t *v = json_object_get(o, "content");
    (void)snprintf(at, sizeof at, "messages[%zu].content", i);
    if (json_is_string(v)) {
        m->content = json_string_value(v);
        m->n_bytes = json_string_length(v);
        return true;
    }
    if (json_is_array(v)) {
        if (!join_parts(v, at, joined, &m->n_bytes, e)) return false;
        m->content = *joined;
        return true;
    }
    /* what an assistant did not say may be null */
    if ((!v || json_is_null(v)) && !strcmp(m->role, "assistant")) {
        m->content = "";
        m->n_bytes = 0;
        return true;
    }
    return sm_refuse(e, 400, v ? "invalid_type" : "missing_parameter", at,
                     "%s must be a string or an array of parts, not %s", at, sm_json_kind(v));
}

/* ---- messages ---------------------------------------------------------------------------------
 */

/* Fields that answers of the API carry, so that clients send them back: fine while empty.
 * What was thought goes to the model's template, which decides whether it is read again. */
static bool check_message_fields(json_t *o, size_t i, smol_message *m, struct sm_refusal *e)
{
    static const char *const names[] = {"role",       "content",       "reasoning_content",
                                        "refusal",    "annotations",   "audio",
                                        "tool_calls", "function_call", NULL};
    char at[64];
    (void)snprintf(at, sizeof at, "messages[%zu]", i);
    if (!sm_fields_known(o, names, at, e)) return false;
    for (size_t k = 3; names[k]; k++) {
        const json_t *v = json_object_get(o, names[k]);
        if (!v || json_is_null(v) || (json_is_array(v) && !json_array_size(v))) continue;
        (void)snprintf(at, sizeof at, "messages[%zu].%s", i, names[k]);
        return sm_refuse(e, 400, "unsupported_parameter", at,
                         "'%s' is not supported by this server", at);
    }
    const json_t *thoughts = json_object_get(o, "reasoning_content");
    (void)snprintf(at, sizeof at, "messages[%zu].reasoning_content", i);
    if (thoughts && !json_is_null(thoughts) && !json_is_string(thoughts))
        return sm_refuse(e, 400, "invalid_type", at, "%s must be a string, not %s", at,
                         sm_json_kind(thoughts));
    if (json_string_length(thoughts)) m->reasoning = json_string_value(thoughts);
    return true;
}

static bool read_role(json_t *o, size_t i, smol_message *m, struct sm_refusal *e)
{
    static const char *const roles[] = {"system", "developer", "user", "assistant"};
    char at[64];
    const json_t *v = json_object_get(o, "role");
    const char *role = json_string_value(v);
    (void)snprintf(at, sizeof at, "messages[%zu].role", i);
    if (!role)
        return sm_refuse(e, 400, v ? "invalid_type" : "missing_parameter", at,
                         "%s must be a string, not %s", at, sm_json_kind(v));
    for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
        if (!strcmp(role, roles[k])) m->role = roles[k];
    if (m->role) return true;
    return sm_refuse(e, 400, "invalid_value", at,
                     "%s is '%.40s', expected system, developer, user or assistant", at, role);
}

static bool read_message(json_t *o, size_t i, smol_message *m, char **joined, struct sm_refusal *e)
{
    char at[64];
    (void)snprintf(at, sizeof at, "messages[%zu]", i);
    if (!json_is_object(o))
        return sm_refuse(e, 400, "invalid_type", at, "%s must be an object, not %s", at,
                         sm_json_kind(o));
    return read_role(o, i, m, e) && check_message_fields(o, i, m, e) &&
           read_content(o, i, m, joined, e);
}

/* The server's own system message goes in front unless the request has one. */
static bool needs_system(json_t *v, const char *system)
{
    const char *first = json_string_value(json_object_get(json_array_get(v, 0), "role"));
    return system && !(first && (!strcmp(first, "system") || !strcmp(first, "developer")));
}

bool sm_request_messages(struct sm_request *r, const char *system, struct sm_refusal *e)
{
    json_t *v = sm_field_get(r->root, "messages");
    const size_t n = json_array_size(v);
    if (!json_is_array(v))
        return sm_refuse(e, 400, v ? "invalid_type" : "missing_parameter", "messages",
                         "messages must be an array of messages, not %s", sm_json_kind(v));
    if (n == 0 || n > SM_REQUEST_MESSAGES_MAX)
        return sm_refuse(e, 400, "invalid_value", "messages",
                         "messages has %zu messages, expected 1 to %u", n, SM_REQUEST_MESSAGES_MAX);
    const size_t front = needs_system(v, system) ? 1 : 0;
    r->messages = calloc(n + front, sizeof *r->messages);
    r->joined = calloc(n + front, sizeof *r->joined);
    if (!r->messages || !r->joined) return sm_refuse(e, 503, "no_memory", "messages", "no memory");
    r->n_messages = n + front;
    if (front) r->messages[0] = (smol_message){.role = "system", .content = system,
                                                .n_bytes = strlen(system)};
    for (size_t i = 0; i < n; i++)
        if (!read_message(json_array_get(v, i), i, &r->messages[front + i], &r->joined[front + i],
                          e))
            return false;
    return true;
}

/* ---- prompts ----------------------------------------------------------------------------------
 */

bool sm_request_prompt(struct sm_request *r, int32_t n_vocab, struct sm_refusal *e)
{
    json_t *v = sm_field_get(r->root, "prompt");
    const json_t *first = json_array_get(v, 0);
    if (!v) return sm_refuse(e, 400, "missing_parameter", "prompt", "prompt is missing");
    if (json_is_string(first) || json_is_array(first)) { /* a list of prompts */
        if (json_array_size(v) > 1)
            return sm_refuse(e, 400, "unsupported_parameter", "prompt",
                             "prompt has %zu prompts; one at a time is supported",
                             json_array_size(v));
        v = json_array_get(v, 0);
    }
    if (json_is_array(v)) {
        if (!json_array_size(v))
            return sm_refuse(e, 400, "invalid_value", "prompt", "prompt is empty");
        return sm_field_ids(v, "prompt", n_vocab, &r->ids, &r->n_ids, e);
    }
    if (!json_is_string(v))
        return sm_refuse(e, 400, "invalid_type", "prompt",
                         "prompt must be a string or an array of token ids, not %s",
                         sm_json_kind(v));
    r->text = json_string_value(v);
    r->n_text = json_string_length(v);
    return true;
}
