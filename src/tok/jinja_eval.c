/* SPDX-License-Identifier: MIT */
/* Evaluating the expressions of a template. */
#include "tok/jinja_int.h"

#include <string.h>

smol_status sm_jinja_enter(struct sm_jinja *j, const struct sm_jnode *n)
{
    j->line = n->line;
    if (++j->steps > j->limits.steps)
        return SM_J_FAIL(j, LIMIT, "takes more than %llu steps",
                         (unsigned long long)j->limits.steps);
    if (j->depth >= j->limits.depth)
        return SM_J_FAIL(j, LIMIT, "nested more than %u deep", j->limits.depth);
    j->depth++;
    return SMOL_OK;
}

/* ---- names ---- */

bool sm_jinja_bind(struct sm_jinja *j, const char *name, const struct sm_jval *v)
{
    for (struct sm_jvar *k = j->scope->vars; k; k = k->next) {
        if (k->name == name) {
            k->value = *v;
            return true;
        }
        (void)sm_jinja_count(j, 4);
    }
    struct sm_jvar *k = sm_jinja_take(j, sizeof *k);
    if (!k) return false;
    *k = (struct sm_jvar){name, *v, j->scope->vars};
    j->scope->vars = k;
    return true;
}

static smol_status function_value(struct sm_jinja *j, enum sm_jcallable kind, const char *name,
                                  const struct sm_jval *self, struct sm_jval *out)
{
    struct sm_jcall *c = sm_jinja_take(j, sizeof *c);
    if (!c) return sm_jinja_full(j);
    *c = (struct sm_jcall){.kind = kind, .name = name, .self = self ? *self : sm_jinja_none()};
    *out = (struct sm_jval){.type = SM_J_CALL, .u.call = c};
    return SMOL_OK;
}

static smol_status eval_name(struct sm_jinja *j, const char *name, struct sm_jval *out)
{
    for (const struct sm_jscope *s = j->scope; s; s = s->parent) {
        for (const struct sm_jvar *v = s->vars; v; v = v->next) {
            if (v->name == name) {
                *out = v->value;
                return SMOL_OK;
            }
            (void)sm_jinja_count(j, 4);
        }
        SM_TRY(sm_jinja_cost(j, 4));
    }
    if (sm_jinja_has_function(name)) return function_value(j, SM_JC_FUNCTION, name, NULL, out);
    *out = sm_jinja_undefined(sm_jinja_text(name).u.s);
    return SMOL_OK;
}

static smol_status assign_tuple(struct sm_jinja *j, const struct sm_jnode *target,
                                const struct sm_jval *v)
{
    struct sm_jlist *items;
    size_t i = 0, n = 0;
    for (const struct sm_jnode *t = target->a; t; t = t->next) n++;
    SM_TRY(sm_jinja_items(j, v, &items));
    if (items->n != n) return SM_J_FAIL(j, FORMAT, "%zu values for %zu names", items->n, n);
    for (const struct sm_jnode *t = target->a; t; t = t->next)
        SM_TRY(sm_jinja_assign(j, t, &items->v[i++]));
    return SMOL_OK;
}

smol_status sm_jinja_assign(struct sm_jinja *j, const struct sm_jnode *target,
                            const struct sm_jval *v)
{
    struct sm_jval space;
    if (target->kind == SM_JX_LIST) return assign_tuple(j, target, v);
    if (target->kind == SM_JX_NAME)
        return sm_jinja_bind(j, target->name, v) ? SMOL_OK : sm_jinja_full(j);
    SM_TRY(sm_jinja_eval(j, target->a, &space));
    if (space.type != SM_J_DICT || !space.u.dict->is_namespace)
        return SM_J_FAIL(j, FORMAT, "sets .%.40s of what is no namespace", target->name);
    if (!sm_jinja_put(j, space.u.dict, sm_jinja_text(target->name), *v)) return sm_jinja_full(j);
    return SMOL_OK;
}

/* ---- attributes and items ---- */

