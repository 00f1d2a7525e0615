/* SPDX-License-Identifier: MIT */
/* The parser's state, shared by statements (jinja_parse.c) and expressions (jinja_expr.c). */
#ifndef SM_JINJA_PARSE_H
#define SM_JINJA_PARSE_H

#include "tok/jinja_int.h"

enum sm_jtoken { SM_JT_END, SM_JT_NAME, SM_JT_TEXT, SM_JT_INT, SM_JT_FLOAT, SM_JT_SIGN };

struct sm_jparse {
    struct sm_jinja *j;
    const char *p; /* the template with line ends as \n */
    size_t n, at;
    uint32_t line;
    unsigned depth;
    unsigned loops; /* loops around here */
    /* the token read last, inside a tag */
    enum sm_jtoken token;
    int sign;         /* SM_JT_SIGN: a character or SM_JO_...; closing: '}' is }}, '%' is %} */
    const char *name; /* interned */
    struct sm_jval value;
    int closes;                   /* SM_JT_END: 1 = }}, 2 = %} */
    bool strip_after, keep_after; /* -}} or +}} */
};

/* Read the next token of a tag into the fields above. */
SM_NODISCARD smol_status sm_jinja_next(struct sm_jparse *s);
/* "expected X, found Y" */
SM_COLD smol_status sm_jinja_expected(struct sm_jparse *s, const char *what);
SM_NODISCARD struct sm_jnode *sm_jinja_node(struct sm_jparse *s, enum sm_jkind kind);

static inline bool sm_jinja_is_sign(const struct sm_jparse *s, int sign)
{
    return s->token == SM_JT_SIGN && s->sign == sign;
}
bool sm_jinja_is_name(const struct sm_jparse *s, const char *name);
/* The sign c must stand here; step over it. */
SM_NODISCARD smol_status sm_jinja_expect(struct sm_jparse *s, int sign, const char *what);

/* An expression; `conditional`: with "a if b else c". */
SM_NODISCARD smol_status sm_jinja_expr(struct sm_jparse *s, bool conditional,
                                       struct sm_jnode **out);
/* "a" or "a, b, c" as a tuple. */
SM_NODISCARD smol_status sm_jinja_tuple(struct sm_jparse *s, bool conditional,
                                        struct sm_jnode **out);
/* The filters behind a value: "| a | b(c)"; value when there is none. */
SM_NODISCARD smol_status sm_jinja_filters(struct sm_jparse *s, struct sm_jnode *value,
                                          struct sm_jnode **out);

#endif
