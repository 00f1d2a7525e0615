/* SPDX-License-Identifier: MIT */
/* Filters of lists and dictionaries. */
#include "tok/jinja_int.h"

#include <stdlib.h>
#include <string.h>

static smol_status do_list(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                           struct sm_jval *out)
{
    struct sm_jlist *items;
    (void)a;
    SM_TRY(sm_jinja_items(j, v, &items));
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (size_t i = 0; i < items->n; i++)
        if (!sm_jinja_append(j, out->u.list, items->v[i])) return sm_jinja_full(j);
    return SMOL_OK;
}

static smol_status do_first(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                            struct sm_jval *out)
{
    struct sm_jlist *items;
    (void)a;
    SM_TRY(sm_jinja_items(j, v, &items));
    *out = items->n ? items->v[0] : sm_jinja_undefined(sm_jinja_text("the first item").u.s);
    return SMOL_OK;
}

static smol_status do_last(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                           struct sm_jval *out)
{
    struct sm_jlist *items;
    (void)a;
    SM_TRY(sm_jinja_items(j, v, &items));
    *out =
        items->n ? items->v[items->n - 1] : sm_jinja_undefined(sm_jinja_text("the last item").u.s);
    return SMOL_OK;
}

static smol_status do_reverse(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                              struct sm_jval *out)
{
    SM_TRY(do_list(j, v, a, out));
    struct sm_jlist *l = out->u.list;
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct sm_jval t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return v->type == SM_J_STR ? sm_jinja_join(j, l, sm_jinja_text("").u.s, out) : SMOL_OK;
}

static smol_status do_items(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                            struct sm_jval *out)
{
    const struct sm_jargs none = {0};
    (void)a;
    if (v->type == SM_J_DICT) return sm_jinja_method(j, v, "items", &none, out);
    if (v->type != SM_J_UNDEFINED) return SM_J_FAIL(j, FORMAT, "items of %s", sm_jinja_type(v));
    return sm_jinja_list(j, out) ? SMOL_OK : sm_jinja_full(j);
}

/* attribute="a.b" or an index of a value. */
static smol_status attribute(struct sm_jinja *j, const struct sm_jval *v,
                             const struct sm_jval *path, struct sm_jval *out)
{
    *out = *v;
    if (path->type != SM_J_STR) return sm_jinja_item(j, v, path, out);
    SM_TRY(sm_jinja_cost(j, path->u.s.n));
    for (size_t at = 0; at <= path->u.s.n;) {
        size_t dot = sm_jinja_search(path->u.s, sm_jinja_text(".").u.s, at);
        if (dot == SIZE_MAX) dot = path->u.s.n;
        const struct sm_jval from = *out, key = sm_jinja_str(sm_jinja_cut(path->u.s, at, dot));
        SM_TRY(sm_jinja_item(j, &from, &key, out));
        at = dot + 1;
    }
    return SMOL_OK;
}

static smol_status do_join(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                           struct sm_jval *out)
{
    const struct sm_jval *between = sm_jinja_arg(a, 0, "d"),
                         *path = sm_jinja_arg(a, 1, "attribute");
    struct sm_jval list, s = sm_jinja_text("");
    const struct sm_jargs none = {0};
    SM_TRY(do_list(j, v, &none, &list));
    for (size_t i = 0; path && i < list.u.list->n; i++) {
        const struct sm_jval item = list.u.list->v[i];
        SM_TRY(attribute(j, &item, path, &list.u.list->v[i]));
    }
    if (between) SM_TRY(sm_jinja_print(j, between, &s.u.s));
    return sm_jinja_join(j, list.u.list, s.u.s, out);
}

/* What an item is sorted by: its attribute, in small letters unless told otherwise. */
static smol_status sort_key(struct sm_jinja *j, const struct sm_jval *item,
                            const struct sm_jval *path, bool exact, struct sm_jval *out)
{
    *out = *item;
    if (path) SM_TRY(attribute(j, item, path, out));
    return out->type == SM_J_STR && !exact ? sm_jinja_case(j, out->u.s, 'l', out) : SMOL_OK;
}

