/* SPDX-License-Identifier: MIT */
/* A small interpreter for the chat templates of models: the part of Jinja that they use, with
 * trim_blocks and lstrip_blocks on, no autoescape, undefined names as in Jinja's default.
 *
 * Every byte of a string remembers whether it was written in the template or came from outside
 * ("typed"), through slices, joins, replacements and filters: only the former may become control
 * tokens. Memory, steps and depth are bounded; nothing outside the values handed in can be reached.
 * What is not supported is refused by name (UNSUPPORTED), a template that is no template is FORMAT,
 * one that goes past a bound LIMIT, and raise_exception("…") is ARG with that sentence. upper,
 * lower, title and capitalize change ASCII letters only.
 *
 * One interpreter belongs to one thread; everything it made goes with sm_jinja_free. */
#ifndef SM_JINJA_H
#define SM_JINJA_H

#include "tok/jinja_value.h"

/* Bounds: a 17 kB template over 20 messages takes 0.4 MB and 30,000 steps. */
struct sm_jinja_limits {
    size_t bytes;   /* memory of the interpreter, values and output together */
    uint64_t steps; /* nodes evaluated, and 64-byte pieces of text searched */
    unsigned depth; /* nesting of statements, expressions and macro calls */
};
#define SM_JINJA_DEPTH 100u
#define SM_JINJA_TEMPLATE_MAX ((size_t)1 << 20)

/* An interpreter with nothing but the built-in functions. `now`: seconds since 1970 for
 * strftime_now. */
SM_NODISCARD smol_status sm_jinja_open(struct sm_jinja **out, const struct sm_jinja_limits *limits,
                                       int64_t now, smol_error *err);
void sm_jinja_free(struct sm_jinja *j); /* NULL is fine */

/* Give a name a value before rendering; false: no memory. `name` is copied. */
SM_NODISCARD bool sm_jinja_set(struct sm_jinja *j, const char *name, struct sm_jval value);

/* Render a template; *out belongs to the interpreter. */
SM_NODISCARD smol_status sm_jinja_render(struct sm_jinja *j, const char *text, size_t n,
                                         struct sm_jstr *out, smol_error *err);

#endif
