/* SPDX-License-Identifier: MIT */
/* Filters: value | name(arguments). */
#include "tok/jinja_int.h"

#include <stdlib.h>
#include <string.h>

typedef smol_status (*filter_fn)(struct sm_jinja *j, const struct sm_jval *v,
                                 const struct sm_jargs *args, struct sm_jval *out);

static smol_status text_of(struct sm_jinja *j, const struct sm_jval *v, struct sm_jval *out)
{
    out->type = SM_J_STR;
    return sm_jinja_print(j, v, &out->u.s);
}

static bool flag(const struct sm_jargs *a, unsigned i, const char *name)
{
    const struct sm_jval *v = sm_jinja_arg(a, i, name);
    return v && sm_jinja_truth(v);
}

/* ---- of any value ---- */

static smol_status do_default(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                              struct sm_jval *out)
{
    const struct sm_jval *other = sm_jinja_arg(a, 0, "default_value");
    const bool use = v->type == SM_J_UNDEFINED || (flag(a, 1, "boolean") && !sm_jinja_truth(v));
    (void)j;
    *out = !use ? *v : other ? *other : sm_jinja_text("");
    return SMOL_OK;
}

static smol_status do_length(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    (void)a;
    switch (v->type) {
    case SM_J_STR: *out = sm_jinja_int((int64_t)sm_jinja_length(v->u.s)); break;
    case SM_J_LIST: *out = sm_jinja_int((int64_t)v->u.list->n); break;
    case SM_J_DICT: *out = sm_jinja_int((int64_t)v->u.dict->n); break;
    case SM_J_UNDEFINED: *out = sm_jinja_int(0); break;
    default: return SM_J_FAIL(j, FORMAT, "length of %s", sm_jinja_type(v));
    }
    return sm_jinja_cost(j, v->type == SM_J_STR ? v->u.s.n : 0);
}

static smol_status do_string(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    (void)a;
    return text_of(j, v, out);
}

static smol_status do_tojson(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    struct sm_jinja_json_style style = {.ascii = flag(a, UINT32_MAX, "ensure_ascii"),
                                        .sort_keys = flag(a, UINT32_MAX, "sort_keys")};
    const struct sm_jval *sep = sm_jinja_arg(a, UINT32_MAX, "separators");
    SM_TRY(sm_jinja_arg_int(j, a, 0, "indent", -1, &style.indent));
    if (style.indent > 64) return SM_J_FAIL(j, LIMIT, "tojson with an indent over 64");
    if (sep && sep->type == SM_J_LIST && sep->u.list->n == 2 &&
        sep->u.list->v[0].type == SM_J_STR && sep->u.list->v[1].type == SM_J_STR) {
        style.item = sep->u.list->v[0].u.s;
        style.key = sep->u.list->v[1].u.s;
    }
    out->type = SM_J_STR;
    return sm_jinja_to_json(j, v, &style, &out->u.s);
}

static smol_status do_int(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    int64_t fallback;
    SM_TRY(sm_jinja_arg_int(j, a, 0, "default", 0, &fallback));
    *out = sm_jinja_int(fallback);
    if (v->type == SM_J_INT) *out = *v;
    else if (v->type == SM_J_BOOL) *out = sm_jinja_int(v->u.b);
    else if (v->type == SM_J_FLOAT && v->u.f > -9e18 && v->u.f < 9e18)
        *out = sm_jinja_int((int64_t)v->u.f);
    else if (v->type == SM_J_STR) {
        char text[32], *end = text;
        const struct sm_jstr s = sm_jinja_strip(j, v->u.s, (struct sm_jstr){0}, true, true);
        if (!s.n || s.n >= 19) return SMOL_OK;
        memcpy(text, s.p, s.n);
        text[s.n] = 0;
        const int64_t i = strtoll(text, &end, 10);
        if (!*end) *out = sm_jinja_int(i);
    }
    return SMOL_OK;
}

static smol_status do_abs(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                          struct sm_jval *out)
{
    (void)a;
    *out = *v;
    if (v->type == SM_J_INT && v->u.i < 0) return sm_jinja_negate(j, '-', v, out);
    if (v->type == SM_J_FLOAT && v->u.f < 0) out->u.f = -v->u.f;
    if (v->type == SM_J_INT || v->type == SM_J_FLOAT) return SMOL_OK;
    return SM_J_FAIL(j, FORMAT, "abs of %s", sm_jinja_type(v));
}

/* ---- of texts ---- */

static smol_status do_trim(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                           struct sm_jval *out)
{
    const struct sm_jval *chars = sm_jinja_arg(a, 0, "chars");
    SM_TRY(text_of(j, v, out));
    const struct sm_jstr none = {0};
    out->u.s = sm_jinja_strip(j, out->u.s, chars && chars->type == SM_J_STR ? chars->u.s : none,
                              true, true);
    return sm_jinja_cost(j, 0);
}

static smol_status do_upper(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                            struct sm_jval *out)
{
    (void)a;
    SM_TRY(text_of(j, v, out));
    return sm_jinja_case(j, out->u.s, 'u', out);
}

static smol_status do_lower(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                            struct sm_jval *out)
{
    (void)a;
    SM_TRY(text_of(j, v, out));
    return sm_jinja_case(j, out->u.s, 'l', out);
}

