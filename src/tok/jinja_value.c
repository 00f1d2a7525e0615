/* SPDX-License-Identifier: MIT */
#include "tok/jinja_int.h"
#include "tok/unicode.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory: chunks that double, freed together ---- */

struct sm_jchunk {
    struct sm_jchunk *next;
    size_t pad; /* what follows is 16-byte aligned */
};
#define FIRST_CHUNK ((size_t)16 << 10)
#define NEST_MAX 64u

void *sm_jinja_take(struct sm_jinja *j, size_t n)
{
    n = n <= SIZE_MAX / 2 ? (n + 15) & ~(size_t)15 : SIZE_MAX;
    if (n > j->left) {
        if (n > j->limits.bytes || j->used > j->limits.bytes - n) return NULL;
        size_t bytes = j->used < FIRST_CHUNK ? FIRST_CHUNK : j->used;
        if (bytes > (size_t)1 << 20) bytes = (size_t)1 << 20;
        if (bytes < n) bytes = n;
        struct sm_jchunk *c = malloc(sizeof *c + bytes);
        if (!c) return NULL;
        c->next = j->chunks;
        j->chunks = c;
        j->at = (char *)(c + 1);
        j->left = bytes;
        j->used += bytes;
    }
    void *p = j->at;
    j->at += n;
    j->left -= n;
    return p;
}

smol_status sm_jinja_full(struct sm_jinja *j)
{
    return SM_J_FAIL(j, LIMIT, "needs more than %zu bytes", j->limits.bytes);
}

bool sm_jinja_count(struct sm_jinja *j, size_t n_bytes)
{
    j->steps += n_bytes / 64;
    j->fine_steps += n_bytes % 64;
    j->steps += j->fine_steps / 64;
    j->fine_steps %= 64;
    return j->steps <= j->limits.steps;
}

smol_status sm_jinja_cost(struct sm_jinja *j, size_t n_bytes)
{
    if (sm_jinja_count(j, n_bytes)) return SMOL_OK;
    return SM_J_FAIL(j, LIMIT, "takes more than %llu steps", (unsigned long long)j->limits.steps);
}

smol_status sm_jinja_fail(struct sm_jinja *j, smol_status code, const char *where, const char *fmt,
                          ...)
{
    char text[160];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return sm_fail(j->err, code, 0, UINT64_MAX, where, "chat template, line %u: %s", j->line, text);
}

smol_status sm_jinja_open(struct sm_jinja **out, const struct sm_jinja_limits *limits, int64_t now,
                          smol_error *err)
{
    *out = NULL;
    struct sm_jinja *j = calloc(1, sizeof *j);
    if (!j) return SM_FAIL(err, NOMEM, "no memory for the chat template");
    j->limits = *limits;
    j->now = now;
    j->scope = &j->global;
    *out = j;
    return SMOL_OK;
}

void sm_jinja_free(struct sm_jinja *j)
{
    if (!j) return;
    while (j->chunks) {
        struct sm_jchunk *next = j->chunks->next;
        free(j->chunks);
        j->chunks = next;
    }
    free(j);
}

const char *sm_jinja_intern(struct sm_jinja *j, const char *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++) h = (h ^ (uint8_t)p[i]) * 16777619u;
    struct sm_jname **slot = &j->names[h % SM_JNAMES];
    (void)sm_jinja_count(j, n);
    for (struct sm_jname *k = *slot; k; k = k->next) {
        if (k->n == n && !memcmp(k->text, p, n)) return k->text;
        (void)sm_jinja_count(j, 4);
    }
    struct sm_jname *k = sm_jinja_take(j, sizeof *k + n + 1);
    if (!k) return NULL;
    memcpy(k->text, p, n);
    k->text[n] = 0;
    k->n = n;
    k->next = *slot;
    *slot = k;
    return k->text;
}

/* ---- making values ---- */

struct sm_jval sm_jinja_text(const char *text)
{
    return sm_jinja_str((struct sm_jstr){text, NULL, strlen(text)});
}

bool sm_jinja_typed(struct sm_jinja *j, const char *p, size_t n, struct sm_jval *out)
{
    if (n > SIZE_MAX / 4) return false;
    char *copy = sm_jinja_take(j, 2 * n + 1);
    if (!copy) return false;
    if (n) memcpy(copy, p, n);
    memset(copy + n, 1, n);
    *out = sm_jinja_str((struct sm_jstr){copy, (uint8_t *)copy + n, n});
    return true;
}

