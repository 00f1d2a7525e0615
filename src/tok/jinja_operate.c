/* SPDX-License-Identifier: MIT */
/* Operators on values of a template: arithmetic, joining, order, membership. */
#include "tok/jinja_int.h"

#include <string.h>

SM_COLD static smol_status no_operator(struct sm_jinja *j, int op, const struct sm_jval *a,
                                       const struct sm_jval *b)
{
    const char *name = op == SM_JO_POW ? "**" : op == SM_JO_DIV ? "//" : "";
    return SM_J_FAIL(j, FORMAT, "%s %s%c %s", sm_jinja_type(a), name, *name ? ' ' : op,
                     sm_jinja_type(b));
}

static bool whole(const struct sm_jval *v, int64_t *out)
{
    if (v->type == SM_J_INT) *out = v->u.i;
    else if (v->type == SM_J_BOOL) *out = v->u.b;
    else return false;
    return true;
}

static bool number(const struct sm_jval *v, double *out)
{
    int64_t i;
    if (v->type == SM_J_FLOAT) *out = v->u.f;
    else if (whole(v, &i)) *out = (double)i;
    else return false;
    return true;
}

/* Rounded down, without the libraries of mathematics. */
static double round_down(double x)
{
    if (x > 9e15 || x < -9e15 || x != x) return x;
    const double t = (double)(int64_t)x;
    return t > x ? t - 1 : t;
}

static smol_status whole_power(struct sm_jinja *j, int64_t a, int64_t b, int64_t *out)
{
    int64_t r = 1;
    if (b < 0) return SM_J_FAIL(j, UNSUPPORTED, "a negative power");
    for (; b > 0; b--) {
        if (__builtin_mul_overflow(r, a, &r)) return SM_J_FAIL(j, LIMIT, "a number too large");
        if (r == 0 || r == 1) break;
        if (a == -1) {
            r = b % 2 ? -1 : 1;
            break;
        }
    }
    *out = r;
    return SMOL_OK;
}

static smol_status whole_numbers(struct sm_jinja *j, int op, int64_t a, int64_t b,
                                 struct sm_jval *out)
{
    bool over = false;
    out->type = SM_J_INT;
    int64_t *r = &out->u.i;
    if ((op == '/' || op == '%' || op == SM_JO_DIV) && b == 0)
        return SM_J_FAIL(j, FORMAT, "a division by zero");
    switch (op) {
    case '+': over = __builtin_add_overflow(a, b, r); break;
    case '-': over = __builtin_sub_overflow(a, b, r); break;
    case '*': over = __builtin_mul_overflow(a, b, r); break;
    case SM_JO_POW: return whole_power(j, a, b, r);
    case '/': *out = (struct sm_jval){.type = SM_J_FLOAT, .u.f = (double)a / (double)b}; break;
    default:
        if (b == -1) { /* INT64_MIN / -1 traps */
            over = __builtin_sub_overflow((int64_t)0, op == '%' ? 0 : a, r);
            break;
        }
        *r = op == '%' ? a % b : a / b;
        if (a % b && (a < 0) != (b < 0)) *r += op == '%' ? b : -1; /* towards minus infinity */
    }
    return over ? SM_J_FAIL(j, LIMIT, "a number too large") : SMOL_OK;
}

static smol_status floats(struct sm_jinja *j, int op, double a, double b, struct sm_jval *out)
{
    double r = 0;
    if ((op == '/' || op == '%' || op == SM_JO_DIV) && !(b < 0) && !(b > 0))
        return SM_J_FAIL(j, FORMAT, "a division by zero");
    switch (op) {
    case '+': r = a + b; break;
    case '-': r = a - b; break;
    case '*': r = a * b; break;
    case '/': r = a / b; break;
    case SM_JO_DIV: r = round_down(a / b); break;
    case '%': r = a - b * round_down(a / b); break;
    default: return SM_J_FAIL(j, UNSUPPORTED, "a power of fractions");
    }
    *out = (struct sm_jval){.type = SM_J_FLOAT, .u.f = r};
    return SMOL_OK;
}

/* text * n and list * n */
static smol_status repeat(struct sm_jinja *j, const struct sm_jval *v, int64_t n,
                          struct sm_jval *out)
{
    if (v->type == SM_J_STR) {
        struct sm_jbuf b = {.j = j};
        for (int64_t i = 0; i < n && v->u.s.n && !b.full; i++) sm_jbuf_put(&b, v->u.s);
        out->type = SM_J_STR;
        return sm_jbuf_end(&b, &out->u.s);
    }
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    for (int64_t i = 0; i < n && v->u.list->n; i++)
        for (size_t k = 0; k < v->u.list->n; k++)
            if (!sm_jinja_append(j, out->u.list, v->u.list->v[k])) return sm_jinja_full(j);
    return sm_jinja_cost(j, 16 * out->u.list->n);
}

static smol_status join_two(struct sm_jinja *j, const struct sm_jval *a, const struct sm_jval *b,
                            struct sm_jval *out)
{
    if (a->type == SM_J_STR) {
        struct sm_jbuf buf = {.j = j};
        sm_jbuf_put(&buf, a->u.s);
        sm_jbuf_put(&buf, b->u.s);
        out->type = SM_J_STR;
        return sm_jbuf_end(&buf, &out->u.s);
    }
    if (!sm_jinja_list(j, out)) return sm_jinja_full(j);
    out->u.list->tuple = a->u.list->tuple;
    for (size_t i = 0; i < a->u.list->n + b->u.list->n; i++) {
        const size_t k = i - a->u.list->n;
        if (!sm_jinja_append(j, out->u.list, i < a->u.list->n ? a->u.list->v[i] : b->u.list->v[k]))
            return sm_jinja_full(j);
    }
    return sm_jinja_cost(j, 16 * out->u.list->n);
}

