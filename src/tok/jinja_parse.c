/* SPDX-License-Identifier: MIT */
/* Text, comments and statements of a template. */
#include "tok/jinja_parse.h"

#include <string.h>

#define NEW(s, var, kind)                                                                          \
    struct sm_jnode *var = sm_jinja_node((s), (kind));                                             \
    if (!var) return sm_jinja_full((s)->j)

static smol_status parse_block(struct sm_jparse *s, const char *const *ends, struct sm_jnode **list,
                               const char **end);

/* ---- text between tags ---- */

/* Where the next tag begins; s->n when there is none. */
static size_t tag_at(const struct sm_jparse *s)
{
    for (size_t i = s->at; i + 1 < s->n; i++) {
        const char *p = memchr(s->p + i, '{', s->n - 1 - i);
        if (!p) break;
        i = (size_t)(p - s->p);
        if (p[1] == '{' || p[1] == '%' || p[1] == '#') return i;
    }
    return s->n;
}

/* What the end of the tag before takes from the text that follows. */
static void skip_after(struct sm_jparse *s, bool block)
{
    if (s->strip_after) {
        const struct sm_jstr all = {s->p + s->at, NULL, s->n - s->at}, chars = {0};
        const size_t n = all.n - sm_jinja_strip(s->j, all, chars, true, false).n;
        for (size_t i = 0; i < n; i++) s->line += s->p[s->at + i] == '\n';
        s->at += n;
    } else if (block && !s->keep_after && s->at < s->n && s->p[s->at] == '\n') {
        s->at++; /* trim_blocks */
        s->line++;
    }
    s->strip_after = s->keep_after = false;
}

/* The text up to the tag at `tag`, less what the tag takes from it. */
static struct sm_jstr text_before(struct sm_jparse *s, size_t tag)
{
    struct sm_jstr text = {s->p + s->at, NULL, tag - s->at};
    const struct sm_jstr chars = {0};
    const char kind = tag + 1 < s->n ? s->p[tag + 1] : 0, mark = tag + 2 < s->n ? s->p[tag + 2] : 0;
    for (size_t i = 0; i < text.n; i++) s->line += text.p[i] == '\n';
    if (tag >= s->n) return text;
    if (mark == '-') return sm_jinja_strip(s->j, text, chars, false, true);
    if (kind == '{' || mark == '+') return text;
    /* lstrip_blocks: blanks between the start of the line and the tag */
    size_t n = text.n;
    while (n && (text.p[n - 1] == ' ' || text.p[n - 1] == '\t')) n--;
    if (n ? text.p[n - 1] == '\n' : s->at == 0 || s->p[s->at - 1] == '\n') text.n = n;
    return text;
}

static smol_status put_text(struct sm_jparse *s, struct sm_jstr text, struct sm_jnode ***tail)
{
    if (!text.n) return SMOL_OK;
    NEW(s, n, SM_JS_TEXT);
    n->value = sm_jinja_str(text);
    **tail = n;
    *tail = &n->next;
    return SMOL_OK;
}

static smol_status skip_comment(struct sm_jparse *s)
{
    const char *end = s->n - s->at >= 2 ? memmem(s->p + s->at, s->n - s->at, "#}", 2) : NULL;
    if (!end) return SM_J_FAIL(s->j, FORMAT, "a comment without end");
    const size_t to = (size_t)(end - s->p);
    for (size_t i = s->at; i < to; i++) s->line += s->p[i] == '\n';
    s->strip_after = to > s->at && end[-1] == '-';
    s->keep_after = to > s->at && end[-1] == '+';
    s->at = to + 2;
    skip_after(s, true);
    return SMOL_OK;
}

/* ---- statements; the name of the tag has been read, the token behind it is current ---- */

static smol_status end_tag(struct sm_jparse *s)
{
    if (s->token != SM_JT_END || s->closes != 2) return sm_jinja_expected(s, "the end of the tag");
    skip_after(s, true);
    return SMOL_OK;
}

