/* SPDX-License-Identifier: MIT */
/* Expressions of a template, by precedence climbing. */
#include "tok/jinja_parse.h"

#include <string.h>

struct sm_jnode *sm_jinja_node(struct sm_jparse *s, enum sm_jkind kind)
{
    struct sm_jnode *n = sm_jinja_take(s->j, sizeof *n);
    if (n) *n = (struct sm_jnode){.kind = kind, .line = s->line};
    return n;
}

#define NEW(s, var, kind)                                                                          \
    struct sm_jnode *var = sm_jinja_node((s), (kind));                                             \
    if (!var) return sm_jinja_full((s)->j)

/* Inside brackets "}}" ends two dictionaries, not the tag. */
#define BRACKET_BEGIN(s)                                                                           \
    const int closes_before = (s)->closes;                                                         \
    (s)->closes = -1
#define BRACKET_END(s) (s)->closes = closes_before

static smol_status parse_binary(struct sm_jparse *s, int least, struct sm_jnode **out);

/* ---- primaries ---- */

/* Items up to the sign `end`, which is stepped over. */
static smol_status parse_items(struct sm_jparse *s, int end, struct sm_jnode **first, bool *comma)
{
    struct sm_jnode **tail = first;
    *comma = false;
    while (!sm_jinja_is_sign(s, end)) {
        SM_TRY(sm_jinja_expr(s, true, tail));
        tail = &(*tail)->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        *comma = true;
        SM_TRY(sm_jinja_next(s));
    }
    return SMOL_OK;
}

static smol_status parse_bracket(struct sm_jparse *s, struct sm_jnode **out)
{
    const int open = s->sign, end = open == '(' ? ')' : ']';
    bool comma;
    NEW(s, n, SM_JX_LIST);
    BRACKET_BEGIN(s);
    SM_TRY(sm_jinja_next(s));
    SM_TRY(parse_items(s, end, &n->a, &comma));
    BRACKET_END(s);
    SM_TRY(sm_jinja_expect(s, end, open == '(' ? "\")\"" : "\"]\""));
    n->op = open == '(';
    *out = open == '(' && n->a && !comma ? n->a : n;
    return SMOL_OK;
}

static smol_status parse_dict(struct sm_jparse *s, struct sm_jnode **out)
{
    NEW(s, n, SM_JX_DICT);
    struct sm_jnode **tail = &n->a;
    BRACKET_BEGIN(s);
    SM_TRY(sm_jinja_next(s));
    while (!sm_jinja_is_sign(s, '}')) {
        SM_TRY(sm_jinja_expr(s, true, tail));
        tail = &(*tail)->next;
        SM_TRY(sm_jinja_expect(s, ':', "\":\""));
        SM_TRY(sm_jinja_expr(s, true, tail));
        tail = &(*tail)->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        SM_TRY(sm_jinja_next(s));
    }
    BRACKET_END(s);
    *out = n;
    return sm_jinja_expect(s, '}', "\"}\"");
}

static smol_status parse_name(struct sm_jparse *s, struct sm_jnode **out)
{
    const char *name = s->name;
    NEW(s, n, SM_JX_CONST);
    if (!strcmp(name, "true") || !strcmp(name, "True")) n->value = sm_jinja_bool(true);
    else if (!strcmp(name, "false") || !strcmp(name, "False")) n->value = sm_jinja_bool(false);
    else if (!strcmp(name, "none") || !strcmp(name, "None")) n->value = sm_jinja_none();
    else {
        n->kind = SM_JX_NAME;
        n->name = name;
    }
    *out = n;
    return sm_jinja_next(s);
}

static smol_status parse_primary(struct sm_jparse *s, struct sm_jnode **out)
{
    switch (s->token) {
    case SM_JT_NAME: return parse_name(s, out);
    case SM_JT_TEXT: {
        struct sm_jbuf b = {.j = s->j};
        NEW(s, n, SM_JX_CONST);
        n->value = s->value;
        SM_TRY(sm_jinja_next(s));
        *out = n;
        if (s->token != SM_JT_TEXT) return SMOL_OK;
        sm_jbuf_put(&b, n->value.u.s); /* neighbours are one text */
        while (s->token == SM_JT_TEXT) {
            sm_jbuf_put(&b, s->value.u.s);
            SM_TRY(sm_jinja_next(s));
        }
        return sm_jbuf_end(&b, &n->value.u.s);
    }
    case SM_JT_INT:
    case SM_JT_FLOAT: {
        NEW(s, n, SM_JX_CONST);
        n->value = s->value;
        *out = n;
        return sm_jinja_next(s);
    }
    case SM_JT_SIGN:
        if (s->sign == '(' || s->sign == '[') return parse_bracket(s, out);
        if (s->sign == '{') return parse_dict(s, out);
        break;
    case SM_JT_END: break;
    }
    return sm_jinja_expected(s, "a value");
}

