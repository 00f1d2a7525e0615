/* SPDX-License-Identifier: MIT */
#include "fields.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool sm_refuse(struct sm_refusal *e, int status, const char *code, const char *param,
               const char *fmt, ...)
{
    va_list ap;
    if (e->status) return false; /* the first reason stays */
    e->status = status;
    e->code = code;
    (void)snprintf(e->param, sizeof e->param, "%s", param ? param : "");
    va_start(ap, fmt);
    (void)vsnprintf(e->message, sizeof e->message, fmt, ap);
    va_end(ap);
    return false;
}

const char *sm_json_kind(const json_t *v)
{
    switch (v ? json_typeof(v) : JSON_NULL) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a string";
    case JSON_INTEGER: return "a whole number";
    case JSON_REAL: return "a number with a fraction";
    case JSON_TRUE:
    case JSON_FALSE: return "a truth value";
    default: return "null";
    }
}

static bool wrong_type(struct sm_refusal *e, const char *name, const char *want, const json_t *v)
{
    return sm_refuse(e, 400, "invalid_type", name, "%s must be %s, not %s", name, want,
                     sm_json_kind(v));
}

json_t *sm_field_get(json_t *o, const char *name)
{
    json_t *v = json_object_get(o, name);
    return json_is_null(v) ? NULL : v;
}

bool sm_field_bool(json_t *o, const char *name, bool *out, struct sm_refusal *e)
{
    const char *dot = strrchr(name, '.');
    const json_t *v = sm_field_get(o, dot ? dot + 1 : name);
    if (!v) return true;
    if (!json_is_boolean(v)) return wrong_type(e, name, "true or false", v);
    *out = json_is_true(v);
    return true;
}

bool sm_field_int(json_t *o, const char *name, int64_t lo, int64_t hi, int64_t *out,
                  struct sm_refusal *e)
{
    const json_t *v = sm_field_get(o, name);
    if (!v) return true;
    if (!json_is_integer(v)) return wrong_type(e, name, "a whole number", v);
    const json_int_t n = json_integer_value(v);
    if (n < lo || n > hi)
        return sm_refuse(e, 400, "invalid_value", name, "%s is %lld, expected %lld to %lld", name,
                         (long long)n, (long long)lo, (long long)hi);
    *out = n;
    return true;
}

bool sm_field_float(json_t *o, const char *name, double lo, double hi, float *out,
                    struct sm_refusal *e)
{
    const json_t *v = sm_field_get(o, name);
    if (!v) return true;
    if (!json_is_number(v)) return wrong_type(e, name, "a number", v);
    const double x = json_number_value(v);
    if (!(x >= lo && x <= hi))
        return sm_refuse(e, 400, "invalid_value", name, "%s is %g, expected %g to %g", name, x, lo,
                         hi);
    *out = (float)x;
    return true;
}

bool sm_field_str(json_t *o, const char *name, const char **out, struct sm_refusal *e)
{
    const json_t *v = sm_field_get(o, name);
    if (!v) return true;
    if (!json_is_string(v)) return wrong_type(e, name, "a string", v);
    *out = json_string_value(v);
    return true;
}

bool sm_field_ids(json_t *v, const char *name, int32_t n_vocab, int32_t **ids, size_t *n,
                  struct sm_refusal *e)
{
    if (!json_is_array(v)) return wrong_type(e, name, "an array of token ids", v);
    *n = json_array_size(v);
    *ids = malloc((*n + 1) * sizeof **ids);
    if (!*ids) return sm_refuse(e, 503, "no_memory", name, "no memory for %zu token ids", *n);
    for (size_t i = 0; i < *n; i++) {
        const json_t *id = json_array_get(v, i);
        const json_int_t k = json_integer_value(id);
        if (json_is_integer(id) && k >= 0 && k < n_vocab) {
            (*ids)[i] = (int32_t)k;
            continue;
        }
        free(*ids);
        *ids = NULL;
        char at[96];
        (void)snprintf(at, sizeof at, "%s[%zu]", name, i);
        if (!json_is_integer(id)) return wrong_type(e, at, "a token id", id);
        return sm_refuse(e, 400, "invalid_value", at, "%s is %lld, expected 0 to %d", at,
                         (long long)k, n_vocab - 1);
    }
    return true;
}

bool sm_fields_known(json_t *o, const char *const *names, const char *where, struct sm_refusal *e)
{
    const char *key;
    json_t *v;
    json_object_foreach(o, key, v)
    {
        size_t i = 0;
        char at[96];
        while (names[i] && strcmp(names[i], key) != 0) i++;
        if (names[i]) continue;
        (void)snprintf(at, sizeof at, "%s%s%.60s", where, *where ? "." : "", key);
        return sm_refuse(e, 400, "unknown_parameter", at, "unknown parameter: '%s'", at);
    }
    return true;
}

bool sm_field_object(json_t *o, const char *name, const char *const *names, json_t **out,
                     struct sm_refusal *e)
{
    *out = sm_field_get(o, name);
    if (!*out) return true;
    if (!json_is_object(*out)) return wrong_type(e, name, "an object", *out);
    return sm_fields_known(*out, names, name, e);
}