/* A name, "a, b", "(a, b)" or "a.b" that gets a value. */
static smol_status parse_target(struct sm_jparse *s, struct sm_jnode **out)
{
    const bool bracket = sm_jinja_is_sign(s, '(');
    struct sm_jnode *first = NULL, **tail = &first;
    bool comma = false;
    if (bracket) SM_TRY(sm_jinja_next(s));
    for (;;) {
        if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "a name");
        NEW(s, n, SM_JX_NAME);
        n->name = s->name;
        SM_TRY(sm_jinja_next(s));
        if (sm_jinja_is_sign(s, '.')) {
            NEW(s, attr, SM_JX_ATTR);
            SM_TRY(sm_jinja_next(s));
            if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "a name");
            attr->a = n;
            attr->name = s->name;
            n = attr;
            SM_TRY(sm_jinja_next(s));
        }
        *tail = n;
        tail = &n->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        comma = true;
        SM_TRY(sm_jinja_next(s));
        if (s->token != SM_JT_NAME) break;
    }
    if (bracket) SM_TRY(sm_jinja_expect(s, ')', "\")\""));
    *out = first;
    if (!comma) return SMOL_OK;
    NEW(s, list, SM_JX_LIST);
    list->op = 1;
    list->a = first;
    *out = list;
    return SMOL_OK;
}

static smol_status parse_set(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"endset", NULL};
    const char *end;
    SM_TRY(parse_target(s, &n->a));
    if (sm_jinja_is_sign(s, '=')) {
        SM_TRY(sm_jinja_next(s));
        SM_TRY(sm_jinja_tuple(s, true, &n->b));
        return end_tag(s);
    }
    n->kind = SM_JS_SET_BLOCK;
    SM_TRY(sm_jinja_filters(s, NULL, &n->b));
    SM_TRY(end_tag(s));
    SM_TRY(parse_block(s, ends, &n->body, &end));
    return end_tag(s);
}

static smol_status parse_if(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    static const char *const last[] = {"endif", NULL};
    const char *end;
    for (;;) {
        SM_TRY(sm_jinja_tuple(s, true, &n->a));
        SM_TRY(end_tag(s));
        SM_TRY(parse_block(s, ends, &n->body, &end));
        if (strcmp(end, "elif") != 0) break;
        NEW(s, more, SM_JS_IF);
        more->op = 1;
        n->other = more;
        n = more;
    }
    if (!strcmp(end, "else")) {
        SM_TRY(end_tag(s));
        SM_TRY(parse_block(s, last, &n->other, &end));
    }
    return end_tag(s);
}

static smol_status parse_for(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"else", "endfor", NULL};
    static const char *const last[] = {"endfor", NULL};
    const char *end;
    SM_TRY(parse_target(s, &n->a));
    if (!sm_jinja_is_name(s, "in")) return sm_jinja_expected(s, "\"in\"");
    SM_TRY(sm_jinja_next(s));
    SM_TRY(sm_jinja_tuple(s, false, &n->b));
    if (sm_jinja_is_name(s, "if")) {
        SM_TRY(sm_jinja_next(s));
        SM_TRY(sm_jinja_expr(s, true, &n->c));
    }
    if (sm_jinja_is_name(s, "recursive"))
        return SM_J_FAIL(s->j, UNSUPPORTED, "recursive loops are not supported");
    SM_TRY(end_tag(s));
    s->loops++;
    SM_TRY(parse_block(s, ends, &n->body, &end));
    s->loops--;
    if (!strcmp(end, "else")) {
        SM_TRY(end_tag(s));
        SM_TRY(parse_block(s, last, &n->other, &end));
    }
    return end_tag(s);
}

static smol_status parse_macro(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"endmacro", NULL};
    struct sm_jnode **tail = &n->a;
    const char *end;
    unsigned count = 0;
    if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "the name of the macro");
    n->name = s->name;
    SM_TRY(sm_jinja_next(s));
    SM_TRY(sm_jinja_expect(s, '(', "\"(\""));
    while (!sm_jinja_is_sign(s, ')')) {
        if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "the name of a parameter");
        if (++count > SM_JARGS_MAX)
            return SM_J_FAIL(s->j, UNSUPPORTED, "a macro with more than %u parameters",
                             SM_JARGS_MAX);
        NEW(s, p, SM_JX_ARG);
        p->name = s->name;
        SM_TRY(sm_jinja_next(s));
        if (sm_jinja_is_sign(s, '=')) {
            SM_TRY(sm_jinja_next(s));
            SM_TRY(sm_jinja_expr(s, true, &p->a));
        }
        *tail = p;
        tail = &p->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        SM_TRY(sm_jinja_next(s));
    }
    SM_TRY(sm_jinja_expect(s, ')', "\")\""));
    SM_TRY(end_tag(s));
    const unsigned loops = s->loops;
    s->loops = 0;
    SM_TRY(parse_block(s, ends, &n->body, &end));
    s->loops = loops;
    return end_tag(s);
}

