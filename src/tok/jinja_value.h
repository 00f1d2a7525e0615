/* SPDX-License-Identifier: MIT */
/* Values of the template interpreter, all in its own memory, which is freed at once. */
#ifndef SM_JINJA_VALUE_H
#define SM_JINJA_VALUE_H

#include "base/status.h"
#include <stdbool.h>

struct sm_jinja;

/* n bytes; typed[i] tells that byte i came from outside the template, NULL: none did. */
struct sm_jstr {
    const char *p;
    const uint8_t *typed;
    size_t n;
};

enum sm_jtype {
    SM_J_UNDEFINED, /* name in s, for messages */
    SM_J_NONE,
    SM_J_BOOL,
    SM_J_INT,
    SM_J_FLOAT,
    SM_J_STR,
    SM_J_LIST, /* lists and tuples */
    SM_J_DICT, /* dictionaries and namespaces */
    SM_J_LOOP,
    SM_J_CALL /* what can be called: macros, functions, methods bound to a value */
};

struct sm_jlist;
struct sm_jdict;
struct sm_jloop;
struct sm_jcall;

struct sm_jval {
    enum sm_jtype type;
    union {
        bool b;
        int64_t i;
        double f;
        struct sm_jstr s;
        struct sm_jlist *list;
        struct sm_jdict *dict;
        struct sm_jloop *loop;
        const struct sm_jcall *call;
    } u;
};

struct sm_jlist {
    struct sm_jval *v;
    size_t n, cap;
    bool tuple; /* printed with parentheses */
};
struct sm_jpair {
    struct sm_jval key, value;
};
struct sm_jdict {
    struct sm_jpair *v; /* in the order of insertion */
    size_t n, cap;
    bool is_namespace;
};

/* ---- making (jinja_value.c); NULL or false: over the memory bound ---- */

/* 16-byte aligned, not cleared; NULL also for absurd sizes. */
void *sm_jinja_take(struct sm_jinja *j, size_t n);
/* LIMIT with the sentence for NULL. */
SM_COLD smol_status sm_jinja_full(struct sm_jinja *j);
/* Count work that a step does not cover: 64 bytes looked at are one. LIMIT past the bound. */
SM_NODISCARD smol_status sm_jinja_cost(struct sm_jinja *j, size_t n_bytes);
/* Count alone, for what cannot fail: the next step does. False: past the bound. */
bool sm_jinja_count(struct sm_jinja *j, size_t n_bytes);

static inline struct sm_jval sm_jinja_none(void) { return (struct sm_jval){.type = SM_J_NONE}; }
static inline struct sm_jval sm_jinja_bool(bool b)
{
    return (struct sm_jval){.type = SM_J_BOOL, .u.b = b};
}
static inline struct sm_jval sm_jinja_int(int64_t i)
{
    return (struct sm_jval){.type = SM_J_INT, .u.i = i};
}
static inline struct sm_jval sm_jinja_str(struct sm_jstr s)
{
    return (struct sm_jval){.type = SM_J_STR, .u.s = s};
}
static inline struct sm_jval sm_jinja_undefined(struct sm_jstr name)
{
    return (struct sm_jval){.type = SM_J_UNDEFINED, .u.s = name};
}
/* A string of the program or the template itself; not copied. */
struct sm_jval sm_jinja_text(const char *text);
/* A copy of bytes from outside. */
SM_NODISCARD bool sm_jinja_typed(struct sm_jinja *j, const char *p, size_t n, struct sm_jval *out);
SM_NODISCARD bool sm_jinja_list(struct sm_jinja *j, struct sm_jval *out);
SM_NODISCARD bool sm_jinja_append(struct sm_jinja *j, struct sm_jlist *l, struct sm_jval v);
SM_NODISCARD bool sm_jinja_dict(struct sm_jinja *j, struct sm_jval *out);
/* Replaces the value of an equal key. */
SM_NODISCARD bool sm_jinja_put(struct sm_jinja *j, struct sm_jdict *d, struct sm_jval key,
                               struct sm_jval value);
/* The value of a text key; NULL: there is none. */
struct sm_jval *sm_jinja_find(struct sm_jinja *j, const struct sm_jdict *d, const char *key,
                              size_t n);
struct sm_jval *sm_jinja_find_key(struct sm_jinja *j, const struct sm_jdict *d,
                                  const struct sm_jval *key);

/* ---- growing strings ---- */

struct sm_jbuf {
    struct sm_jinja *j;
    char *p;
    uint8_t *typed;
    size_t n, cap;
    bool full;      /* over the memory bound: nothing more is taken */
    bool any_typed; /* typed[] has a 1 */
};
void sm_jbuf_put(struct sm_jbuf *b, struct sm_jstr s);
void sm_jbuf_text(struct sm_jbuf *b, const char *text, size_t n, bool typed);
/* A code point; one that is none becomes U+FFFD. */
void sm_jbuf_char(struct sm_jbuf *b, uint32_t c, bool typed);
/* What was put in; LIMIT when it did not fit. */
SM_NODISCARD smol_status sm_jbuf_end(struct sm_jbuf *b, struct sm_jstr *out);

/* ---- properties ---- */

bool sm_jinja_truth(const struct sm_jval *v);
bool sm_jinja_same_text(struct sm_jstr a, struct sm_jstr b);
/* Equality as `==` has it. Nesting or steps past the bound count as different. */
bool sm_jinja_equal(struct sm_jinja *j, const struct sm_jval *a, const struct sm_jval *b,
                    unsigned depth);
/* The name of a type for messages. */
const char *sm_jinja_type(const struct sm_jval *v);
/* As {{ v }} prints it. */
SM_NODISCARD smol_status sm_jinja_print(struct sm_jinja *j, const struct sm_jval *v,
                                        struct sm_jstr *out);
/* A slice of bytes. */
static inline struct sm_jstr sm_jinja_cut(struct sm_jstr s, size_t from, size_t to)
{
    return (struct sm_jstr){s.p + from, s.typed ? s.typed + from : NULL, to - from};
}
/* Bytes of the character at s.p[at] (1 where it is no valid UTF-8); 0 at the end. */
size_t sm_jinja_char(struct sm_jstr s, size_t at);
size_t sm_jinja_length(struct sm_jstr s); /* in characters */
/* Without white space (chars.p == NULL) or the characters of `chars` at the chosen ends. Ends early
 * when the steps go past the bound. */
struct sm_jstr sm_jinja_strip(struct sm_jinja *j, struct sm_jstr s, struct sm_jstr chars, bool left,
                              bool right);
/* First place of `what` at or after `from`, SIZE_MAX: none. */
size_t sm_jinja_search(struct sm_jstr s, struct sm_jstr what, size_t from);

/* ---- JSON (jinja_json.c) ---- */

/* A value from JSON text; all its strings are typed. FORMAT says where it is wrong. */
SM_NODISCARD smol_status sm_jinja_from_json(struct sm_jinja *j, const char *text, size_t n,
                                            struct sm_jval *out, smol_error *err);
struct sm_jinja_json_style {
    int64_t indent; /* -1: one line, else spaces per level */
    bool ascii;     /* escape everything else */
    bool sort_keys;
    struct sm_jstr item, key; /* separators; p NULL: the usual ones */
};
SM_NODISCARD smol_status sm_jinja_to_json(struct sm_jinja *j, const struct sm_jval *v,
                                          const struct sm_jinja_json_style *style,
                                          struct sm_jstr *out);
/* Shortest text of a number that reads back as the same, as Python writes it. */
void sm_jinja_number(double f, char *buf, size_t n);

#endif