smol_status sm_jinja_operate(struct sm_jinja *j, int op, const struct sm_jval *a,
                             const struct sm_jval *b, struct sm_jval *out)
{
    int64_t m, n;
    double x, y;
    if (op == '~') {
        struct sm_jval s = {.type = SM_J_STR}, t = {.type = SM_J_STR};
        SM_TRY(sm_jinja_print(j, a, &s.u.s));
        SM_TRY(sm_jinja_print(j, b, &t.u.s));
        return join_two(j, &s, &t, out);
    }
    if (whole(a, &m) && whole(b, &n)) return whole_numbers(j, op, m, n, out);
    if (number(a, &x) && number(b, &y)) return floats(j, op, x, y, out);
    if (op == '+' && a->type == b->type && (a->type == SM_J_STR || a->type == SM_J_LIST))
        return join_two(j, a, b, out);
    if (op == '*' && (a->type == SM_J_STR || a->type == SM_J_LIST) && whole(b, &n))
        return repeat(j, a, n, out);
    if (op == '*' && (b->type == SM_J_STR || b->type == SM_J_LIST) && whole(a, &m))
        return repeat(j, b, m, out);
    if (op == '%' && a->type == SM_J_STR)
        return SM_J_FAIL(j, UNSUPPORTED, "text %% values is not supported");
    return no_operator(j, op, a, b);
}

smol_status sm_jinja_negate(struct sm_jinja *j, int op, const struct sm_jval *a,
                            struct sm_jval *out)
{
    const struct sm_jval zero = sm_jinja_int(0);
    double x;
    if (!number(a, &x)) return SM_J_FAIL(j, FORMAT, "%c before %s", op, sm_jinja_type(a));
    return sm_jinja_operate(j, op, &zero, a, out);
}

smol_status sm_jinja_order(struct sm_jinja *j, const struct sm_jval *a, const struct sm_jval *b,
                           int *out)
{
    int64_t m, n;
    double x, y;
    *out = 0;
    SM_TRY(sm_jinja_cost(j, 64));
    if (whole(a, &m) && whole(b, &n)) {
        *out = (m > n) - (m < n);
        return SMOL_OK;
    }
    if (number(a, &x) && number(b, &y)) {
        *out = (x > y) - (x < y);
        return SMOL_OK;
    }
    if (a->type == SM_J_STR && b->type == SM_J_STR) {
        const struct sm_jstr s = a->u.s, t = b->u.s;
        const size_t least = s.n < t.n ? s.n : t.n;
        const int c = least ? memcmp(s.p, t.p, least) : 0; /* UTF-8 sorts as code points do */
        *out = c ? (c > 0) - (c < 0) : (s.n > t.n) - (s.n < t.n);
        return sm_jinja_cost(j, least);
    }
    if (a->type == SM_J_LIST && b->type == SM_J_LIST) {
        const struct sm_jlist *s = a->u.list, *t = b->u.list;
        if (j->depth >= j->limits.depth) return SM_J_FAIL(j, LIMIT, "compares too deep lists");
        j->depth++;
        smol_status st = SMOL_OK;
        for (size_t i = 0; st == SMOL_OK && !*out && i < s->n && i < t->n; i++)
            st = sm_jinja_order(j, &s->v[i], &t->v[i], out);
        j->depth--;
        if (!*out) *out = (s->n > t->n) - (s->n < t->n);
        return st;
    }
    return SM_J_FAIL(j, FORMAT, "compares %s with %s", sm_jinja_type(a), sm_jinja_type(b));
}

smol_status sm_jinja_contains(struct sm_jinja *j, const struct sm_jval *all,
                              const struct sm_jval *one, bool *out)
{
    *out = false;
    switch (all->type) {
    case SM_J_STR:
        if (one->type != SM_J_STR)
            return SM_J_FAIL(j, FORMAT, "looks for %s in a text", sm_jinja_type(one));
        *out = sm_jinja_search(all->u.s, one->u.s, 0) != SIZE_MAX;
        return sm_jinja_cost(j, all->u.s.n);
    case SM_J_LIST:
        for (size_t i = 0; !*out && i < all->u.list->n; i++)
            *out = sm_jinja_equal(j, &all->u.list->v[i], one, 0);
        return sm_jinja_cost(j, 0);
    case SM_J_DICT:
        *out = sm_jinja_find_key(j, all->u.dict, one) != NULL;
        return sm_jinja_cost(j, 0);
    case SM_J_UNDEFINED: return SMOL_OK;
    default: return SM_J_FAIL(j, FORMAT, "looks for something in %s", sm_jinja_type(all));
    }
}

smol_status sm_jinja_compare(struct sm_jinja *j, int op, const struct sm_jval *a,
                             const struct sm_jval *b, bool *out)
{
    int order;
    switch (op) {
    case SM_JO_EQ:
    case SM_JO_NE:
        *out = sm_jinja_equal(j, a, b, 0) == (op == SM_JO_EQ);
        return sm_jinja_cost(j, a->type == SM_J_STR ? a->u.s.n : 64);
    case SM_JO_IN: return sm_jinja_contains(j, b, a, out);
    case SM_JO_NOT_IN:
        SM_TRY(sm_jinja_contains(j, b, a, out));
        *out = !*out;
        return SMOL_OK;
    default: break;
    }
    SM_TRY(sm_jinja_order(j, a, b, &order));
    *out = op == '<' ? order < 0 : op == '>' ? order > 0 : op == SM_JO_LE ? order <= 0 : order >= 0;
    return SMOL_OK;
}