static smol_status loop_attr(struct sm_jinja *j, const struct sm_jval *v, const char *name,
                             struct sm_jval *out)
{
    const struct sm_jloop *l = v->u.loop;
    const int64_t i = (int64_t)l->i, n = (int64_t)l->items->n;
    const struct {
        const char *name;
        struct sm_jval value;
    } known[] = {{"index", sm_jinja_int(i + 1)},
                 {"index0", sm_jinja_int(i)},
                 {"first", sm_jinja_bool(i == 0)},
                 {"last", sm_jinja_bool(i == n - 1)},
                 {"length", sm_jinja_int(n)},
                 {"revindex", sm_jinja_int(n - i)},
                 {"revindex0", sm_jinja_int(n - i - 1)},
                 {"depth", sm_jinja_int(1)},
                 {"depth0", sm_jinja_int(0)}};
    for (size_t k = 0; k < sizeof known / sizeof *known; k++)
        if (!strcmp(known[k].name, name)) {
            *out = known[k].value;
            return SMOL_OK;
        }
    *out = sm_jinja_undefined(sm_jinja_text(name).u.s);
    if (!strcmp(name, "previtem")) {
        if (i > 0) *out = l->items->v[i - 1];
    } else if (!strcmp(name, "nextitem")) {
        if (i + 1 < n) *out = l->items->v[i + 1];
    } else if (sm_jinja_has_method(v, name)) {
        return function_value(j, SM_JC_METHOD, name, v, out);
    } else {
        return SM_J_FAIL(j, UNSUPPORTED, "loop.%.40s is not supported", name);
    }
    return SMOL_OK;
}

smol_status sm_jinja_attr(struct sm_jinja *j, const struct sm_jval *v, const char *name,
                          struct sm_jval *out)
{
    *out = sm_jinja_undefined(sm_jinja_text(name).u.s);
    if (v->type == SM_J_UNDEFINED)
        return SM_J_FAIL(j, FORMAT, "%.*s is undefined, so it has no .%.40s",
                         (int)(v->u.s.n < 40 ? v->u.s.n : 40), v->u.s.p, name);
    if (v->type == SM_J_LOOP) return loop_attr(j, v, name, out);
    if (sm_jinja_has_method(v, name)) return function_value(j, SM_JC_METHOD, name, v, out);
    if (v->type == SM_J_DICT) {
        const struct sm_jval *found = sm_jinja_find(j, v->u.dict, name, strlen(name));
        if (found) *out = *found;
    }
    return SMOL_OK;
}

/* Where the i-th character begins, counted from the end when negative; SIZE_MAX: outside. */
static size_t char_at(struct sm_jstr s, int64_t i)
{
    if (i < 0) i += (int64_t)sm_jinja_length(s);
    if (i < 0) return SIZE_MAX;
    size_t at = 0;
    for (; i > 0 && at < s.n; i--) at += sm_jinja_char(s, at);
    return at < s.n ? at : SIZE_MAX;
}

smol_status sm_jinja_item(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jval *key,
                          struct sm_jval *out)
{
    *out = sm_jinja_undefined(key->type == SM_J_STR ? key->u.s : sm_jinja_text("an item").u.s);
    if (v->type == SM_J_UNDEFINED)
        return SM_J_FAIL(j, FORMAT, "%.*s is undefined, so it has no items",
                         (int)(v->u.s.n < 40 ? v->u.s.n : 40), v->u.s.p);
    if (v->type == SM_J_DICT) {
        const struct sm_jval *found = sm_jinja_find_key(j, v->u.dict, key);
        if (found) *out = *found;
    } else if (key->type == SM_J_INT && v->type == SM_J_LIST) {
        const int64_t n = (int64_t)v->u.list->n, i = key->u.i < 0 ? key->u.i + n : key->u.i;
        if (i >= 0 && i < n) *out = v->u.list->v[i];
    } else if (key->type == SM_J_INT && v->type == SM_J_STR) {
        SM_TRY(sm_jinja_cost(j, v->u.s.n));
        const size_t at = char_at(v->u.s, key->u.i);
        if (at != SIZE_MAX)
            *out = sm_jinja_str(sm_jinja_cut(v->u.s, at, at + sm_jinja_char(v->u.s, at)));
    } else if (key->type == SM_J_STR && v->type == SM_J_LOOP) {
        return SM_J_FAIL(j, UNSUPPORTED, "loop[…] is not supported");
    }
    return SMOL_OK;
}

