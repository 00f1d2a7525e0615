/* SPDX-License-Identifier: MIT */
#include "request.h"
#include "fields.h"
#include "request_prompt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fields of both kinds of generation. */
#define COMMON_FIELDS                                                                              \
    "model", "stream", "stream_options", "temperature", "top_p", "top_k", "min_p", "typical_p",    \
        "seed", "stop", "max_tokens", "frequency_penalty", "presence_penalty", "repeat_penalty",   \
        "repeat_last_n", "dry_multiplier", "dry_base", "dry_allowed_length", "dry_penalty_last_n", \
        "logit_bias", "logprobs", "n", "user"

static const char *const chat_fields[] = {COMMON_FIELDS,
                                          "messages",
                                          "max_completion_tokens",
                                          "top_logprobs",
                                          "tools",
                                          "tool_choice",
                                          "parallel_tool_calls",
                                          "functions",
                                          "function_call",
                                          "response_format",
                                          "modalities",
                                          "audio",
                                          "prediction",
                                          "reasoning_effort",
                                          "service_tier",
                                          "store",
                                          "metadata",
                                          "verbosity",
                                          "web_search_options",
                                          "safety_identifier",
                                          "prompt_cache_key",
                                          "chat_template_kwargs",
                                          NULL};
static const char *const completion_fields[] = {COMMON_FIELDS, "prompt",  "echo",
                                                "suffix",      "best_of", NULL};
static const char *const tokenize_fields[] = {"model",         "content",     "add_special",
                                              "parse_special", "with_pieces", NULL};
static const char *const detokenize_fields[] = {"model", "tokens", NULL};

static const char *const *const known_fields[] = {[SM_REQUEST_CHAT] = chat_fields,
                                                  [SM_REQUEST_COMPLETION] = completion_fields,
                                                  [SM_REQUEST_TOKENIZE] = tokenize_fields,
                                                  [SM_REQUEST_DETOKENIZE] = detokenize_fields};

/* ---- what the API knows and this server does not ------------------------------------------------
 */

/* A value that asks for nothing is fine: clients send such defaults. */
static bool asks_for_nothing(const char *name, const json_t *v)
{
    const char *s = json_string_value(v);
    if (json_is_null(v) || json_is_false(v)) return true;
    if (json_is_array(v)) {
        if (!json_array_size(v)) return true;
        const char *one = json_string_value(json_array_get(v, 0));
        return !strcmp(name, "modalities") && json_array_size(v) == 1 && one &&
               !strcmp(one, "text");
    }
    if (!strcmp(name, "response_format")) {
        const char *type = json_string_value(json_object_get(v, "type"));
        return type && !strcmp(type, "text") && json_object_size(v) == 1;
    }
    if (!strcmp(name, "tool_choice") || !strcmp(name, "function_call"))
        return s && !strcmp(s, "none");
    if (!strcmp(name, "service_tier")) return s && (!strcmp(s, "auto") || !strcmp(s, "default"));
    if (!strcmp(name, "best_of")) return json_integer_value(v) == 1;
    return false;
}

static bool refuse_unsupported(json_t *root, struct sm_refusal *e)
{
    static const char *const names[] = {"tools",
                                        "tool_choice",
                                        "parallel_tool_calls",
                                        "functions",
                                        "function_call",
                                        "response_format",
                                        "modalities",
                                        "audio",
                                        "prediction",
                                        "reasoning_effort",
                                        "service_tier",
                                        "store",
                                        "metadata",
                                        "verbosity",
                                        "web_search_options",
                                        "safety_identifier",
                                        "prompt_cache_key",
                                        "echo",
                                        "suffix",
                                        "best_of"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_t *v = json_object_get(root, names[i]);
        if (v && !asks_for_nothing(names[i], v))
            return sm_refuse(e, 400, "unsupported_parameter", names[i],
                             "'%s' is not supported by this server", names[i]);
    }
    return true;
}

/* ---- sampling ------------------------------------------------------------------------------- */

static bool read_seed(json_t *o, smol_sampling *s, struct sm_refusal *e)
{
    int64_t seed = s->seed;
    if (!sm_field_int(o, "seed", INT64_MIN, INT64_MAX, &seed, e)) return false;
    /* any 64-bit number is a seed; -1 asks for a new one each time, as on the command line */
    if (seed < -1 || seed > (int64_t)UINT32_MAX)
        seed = (int64_t)(uint32_t)((uint64_t)seed ^ (uint64_t)seed >> 32);
    s->seed = seed;
    return true;
}

