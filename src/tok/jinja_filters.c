/* SPDX-License-Identifier: MIT */
/* Filters: value | name(arguments). Those of lists are in jinja_list_filters.c. */
#include "tok/jinja_int.h"

#include <stdlib.h>
#include <string.h>

static smol_status text_of(struct sm_jinja *j, const struct sm_jval *v, struct sm_jval *out)
{
    out->type = SM_J_STR;
    return sm_jinja_print(j, v, &out->u.s);
}

/* ---- of any value ---- */

static smol_status do_default(struct sm_jinja *j, const struct sm_jval *v, const struct sm_jargs *a,
                              struct sm_jval *out)
{
    const struct sm_jval *other = sm_jinja_arg(a, 0, "default_value");
    const bool use =
        v->type == SM_J_UNDEFINED || (sm_jinja_arg_flag(a, 1, "boolean") && !sm_jinja_truth(v));
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
    struct sm_jinja_json_style style = {.ascii = sm_jinja_arg_flag(a, UINT32_MAX, "ensure_ascii"),
                                        .sort_keys = sm_jinja_arg_flag(a, UINT32_MAX, "sort_keys")};
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
    const bool blank_lines = sm_jinja_arg_flag(a, 2, "blank");
    for (size_t at = 0, line = 0; at < s.n; line++) {
        size_t end = sm_jinja_search(s, sm_jinja_text("\n").u.s, at);
        const size_t next = end == SIZE_MAX ? s.n : end + 1;
        if (end == SIZE_MAX) end = s.n;
        if (line ? end > at || blank_lines : sm_jinja_arg_flag(a, 1, "first")) sm_jbuf_put(&b, pad);
        sm_jbuf_put(&b, sm_jinja_cut(s, at, next));
        at = next;
    }
    return sm_jbuf_end(&b, &out->u.s);
}

smol_status sm_jinja_filter(struct sm_jinja *j, const char *name, const struct sm_jval *v,
                            const struct sm_jargs *args, struct sm_jval *out)
{
    static const struct {
        const char *name;
        sm_jinja_filter_fn fn;
    } known[] = {{"abs", do_abs},         {"capitalize", do_capitalize},
                 {"count", do_length},    {"d", do_default},
                 {"default", do_default}, {"e", do_escape},
                 {"escape", do_escape},   {"indent", do_indent},
                 {"int", do_int},         {"length", do_length},
                 {"lower", do_lower},     {"replace", do_replace},
                 {"safe", do_string},     {"string", do_string},
                 {"title", do_title},     {"tojson", do_tojson},
                 {"trim", do_trim},       {"upper", do_upper}};
    SM_TRY(sm_jinja_cost(j, 64)); /* map() runs it for each item */
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name)) return known[i].fn(j, v, args, out);
    const sm_jinja_filter_fn of_list = sm_jinja_list_filter(name);
    if (of_list) return of_list(j, v, args, out);
    return SM_J_FAIL(j, UNSUPPORTED, "the filter \"%.40s\" is not supported", name);
}
