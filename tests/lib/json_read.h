/* SPDX-License-Identifier: MIT */
/* A small JSON reader for tests: reads whole documents (golden files, --stats, --json output) into
 * a tree. No dependency. Accepts RFC 8259 plus NaN, Infinity and -Infinity, as Python writes them.
 *
 *     char why[128];
 *     struct json_doc *doc = json_load("tests/data/golden/x.json", why, sizeof why);
 *     if (!doc) ... why ...
 *     const struct json *cases = json_get(json_root(doc), "cases");
 *     for (size_t i = 0; i < json_len(cases); i++)
 *         puts(json_str(json_get(json_at(cases, i), "text"), ""));
 *     json_free(doc);
 *
 * Getters take NULL (an absent value) and give the fallback, so look-ups can be chained. A tree is
 * read-only once made. Strings are UTF-8, terminated by NUL and may hold NUL (\u0000): see `n`. */
#ifndef TESTS_JSON_READ_H
#define TESTS_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json {
    enum json_type type;
    size_t n;        /* bytes of a string, items of an array, members of an object */
    const char *key; /* name of this member, NULL outside objects */
    union {
        bool boolean;
        double number;
        const char *str;
        const struct json *item; /* n of them */
    } u;
    int64_t integer; /* of a number written without fraction or exponent, else its truncation */
};

struct json_doc;

/* NULL on failure, then `why` says where and what. */
struct json_doc *json_parse(const char *text, size_t n, char *why, size_t cap);
struct json_doc *json_load(const char *path, char *why, size_t cap);
void json_free(struct json_doc *doc); /* NULL is fine */
const struct json *json_root(const struct json_doc *doc);

const struct json *json_get(const struct json *object, const char *key); /* NULL: absent */
const struct json *json_at(const struct json *array, size_t i);          /* NULL: absent */
size_t json_len(const struct json *v);                   /* items or members, 0 otherwise */
double json_num(const struct json *v, double fallback);
int64_t json_int(const struct json *v, int64_t fallback);
bool json_bool(const struct json *v, bool fallback);
const char *json_str(const struct json *v, const char *fallback);

/* Bytes of a string of hex digits, malloc'ed (never NULL for a valid string, free it), or NULL. */
uint8_t *json_hex(const struct json *v, size_t *n);
/* A whole file, malloc'ed, with a NUL behind it; NULL when it cannot be read. */
char *json_read_file(const char *path, size_t *n);

#endif