static smol_status parse_with(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"endwith", NULL};
    struct sm_jnode **tail = &n->a;
    const char *end;
    while (s->token != SM_JT_END) {
        NEW(s, set, SM_JS_SET);
        SM_TRY(parse_target(s, &set->a));
        SM_TRY(sm_jinja_expect(s, '=', "\"=\""));
        SM_TRY(sm_jinja_expr(s, true, &set->b));
        *tail = set;
        tail = &set->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        SM_TRY(sm_jinja_next(s));
    }
    SM_TRY(end_tag(s));
    SM_TRY(parse_block(s, ends, &n->body, &end));
    return end_tag(s);
}

/* {% filter a|b %}: as if "| a | b" stood there. */
static smol_status parse_filter_block(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"endfilter", NULL};
    const char *end;
    NEW(s, f, SM_JX_FILTER);
    if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "a filter");
    f->name = s->name;
    SM_TRY(sm_jinja_next(s));
    if (sm_jinja_is_sign(s, '('))
        return SM_J_FAIL(s->j, UNSUPPORTED, "arguments of {%% filter %%}");
    SM_TRY(sm_jinja_filters(s, f, &n->b));
    SM_TRY(end_tag(s));
    SM_TRY(parse_block(s, ends, &n->body, &end));
    return end_tag(s);
}

/* {% generation %} marks what was answered, for training: it is its contents. */
static smol_status parse_generation(struct sm_jparse *s, struct sm_jnode *n)
{
    static const char *const ends[] = {"endgeneration", NULL};
    const char *end;
    SM_TRY(end_tag(s));
    SM_TRY(parse_block(s, ends, &n->body, &end));
    n->kind = SM_JS_IF;
    n->a = sm_jinja_node(s, SM_JX_CONST);
    if (!n->a) return sm_jinja_full(s->j);
    n->a->value = sm_jinja_bool(true);
    return end_tag(s);
}

static smol_status parse_raw(struct sm_jparse *s, struct sm_jnode *n)
{
    SM_TRY(end_tag(s));
    for (size_t i = s->at; i + 1 < s->n; i++) {
        if (s->p[i] != '{' || s->p[i + 1] != '%') continue;
        struct sm_jparse inside = *s;
        inside.at = i + 2;
        if (inside.at < s->n && (s->p[inside.at] == '-' || s->p[inside.at] == '+')) inside.at++;
        while (inside.at < s->n && memchr(" \t\n", s->p[inside.at], 3)) inside.at++;
        if (s->n - inside.at < 6 || memcmp(s->p + inside.at, "endraw", 6) != 0) continue;
        n->kind = SM_JS_TEXT;
        n->value = sm_jinja_str(text_before(s, i));
        s->at = inside.at + 6;
        SM_TRY(sm_jinja_next(s));
        return end_tag(s);
    }
    return SM_J_FAIL(s->j, FORMAT, "{%% raw %%} without end");
}

static smol_status parse_statement(struct sm_jparse *s, const char *name, struct sm_jnode **out)
{
    static const struct {
        const char *name;
        enum sm_jkind kind;
        smol_status (*parse)(struct sm_jparse *, struct sm_jnode *);
    } known[] = {{"set", SM_JS_SET, parse_set},
                 {"if", SM_JS_IF, parse_if},
                 {"for", SM_JS_FOR, parse_for},
                 {"macro", SM_JS_MACRO, parse_macro},
                 {"with", SM_JS_WITH, parse_with},
                 {"filter", SM_JS_FILTER, parse_filter_block},
                 {"generation", SM_JS_IF, parse_generation},
                 {"raw", SM_JS_TEXT, parse_raw}};
    NEW(s, n, SM_JS_BREAK);
    *out = n;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i].name, name) != 0) continue;
        n->kind = known[i].kind;
        return known[i].parse(s, n);
    }
    if (!strcmp(name, "break") || !strcmp(name, "continue")) {
        if (!s->loops) return SM_J_FAIL(s->j, FORMAT, "{%% %s %%} outside a loop", name);
        if (*name == 'c') n->kind = SM_JS_CONTINUE;
        return end_tag(s);
    }
    return SM_J_FAIL(s->j, UNSUPPORTED, "the statement {%% %.40s %%} is not supported", name);
}