/* Stable, by insertion: lists of a template are short, and every step is counted. */
static smol_status sort(struct sm_jinja *j, struct sm_jlist *l, const struct sm_jval *path,
                        bool exact, bool reverse)
{
    struct sm_jval keys, k;
    if (!sm_jinja_list(j, &keys)) return sm_jinja_full(j);
    for (size_t i = 0; i < l->n; i++) {
        SM_TRY(sort_key(j, &l->v[i], path, exact, &k));
        if (!sm_jinja_append(j, keys.u.list, k)) return sm_jinja_full(j);
    }
    struct sm_jval *kv = keys.u.list->v;
    for (size_t i = 1; i < l->n; i++) {
        const struct sm_jval item = l->v[i], key = kv[i];
        size_t at = i;
        for (; at > 0; at--) {
            int order;
            SM_TRY(sm_jinja_order(j, &kv[at - 1], &key, &order));
            if (reverse ? order >= 0 : order <= 0) break;
            l->v[at] = l->v[at - 1];
            kv[at] = kv[at - 1];
        }
        l->v[at] = item;
        kv[at] = key;
    }
    return SMOL_OK;
}

static smol_status do_sort(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                           struct sm_jval *out)
{
    const struct sm_jargs none = {0};
    SM_TRY(do_list(j, v, &none, out));
    return sort(j, out->u.list, sm_jinja_arg(a, 2, "attribute"),
                sm_jinja_arg_flag(a, 1, "case_sensitive"), sm_jinja_arg_flag(a, 0, "reverse"));
}

static smol_status do_dictsort(struct sm_jinja *j, const struct sm_jval *v,
                               const struct sm_jargs *a, struct sm_jval *out)
{
    const struct sm_jval *by = sm_jinja_arg(a, 1, "by");
    const bool by_value =
        by && by->type == SM_J_STR && sm_jinja_same_text(by->u.s, sm_jinja_text("value").u.s);
    const struct sm_jval path = sm_jinja_int(by_value);
    const struct sm_jargs none = {0};
    if (v->type != SM_J_DICT) return SM_J_FAIL(j, FORMAT, "dictsort of %s", sm_jinja_type(v));
    SM_TRY(sm_jinja_method(j, v, "items", &none, out));
    return sort(j, out->u.list, &path, sm_jinja_arg_flag(a, 0, "case_sensitive"),
                sm_jinja_arg_flag(a, 2, "reverse"));
}

static smol_status do_unique(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    struct sm_jlist *items;
    struct sm_jval seen, key;
    SM_TRY(sm_jinja_items(j, v, &items));
    if (!sm_jinja_list(j, out) || !sm_jinja_list(j, &seen)) return sm_jinja_full(j);
    for (size_t i = 0; i < items->n; i++) {
        bool known;
        SM_TRY(sort_key(j, &items->v[i], sm_jinja_arg(a, 1, "attribute"),
                        sm_jinja_arg_flag(a, 0, "case_sensitive"), &key));
        SM_TRY(sm_jinja_contains(j, &seen, &key, &known));
        if (known) continue;
        if (!sm_jinja_append(j, seen.u.list, key) || !sm_jinja_append(j, out->u.list, items->v[i]))
            return sm_jinja_full(j);
    }
    return SMOL_OK;
}

static smol_status do_sum(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    const struct sm_jval *path = sm_jinja_arg(a, 0, "attribute");
    struct sm_jlist *items;
    struct sm_jval sum = sm_jinja_int(0), item;
    SM_TRY(sm_jinja_items(j, v, &items));
    for (size_t i = 0; i < items->n; i++) {
        item = items->v[i];
        if (path) SM_TRY(attribute(j, &items->v[i], path, &item));
        SM_TRY(sm_jinja_operate(j, '+', &sum, &item, out));
        sum = *out;
    }
    *out = sum;
    return SMOL_OK;
}

/* The largest (want 1) or smallest (want -1) item. */
static smol_status extreme(struct sm_jinja *j, const struct sm_jval *v, int want,
                           struct sm_jval *out)
{
    struct sm_jlist *items;
    int order;
    SM_TRY(sm_jinja_items(j, v, &items));
    *out = sm_jinja_undefined(sm_jinja_text("an extreme of nothing").u.s);
    for (size_t i = 0; i < items->n; i++) {
        if (i) SM_TRY(sm_jinja_order(j, &items->v[i], out, &order));
        if (!i || order == want) *out = items->v[i];
    }
    return SMOL_OK;
}

static smol_status do_max(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    (void)a;
    return extreme(j, v, 1, out);
}

static smol_status do_min(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    (void)a;
    return extreme(j, v, -1, out);
}

