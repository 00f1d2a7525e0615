/* SPDX-License-Identifier: MIT */
/* What the files of the template interpreter share: its state and the syntax tree. */
#ifndef SM_JINJA_INT_H
#define SM_JINJA_INT_H

#include "tok/jinja.h"

/* ---- syntax tree ---- */

enum sm_jkind {
    /* expressions */
    SM_JX_CONST,  /* value */
    SM_JX_NAME,   /* name */
    SM_JX_LIST,   /* a: items chained by next; op 1: a tuple */
    SM_JX_DICT,   /* a: items in pairs */
    SM_JX_ATTR,   /* a . name */
    SM_JX_INDEX,  /* a [ b ] */
    SM_JX_SLICE,  /* a [ b : c : d ], parts may be NULL */
    SM_JX_CALL,   /* a ( b ): arguments chained, name NULL for positional ones */
    SM_JX_ARG,    /* name, a */
    SM_JX_FILTER, /* a | name ( b ) */
    SM_JX_TEST,   /* a is name ( b ); op 1: is not */
    SM_JX_UNARY,  /* op a */
    SM_JX_BINARY, /* a op b */
    SM_JX_AND,
    SM_JX_OR,
    SM_JX_NOT,
    SM_JX_COMPARE, /* a, then b: chained SM_JX_ARG with op */
    SM_JX_COND,    /* a if b else c, c may be NULL */
    /* statements */
    SM_JS_TEXT,      /* value */
    SM_JS_PRINT,     /* a */
    SM_JS_SET,       /* a = b */
    SM_JS_SET_BLOCK, /* a, filters b over the text of body */
    SM_JS_IF,        /* a, body, other; op 1 in `other`: an elif */
    SM_JS_FOR,       /* a in b, condition c; body, other */
    SM_JS_MACRO,     /* name, parameters a (SM_JX_ARG, default in a or NULL), body */
    SM_JS_WITH,      /* assignments a (SM_JS_SET), body */
    SM_JS_FILTER,    /* filters b over the text of body */
    SM_JS_BREAK,
    SM_JS_CONTINUE
};
/* Operators, as characters or these. */
enum { SM_JO_EQ = 256, SM_JO_NE, SM_JO_LE, SM_JO_GE, SM_JO_POW, SM_JO_DIV, SM_JO_IN, SM_JO_NOT_IN };

struct sm_jnode {
    enum sm_jkind kind;
    int op;
    uint32_t line;
    const char *name; /* interned: equal names are equal pointers */
    struct sm_jnode *a, *b, *c, *d, *body, *other, *next;
    struct sm_jval value;
};

/* ---- state ---- */

struct sm_jvar {
    const char *name;
    struct sm_jval value;
    struct sm_jvar *next;
};
struct sm_jscope {
    struct sm_jvar *vars;
    struct sm_jscope *parent;
};
struct sm_jloop {
    struct sm_jlist *items;
    size_t i;
};
enum sm_jcallable { SM_JC_MACRO, SM_JC_FUNCTION, SM_JC_METHOD };
struct sm_jcall {
    enum sm_jcallable kind;
    const char *name;    /* of a function or method */
    struct sm_jval self; /* of a method */
    const struct sm_jnode *macro;
    struct sm_jscope *scope; /* where it was defined */
};

#define SM_JNAMES 512u
struct sm_jname {
    struct sm_jname *next;
    size_t n;
    char text[];
};

struct sm_jinja {
    struct sm_jchunk *chunks;
    char *at;
    size_t left, used;
    struct sm_jinja_limits limits;
    int64_t now;
    uint64_t steps;
    unsigned fine_steps; /* 64ths of a step */
    unsigned depth;
    uint32_t line; /* of the node that runs, for messages */
    smol_error *err;
    struct sm_jname *names[SM_JNAMES];
    struct sm_jscope global, *scope;
    struct sm_jbuf *out;
    int leaving; /* SM_JS_BREAK or SM_JS_CONTINUE while a loop body is left, else 0 */
    const char *name_loop;
};

/* Interned copy of a name; NULL: no memory. */
const char *sm_jinja_intern(struct sm_jinja *j, const char *p, size_t n);

/* "chat template, line N: …" */
#define SM_J_FAIL(j, code, ...) sm_jinja_fail((j), SMOL_##code, SM_WHERE, __VA_ARGS__)
SM_COLD SM_PRINTF(4, 5) smol_status
    sm_jinja_fail(struct sm_jinja *j, smol_status code, const char *where, const char *fmt, ...);

/* ---- jinja_parse.c, jinja_expr.c ---- */

SM_NODISCARD smol_status sm_jinja_parse(struct sm_jinja *j, const char *text, size_t n,
                                        struct sm_jnode **out);

/* ---- jinja_eval.c ---- */

SM_NODISCARD smol_status sm_jinja_eval(struct sm_jinja *j, const struct sm_jnode *n,
                                       struct sm_jval *out);
