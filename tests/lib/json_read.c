/* SPDX-License-Identifier: MIT */
#include "json_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 200

struct block {
    struct block *next;
};

struct json_doc {
    struct json root;
    struct block *blocks;
};

struct parser {
    const char *begin, *p, *end;
    struct json_doc *doc;
    struct json *stack; /* items of the containers that are still open */
    size_t used, cap;
    int depth;
    char *why;
    size_t why_cap;
};

static bool parse_value(struct parser *ps, struct json *out);

__attribute__((format(printf, 2, 3))) static bool bad(struct parser *ps, const char *fmt, ...)
{
    char what[96];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);
    if (ps->why_cap > 0)
        snprintf(ps->why, ps->why_cap, "JSON at byte %zu: %s", (size_t)(ps->p - ps->begin), what);
    return false;
}

static void *take(struct parser *ps, size_t n)
{
    struct block *b = malloc(sizeof *b + (n ? n : 1));
    if (!b) abort();
    b->next = ps->doc->blocks;
    ps->doc->blocks = b;
    return b + 1;
}

static void skip_space(struct parser *ps)
{
    while (ps->p < ps->end && (*ps->p == ' ' || *ps->p == '\t' || *ps->p == '\n' || *ps->p == '\r'))
        ps->p++;
}

static bool literal(struct parser *ps, const char *word)
{
    const size_t n = strlen(word);
    if ((size_t)(ps->end - ps->p) < n || memcmp(ps->p, word, n) != 0) return false;
    ps->p += n;
    return true;
}

static bool hex4(struct parser *ps, unsigned *out)
{
    if (ps->end - ps->p < 4) return bad(ps, "\\u is cut off");
    *out = 0;
    for (int i = 0; i < 4; i++, ps->p++) {
        const char c = *ps->p;
        const int d = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
        if (d < 0) return bad(ps, "\\u needs four hex digits");
        *out = *out << 4 | (unsigned)d;
    }
    return true;
}

/* A lone surrogate is kept in the three-byte form. */
static size_t put_utf8(char *w, unsigned c)
{
    if (c < 0x80) {
        w[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        w[0] = (char)(0xc0 | c >> 6);
        w[1] = (char)(0x80 | (c & 63));
        return 2;
    }
    if (c < 0x10000) {
        w[0] = (char)(0xe0 | c >> 12);
        w[1] = (char)(0x80 | (c >> 6 & 63));
        w[2] = (char)(0x80 | (c & 63));
        return 3;
    }
    w[0] = (char)(0xf0 | c >> 18);
    w[1] = (char)(0x80 | (c >> 12 & 63));
    w[2] = (char)(0x80 | (c >> 6 & 63));
    w[3] = (char)(0x80 | (c & 63));
    return 4;
}

static bool parse_escape(struct parser *ps, char **w)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (++ps->p >= ps->end) return bad(ps, "string is cut off");
    const char c = *ps->p++;
    if (c == 'u') {
        unsigned hi, lo;
        if (!hex4(ps, &hi)) return false;
        if (hi >= 0xd800 && hi < 0xdc00 && ps->end - ps->p >= 6 && ps->p[0] == '\\' &&
            ps->p[1] == 'u') {
            const char *back = ps->p;
            ps->p += 2;
            if (!hex4(ps, &lo)) return false;
            if (lo >= 0xdc00 && lo < 0xe000) hi = 0x10000 + ((hi - 0xd800) << 10) + (lo - 0xdc00);
            else ps->p = back;
        }
        *w += put_utf8(*w, hi);
        return true;
    }
    const char *f = c ? strchr(from, c) : NULL;
    if (!f) return bad(ps, "unknown escape");
    *(*w)++ = to[f - from];
    return true;
}