/* One bound of a slice; `fallback` when it is absent. */
static smol_status slice_bound(struct sm_jinja *j, const struct sm_jnode *n, int64_t fallback,
                               int64_t *out)
{
    struct sm_jval v = sm_jinja_none();
    *out = fallback;
    if (n) SM_TRY(sm_jinja_eval(j, n, &v));
    if (v.type == SM_J_NONE) return SMOL_OK;
    if (v.type != SM_J_INT) return SM_J_FAIL(j, FORMAT, "a slice bound is %s", sm_jinja_type(&v));
    *out = v.u.i;
    return SMOL_OK;
}

static int64_t clamp(int64_t i, int64_t n, int64_t lo, int64_t hi)
{
    if (i < 0) i = i < -n ? lo : i + n;
    return i < lo ? lo : i > hi ? hi : i;
}

static smol_status eval_slice(struct sm_jinja *j, const struct sm_jnode *node,
                              const struct sm_jval *v, struct sm_jval *out)
{
    struct sm_jlist *items;
    int64_t from, to, step;
    if (v->type != SM_J_STR && v->type != SM_J_LIST)
        return SM_J_FAIL(j, FORMAT, "a slice of %s", sm_jinja_type(v));
    SM_TRY(slice_bound(j, node->d, 1, &step));
    if (step == 0 || step > INT32_MAX || step < -INT32_MAX)
        return SM_J_FAIL(j, FORMAT, "a slice with step %lld", (long long)step);
    SM_TRY(slice_bound(j, node->b, step > 0 ? 0 : INT64_MAX, &from));
    SM_TRY(slice_bound(j, node->c, step > 0 ? INT64_MAX : INT64_MIN, &to));
    SM_TRY(sm_jinja_items(j, v, &items));
    const int64_t n = (int64_t)items->n;
    const bool open_end = to == INT64_MIN; /* absent, going down */
    from = clamp(from, n, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    to = open_end ? -1 : clamp(to, n, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
    if (v->type == SM_J_STR) {
        struct sm_jbuf b = {.j = j};
        for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
            sm_jbuf_put(&b, items->v[i].u.s);
        out->type = SM_J_STR;
        return sm_jbuf_end(&b, &out->u.s);
    }
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    out->u.list->tuple = items->tuple;
    for (int64_t i = from; step > 0 ? i < to : i > to; i += step)
        if (!sm_jinja_append(j, out->u.list, items->v[i])) return sm_jinja_full(j);
    return SMOL_OK;
}

smol_status sm_jinja_items(struct sm_jinja *j, const struct sm_jval *v, struct sm_jlist **out)
{
    struct sm_jval list;
    if (v->type == SM_J_LIST) {
        *out = v->u.list;
        return sm_jinja_cost(j, 8 * v->u.list->n);
    }
    if (!sm_jinja_list(j, &list)) return sm_jinja_full(j);
    *out = list.u.list;
    if (v->type == SM_J_DICT && !v->u.dict->is_namespace) {
        for (size_t i = 0; i < v->u.dict->n; i++)
            if (!sm_jinja_append(j, *out, v->u.dict->v[i].key)) return sm_jinja_full(j);
    } else if (v->type == SM_J_STR) {
        for (size_t at = 0, k; (k = sm_jinja_char(v->u.s, at)) > 0; at += k)
            if (!sm_jinja_append(j, *out, sm_jinja_str(sm_jinja_cut(v->u.s, at, at + k))))
                return sm_jinja_full(j);
    } else if (v->type != SM_J_UNDEFINED) {
        return SM_J_FAIL(j, FORMAT, "%s cannot be gone through", sm_jinja_type(v));
    }
    return sm_jinja_cost(j, 8 * (*out)->n);
}

/* ---- calls ---- */

const struct sm_jval *sm_jinja_arg(const struct sm_jargs *a, unsigned i, const char *name)
{
    if (i < a->n) return &a->v[i];
    for (unsigned k = 0; name && k < a->n_named; k++)
        if (!strcmp(a->name[k], name)) return &a->named[k];
    return NULL;
}

bool sm_jinja_arg_flag(const struct sm_jargs *a, unsigned i, const char *name)
{
    const struct sm_jval *v = sm_jinja_arg(a, i, name);
    return v && sm_jinja_truth(v);
}

smol_status sm_jinja_arg_int(struct sm_jinja *j, const struct sm_jargs *a, unsigned i,
                             const char *name, int64_t fallback, int64_t *out)
{
    const struct sm_jval *v = sm_jinja_arg(a, i, name);
    *out = fallback;
    if (!v || v->type == SM_J_NONE) return SMOL_OK;
    if (v->type == SM_J_BOOL) *out = v->u.b;
    else if (v->type == SM_J_INT) *out = v->u.i;
    else return SM_J_FAIL(j, FORMAT, "%s where a whole number is wanted", sm_jinja_type(v));
    return SMOL_OK;
}

static smol_status eval_args(struct sm_jinja *j, const struct sm_jnode *list, struct sm_jargs *out)
{
    out->n = out->n_named = 0;
    for (const struct sm_jnode *a = list; a; a = a->next) {
        if (a->name) {
            out->name[out->n_named] = a->name;
            SM_TRY(sm_jinja_eval(j, a->a, &out->named[out->n_named++]));
        } else {
            SM_TRY(sm_jinja_eval(j, a->a, &out->v[out->n++]));
        }
    }
    return SMOL_OK;
}

/* Arguments are large and calls nest: they live in the interpreter's memory, not on the stack. */
static smol_status args_of(struct sm_jinja *j, const struct sm_jnode *list,
                           const struct sm_jargs **out)
{
    static const struct sm_jargs none;
    *out = &none;
    if (!list) return SMOL_OK;
    struct sm_jargs *args = sm_jinja_take(j, sizeof *args);
    if (!args) return sm_jinja_full(j);
    *out = args;
    return eval_args(j, list, args);
}

static smol_status eval_call(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval f;
    const struct sm_jargs *args;
    SM_TRY(sm_jinja_eval(j, n->a, &f));
    if (f.type == SM_J_UNDEFINED)
        return SM_J_FAIL(j, UNSUPPORTED, "the function or method %.*s() is not supported",
                         (int)(f.u.s.n < 40 ? f.u.s.n : 40), f.u.s.p);
    if (f.type != SM_J_CALL) return SM_J_FAIL(j, FORMAT, "calls %s", sm_jinja_type(&f));
    SM_TRY(args_of(j, n->b, &args));
    switch (f.u.call->kind) {
    case SM_JC_MACRO: return sm_jinja_call_macro(j, f.u.call, args, out);
    case SM_JC_METHOD: return sm_jinja_method(j, &f.u.call->self, f.u.call->name, args, out);
    case SM_JC_FUNCTION: break;
    }
    return sm_jinja_function(j, f.u.call->name, args, out);
}

static smol_status eval_filter(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval v;
    const struct sm_jargs *args;
    if (!n->a) return SM_J_FAIL(j, FORMAT, "a filter of nothing");
    SM_TRY(sm_jinja_eval(j, n->a, &v));
    SM_TRY(args_of(j, n->b, &args));
    return sm_jinja_filter(j, n->name, &v, args, out);
}

static smol_status eval_test(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval v;
    const struct sm_jargs *args;
    bool yes = false;
    SM_TRY(sm_jinja_eval(j, n->a, &v));
    SM_TRY(args_of(j, n->b, &args));
    SM_TRY(sm_jinja_test(j, n->name, &v, args, &yes));
    *out = sm_jinja_bool(n->op ? !yes : yes);
    return SMOL_OK;
}

/* ---- lists and dictionaries ---- */

static smol_status eval_list(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    out->u.list->tuple = n->op == 1;
    for (const struct sm_jnode *i = n->a; i; i = i->next) {
        struct sm_jval v;
        SM_TRY(sm_jinja_eval(j, i, &v));
        if (!sm_jinja_append(j, out->u.list, v)) return sm_jinja_full(j);
    }
    return SMOL_OK;
}

static smol_status eval_dict(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    if (!sm_jinja_dict(j, out)) return sm_jinja_full(j);
    for (const struct sm_jnode *i = n->a; i && i->next; i = i->next->next) {
        struct sm_jval k, v;
        SM_TRY(sm_jinja_eval(j, i, &k));
        SM_TRY(sm_jinja_eval(j, i->next, &v));
        if (!sm_jinja_put(j, out->u.dict, k, v)) return sm_jinja_full(j);
    }
    return SMOL_OK;
}

static smol_status eval_compare(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval left, right;
    bool yes = true;
    SM_TRY(sm_jinja_eval(j, n->a, &left));
    for (const struct sm_jnode *c = n->b; c && yes; c = c->next) {
        SM_TRY(sm_jinja_eval(j, c->a, &right));
        SM_TRY(sm_jinja_compare(j, c->op, &left, &right, &yes));
        left = right;
    }
    *out = sm_jinja_bool(yes);
    return SMOL_OK;
}

static smol_status eval_two(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval a, b;
    SM_TRY(sm_jinja_eval(j, n->a, &a));
    if (n->kind == SM_JX_INDEX || n->kind == SM_JX_BINARY) SM_TRY(sm_jinja_eval(j, n->b, &b));
    switch (n->kind) {
    case SM_JX_ATTR: return sm_jinja_attr(j, &a, n->name, out);
    case SM_JX_INDEX: return sm_jinja_item(j, &a, &b, out);
    case SM_JX_SLICE: return eval_slice(j, n, &a, out);
    case SM_JX_UNARY: return sm_jinja_negate(j, n->op, &a, out);
    case SM_JX_BINARY: return sm_jinja_operate(j, n->op, &a, &b, out);
    case SM_JX_NOT: *out = sm_jinja_bool(!sm_jinja_truth(&a)); return SMOL_OK;
    case SM_JX_AND:
    case SM_JX_OR:
        *out = a;
        return sm_jinja_truth(&a) == (n->kind == SM_JX_OR) ? SMOL_OK : sm_jinja_eval(j, n->b, out);
    default: return SM_J_FAIL(j, FORMAT, "no expression");
    }
}

static smol_status eval_cond(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    struct sm_jval v;
    SM_TRY(sm_jinja_eval(j, n->b, &v));
    if (sm_jinja_truth(&v)) return sm_jinja_eval(j, n->a, out);
    if (n->c) return sm_jinja_eval(j, n->c, out);
    *out = sm_jinja_undefined(sm_jinja_text("a value without else").u.s);
    return SMOL_OK;
}

smol_status sm_jinja_eval(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *out)
{
    smol_status st;
    *out = sm_jinja_none();
    if (n->kind == SM_JX_CONST) {
        *out = n->value;
        return SMOL_OK;
    }
    SM_TRY(sm_jinja_enter(j, n));
    switch (n->kind) {
    case SM_JX_NAME: st = eval_name(j, n->name, out); break;
    case SM_JX_LIST: st = eval_list(j, n, out); break;
    case SM_JX_DICT: st = eval_dict(j, n, out); break;
    case SM_JX_CALL: st = eval_call(j, n, out); break;
    case SM_JX_FILTER: st = eval_filter(j, n, out); break;
    case SM_JX_TEST: st = eval_test(j, n, out); break;
    case SM_JX_COMPARE: st = eval_compare(j, n, out); break;
    case SM_JX_COND: st = eval_cond(j, n, out); break;
    default: st = eval_two(j, n, out); break;
    }
    j->depth--;
    return st;
}