bool sm_jinja_list(struct sm_jinja *j, struct sm_jval *out)
{
    struct sm_jlist *l = sm_jinja_take(j, sizeof *l);
    if (!l) return false;
    *l = (struct sm_jlist){0};
    *out = (struct sm_jval){.type = SM_J_LIST, .u.list = l};
    return true;
}

bool sm_jinja_append(struct sm_jinja *j, struct sm_jlist *l, struct sm_jval v)
{
    if (l->n == l->cap) {
        const size_t cap = l->cap ? 2 * l->cap : 4;
        struct sm_jval *p = cap < SIZE_MAX / 64 ? sm_jinja_take(j, cap * sizeof *p) : NULL;
        if (!p) return false;
        if (l->n) memcpy(p, l->v, l->n * sizeof *p);
        l->v = p;
        l->cap = cap;
    }
    l->v[l->n++] = v;
    return true;
}

bool sm_jinja_dict(struct sm_jinja *j, struct sm_jval *out)
{
    struct sm_jdict *d = sm_jinja_take(j, sizeof *d);
    if (!d) return false;
    *d = (struct sm_jdict){0};
    *out = (struct sm_jval){.type = SM_J_DICT, .u.dict = d};
    return true;
}

struct sm_jval *sm_jinja_find_key(struct sm_jinja *j, const struct sm_jdict *d,
                                  const struct sm_jval *key)
{
    for (size_t i = 0; i < d->n; i++)
        if (sm_jinja_equal(j, &d->v[i].key, key, 0)) return &d->v[i].value;
    return NULL;
}

struct sm_jval *sm_jinja_find(struct sm_jinja *j, const struct sm_jdict *d, const char *key,
                              size_t n)
{
    const struct sm_jval k = sm_jinja_str((struct sm_jstr){key, NULL, n});
    return sm_jinja_find_key(j, d, &k);
}

bool sm_jinja_put(struct sm_jinja *j, struct sm_jdict *d, struct sm_jval key, struct sm_jval value)
{
    struct sm_jval *old = sm_jinja_find_key(j, d, &key);
    if (old) {
        *old = value;
        return true;
    }
    if (d->n == d->cap) {
        const size_t cap = d->cap ? 2 * d->cap : 4;
        struct sm_jpair *p = cap < SIZE_MAX / 128 ? sm_jinja_take(j, cap * sizeof *p) : NULL;
        if (!p) return false;
        if (d->n) memcpy(p, d->v, d->n * sizeof *p);
        d->v = p;
        d->cap = cap;
    }
    d->v[d->n++] = (struct sm_jpair){key, value};
    return true;
}

/* ---- growing strings ---- */

static bool make_room(struct sm_jbuf *b, size_t n)
{
    if (b->full) return false;
    if (n <= b->cap - b->n) return true;
    size_t cap = b->cap ? b->cap : 256;
    while (cap - b->n < n && cap < SIZE_MAX / 8) cap *= 2;
    char *p = cap - b->n >= n ? sm_jinja_take(b->j, 2 * cap) : NULL;
    if (!p) {
        b->full = true;
        return false;
    }
    if (b->n) {
        memcpy(p, b->p, b->n);
        memcpy(p + cap, b->typed, b->n);
    }
    b->p = p;
    b->typed = (uint8_t *)p + cap;
    b->cap = cap;
    return true;
}

void sm_jbuf_put(struct sm_jbuf *b, struct sm_jstr s)
{
    if (!s.n || !make_room(b, s.n)) return;
    memcpy(b->p + b->n, s.p, s.n);
    if (s.typed) {
        memcpy(b->typed + b->n, s.typed, s.n);
        b->any_typed = true;
    } else {
        memset(b->typed + b->n, 0, s.n);
    }
    b->n += s.n;
}

void sm_jbuf_text(struct sm_jbuf *b, const char *text, size_t n, bool typed)
{
    if (!n || !make_room(b, n)) return;
    memcpy(b->p + b->n, text, n);
    memset(b->typed + b->n, typed, n);
    b->any_typed |= typed;
    b->n += n;
}