static bool read_count(json_t *o, const char *name, int32_t lo, int32_t hi, int32_t *out,
                       struct sm_refusal *e)
{
    int64_t n = *out;
    if (!sm_field_int(o, name, lo, hi, &n, e)) return false;
    *out = (int32_t)n;
    return true;
}

static bool read_sampling(json_t *o, smol_sampling *s, struct sm_refusal *e)
{
    return sm_field_float(o, "temperature", 0, 100, &s->temp, e) &&
           sm_field_float(o, "top_p", 0, 1, &s->top_p, e) &&
           sm_field_float(o, "min_p", 0, 1, &s->min_p, e) &&
           sm_field_float(o, "typical_p", 0, 1, &s->typical, e) &&
           sm_field_float(o, "frequency_penalty", -2, 2, &s->frequency_penalty, e) &&
           sm_field_float(o, "presence_penalty", -2, 2, &s->presence_penalty, e) &&
           sm_field_float(o, "repeat_penalty", 0.01, 100, &s->repeat_penalty, e) &&
           sm_field_float(o, "dry_multiplier", 0, 100, &s->dry_multiplier, e) &&
           sm_field_float(o, "dry_base", 0, 100, &s->dry_base, e) &&
           read_count(o, "top_k", 0, INT32_MAX, &s->top_k, e) &&
           read_count(o, "repeat_last_n", 0, SMOL_WINDOW_MAX, &s->repeat_last, e) &&
           read_count(o, "dry_allowed_length", 1, SMOL_WINDOW_MAX, &s->dry_allowed, e) &&
           read_count(o, "dry_penalty_last_n", 0, SMOL_WINDOW_MAX, &s->dry_last, e) &&
           read_seed(o, s, e);
}

/* Token id written as an object's key; -1: it is none. */
static int32_t id_of_key(const char *key, int32_t n_vocab)
{
    int64_t id = 0;
    if (!*key) return -1;
    for (const char *c = key; *c; c++) {
        if (*c < '0' || *c > '9') return -1;
        id = id * 10 + (*c - '0');
        if (id >= n_vocab) return -1;
    }
    return (int32_t)id;
}

static bool read_bias(struct sm_request *r, int32_t n_vocab, struct sm_refusal *e)
{
    json_t *o = sm_field_get(r->root, "logit_bias"), *v;
    const char *key;
    uint32_t n = 0;
    if (!o) return true;
    if (!json_is_object(o))
        return sm_refuse(e, 400, "invalid_type", "logit_bias",
                         "logit_bias must be an object of token ids, not %s", sm_json_kind(o));
    if (json_object_size(o) > SM_REQUEST_BIAS_MAX)
        return sm_refuse(e, 400, "invalid_value", "logit_bias",
                         "logit_bias has %zu tokens, at most %u", json_object_size(o),
                         SM_REQUEST_BIAS_MAX);
    r->bias = malloc((json_object_size(o) + 1) * sizeof *r->bias);
    if (!r->bias) return sm_refuse(e, 503, "no_memory", "logit_bias", "no memory");
    json_object_foreach(o, key, v)
    {
        const int32_t id = id_of_key(key, n_vocab);
        const double x = json_number_value(v);
        char at[96];
        (void)snprintf(at, sizeof at, "logit_bias.%.60s", key);
        if (id < 0)
            return sm_refuse(e, 400, "invalid_value", at,
                             "\"%.60s\" is no token id, expected 0 to %d", key, n_vocab - 1);
        if (!json_is_number(v) || !(x >= -100 && x <= 100))
            return sm_refuse(e, 400, "invalid_value", at, "%s must be a number from -100 to 100",
                             at);
        /* the API's promise: -100 bans a token */
        r->bias[n++] = (smol_logit_bias){id, x <= -100 ? -INFINITY : (float)x};
    }
    r->sampling.bias = r->bias;
    r->sampling.n_bias = n;
    return true;
}

/* ---- the rest of a generation --------------------------------------------------------------- */

static bool add_stop(struct sm_request *r, const json_t *v, struct sm_refusal *e)
{
    const size_t n = json_string_length(v);
    if (!json_is_string(v))
        return sm_refuse(e, 400, "invalid_type", "stop",
                         "stop must be a string or an array of strings, not %s", sm_json_kind(v));
    if (n == 0 || n > SM_REQUEST_STOP_BYTES_MAX)
        return sm_refuse(e, 400, "invalid_value", "stop",
                         "a stop string has %zu bytes, expected 1 to %u", n,
                         SM_REQUEST_STOP_BYTES_MAX);
    r->stop[r->n_stop++] = json_string_value(v);
    return true;
}

