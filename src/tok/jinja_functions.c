/* SPDX-License-Identifier: MIT */
/* Functions: name(arguments). */
#include "tok/jinja_int.h"

#include <string.h>
#include <time.h>

static smol_status fn_range(struct sm_jinja *j, const struct sm_jargs *a, struct sm_jval *out)
{
    int64_t from = 0, to, step;
    if (!a->n || a->n > 3) return SM_J_FAIL(j, FORMAT, "range wants one to three numbers");
    SM_TRY(sm_jinja_arg_int(j, a, a->n > 1, NULL, 0, &to));
    if (a->n > 1) SM_TRY(sm_jinja_arg_int(j, a, 0, NULL, 0, &from));
    SM_TRY(sm_jinja_arg_int(j, a, 2, NULL, 1, &step));
    if (!step) return SM_J_FAIL(j, FORMAT, "range with step 0");
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (int64_t i = from; step > 0 ? i < to : i > to;) {
        if (out->u.list->n >= 100000)
            return SM_J_FAIL(j, LIMIT, "a range of more than 100000 numbers");
        if (!sm_jinja_append(j, out->u.list, sm_jinja_int(i))) return sm_jinja_full(j);
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    return sm_jinja_cost(j, 16 * out->u.list->n);
}

static smol_status fn_dict(struct sm_jinja *j, const struct sm_jargs *a, struct sm_jval *out)
{
    if (!sm_jinja_dict(j, out)) return sm_jinja_full(j);
    for (unsigned i = 0; i < a->n; i++) {
        const struct sm_jdict *d = a->v[i].type == SM_J_DICT ? a->v[i].u.dict : NULL;
        if (!d) return SM_J_FAIL(j, UNSUPPORTED, "dict() of %s", sm_jinja_type(&a->v[i]));
        for (size_t k = 0; k < d->n; k++)
            if (!sm_jinja_put(j, out->u.dict, d->v[k].key, d->v[k].value)) return sm_jinja_full(j);
    }
    for (unsigned i = 0; i < a->n_named; i++)
        if (!sm_jinja_put(j, out->u.dict, sm_jinja_text(a->name[i]), a->named[i]))
            return sm_jinja_full(j);
    return sm_jinja_cost(j, 0);
}

static smol_status fn_namespace(struct sm_jinja *j, const struct sm_jargs *a, struct sm_jval *out)
{
    SM_TRY(fn_dict(j, a, out));
    out->u.dict->is_namespace = true;
    return SMOL_OK;
}

static smol_status fn_raise(struct sm_jinja *j, const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jstr s = sm_jinja_text("no reason given").u.s;
    (void)out;
    if (a->n) SM_TRY(sm_jinja_print(j, &a->v[0], &s));
    return sm_fail(j->err, SMOL_ARG, 0, UINT64_MAX, SM_WHERE,
                   "the model's chat template refuses this conversation: %.*s",
                   (int)(s.n < 120 ? s.n : 120), s.p);
}

static smol_status fn_strftime(struct sm_jinja *j, const struct sm_jargs *a, struct sm_jval *out)
{
    char format[64], text[256];
    const time_t now = (time_t)j->now;
    struct tm tm;
    if (a->n != 1 || a->v[0].type != SM_J_STR || a->v[0].u.s.n >= sizeof format)
        return SM_J_FAIL(j, FORMAT, "strftime_now wants a format of at most 63 bytes");
    memcpy(format, a->v[0].u.s.p, a->v[0].u.s.n);
    format[a->v[0].u.s.n] = 0;
    if (!localtime_r(&now, &tm)) return SM_J_FAIL(j, FORMAT, "strftime_now without a date");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    const size_t n = strftime(text, sizeof text, format, &tm);
#pragma GCC diagnostic pop
    char *copy = sm_jinja_take(j, n + 1);
    if (!copy) return sm_jinja_full(j);
    memcpy(copy, text, n);
    *out = sm_jinja_str((struct sm_jstr){copy, NULL, n});
    return SMOL_OK;
}

static const struct function {
    const char *name;
    smol_status (*fn)(struct sm_jinja *, const struct sm_jargs *, struct sm_jval *);
} functions[] = {{"range", fn_range},
                 {"dict", fn_dict},
                 {"namespace", fn_namespace},
                 {"raise_exception", fn_raise},
                 {"strftime_now", fn_strftime}};

bool sm_jinja_has_function(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) return true;
    return false;
}

smol_status sm_jinja_function(struct sm_jinja *j, const char *name, const struct sm_jargs *args,
                              struct sm_jval *out)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (!strcmp(functions[i].name, name)) return functions[i].fn(j, args, out);
    return SM_J_FAIL(j, UNSUPPORTED, "the function %.40s() is not supported", name);
}