void sm_jbuf_char(struct sm_jbuf *b, uint32_t c, bool typed)
{
    char text[4];
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
    sm_jbuf_text(b, text, sm_utf8_put(text, c), typed);
}

smol_status sm_jbuf_end(struct sm_jbuf *b, struct sm_jstr *out)
{
    *out = (struct sm_jstr){b->n ? b->p : "", b->any_typed ? b->typed : NULL, b->n};
    if (b->full) return sm_jinja_full(b->j);
    return sm_jinja_cost(b->j, b->n);
}

/* ---- properties ---- */

bool sm_jinja_truth(const struct sm_jval *v)
{
    switch (v->type) {
    case SM_J_UNDEFINED:
    case SM_J_NONE: return false;
    case SM_J_BOOL: return v->u.b;
    case SM_J_INT: return v->u.i != 0;
    case SM_J_FLOAT: return v->u.f < 0 || v->u.f > 0 || v->u.f != v->u.f;
    case SM_J_STR: return v->u.s.n > 0;
    case SM_J_LIST: return v->u.list->n > 0;
    case SM_J_DICT: return v->u.dict->is_namespace || v->u.dict->n > 0;
    case SM_J_LOOP:
    case SM_J_CALL: break;
    }
    return true;
}

bool sm_jinja_same_text(struct sm_jstr a, struct sm_jstr b)
{
    return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

static bool as_number(const struct sm_jval *v, double *out)
{
    if (v->type == SM_J_BOOL) *out = v->u.b;
    else if (v->type == SM_J_INT) *out = (double)v->u.i;
    else if (v->type == SM_J_FLOAT) *out = v->u.f;
    else return false;
    return true;
}

static bool equal_dicts(struct sm_jinja *j, const struct sm_jdict *a, const struct sm_jdict *b,
                        unsigned depth)
{
    if (a == b) return true;
    if (a->n != b->n || a->is_namespace || b->is_namespace) return false;
    for (size_t i = 0; i < a->n; i++) {
        const struct sm_jval *other = sm_jinja_find_key(j, b, &a->v[i].key);
        if (!other || !sm_jinja_equal(j, &a->v[i].value, other, depth)) return false;
    }
    return true;
}

bool sm_jinja_equal(struct sm_jinja *j, const struct sm_jval *a, const struct sm_jval *b,
                    unsigned depth)
{
    double x, y;
    /* look-ups are linear: sixteen comparisons are a step */
    if (!sm_jinja_count(j, 4) || depth > NEST_MAX) return false;
    if (as_number(a, &x) && as_number(b, &y)) {
        if (a->type != SM_J_FLOAT && b->type != SM_J_FLOAT)
            return (a->type == SM_J_INT ? a->u.i : a->u.b) ==
                   (b->type == SM_J_INT ? b->u.i : b->u.b);
        return !(x < y) && !(x > y) && x - x == y - y;
    }
    if (a->type != b->type) return false;
    switch (a->type) {
    case SM_J_STR:
        if (a->u.s.n == b->u.s.n && !sm_jinja_count(j, a->u.s.n)) return false;
        return sm_jinja_same_text(a->u.s, b->u.s);
    case SM_J_LIST:
        if (a->u.list == b->u.list) return true;
        if (a->u.list->n != b->u.list->n || a->u.list->tuple != b->u.list->tuple) return false;
        for (size_t i = 0; i < a->u.list->n; i++)
            if (!sm_jinja_equal(j, &a->u.list->v[i], &b->u.list->v[i], depth + 1)) return false;
        return true;
    case SM_J_DICT: return equal_dicts(j, a->u.dict, b->u.dict, depth + 1);
    case SM_J_LOOP: return a->u.loop == b->u.loop;
    case SM_J_CALL: return a->u.call == b->u.call;
    case SM_J_UNDEFINED:
    case SM_J_NONE:
    case SM_J_BOOL:
    case SM_J_INT:
    case SM_J_FLOAT: break;
    }
    return true;
}

const char *sm_jinja_type(const struct sm_jval *v)
{
    static const char *const names[] = {
        "an undefined value", "none",   "a boolean", "a number", "a number", "a text", "a list",
        "a dictionary",       "a loop", "a function"};
    return names[v->type];
}

/* ---- text of a value ---- */

static smol_status put_value(struct sm_jbuf *b, const struct sm_jval *v, bool inner,
                             unsigned depth);

/* As Python quotes it: single quotes unless there are only such inside. */
static void put_quoted(struct sm_jbuf *b, struct sm_jstr s)
{
    const bool single = s.n && memchr(s.p, '\'', s.n), twice = s.n && memchr(s.p, '"', s.n);
    const char quote = single && !twice ? '"' : '\'';
    sm_jbuf_text(b, &quote, 1, false);
    for (size_t i = 0; i < s.n; i++) {
        const char c = s.p[i];
        const bool typed = s.typed && s.typed[i];
        char text[8];
        int n = 1;
        text[0] = c;
        if (c == quote || c == '\\') n = snprintf(text, sizeof text, "\\%c", c);
        else if (c == '\n') n = snprintf(text, sizeof text, "\\n");
        else if (c == '\r') n = snprintf(text, sizeof text, "\\r");
        else if (c == '\t') n = snprintf(text, sizeof text, "\\t");
        else if ((unsigned char)c < 32 || c == 127) n = snprintf(text, sizeof text, "\\x%02x", c);
        sm_jbuf_text(b, text, (size_t)n, typed);
    }
    sm_jbuf_text(b, &quote, 1, false);
}

static smol_status put_list(struct sm_jbuf *b, const struct sm_jlist *l, unsigned depth)
{
    sm_jbuf_text(b, l->tuple ? "(" : "[", 1, false);
    for (size_t i = 0; i < l->n; i++) {
        if (i) sm_jbuf_text(b, ", ", 2, false);
        SM_TRY(put_value(b, &l->v[i], true, depth));
    }
    if (l->tuple && l->n == 1) sm_jbuf_text(b, ",", 1, false);
    sm_jbuf_text(b, l->tuple ? ")" : "]", 1, false);
    return SMOL_OK;
}

static smol_status put_dict(struct sm_jbuf *b, const struct sm_jdict *d, unsigned depth)
{
    if (d->is_namespace) sm_jbuf_text(b, "<Namespace ", 11, false);
    sm_jbuf_text(b, "{", 1, false);
    for (size_t i = 0; i < d->n; i++) {
        if (i) sm_jbuf_text(b, ", ", 2, false);
        SM_TRY(put_value(b, &d->v[i].key, true, depth));
        sm_jbuf_text(b, ": ", 2, false);
        SM_TRY(put_value(b, &d->v[i].value, true, depth));
    }
    sm_jbuf_text(b, d->is_namespace ? "}>" : "}", d->is_namespace ? 2 : 1, false);
    return SMOL_OK;
}

static smol_status put_value(struct sm_jbuf *b, const struct sm_jval *v, bool inner, unsigned depth)
{
    char text[48];
    if (depth > NEST_MAX) return SM_J_FAIL(b->j, LIMIT, "prints a value nested too deeply");
    SM_TRY(sm_jinja_cost(b->j, 64));
    switch (v->type) {
    case SM_J_UNDEFINED: text[0] = 0; break;
    case SM_J_NONE: (void)snprintf(text, sizeof text, "None"); break;
    case SM_J_BOOL: (void)snprintf(text, sizeof text, v->u.b ? "True" : "False"); break;
    case SM_J_INT: (void)snprintf(text, sizeof text, "%lld", (long long)v->u.i); break;
    case SM_J_FLOAT: sm_jinja_number(v->u.f, text, sizeof text); break;
    case SM_J_STR:
        if (inner) put_quoted(b, v->u.s);
        else sm_jbuf_put(b, v->u.s);
        return SMOL_OK;
    case SM_J_LIST: return put_list(b, v->u.list, depth + 1);
    case SM_J_DICT: return put_dict(b, v->u.dict, depth + 1);
    case SM_J_LOOP:
    case SM_J_CALL: return SM_J_FAIL(b->j, UNSUPPORTED, "prints %s", sm_jinja_type(v));
    }
    sm_jbuf_text(b, text, strlen(text), false);
    return SMOL_OK;
}

smol_status sm_jinja_print(struct sm_jinja *j, const struct sm_jval *v, struct sm_jstr *out)
{
    struct sm_jbuf b = {.j = j};
    if (v->type == SM_J_STR) {
        *out = v->u.s;
        return SMOL_OK;
    }
    SM_TRY(put_value(&b, v, false, 0));
    return sm_jbuf_end(&b, out);
}