static bool read_stop(struct sm_request *r, struct sm_refusal *e)
{
    const json_t *v = sm_field_get(r->root, "stop");
    if (!v) return true;
    if (!json_is_array(v)) return add_stop(r, v, e);
    if (json_array_size(v) > SM_REQUEST_STOP_MAX)
        return sm_refuse(e, 400, "invalid_value", "stop", "stop has %zu strings, at most %u",
                         json_array_size(v), SM_REQUEST_STOP_MAX);
    for (size_t i = 0; i < json_array_size(v); i++)
        if (!add_stop(r, json_array_get(v, i), e)) return false;
    return true;
}

static bool read_max_tokens(struct sm_request *r, struct sm_refusal *e)
{
    int64_t old = -2, now = -2;
    if (!sm_field_int(r->root, "max_tokens", 0, INT32_MAX, &old, e)) return false;
    if (r->kind == SM_REQUEST_CHAT &&
        !sm_field_int(r->root, "max_completion_tokens", 0, INT32_MAX, &now, e))
        return false;
    if (old >= 0 && now >= 0 && old != now)
        return sm_refuse(e, 400, "invalid_value", "max_tokens",
                         "max_tokens is %lld and max_completion_tokens %lld: give one of them",
                         (long long)old, (long long)now);
    if (now >= 0) r->max_tokens = now;
    else if (old >= 0) r->max_tokens = old;
    return true;
}

static bool read_logprobs(struct sm_request *r, struct sm_refusal *e)
{
    int64_t n = -1;
    bool on = false;
    if (r->kind == SM_REQUEST_COMPLETION) {
        if (!sm_field_int(r->root, "logprobs", 0, 5, &n, e)) return false;
    } else {
        if (!sm_field_bool(r->root, "logprobs", &on, e) ||
            !sm_field_int(r->root, "top_logprobs", 0, SM_REQUEST_TOP_MAX, &n, e))
            return false;
        if (n >= 0 && !on)
            return sm_refuse(e, 400, "invalid_value", "top_logprobs",
                             "top_logprobs needs logprobs to be true");
        if (on && n < 0) n = 0;
    }
    r->n_logprobs = (int)n;
    return true;
}

static bool read_stream(struct sm_request *r, struct sm_refusal *e)
{
    static const char *const names[] = {"include_usage", "include_obfuscation", NULL};
    static const char noise_name[] = "stream_options.include_obfuscation";
    json_t *o;
    bool noise = false;
    if (!sm_field_bool(r->root, "stream", &r->stream, e) ||
        !sm_field_object(r->root, "stream_options", names, &o, e))
        return false;
    if (o && !r->stream)
        return sm_refuse(e, 400, "invalid_value", "stream_options",
                         "stream_options needs stream to be true");
    if (!sm_field_bool(o, noise_name, &noise, e)) return false;
    if (noise)
        return sm_refuse(e, 400, "unsupported_parameter", noise_name,
                         "'%s' is not supported by this server", noise_name);
    return sm_field_bool(o, "stream_options.include_usage", &r->include_usage, e);
}

/* What the model's template is told beside the conversation. */
static bool read_template(struct sm_request *r, struct sm_refusal *e)
{
    static const char *const names[] = {"enable_thinking", NULL};
    json_t *o;
    bool on = false;
    r->thinking = -1;
    if (!sm_field_object(r->root, "chat_template_kwargs", names, &o, e) ||
        !sm_field_bool(o, "chat_template_kwargs.enable_thinking", &on, e))
        return false;
    if (sm_field_get(o, names[0])) r->thinking = on;
    return true;
}

static bool read_generation(struct sm_request *r, const struct sm_request_defaults *d,
                            struct sm_refusal *e)
{
    int64_t n = 1;
    r->sampling = d->sampling;
    r->max_tokens = d->max_tokens;
    r->n_logprobs = -1;
    for (unsigned i = 0; i < d->n_stop && i < SM_REQUEST_STOP_MAX; i++) r->stop[i] = d->stop[i];
    r->n_stop = d->n_stop < SM_REQUEST_STOP_MAX ? d->n_stop : SM_REQUEST_STOP_MAX;
    if (!refuse_unsupported(r->root, e)) return false;
    if (!sm_field_int(r->root, "n", 1, 1, &n, e)) return false;
    return sm_field_str(r->root, "user", &r->user, e) && read_sampling(r->root, &r->sampling, e) &&
           read_bias(r, d->n_vocab, e) && read_stop(r, e) && read_max_tokens(r, e) &&
           read_logprobs(r, e) && read_stream(r, e);
}