/* ---- what may stand behind a value ---- */

/* "( a, b, c=d )" into n->b. */
static smol_status parse_arguments(struct sm_jparse *s, struct sm_jnode *n)
{
    struct sm_jnode **tail = &n->b;
    unsigned count = 0;
    BRACKET_BEGIN(s);
    SM_TRY(sm_jinja_next(s));
    while (!sm_jinja_is_sign(s, ')')) {
        if (sm_jinja_is_sign(s, '*') || sm_jinja_is_sign(s, SM_JO_POW))
            return SM_J_FAIL(s->j, UNSUPPORTED, "* and ** before an argument are not supported");
        if (++count > SM_JARGS_MAX)
            return SM_J_FAIL(s->j, UNSUPPORTED, "a call with more than %u arguments", SM_JARGS_MAX);
        NEW(s, arg, SM_JX_ARG);
        SM_TRY(sm_jinja_expr(s, true, &arg->a));
        if (sm_jinja_is_sign(s, '=') && arg->a->kind == SM_JX_NAME) {
            arg->name = arg->a->name;
            SM_TRY(sm_jinja_next(s));
            SM_TRY(sm_jinja_expr(s, true, &arg->a));
        }
        *tail = arg;
        tail = &arg->next;
        if (!sm_jinja_is_sign(s, ',')) break;
        SM_TRY(sm_jinja_next(s));
    }
    BRACKET_END(s);
    return sm_jinja_expect(s, ')', "\")\"");
}

static smol_status parse_subscript(struct sm_jparse *s, struct sm_jnode *value,
                                   struct sm_jnode **out)
{
    NEW(s, n, SM_JX_INDEX);
    struct sm_jnode **part[] = {&n->b, &n->c, &n->d};
    unsigned i = 0;
    n->a = value;
    BRACKET_BEGIN(s);
    SM_TRY(sm_jinja_next(s));
    for (;; i++) {
        if (i == 3) return sm_jinja_expected(s, "\"]\"");
        if (!sm_jinja_is_sign(s, ':') && !sm_jinja_is_sign(s, ']'))
            SM_TRY(sm_jinja_expr(s, true, part[i]));
        if (!sm_jinja_is_sign(s, ':')) break;
        n->kind = SM_JX_SLICE;
        SM_TRY(sm_jinja_next(s));
    }
    BRACKET_END(s);
    if (n->kind == SM_JX_INDEX && !n->b) return sm_jinja_expected(s, "an index");
    *out = n;
    return sm_jinja_expect(s, ']', "\"]\"");
}

static smol_status parse_dot(struct sm_jparse *s, struct sm_jnode *value, struct sm_jnode **out)
{
    NEW(s, n, SM_JX_ATTR);
    n->a = value;
    SM_TRY(sm_jinja_next(s));
    if (s->token == SM_JT_NAME) {
        n->name = s->name;
    } else if (s->token == SM_JT_INT) { /* x.0 */
        n->kind = SM_JX_INDEX;
        n->b = sm_jinja_node(s, SM_JX_CONST);
        if (!n->b) return sm_jinja_full(s->j);
        n->b->value = s->value;
    } else {
        return sm_jinja_expected(s, "a name behind the dot");
    }
    *out = n;
    return sm_jinja_next(s);
}

static smol_status parse_postfix(struct sm_jparse *s, struct sm_jnode *value, struct sm_jnode **out)
{
    *out = value;
    while (s->token == SM_JT_SIGN) {
        if (s->sign == '.') SM_TRY(parse_dot(s, *out, out));
        else if (s->sign == '[') SM_TRY(parse_subscript(s, *out, out));
        else if (s->sign == '(') {
            NEW(s, n, SM_JX_CALL);
            n->a = *out;
            *out = n;
            SM_TRY(parse_arguments(s, n));
        } else break;
        if (++s->depth > 4 * SM_JINJA_DEPTH)
            return SM_J_FAIL(s->j, LIMIT, "an expression that is too long");
    }
    return SMOL_OK;
}

