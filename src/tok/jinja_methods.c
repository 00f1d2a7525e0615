/* SPDX-License-Identifier: MIT */
/* Methods: value.name(arguments). */
#include "tok/jinja_int.h"

#include <string.h>

/* ---- methods of texts ---- */

typedef smol_status (*method_fn)(struct sm_jinja *j, const struct sm_jval *self,
                                 const struct sm_jargs *args, struct sm_jval *out);

/* The i-th argument as a text; `fallback` when it is absent or none. */
static smol_status text_arg(struct sm_jinja *j, const struct sm_jargs *a, unsigned i,
                            const char *name, struct sm_jstr fallback, struct sm_jstr *out)
{
    const struct sm_jval *v = sm_jinja_arg(a, i, name);
    *out = fallback;
    if (!v || v->type == SM_J_NONE) return SMOL_OK;
    if (v->type != SM_J_STR)
        return SM_J_FAIL(j, FORMAT, "%s where a text is wanted", sm_jinja_type(v));
    *out = v->u.s;
    return SMOL_OK;
}

static smol_status strip(struct sm_jinja *j, const struct sm_jval *self, const struct sm_jargs *a,
                         bool left, bool right, struct sm_jval *out)
{
    struct sm_jstr chars;
    SM_TRY(text_arg(j, a, 0, "chars", (struct sm_jstr){0}, &chars));
    *out = sm_jinja_str(sm_jinja_strip(j, self->u.s, chars, left, right));
    return sm_jinja_cost(j, 0);
}

static smol_status str_strip(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    return strip(j, self, a, true, true, out);
}

static smol_status str_lstrip(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    return strip(j, self, a, true, false, out);
}

static smol_status str_rstrip(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    return strip(j, self, a, false, true, out);
}

static bool has_affix(struct sm_jinja *j, struct sm_jstr s, const struct sm_jval *v, bool at_end)
{
    if (v->type != SM_J_STR || v->u.s.n > s.n) return false;
    (void)sm_jinja_count(j, v->u.s.n + 4);
    const size_t at = at_end ? s.n - v->u.s.n : 0;
    return sm_jinja_same_text(sm_jinja_cut(s, at, at + v->u.s.n), v->u.s);
}

static smol_status affix(struct sm_jinja *j, const struct sm_jval *self, const struct sm_jargs *a,
                         bool at_end, struct sm_jval *out)
{
    const struct sm_jval *v = sm_jinja_arg(a, 0, NULL);
    bool yes = false;
    if (!v || (v->type != SM_J_STR && v->type != SM_J_LIST))
        return SM_J_FAIL(j, FORMAT, "%s wants a text", at_end ? "endswith" : "startswith");
    if (v->type == SM_J_STR) yes = has_affix(j, self->u.s, v, at_end);
    for (size_t i = 0; v->type == SM_J_LIST && i < v->u.list->n && !yes; i++) {
        SM_TRY(sm_jinja_cost(j, 4));
        yes = has_affix(j, self->u.s, &v->u.list->v[i], at_end);
    }
    *out = sm_jinja_bool(yes);
    return sm_jinja_cost(j, 0);
}

static smol_status str_startswith(struct sm_jinja *j, const struct sm_jval *self,
                                  const struct sm_jargs *a, struct sm_jval *out)
{
    return affix(j, self, a, false, out);
}

static smol_status str_endswith(struct sm_jinja *j, const struct sm_jval *self,
                                const struct sm_jargs *a, struct sm_jval *out)
{
    return affix(j, self, a, true, out);
}

static smol_status split_at_space(struct sm_jinja *j, struct sm_jstr s, int64_t most,
                                  struct sm_jval *out)
{
    const struct sm_jstr none = {0};
    for (int64_t n = 0;; n++) {
        s = sm_jinja_strip(j, s, none, true, false);
        SM_TRY(sm_jinja_cost(j, 0));
        if (!s.n) return SMOL_OK;
        size_t end = 0;
        for (; end < s.n; end += sm_jinja_char(s, end)) {
            const struct sm_jstr c = sm_jinja_cut(s, end, end + sm_jinja_char(s, end));
            if (!sm_jinja_strip(j, c, none, true, false).n) break;
        }
        if (n == most) {
            s = sm_jinja_strip(j, s, none, false, true);
            end = s.n;
        }
        if (!sm_jinja_append(j, out->u.list, sm_jinja_str(sm_jinja_cut(s, 0, end))))
            return sm_jinja_full(j);
        s = sm_jinja_cut(s, end, s.n);
    }
}