static bool parse_string(struct parser *ps, const char **out, size_t *n)
{
    if (ps->p >= ps->end || *ps->p != '"') return bad(ps, "a string was expected");
    const char *q = ++ps->p;
    while (q < ps->end && *q != '"') q += *q == '\\' && ps->end - q > 1 ? 2 : 1;
    if (q >= ps->end) return bad(ps, "string is not closed");
    char *w = take(ps, (size_t)(q - ps->p) + 1), *begin = w; /* escapes never grow the text */
    while (*ps->p != '"') {
        if ((unsigned char)*ps->p < 0x20) return bad(ps, "control character in a string");
        if (*ps->p != '\\') *w++ = *ps->p++;
        else if (!parse_escape(ps, &w)) return false;
    }
    ps->p++;
    *w = 0;
    *out = begin;
    *n = (size_t)(w - begin);
    return true;
}

static bool parse_number(struct parser *ps, struct json *out)
{
    char text[64];
    size_t n = 0;
    while (ps->p + n < ps->end && n < sizeof text - 1 && ps->p[n] &&
           strchr("+-.0123456789eE", ps->p[n])) {
        text[n] = ps->p[n];
        n++;
    }
    text[n] = 0;
    const char *d = text + (text[0] == '-');
    if (*d < '0' || *d > '9') return bad(ps, "a value was expected");
    char *stop;
    out->type = JSON_NUMBER;
    out->u.number = strtod(text, &stop);
    if (*stop) return bad(ps, "malformed number");
    if (strpbrk(text, ".eE"))
        out->integer = fabs(out->u.number) < 9e18 ? (int64_t)out->u.number : 0;
    else out->integer = strtoll(text, NULL, 10);
    ps->p += n;
    return true;
}

static void push(struct parser *ps, const struct json *v)
{
    if (ps->used == ps->cap) {
        ps->cap = ps->cap ? 2 * ps->cap : 256;
        ps->stack = realloc(ps->stack, ps->cap * sizeof *ps->stack);
        if (!ps->stack) abort();
    }
    ps->stack[ps->used++] = *v;
}

static bool parse_member(struct parser *ps, bool object)
{
    struct json v;
    const char *key = NULL;
    skip_space(ps);
    if (object) {
        size_t n;
        if (!parse_string(ps, &key, &n)) return false;
        skip_space(ps);
        if (!literal(ps, ":")) return bad(ps, "':' was expected");
    }
    if (!parse_value(ps, &v)) return false;
    v.key = key;
    push(ps, &v);
    return true;
}

static bool parse_items(struct parser *ps, struct json *out)
{
    const bool object = *ps->p++ == '{';
    const char *close = object ? "}" : "]";
    const size_t base = ps->used;
    if (++ps->depth > MAX_DEPTH) return bad(ps, "nested too deeply");
    skip_space(ps);
    if (!literal(ps, close)) {
        do
            if (!parse_member(ps, object)) return false;
        while (skip_space(ps), literal(ps, ","));
        if (!literal(ps, close)) return bad(ps, "',' or '%s' was expected", close);
    }
    out->type = object ? JSON_OBJECT : JSON_ARRAY;
    out->n = ps->used - base;
    if (out->n > 0) {
        struct json *items = take(ps, out->n * sizeof *items);
        memcpy(items, ps->stack + base, out->n * sizeof *items);
        out->u.item = items;
    }
    ps->used = base;
    ps->depth--;
    return true;
}

static bool parse_value(struct parser *ps, struct json *out)
{
    memset(out, 0, sizeof *out);
    skip_space(ps);
    if (ps->p >= ps->end) return bad(ps, "the text ends too early");
    if (*ps->p == '{' || *ps->p == '[') return parse_items(ps, out);
    if (*ps->p == '"') {
        out->type = JSON_STRING;
        return parse_string(ps, &out->u.str, &out->n);
    }
    out->type = JSON_BOOL;
    if (literal(ps, "true")) {
        out->u.boolean = true;
        return true;
    }
    if (literal(ps, "false")) return true;
    out->type = JSON_NULL;
    if (literal(ps, "null")) return true;
    out->type = JSON_NUMBER;
    out->u.number = (double)NAN;
    if (literal(ps, "NaN")) return true;
    out->u.number = (double)INFINITY;
    if (literal(ps, "Infinity")) return true;
    out->u.number = (double)-INFINITY;
    if (literal(ps, "-Infinity")) return true;
    return parse_number(ps, out);
}

