/* SPDX-License-Identifier: MIT */
/* Running the statements of a template. */
#include "tok/jinja_int.h"

#include <string.h>

/* Text printed by `list` as a string. */
static smol_status capture(struct sm_jinja *j, const struct sm_jnode *list, struct sm_jval *out)
{
    struct sm_jbuf b = {.j = j}, *before = j->out;
    j->out = &b;
    const smol_status st = sm_jinja_run(j, list);
    j->out = before;
    SM_TRY(st);
    out->type = SM_J_STR;
    return sm_jbuf_end(&b, &out->u.s);
}

/* Filters over a captured text: the innermost SM_JX_FILTER of the chain has no value of its own. */
static smol_status filter_text(struct sm_jinja *j, const struct sm_jnode *n, struct sm_jval *text)
{
    struct sm_jnode copy, constant = {.kind = SM_JX_CONST, .line = n->line, .value = *text};
    const struct sm_jargs none = {0};
    if (n->a) {
        SM_TRY(filter_text(j, n->a, text));
        constant.value = *text;
    } else if (!n->b) {
        return sm_jinja_filter(j, n->name, &constant.value, &none, text);
    }
    copy = *n;
    copy.a = &constant;
    return sm_jinja_eval(j, &copy, text);
}

/* A scope in the interpreter's memory: a macro defined in it keeps it. NULL: no memory. */
static struct sm_jscope *new_scope(struct sm_jinja *j, struct sm_jscope *parent)
{
    struct sm_jscope *scope = sm_jinja_take(j, sizeof *scope);
    if (scope) *scope = (struct sm_jscope){.parent = parent};
    return scope;
}

/* Run `body` in a scope of its own. */
static smol_status run_inside(struct sm_jinja *j, struct sm_jscope *scope,
                              const struct sm_jnode *body)
{
    struct sm_jscope *before = j->scope;
    j->scope = scope;
    const smol_status st = sm_jinja_run(j, body);
    j->scope = before;
    return st;
}

/* Items of a loop that its condition lets through. */
static smol_status select_items(struct sm_jinja *j, const struct sm_jnode *n,
                                struct sm_jlist **items)
{
    struct sm_jval chosen, keep;
    if (!sm_jinja_list(j, &chosen)) return sm_jinja_full(j);
    struct sm_jscope *before = j->scope;
    smol_status st = SMOL_OK;
    for (size_t i = 0; st == SMOL_OK && i < (*items)->n; i++) {
        struct sm_jscope scope = {.parent = before}; /* expressions define no macros */
        j->scope = &scope;
        st = sm_jinja_assign(j, n->a, &(*items)->v[i]);
        if (st == SMOL_OK) st = sm_jinja_eval(j, n->c, &keep);
        if (st == SMOL_OK && sm_jinja_truth(&keep) &&
            !sm_jinja_append(j, chosen.u.list, (*items)->v[i]))
            st = sm_jinja_full(j);
    }
    j->scope = before;
    *items = chosen.u.list;
    return st;
}

static smol_status run_for(struct sm_jinja *j, const struct sm_jnode *n)
{
    struct sm_jval over;
    struct sm_jlist *items = NULL;
    SM_TRY(sm_jinja_eval(j, n->b, &over));
    SM_TRY(sm_jinja_items(j, &over, &items));
    if (n->c) SM_TRY(select_items(j, n, &items));
    if (!items->n) {
        struct sm_jscope *scope = new_scope(j, j->scope);
        return scope ? run_inside(j, scope, n->other) : sm_jinja_full(j);
    }
    struct sm_jloop *loop = sm_jinja_take(j, sizeof *loop);
    if (!loop) return sm_jinja_full(j);
    *loop = (struct sm_jloop){items, 0};
    const struct sm_jval self = {.type = SM_J_LOOP, .u.loop = loop};
    for (; loop->i < items->n; loop->i++) {
        struct sm_jscope *before = j->scope, *scope = new_scope(j, before);
        if (!scope) return sm_jinja_full(j);
        j->scope = scope;
        smol_status st = sm_jinja_bind(j, j->name_loop, &self) ? SMOL_OK : sm_jinja_full(j);
        if (st == SMOL_OK) st = sm_jinja_assign(j, n->a, &items->v[loop->i]);
        if (st == SMOL_OK) st = sm_jinja_run(j, n->body);
        j->scope = before;
        SM_TRY(st);
        const int leaving = j->leaving;
        j->leaving = 0;
        if (leaving == SM_JS_BREAK) break;
    }
    return SMOL_OK;
}

static smol_status define_macro(struct sm_jinja *j, const struct sm_jnode *n)
{
    struct sm_jcall *c = sm_jinja_take(j, sizeof *c);
    if (!c) return sm_jinja_full(j);
    *c = (struct sm_jcall){.kind = SM_JC_MACRO, .name = n->name, .macro = n, .scope = j->scope};
    const struct sm_jval v = {.type = SM_J_CALL, .u.call = c};
    return sm_jinja_bind(j, n->name, &v) ? SMOL_OK : sm_jinja_full(j);
}