/* ---- lists of all these ---- */

static smol_status parse_print(struct sm_jparse *s, struct sm_jnode ***tail)
{
    NEW(s, n, SM_JS_PRINT);
    SM_TRY(sm_jinja_next(s));
    SM_TRY(sm_jinja_tuple(s, true, &n->a));
    if (s->token != SM_JT_END || s->closes != 1) return sm_jinja_expected(s, "}}");
    skip_after(s, false);
    **tail = n;
    *tail = &n->next;
    return SMOL_OK;
}

/* One piece of text and the tag behind it. *end: the tag when it is one of `ends`, its name read
 * and the token behind it current. *done: the template is at its end. */
static smol_status parse_piece(struct sm_jparse *s, const char *const *ends,
                               struct sm_jnode ***tail, const char **end, bool *done)
{
    const size_t tag = tag_at(s);
    SM_TRY(put_text(s, text_before(s, tag), tail));
    s->at = tag < s->n ? tag + 2 : s->n;
    *done = tag >= s->n;
    if (*done) return SMOL_OK;
    const char kind = s->p[tag + 1];
    if (s->at < s->n && (s->p[s->at] == '-' || s->p[s->at] == '+') && kind != '{') s->at++;
    else if (s->at < s->n && s->p[s->at] == '-') s->at++;
    s->closes = 0;
    s->j->line = s->line;
    if (kind == '#') return skip_comment(s);
    if (kind == '{') return parse_print(s, tail);
    SM_TRY(sm_jinja_next(s));
    if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "a statement");
    const char *name = s->name;
    for (size_t i = 0; ends[i] && !*end; i++)
        if (!strcmp(ends[i], name)) *end = ends[i];
    /* "{% raw %}" ends its tag itself, as all do */
    SM_TRY(sm_jinja_next(s));
    if (*end) return SMOL_OK;
    SM_TRY(parse_statement(s, name, *tail));
    *tail = &(**tail)->next;
    return SMOL_OK;
}

static smol_status parse_block(struct sm_jparse *s, const char *const *ends, struct sm_jnode **list,
                               const char **end)
{
    const unsigned before = s->depth;
    const uint32_t line = s->line;
    bool done = false;
    *end = NULL;
    s->depth += 8;
    if (s->depth > 4 * SM_JINJA_DEPTH) return SM_J_FAIL(s->j, LIMIT, "nested too deeply");
    while (!*end && !done) SM_TRY(parse_piece(s, ends, &list, end, &done));
    if (!*end && ends[0]) {
        s->j->line = line;
        return SM_J_FAIL(s->j, FORMAT, "{%% %s %%} is missing", ends[0]);
    }
    s->depth = before;
    return SMOL_OK;
}

smol_status sm_jinja_parse(struct sm_jinja *j, const char *text, size_t n, struct sm_jnode **out)
{
    static const char *const no_ends[] = {NULL};
    struct sm_jparse s = {.j = j, .line = 1};
    const char *end;
    *out = NULL;
    j->line = 1;
    if (n > SM_JINJA_TEMPLATE_MAX)
        return SM_J_FAIL(j, LIMIT, "%zu bytes, at most %zu are read", n, SM_JINJA_TEMPLATE_MAX);
    char *p = sm_jinja_take(j, n + 1);
    if (!p) return sm_jinja_full(j);
    for (size_t i = 0; i < n; i++) { /* line ends become \n */
        const bool second = text[i] == '\n' && i && text[i - 1] == '\r';
        if (!second) p[s.n++] = text[i] == '\r' ? '\n' : text[i];
    }
    if (s.n && p[s.n - 1] == '\n') s.n--; /* the last one does not count */
    s.p = p;
    return parse_block(&s, no_ends, out, &end);
}