SM_NODISCARD smol_status sm_jinja_enter(struct sm_jinja *j, const struct sm_jnode *n);
/* Evaluated arguments of a call, filter or test. */
#define SM_JARGS_MAX 24u
struct sm_jargs {
    unsigned n, n_named;
    struct sm_jval v[SM_JARGS_MAX]; /* positional */
    const char *name[SM_JARGS_MAX]; /* named, in named[] */
    struct sm_jval named[SM_JARGS_MAX];
};
/* The i-th positional or the named argument; NULL: not given. */
const struct sm_jval *sm_jinja_arg(const struct sm_jargs *a, unsigned i, const char *name);
bool sm_jinja_arg_flag(const struct sm_jargs *a, unsigned i, const char *name); /* given and true */
SM_NODISCARD smol_status sm_jinja_arg_int(struct sm_jinja *j, const struct sm_jargs *a, unsigned i,
                                          const char *name, int64_t fallback, int64_t *out);
/* Give a target (name, tuple, namespace attribute) a value. */
SM_NODISCARD smol_status sm_jinja_assign(struct sm_jinja *j, const struct sm_jnode *target,
                                         const struct sm_jval *v);
SM_NODISCARD bool sm_jinja_bind(struct sm_jinja *j, const char *name, const struct sm_jval *v);
/* v.name or v[name] as templates mean it; undefined when there is none. */
SM_NODISCARD smol_status sm_jinja_attr(struct sm_jinja *j, const struct sm_jval *v,
                                       const char *name, struct sm_jval *out);
SM_NODISCARD smol_status sm_jinja_item(struct sm_jinja *j, const struct sm_jval *v,
                                       const struct sm_jval *key, struct sm_jval *out);
/* The items a loop goes over, as a list that may be the value's own. */
SM_NODISCARD smol_status sm_jinja_items(struct sm_jinja *j, const struct sm_jval *v,
                                        struct sm_jlist **out);
SM_NODISCARD smol_status sm_jinja_contains(struct sm_jinja *j, const struct sm_jval *all,
                                           const struct sm_jval *one, bool *out);
/* -1, 0, 1; an error for what has no order. */
SM_NODISCARD smol_status sm_jinja_order(struct sm_jinja *j, const struct sm_jval *a,
                                        const struct sm_jval *b, int *out);

/* ---- jinja_operate.c ---- */

SM_NODISCARD smol_status sm_jinja_operate(struct sm_jinja *j, int op, const struct sm_jval *a,
                                          const struct sm_jval *b, struct sm_jval *out);
SM_NODISCARD smol_status sm_jinja_negate(struct sm_jinja *j, int op, const struct sm_jval *a,
                                         struct sm_jval *out); /* op: '-' or '+' */
SM_NODISCARD smol_status sm_jinja_compare(struct sm_jinja *j, int op, const struct sm_jval *a,
                                          const struct sm_jval *b, bool *out);

/* ---- jinja_run.c ---- */

SM_NODISCARD smol_status sm_jinja_run(struct sm_jinja *j, const struct sm_jnode *list);
SM_NODISCARD smol_status sm_jinja_call_macro(struct sm_jinja *j, const struct sm_jcall *c,
                                             const struct sm_jargs *args, struct sm_jval *out);

/* ---- jinja_filters.c, jinja_list_filters.c, jinja_tests.c, jinja_methods.c, jinja_functions.c
 * ---- */

typedef smol_status (*sm_jinja_filter_fn)(struct sm_jinja *j, const struct sm_jval *v,
                                          const struct sm_jargs *args, struct sm_jval *out);
/* A filter of lists and dictionaries; NULL: it is none. */
sm_jinja_filter_fn sm_jinja_list_filter(const char *name);
SM_NODISCARD smol_status sm_jinja_filter(struct sm_jinja *j, const char *name,
                                         const struct sm_jval *v, const struct sm_jargs *args,
                                         struct sm_jval *out);
SM_NODISCARD smol_status sm_jinja_test(struct sm_jinja *j, const char *name,
                                       const struct sm_jval *v, const struct sm_jargs *args,
                                       bool *out);
/* Whether values of this type have a method of this name. */
bool sm_jinja_has_method(const struct sm_jval *self, const char *name);
SM_NODISCARD smol_status sm_jinja_method(struct sm_jinja *j, const struct sm_jval *self,
                                         const char *name, const struct sm_jargs *args,
                                         struct sm_jval *out);
bool sm_jinja_has_function(const char *name);
SM_NODISCARD smol_status sm_jinja_function(struct sm_jinja *j, const char *name,
                                           const struct sm_jargs *args, struct sm_jval *out);
/* Changes of letters and texts that are methods and filters. */
SM_NODISCARD smol_status
sm_jinja_case(struct sm_jinja *j, struct sm_jstr s, char how,
              struct sm_jval *out); /* 'u'pper 'l'ower 't'itle 'c'apitalize */
SM_NODISCARD smol_status sm_jinja_replace(struct sm_jinja *j, struct sm_jstr s, struct sm_jstr from,
                                          struct sm_jstr to, int64_t count, struct sm_jval *out);
SM_NODISCARD smol_status sm_jinja_join(struct sm_jinja *j, const struct sm_jlist *l,
                                       struct sm_jstr between, struct sm_jval *out);

#endif