static smol_status bind_parameters(struct sm_jinja *j, const struct sm_jnode *macro,
                                   const struct sm_jargs *args)
{
    unsigned i = 0, used = 0;
    for (const struct sm_jnode *p = macro->a; p; p = p->next, i++) {
        const struct sm_jval *given = sm_jinja_arg(args, i, p->name);
        struct sm_jval v = sm_jinja_undefined(sm_jinja_text(p->name).u.s);
        if (given) {
            v = *given;
            used++;
        } else if (p->a) {
            SM_TRY(sm_jinja_eval(j, p->a, &v));
        }
        if (!sm_jinja_bind(j, p->name, &v)) return sm_jinja_full(j);
    }
    if (used == args->n + args->n_named) return SMOL_OK;
    return SM_J_FAIL(j, FORMAT, "an argument of %.40s() is unknown or given twice", macro->name);
}

smol_status sm_jinja_call_macro(struct sm_jinja *j, const struct sm_jcall *c,
                                const struct sm_jargs *args, struct sm_jval *out)
{
    struct sm_jscope *before = j->scope, *scope = new_scope(j, c->scope);
    if (!scope) return sm_jinja_full(j);
    j->scope = scope;
    smol_status st = bind_parameters(j, c->macro, args);
    if (st == SMOL_OK) st = capture(j, c->macro->body, out);
    j->scope = before;
    return st;
}

static smol_status run_if(struct sm_jinja *j, const struct sm_jnode *n)
{
    for (;;) {
        struct sm_jval v;
        SM_TRY(sm_jinja_eval(j, n->a, &v));
        if (sm_jinja_truth(&v)) return sm_jinja_run(j, n->body);
        if (!n->other || n->other->kind != SM_JS_IF || n->other->op != 1)
            return sm_jinja_run(j, n->other);
        n = n->other;
    }
}

static smol_status run_with(struct sm_jinja *j, const struct sm_jnode *n)
{
    struct sm_jscope *scope = new_scope(j, j->scope);
    if (!scope) return sm_jinja_full(j);
    for (const struct sm_jnode *set = n->a; set; set = set->next) {
        struct sm_jval v;
        struct sm_jscope *before = j->scope;
        SM_TRY(sm_jinja_eval(j, set->b, &v));
        j->scope = scope;
        const smol_status st = sm_jinja_assign(j, set->a, &v);
        j->scope = before;
        SM_TRY(st);
    }
    return run_inside(j, scope, n->body);
}

static smol_status run_one(struct sm_jinja *j, const struct sm_jnode *n)
{
    struct sm_jval v;
    struct sm_jstr s;
    switch (n->kind) {
    case SM_JS_TEXT: sm_jbuf_put(j->out, n->value.u.s); return SMOL_OK;
    case SM_JS_PRINT:
        SM_TRY(sm_jinja_eval(j, n->a, &v));
        SM_TRY(sm_jinja_print(j, &v, &s));
        sm_jbuf_put(j->out, s);
        return SMOL_OK;
    case SM_JS_SET: SM_TRY(sm_jinja_eval(j, n->b, &v)); return sm_jinja_assign(j, n->a, &v);
    case SM_JS_SET_BLOCK:
        SM_TRY(capture(j, n->body, &v));
        if (n->b) SM_TRY(filter_text(j, n->b, &v));
        return sm_jinja_assign(j, n->a, &v);
    case SM_JS_FILTER:
        SM_TRY(capture(j, n->body, &v));
        SM_TRY(filter_text(j, n->b, &v));
        SM_TRY(sm_jinja_print(j, &v, &s));
        sm_jbuf_put(j->out, s);
        return SMOL_OK;
    case SM_JS_IF: return run_if(j, n);
    case SM_JS_FOR: return run_for(j, n);
    case SM_JS_MACRO: return define_macro(j, n);
    case SM_JS_WITH: return run_with(j, n);
    case SM_JS_BREAK:
    case SM_JS_CONTINUE: j->leaving = (int)n->kind; return SMOL_OK;
    default: return SM_J_FAIL(j, FORMAT, "no statement");
    }
}

smol_status sm_jinja_run(struct sm_jinja *j, const struct sm_jnode *list)
{
    for (const struct sm_jnode *n = list; n && !j->leaving; n = n->next) {
        SM_TRY(sm_jinja_enter(j, n));
        const smol_status st = run_one(j, n);
        j->depth--;
        SM_TRY(st);
        if (j->out->full) return sm_jinja_full(j);
    }
    return SMOL_OK;
}

bool sm_jinja_set(struct sm_jinja *j, const char *name, struct sm_jval value)
{
    const char *known = sm_jinja_intern(j, name, strlen(name));
    return known && sm_jinja_bind(j, known, &value);
}

smol_status sm_jinja_render(struct sm_jinja *j, const char *text, size_t n, struct sm_jstr *out,
                            smol_error *err)
{
    struct sm_jbuf b = {.j = j};
    struct sm_jnode *list;
    *out = (struct sm_jstr){"", NULL, 0};
    j->err = err;
    j->out = &b;
    j->depth = 0;
    j->name_loop = sm_jinja_intern(j, "loop", 4);
    if (!j->name_loop) return sm_jinja_full(j);
    SM_TRY(sm_jinja_parse(j, text, n, &list));
    SM_TRY(sm_jinja_run(j, list));
    return sm_jbuf_end(&b, out);
}
