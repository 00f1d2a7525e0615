/* SPDX-License-Identifier: MIT */
/* A small JSON writer: values go to a stream as they come, commas and nesting are kept right.
 *
 *     struct sm_json j;
 *     sm_json_begin(&j, f, true);
 *     sm_json_open(&j, NULL, '{');
 *     sm_json_str(&j, "kernel_level", "avx2");
 *     sm_json_open(&j, "loss_levers", '[');
 *     sm_json_close(&j);
 *     sm_json_close(&j);
 *     ok = sm_json_end(&j);                       false when a write failed (disk full)
 *
 * `key` is NULL inside arrays and for the outermost value. One thread per writer. */
#ifndef SM_TOOLS_JSON_H
#define SM_TOOLS_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SM_JSON_DEPTH 32

struct sm_json {
    FILE *f;
    bool pretty; /* one member a line, two spaces a level; arrays of numbers stay on a line */
    unsigned depth;
    char kind[SM_JSON_DEPTH]; /* '{' or '[' */
    bool some[SM_JSON_DEPTH]; /* something was written at this depth */
};

void sm_json_begin(struct sm_json *j, FILE *f, bool pretty);
void sm_json_open(struct sm_json *j, const char *key, char kind); /* '{' or '[' */
void sm_json_close(struct sm_json *j);
void sm_json_str(struct sm_json *j, const char *key, const char *value); /* NULL: null */
/* n bytes; what is not UTF-8 becomes U+FFFD. */
void sm_json_bytes(struct sm_json *j, const char *key, const char *value, size_t n);
void sm_json_int(struct sm_json *j, const char *key, int64_t value);
void sm_json_uint(struct sm_json *j, const char *key, uint64_t value);
/* Shortest text that reads back as the same double; not finite: null. */
void sm_json_num(struct sm_json *j, const char *key, double value);
void sm_json_bool(struct sm_json *j, const char *key, bool value);
/* Newline and flush; false when anything could not be written. */
bool sm_json_end(struct sm_json *j);

#endif