static smol_status str_split(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jstr s = self->u.s, by;
    int64_t most;
    SM_TRY(text_arg(j, a, 0, "sep", (struct sm_jstr){0}, &by));
    SM_TRY(sm_jinja_arg_int(j, a, 1, "maxsplit", -1, &most));
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    SM_TRY(sm_jinja_cost(j, s.n));
    if (!by.p) return split_at_space(j, s, most, out);
    if (!by.n) return SM_J_FAIL(j, FORMAT, "split at an empty text");
    for (; most != 0; most--) {
        const size_t at = sm_jinja_search(s, by, 0);
        if (at == SIZE_MAX) break;
        if (!sm_jinja_append(j, out->u.list, sm_jinja_str(sm_jinja_cut(s, 0, at))))
            return sm_jinja_full(j);
        s = sm_jinja_cut(s, at + by.n, s.n);
    }
    return sm_jinja_append(j, out->u.list, sm_jinja_str(s)) ? SMOL_OK : sm_jinja_full(j);
}

/* The last place of `what` in s, SIZE_MAX: none. */
static smol_status search_back(struct sm_jinja *j, struct sm_jstr s, struct sm_jstr what,
                               size_t *out)
{
    const size_t step = what.n < 64 ? 2 : what.n; /* a long text may be compared at every place */
    *out = SIZE_MAX;
    for (size_t i = s.n >= what.n ? s.n - what.n + 1 : 0; i > 0; i--) {
        SM_TRY(sm_jinja_cost(j, step));
        if (memcmp(s.p + i - 1, what.p, what.n) != 0) continue;
        *out = i - 1;
        break;
    }
    return SMOL_OK;
}

static smol_status str_rsplit(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jstr s = self->u.s, by;
    int64_t most;
    SM_TRY(text_arg(j, a, 0, "sep", (struct sm_jstr){0}, &by));
    SM_TRY(sm_jinja_arg_int(j, a, 1, "maxsplit", -1, &most));
    if (most < 0) return str_split(j, self, a, out);
    if (!by.n) return SM_J_FAIL(j, UNSUPPORTED, "rsplit without a text is not supported");
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (; most > 0; most--) {
        size_t at;
        SM_TRY(search_back(j, s, by, &at));
        if (at == SIZE_MAX) break;
        if (!sm_jinja_append(j, out->u.list, sm_jinja_str(sm_jinja_cut(s, at + by.n, s.n))))
            return sm_jinja_full(j);
        s = sm_jinja_cut(s, 0, at);
    }
    if (!sm_jinja_append(j, out->u.list, sm_jinja_str(s))) return sm_jinja_full(j);
    struct sm_jlist *l = out->u.list;
    for (size_t i = 0; i < l->n / 2; i++) {
        const struct sm_jval t = l->v[i];
        l->v[i] = l->v[l->n - 1 - i];
        l->v[l->n - 1 - i] = t;
    }
    return SMOL_OK;
}

static smol_status str_splitlines(struct sm_jinja *j, const struct sm_jval *self,
                                  const struct sm_jargs *a, struct sm_jval *out)
{
    const struct sm_jstr s = self->u.s;
    (void)a;
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (size_t at = 0; at < s.n;) {
        size_t end = at;
        while (end < s.n && s.p[end] != '\n' && s.p[end] != '\r') end++;
        if (!sm_jinja_append(j, out->u.list, sm_jinja_str(sm_jinja_cut(s, at, end))))
            return sm_jinja_full(j);
        at = end + (end + 1 < s.n && s.p[end] == '\r' && s.p[end + 1] == '\n' ? 2 : 1);
    }
    return sm_jinja_cost(j, s.n);
}

static smol_status str_replace(struct sm_jinja *j, const struct sm_jval *self,
                               const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jstr from, to;
    int64_t count;
    const struct sm_jstr none = {0};
    SM_TRY(text_arg(j, a, 0, "old", none, &from));
    SM_TRY(text_arg(j, a, 1, "new", none, &to));
    SM_TRY(sm_jinja_arg_int(j, a, 2, "count", -1, &count));
    if (!from.p || !to.p) return SM_J_FAIL(j, FORMAT, "replace wants two texts");
    return sm_jinja_replace(j, self->u.s, from, to, count, out);
}