struct json_doc *json_parse(const char *text, size_t n, char *why, size_t cap)
{
    struct json_doc *doc = calloc(1, sizeof *doc);
    if (!doc) abort();
    struct parser ps = {
        .begin = text, .p = text, .end = text + n, .doc = doc, .why = why, .why_cap = cap};
    if (cap > 0) *why = 0;
    bool good = parse_value(&ps, &doc->root);
    skip_space(&ps);
    if (good && ps.p != ps.end) good = bad(&ps, "something follows the value");
    free(ps.stack);
    if (good) return doc;
    json_free(doc);
    return NULL;
}

char *json_read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    size_t used = 0, cap = 1 << 16;
    char *text = malloc(cap + 1);
    for (;;) {
        if (!text) abort();
        const size_t got = fread(text + used, 1, cap - used, f);
        used += got;
        if (got == 0) break;
        if (used == cap) text = realloc(text, (cap *= 2) + 1);
    }
    const bool good = !ferror(f);
    fclose(f);
    if (!good) {
        free(text);
        return NULL;
    }
    text[used] = 0;
    *n = used;
    return text;
}

struct json_doc *json_load(const char *path, char *why, size_t cap)
{
    size_t n;
    char *text = json_read_file(path, &n);
    if (!text) {
        snprintf(why, cap, "cannot read %s", path);
        return NULL;
    }
    struct json_doc *doc = json_parse(text, n, why, cap);
    free(text);
    return doc;
}

void json_free(struct json_doc *doc)
{
    if (!doc) return;
    for (struct block *b = doc->blocks, *next; b; b = next) {
        next = b->next;
        free(b);
    }
    free(doc);
}

const struct json *json_root(const struct json_doc *doc) { return &doc->root; }

const struct json *json_get(const struct json *object, const char *key)
{
    if (!object || object->type != JSON_OBJECT) return NULL;
    for (size_t i = 0; i < object->n; i++)
        if (strcmp(object->u.item[i].key, key) == 0) return &object->u.item[i];
    return NULL;
}

const struct json *json_at(const struct json *array, size_t i)
{
    if (!array || (array->type != JSON_ARRAY && array->type != JSON_OBJECT)) return NULL;
    return i < array->n ? &array->u.item[i] : NULL;
}

size_t json_len(const struct json *v)
{
    return v && (v->type == JSON_ARRAY || v->type == JSON_OBJECT) ? v->n : 0;
}

double json_num(const struct json *v, double fallback)
{
    return v && v->type == JSON_NUMBER ? v->u.number : fallback;
}

int64_t json_int(const struct json *v, int64_t fallback)
{
    return v && v->type == JSON_NUMBER ? v->integer : fallback;
}

bool json_bool(const struct json *v, bool fallback)
{
    return v && v->type == JSON_BOOL ? v->u.boolean : fallback;
}

const char *json_str(const struct json *v, const char *fallback)
{
    return v && v->type == JSON_STRING ? v->u.str : fallback;
}

static int nibble(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

uint8_t *json_hex(const struct json *v, size_t *n)
{
    *n = 0;
    if (!v || v->type != JSON_STRING || v->n % 2 != 0) return NULL;
    uint8_t *b = malloc(v->n / 2 + 1);
    if (!b) abort();
    for (size_t i = 0; i < v->n / 2; i++) {
        const int hi = nibble(v->u.str[2 * i]), lo = nibble(v->u.str[2 * i + 1]);
        if (hi < 0 || lo < 0) {
            free(b);
            return NULL;
        }
        b[i] = (uint8_t)(hi << 4 | lo);
    }
    *n = v->n / 2;
    return b;
}