/* Arguments behind the first `skip`. */
static void later_args(const struct sm_jargs *a, unsigned skip, struct sm_jargs *out)
{
    *out = (struct sm_jargs){0};
    for (unsigned i = skip; i < a->n; i++) out->v[out->n++] = a->v[i];
}

/* The text in s as an interned name. */
static smol_status name_of(struct sm_jinja *j, const struct sm_jval *v, const char **out)
{
    if (!v || v->type != SM_J_STR)
        return SM_J_FAIL(j, FORMAT, "the name of a filter or test is wanted");
    *out = sm_jinja_intern(j, v->u.s.p, v->u.s.n);
    return *out ? SMOL_OK : sm_jinja_full(j);
}

static smol_status do_map(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    const struct sm_jval *path = sm_jinja_arg(a, UINT32_MAX, "attribute");
    const struct sm_jval *other = sm_jinja_arg(a, UINT32_MAX, "default");
    const char *name = NULL;
    struct sm_jlist *items;
    struct sm_jval r;
    struct sm_jargs *more = sm_jinja_take(j, sizeof *more);
    if (!more || !sm_jinja_list(j, out)) return sm_jinja_full(j);
    SM_TRY(sm_jinja_items(j, v, &items));
    if (!path) SM_TRY(name_of(j, sm_jinja_arg(a, 0, NULL), &name));
    later_args(a, 1, more);
    for (size_t i = 0; i < items->n; i++) {
        if (path) {
            SM_TRY(attribute(j, &items->v[i], path, &r));
            if (r.type == SM_J_UNDEFINED && other) r = *other;
        } else {
            SM_TRY(sm_jinja_filter(j, name, &items->v[i], more, &r));
        }
        if (!sm_jinja_append(j, out->u.list, r)) return sm_jinja_full(j);
    }
    return SMOL_OK;
}

/* select, reject, selectattr, rejectattr */
static smol_status choose(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          bool by_attribute, bool want, struct sm_jval *out)
{
    const unsigned at = by_attribute;
    const char *name = NULL;
    struct sm_jlist *items;
    struct sm_jargs *more = sm_jinja_take(j, sizeof *more);
    if (!more || !sm_jinja_list(j, out)) return sm_jinja_full(j);
    SM_TRY(sm_jinja_items(j, v, &items));
    if (by_attribute && !a->n) return SM_J_FAIL(j, FORMAT, "selectattr wants an attribute");
    if (a->n > at) SM_TRY(name_of(j, &a->v[at], &name));
    later_args(a, at + 1, more);
    for (size_t i = 0; i < items->n; i++) {
        struct sm_jval item = items->v[i];
        bool yes;
        if (by_attribute) SM_TRY(attribute(j, &items->v[i], &a->v[0], &item));
        if (name) SM_TRY(sm_jinja_test(j, name, &item, more, &yes));
        else yes = sm_jinja_truth(&item);
        if (yes == want && !sm_jinja_append(j, out->u.list, items->v[i])) return sm_jinja_full(j);
    }
    return SMOL_OK;
}

static smol_status do_select(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    return choose(j, v, a, false, true, out);
}

static smol_status do_reject(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    return choose(j, v, a, false, false, out);
}

static smol_status do_selectattr(struct sm_jinja *j, const struct sm_jval *v,
                                 const struct sm_jargs *a, struct sm_jval *out)
{
    return choose(j, v, a, true, true, out);
}

static smol_status do_rejectattr(struct sm_jinja *j, const struct sm_jval *v,
                                 const struct sm_jargs *a, struct sm_jval *out)
{
    return choose(j, v, a, true, false, out);
}

sm_jinja_filter_fn sm_jinja_list_filter(const char *name)
{
    static const struct {
        const char *name;
        sm_jinja_filter_fn fn;
    } known[] = {{"dictsort", do_dictsort},
                 {"first", do_first},
                 {"items", do_items},
                 {"join", do_join},
                 {"last", do_last},
                 {"list", do_list},
                 {"map", do_map},
                 {"max", do_max},
                 {"min", do_min},
                 {"reject", do_reject},
                 {"rejectattr", do_rejectattr},
                 {"reverse", do_reverse},
                 {"select", do_select},
                 {"selectattr", do_selectattr},
                 {"sort", do_sort},
                 {"sum", do_sum},
                 {"unique", do_unique}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].fn;
    return NULL;
}