static smol_status do_title(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                            struct sm_jval *out)
{
    (void)a;
    SM_TRY(text_of(j, v, out));
    return sm_jinja_case(j, out->u.s, 't', out);
}

static smol_status do_capitalize(struct sm_jinja *j, const struct sm_jval *v,
                                 const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    SM_TRY(text_of(j, v, out));
    return sm_jinja_case(j, out->u.s, 'c', out);
}

static smol_status do_replace(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                              struct sm_jval *out)
{
    const struct sm_jval *from = sm_jinja_arg(a, 0, "old"), *to = sm_jinja_arg(a, 1, "new");
    int64_t count;
    if (!from || !to || from->type != SM_J_STR || to->type != SM_J_STR)
        return SM_J_FAIL(j, FORMAT, "replace wants two texts");
    SM_TRY(sm_jinja_arg_int(j, a, 2, "count", -1, &count));
    SM_TRY(text_of(j, v, out));
    return sm_jinja_replace(j, out->u.s, from->u.s, to->u.s, count, out);
}

static smol_status do_escape(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    static const char *const to[] = {"&amp;", "&lt;", "&gt;", "&#39;", "&#34;"};
    static const char from[] = "&<>'\"";
    struct sm_jbuf b = {.j = j};
    (void)a;
    SM_TRY(text_of(j, v, out));
    for (size_t i = 0; i < out->u.s.n; i++) {
        const char c = out->u.s.p[i], *e = c ? strchr(from, c) : NULL;
        if (e) sm_jbuf_text(&b, to[e - from], strlen(to[e - from]), false);
        else sm_jbuf_put(&b, sm_jinja_cut(out->u.s, i, i + 1));
    }
    return sm_jbuf_end(&b, &out->u.s);
}

static smol_status do_indent(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                             struct sm_jval *out)
{
    const struct sm_jval *with = sm_jinja_arg(a, 0, "width");
    struct sm_jbuf b = {.j = j};
    struct sm_jstr pad = sm_jinja_text("    ").u.s;
    if (with && with->type == SM_J_STR) pad = with->u.s;
    else if (with) {
        const struct sm_jval blank = sm_jinja_text(" ");
        struct sm_jval many;
        SM_TRY(sm_jinja_operate(j, '*', &blank, with, &many));
        if (many.type != SM_J_STR) return SM_J_FAIL(j, FORMAT, "indent of %s", sm_jinja_type(with));
        pad = many.u.s;
    }
    SM_TRY(text_of(j, v, out));
    const struct sm_jstr s = out->u.s;
    const bool blank_lines = flag(a, 2, "blank");
    for (size_t at = 0, line = 0; at < s.n; line++) {
        size_t end = sm_jinja_search(s, sm_jinja_text("\n").u.s, at);
        const size_t next = end == SIZE_MAX ? s.n : end + 1;
        if (end == SIZE_MAX) end = s.n;
        if (line ? end > at || blank_lines : flag(a, 1, "first")) sm_jbuf_put(&b, pad);
        sm_jbuf_put(&b, sm_jinja_cut(s, at, next));
        at = next;
    }
    return sm_jbuf_end(&b, &out->u.s);
}

/* ---- of lists and dictionaries ---- */

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
    if (between) SM_TRY(text_of(j, between, &s));
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
    return sort(j, out->u.list, sm_jinja_arg(a, 2, "attribute"), flag(a, 1, "case_sensitive"),
                flag(a, 0, "reverse"));
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
    return sort(j, out->u.list, &path, flag(a, 0, "case_sensitive"), flag(a, 2, "reverse"));
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
                        flag(a, 0, "case_sensitive"), &key));
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

smol_status sm_jinja_filter(struct sm_jinja *j, const char *name, const struct sm_jval *v,
                            const struct sm_jargs *args, struct sm_jval *out)
{
    static const struct {
        const char *name;
        filter_fn fn;
    } known[] = {{"abs", do_abs},
                 {"capitalize", do_capitalize},
                 {"count", do_length},
                 {"d", do_default},
                 {"default", do_default},
                 {"dictsort", do_dictsort},
                 {"e", do_escape},
                 {"escape", do_escape},
                 {"first", do_first},
                 {"indent", do_indent},
                 {"int", do_int},
                 {"items", do_items},
                 {"join", do_join},
                 {"last", do_last},
                 {"length", do_length},
                 {"list", do_list},
                 {"lower", do_lower},
                 {"map", do_map},
                 {"max", do_max},
                 {"min", do_min},
                 {"reject", do_reject},
                 {"rejectattr", do_rejectattr},
                 {"replace", do_replace},
                 {"reverse", do_reverse},
                 {"safe", do_string},
                 {"select", do_select},
                 {"selectattr", do_selectattr},
                 {"sort", do_sort},
                 {"string", do_string},
                 {"sum", do_sum},
                 {"title", do_title},
                 {"tojson", do_tojson},
                 {"trim", do_trim},
                 {"unique", do_unique},
                 {"upper", do_upper}};
    SM_TRY(sm_jinja_cost(j, 64)); /* map() runs it for each item */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].fn(j, v, args, out);
    return SM_J_FAIL(j, UNSUPPORTED, "the filter \"%.40s\" is not supported", name);
}