static bool read_tokenize(struct sm_request *r, struct sm_refusal *e)
{
    const json_t *v = sm_field_get(r->root, "content");
    r->parse_special = true;
    if (!json_is_string(v))
        return sm_refuse(e, 400, v ? "invalid_type" : "missing_parameter", "content",
                         "content must be a string, not %s", sm_json_kind(v));
    r->text = json_string_value(v);
    r->n_text = json_string_length(v);
    return sm_field_bool(r->root, "add_special", &r->add_special, e) &&
           sm_field_bool(r->root, "parse_special", &r->parse_special, e) &&
           sm_field_bool(r->root, "with_pieces", &r->with_pieces, e);
}

static bool read_model(json_t *root, const char *served, struct sm_refusal *e)
{
    const char *model = NULL;
    if (!sm_field_str(root, "model", &model, e)) return false;
    if (!model || !strcmp(model, served)) return true;
    return sm_refuse(e, 404, "model_not_found", "model",
                     "the model '%.80s' does not exist here; this server has '%.80s'", model,
                     served);
}

/* ---- the body ------------------------------------------------------------------------------- */

static bool read_root(struct sm_request *r, const char *body, size_t n, struct sm_refusal *e)
{
    json_error_t at;
    r->root = json_loadb(body, n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &at);
    if (!r->root) {
        /* without memory for a value jansson stops without a reason */
        if (json_error_code(&at) == json_error_out_of_memory || !at.text[0])
            return sm_refuse(e, 413, "too_complex", NULL,
                             "the JSON of this request is too complex");
        if (json_error_code(&at) == json_error_null_character)
            return sm_refuse(e, 400, "invalid_json", NULL,
                             "line %d, column %d: a text must not hold the character U+0000",
                             at.line, at.column);
        char text[161];
        (void)snprintf(text, sizeof text, "%s", at.text);
        for (char *c = text; *c; c++) /* may quote what was sent */
            if ((unsigned char)*c < ' ' || (unsigned char)*c > '~') *c = '?';
        return sm_refuse(e, 400, "invalid_json", NULL,
                         "the body is not valid JSON: line %d, column %d: %s", at.line, at.column,
                         text);
    }
    if (json_is_object(r->root)) return true;
    return sm_refuse(e, 400, "invalid_json", NULL, "the body must be a JSON object, not %s",
                     sm_json_kind(r->root));
}

static bool read_all(struct sm_request *r, const char *body, size_t n,
                     const struct sm_request_defaults *d, struct sm_refusal *e)
{
    if (!read_root(r, body, n, e) || !sm_fields_known(r->root, known_fields[r->kind], "", e) ||
        !read_model(r->root, d->model, e))
        return false;
    switch (r->kind) {
    case SM_REQUEST_CHAT:
        return read_generation(r, d, e) && read_template(r, e) &&
               sm_request_messages(r, d->system, e);
    case SM_REQUEST_COMPLETION:
        return read_generation(r, d, e) && sm_request_prompt(r, d->n_vocab, e);
    case SM_REQUEST_TOKENIZE: return read_tokenize(r, e);
    case SM_REQUEST_DETOKENIZE: break;
    }
    json_t *tokens = sm_field_get(r->root, "tokens");
    if (!tokens) return sm_refuse(e, 400, "missing_parameter", "tokens", "tokens is missing");
    return sm_field_ids(tokens, "tokens", d->n_vocab, &r->ids, &r->n_ids, e);
}

bool sm_request_parse(struct sm_request *r, enum sm_request_kind kind, const char *body, size_t n,
                      const struct sm_request_defaults *d, struct sm_refusal *e)
{
    *r = (struct sm_request){.kind = kind, .n_logprobs = -1, .max_tokens = -1};
    *e = (struct sm_refusal){0};
    if (read_all(r, body, n, d, e)) return true;
    sm_request_free(r);
    return false;
}

void sm_request_free(struct sm_request *r)
{
    for (size_t i = 0; r->joined && i < r->n_messages; i++) free(r->joined[i]);
    free(r->joined);
    free(r->messages);
    free(r->ids);
    free(r->bias);
    json_decref(r->root);
    *r = (struct sm_request){0};
}