static smol_status str_upper(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return sm_jinja_case(j, self->u.s, 'u', out);
}

static smol_status str_lower(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return sm_jinja_case(j, self->u.s, 'l', out);
}

static smol_status str_title(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return sm_jinja_case(j, self->u.s, 't', out);
}

static smol_status str_capitalize(struct sm_jinja *j, const struct sm_jval *self,
                                  const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return sm_jinja_case(j, self->u.s, 'c', out);
}

static smol_status place(struct sm_jinja *j, const struct sm_jval *self, const struct sm_jargs *a,
                         bool back, struct sm_jval *out)
{
    struct sm_jstr what;
    SM_TRY(text_arg(j, a, 0, NULL, (struct sm_jstr){0}, &what));
    if (!what.p || a->n != 1) return SM_J_FAIL(j, UNSUPPORTED, "find with other than one text");
    SM_TRY(sm_jinja_cost(j, self->u.s.n));
    size_t at;
    if (back) SM_TRY(search_back(j, self->u.s, what, &at));
    else at = sm_jinja_search(self->u.s, what, 0);
    *out = sm_jinja_int(at == SIZE_MAX ? -1
                                       : (int64_t)sm_jinja_length(sm_jinja_cut(self->u.s, 0, at)));
    return SMOL_OK;
}

static smol_status str_find(struct sm_jinja *j, const struct sm_jval *self,
                            const struct sm_jargs *a, struct sm_jval *out)
{
    return place(j, self, a, false, out);
}

static smol_status str_rfind(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    return place(j, self, a, true, out);
}

static smol_status str_count(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jstr what;
    int64_t n = 0;
    SM_TRY(text_arg(j, a, 0, NULL, (struct sm_jstr){0}, &what));
    if (!what.n) return SM_J_FAIL(j, FORMAT, "count wants a text");
    SM_TRY(sm_jinja_cost(j, self->u.s.n));
    for (size_t at = 0; (at = sm_jinja_search(self->u.s, what, at)) != SIZE_MAX; at += what.n) n++;
    *out = sm_jinja_int(n);
    return SMOL_OK;
}

static smol_status str_join(struct sm_jinja *j, const struct sm_jval *self,
                            const struct sm_jargs *a, struct sm_jval *out)
{
    struct sm_jlist *items;
    if (a->n != 1) return SM_J_FAIL(j, FORMAT, "join wants a list");
    SM_TRY(sm_jinja_items(j, &a->v[0], &items));
    return sm_jinja_join(j, items, self->u.s, out);
}

static smol_status remove_affix(struct sm_jinja *j, const struct sm_jval *self,
                                const struct sm_jargs *a, bool at_end, struct sm_jval *out)
{
    if (a->n != 1) return SM_J_FAIL(j, FORMAT, "removeprefix and removesuffix want a text");
    *out = *self;
    if (!has_affix(j, self->u.s, &a->v[0], at_end)) return SMOL_OK;
    const size_t n = self->u.s.n, k = a->v[0].u.s.n;
    out->u.s = at_end ? sm_jinja_cut(self->u.s, 0, n - k) : sm_jinja_cut(self->u.s, k, n);
    return SMOL_OK;
}

static smol_status str_removeprefix(struct sm_jinja *j, const struct sm_jval *self,
                                    const struct sm_jargs *a, struct sm_jval *out)
{
    return remove_affix(j, self, a, false, out);
}

static smol_status str_removesuffix(struct sm_jinja *j, const struct sm_jval *self,
                                    const struct sm_jargs *a, struct sm_jval *out)
{
    return remove_affix(j, self, a, true, out);
}

/* ---- methods of dictionaries, lists and loops ---- */

static smol_status dict_get(struct sm_jinja *j, const struct sm_jval *self,
                            const struct sm_jargs *a, struct sm_jval *out)
{
    if (!a->n) return SM_J_FAIL(j, FORMAT, "get wants a key");
    const struct sm_jval *v = sm_jinja_find_key(j, self->u.dict, &a->v[0]);
    *out = v ? *v : a->n > 1 ? a->v[1] : sm_jinja_none();
    return sm_jinja_cost(j, 0);
}