static smol_status parse_dotted(struct sm_jparse *s, const char **name)
{
    if (s->token != SM_JT_NAME) return sm_jinja_expected(s, "a name");
    *name = s->name;
    SM_TRY(sm_jinja_next(s));
    if (sm_jinja_is_sign(s, '.'))
        return SM_J_FAIL(s->j, UNSUPPORTED, "the dotted name %.40s.… is not supported", *name);
    return SMOL_OK;
}

static smol_status parse_test(struct sm_jparse *s, struct sm_jnode *value, struct sm_jnode **out)
{
    NEW(s, n, SM_JX_TEST);
    n->a = value;
    *out = n;
    SM_TRY(sm_jinja_next(s));
    if (sm_jinja_is_name(s, "not")) {
        n->op = 1;
        SM_TRY(sm_jinja_next(s));
    }
    SM_TRY(parse_dotted(s, &n->name));
    if (sm_jinja_is_sign(s, '(')) return parse_arguments(s, n);
    const bool value_follows =
        s->token == SM_JT_TEXT || s->token == SM_JT_INT || s->token == SM_JT_FLOAT ||
        sm_jinja_is_sign(s, '[') || sm_jinja_is_sign(s, '{') ||
        (s->token == SM_JT_NAME && !sm_jinja_is_name(s, "else") && !sm_jinja_is_name(s, "or") &&
         !sm_jinja_is_name(s, "and") && !sm_jinja_is_name(s, "is") && !sm_jinja_is_name(s, "if") &&
         !sm_jinja_is_name(s, "not") && !sm_jinja_is_name(s, "in"));
    if (!value_follows) return SMOL_OK;
    NEW(s, arg, SM_JX_ARG);
    n->b = arg;
    SM_TRY(parse_primary(s, &arg->a));
    return parse_postfix(s, arg->a, &arg->a);
}

smol_status sm_jinja_filters(struct sm_jparse *s, struct sm_jnode *value, struct sm_jnode **out)
{
    *out = value;
    while (sm_jinja_is_sign(s, '|')) {
        NEW(s, n, SM_JX_FILTER);
        n->a = *out;
        *out = n;
        SM_TRY(sm_jinja_next(s));
        SM_TRY(parse_dotted(s, &n->name));
        if (sm_jinja_is_sign(s, '(')) SM_TRY(parse_arguments(s, n));
        if (++s->depth > 4 * SM_JINJA_DEPTH)
            return SM_J_FAIL(s->j, LIMIT, "an expression that is too long");
    }
    return SMOL_OK;
}

static smol_status parse_unary(struct sm_jparse *s, bool filters, struct sm_jnode **out)
{
    if (++s->depth > 4 * SM_JINJA_DEPTH) return SM_J_FAIL(s->j, LIMIT, "nested too deeply");
    if (sm_jinja_is_sign(s, '-') || sm_jinja_is_sign(s, '+')) {
        NEW(s, n, SM_JX_UNARY);
        n->op = s->sign;
        *out = n;
        SM_TRY(sm_jinja_next(s));
        SM_TRY(parse_unary(s, false, &n->a));
    } else {
        SM_TRY(parse_primary(s, out));
        SM_TRY(parse_postfix(s, *out, out));
    }
    while (filters) {
        if (sm_jinja_is_sign(s, '|')) SM_TRY(sm_jinja_filters(s, *out, out));
        else if (sm_jinja_is_name(s, "is")) SM_TRY(parse_test(s, *out, out));
        else if (sm_jinja_is_sign(s, '(')) SM_TRY(parse_postfix(s, *out, out));
        else break;
    }
    return SMOL_OK;
}

/* ---- operators ---- */

enum { OR = 1, AND, NOT, COMPARE, ADD, CONCAT, MULTIPLY, POWER };