/* What: 'k'eys, 'v'alues, 'i'tems. */
static smol_status dict_list(struct sm_jinja *j, const struct sm_jval *self, char what,
                             struct sm_jval *out)
{
    const struct sm_jdict *d = self->u.dict;
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (size_t i = 0; i < d->n; i++) {
        struct sm_jval v = what == 'k' ? d->v[i].key : d->v[i].value;
        if (what == 'i') {
            struct sm_jval pair;
            if (!sm_jinja_list(j, &pair) || !sm_jinja_append(j, pair.u.list, d->v[i].key) ||
                !sm_jinja_append(j, pair.u.list, d->v[i].value))
                return sm_jinja_full(j);
            pair.u.list->tuple = true;
            v = pair;
        }
        if (!sm_jinja_append(j, out->u.list, v)) return sm_jinja_full(j);
    }
    return sm_jinja_cost(j, 16 * d->n);
}

static smol_status dict_keys(struct sm_jinja *j, const struct sm_jval *self,
                             const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return dict_list(j, self, 'k', out);
}

static smol_status dict_values(struct sm_jinja *j, const struct sm_jval *self,
                               const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return dict_list(j, self, 'v', out);
}

static smol_status dict_items(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    (void)a;
    return dict_list(j, self, 'i', out);
}

static smol_status list_index(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    for (size_t i = 0; a->n == 1 && i < self->u.list->n; i++)
        if (sm_jinja_equal(j, &self->u.list->v[i], &a->v[0], 0)) {
            *out = sm_jinja_int((int64_t)i);
            return SMOL_OK;
        }
    return SM_J_FAIL(j, FORMAT, "index of a value that is not in the list");
}

static smol_status list_count(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    int64_t n = 0;
    for (size_t i = 0; a->n == 1 && i < self->u.list->n; i++)
        n += sm_jinja_equal(j, &self->u.list->v[i], &a->v[0], 0);
    *out = sm_jinja_int(n);
    return sm_jinja_cost(j, 0);
}

static smol_status loop_cycle(struct sm_jinja *j, const struct sm_jval *self,
                              const struct sm_jargs *a, struct sm_jval *out)
{
    if (!a->n) return SM_J_FAIL(j, FORMAT, "cycle wants values");
    *out = a->v[self->u.loop->i % a->n];
    return SMOL_OK;
}

static const struct method {
    enum sm_jtype type;
    const char *name;
    method_fn fn;
} methods[] = {{SM_J_STR, "strip", str_strip},
               {SM_J_STR, "lstrip", str_lstrip},
               {SM_J_STR, "rstrip", str_rstrip},
               {SM_J_STR, "startswith", str_startswith},
               {SM_J_STR, "endswith", str_endswith},
               {SM_J_STR, "split", str_split},
               {SM_J_STR, "rsplit", str_rsplit},
               {SM_J_STR, "splitlines", str_splitlines},
               {SM_J_STR, "replace", str_replace},
               {SM_J_STR, "upper", str_upper},
               {SM_J_STR, "lower", str_lower},
               {SM_J_STR, "title", str_title},
               {SM_J_STR, "capitalize", str_capitalize},
               {SM_J_STR, "find", str_find},
               {SM_J_STR, "rfind", str_rfind},
               {SM_J_STR, "count", str_count},
               {SM_J_STR, "join", str_join},
               {SM_J_STR, "removeprefix", str_removeprefix},
               {SM_J_STR, "removesuffix", str_removesuffix},
               {SM_J_DICT, "get", dict_get},
               {SM_J_DICT, "keys", dict_keys},
               {SM_J_DICT, "values", dict_values},
               {SM_J_DICT, "items", dict_items},
               {SM_J_LIST, "index", list_index},
               {SM_J_LIST, "count", list_count},
               {SM_J_LOOP, "cycle", loop_cycle}};

static const struct method *find_method(const struct sm_jval *self, const char *name)
{
    if (self->type == SM_J_DICT && self->u.dict->is_namespace) return NULL;
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (methods[i].type == self->type && !strcmp(methods[i].name, name)) return &methods[i];
    return NULL;
}

bool sm_jinja_has_method(const struct sm_jval *self, const char *name)
{
    return find_method(self, name) != NULL;
}

smol_status sm_jinja_method(struct sm_jinja *j, const struct sm_jval *self, const char *name,
                            const struct sm_jargs *args, struct sm_jval *out)
{
    const struct method *m = find_method(self, name);
    if (!m) return SM_J_FAIL(j, UNSUPPORTED, "the method .%.40s() is not supported", name);
    return m->fn(j, self, args, out);
}