/* The operator that stands here: its level, 0 when it is none. */
static int operator_here(const struct sm_jparse *s, int *op)
{
    if (s->token == SM_JT_NAME) {
        *op = 0;
        if (sm_jinja_is_name(s, "or")) return OR;
        if (sm_jinja_is_name(s, "and")) return AND;
        if (sm_jinja_is_name(s, "in")) *op = SM_JO_IN;
        else if (sm_jinja_is_name(s, "not")) *op = SM_JO_NOT_IN;
        return *op ? COMPARE : 0;
    }
    if (s->token != SM_JT_SIGN) return 0;
    *op = s->sign;
    switch (s->sign) {
    case SM_JO_EQ:
    case SM_JO_NE:
    case SM_JO_LE:
    case SM_JO_GE:
    case '<':
    case '>': return COMPARE;
    case '+':
    case '-': return ADD;
    case '~': return CONCAT;
    case '*':
    case '/':
    case '%':
    case SM_JO_DIV: return MULTIPLY;
    case SM_JO_POW: return POWER;
    default: return 0;
    }
}

/* a < b <= c: all comparisons of one level in one node. */
static smol_status parse_comparison(struct sm_jparse *s, int op, struct sm_jnode **out)
{
    NEW(s, n, SM_JX_COMPARE);
    struct sm_jnode **tail = &n->b;
    n->a = *out;
    *out = n;
    do {
        NEW(s, arg, SM_JX_ARG);
        arg->op = op;
        SM_TRY(sm_jinja_next(s));
        if (op == SM_JO_NOT_IN) {
            if (!sm_jinja_is_name(s, "in")) return sm_jinja_expected(s, "\"in\" behind \"not\"");
            SM_TRY(sm_jinja_next(s));
        }
        SM_TRY(parse_binary(s, ADD, &arg->a));
        *tail = arg;
        tail = &arg->next;
    } while (operator_here(s, &op) == COMPARE);
    return SMOL_OK;
}

static smol_status parse_binary(struct sm_jparse *s, int least, struct sm_jnode **out)
{
    int op = 0;
    if (++s->depth > 4 * SM_JINJA_DEPTH) return SM_J_FAIL(s->j, LIMIT, "nested too deeply");
    if (least <= NOT && sm_jinja_is_name(s, "not")) {
        NEW(s, n, SM_JX_NOT);
        SM_TRY(sm_jinja_next(s));
        SM_TRY(parse_binary(s, NOT, &n->a));
        *out = n;
    } else {
        SM_TRY(parse_unary(s, true, out));
    }
    for (int level; (level = operator_here(s, &op)) >= least && level;) {
        if (level == COMPARE) {
            SM_TRY(parse_comparison(s, op, out));
            continue;
        }
        NEW(s, n, level == OR ? SM_JX_OR : level == AND ? SM_JX_AND : SM_JX_BINARY);
        n->op = op;
        n->a = *out;
        *out = n;
        SM_TRY(sm_jinja_next(s));
        SM_TRY(parse_binary(s, level + 1, &n->b));
    }
    return SMOL_OK;
}

smol_status sm_jinja_expr(struct sm_jparse *s, bool conditional, struct sm_jnode **out)
{
    /* every level of a nested expression adds here what it added below */
    const unsigned before = s->depth;
    s->depth += 8;
    SM_TRY(parse_binary(s, OR, out));
    while (conditional && sm_jinja_is_name(s, "if")) {
        NEW(s, n, SM_JX_COND);
        n->a = *out;
        *out = n;
        SM_TRY(sm_jinja_next(s));
        SM_TRY(parse_binary(s, OR, &n->b));
        if (sm_jinja_is_name(s, "else")) {
            SM_TRY(sm_jinja_next(s));
            SM_TRY(sm_jinja_expr(s, true, &n->c));
        }
    }
    s->depth = before;
    return SMOL_OK;
}

smol_status sm_jinja_tuple(struct sm_jparse *s, bool conditional, struct sm_jnode **out)
{
    SM_TRY(sm_jinja_expr(s, conditional, out));
    if (!sm_jinja_is_sign(s, ',')) return SMOL_OK;
    NEW(s, n, SM_JX_LIST);
    struct sm_jnode **tail = &(*out)->next;
    n->op = 1;
    n->a = *out;
    *out = n;
    while (sm_jinja_is_sign(s, ',')) {
        SM_TRY(sm_jinja_next(s));
        if (s->token == SM_JT_END || sm_jinja_is_sign(s, '=') || sm_jinja_is_name(s, "in")) break;
        SM_TRY(sm_jinja_expr(s, conditional, tail));
        tail = &(*tail)->next;
    }
    return SMOL_OK;
}
