/* SPDX-License-Identifier: MIT */
#include "json.h"
#include "tok/unicode.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void sm_json_begin(struct sm_json *j, FILE *f, bool pretty)
{
    memset(j, 0, sizeof *j);
    j->f = f;
    j->pretty = pretty;
}

static void newline(struct sm_json *j)
{
    fputc('\n', j->f);
    for (unsigned i = 0; i < j->depth; i++) fputs("  ", j->f);
}

static void put_string(FILE *f, const char *s, size_t n)
{
    const unsigned char *p = (const unsigned char *)s;
    fputc('"', f);
    for (size_t i = 0; i < n;) {
        const size_t len = sm_utf8_length(p + i, n - i, false);
        const unsigned char c = p[i];
        if (c == '"' || c == '\\') {
            fputc('\\', f);
            fputc(c, f);
        } else if (c == '\n') {
            fputs("\\n", f);
        } else if (c == '\t') {
            fputs("\\t", f);
        } else if (c < 0x20 || c == 0x7f) {
            fprintf(f, "\\u%04x", c);
        } else if (!len) {
            fputs("\xef\xbf\xbd", f);
        } else {
            (void)fwrite(p + i, 1, len, f);
        }
        i += len ? len : 1;
    }
    fputc('"', f);
}

/* Comma, line break and key before a value. `scalar` values of arrays stay on one line. */
static void lead(struct sm_json *j, const char *key, bool scalar)
{
    if (j->depth) {
        const unsigned d = j->depth - 1;
        const bool inline_value = scalar && j->kind[d] == '[';
        assert((key != NULL) == (j->kind[d] == '{'));
        if (j->some[d]) fputs(inline_value && j->pretty ? ", " : ",", j->f);
        if (j->pretty && !inline_value) newline(j);
        j->some[d] = true;
    }
    if (key) {
        put_string(j->f, key, strlen(key));
        fputs(j->pretty ? ": " : ":", j->f);
    }
}

void sm_json_open(struct sm_json *j, const char *key, char kind)
{
    lead(j, key, false);
    assert(j->depth < SM_JSON_DEPTH && (kind == '{' || kind == '['));
    j->kind[j->depth] = kind;
    j->some[j->depth++] = false;
    fputc(kind, j->f);
}

void sm_json_close(struct sm_json *j)
{
    assert(j->depth);
    const unsigned d = --j->depth;
    if (j->pretty && j->some[d] && j->kind[d] == '{') newline(j);
    fputc(j->kind[d] == '{' ? '}' : ']', j->f);
}

void sm_json_bytes(struct sm_json *j, const char *key, const char *value, size_t n)
{
    lead(j, key, true);
    put_string(j->f, value, n);
}

void sm_json_str(struct sm_json *j, const char *key, const char *value)
{
    lead(j, key, true);
    if (value) put_string(j->f, value, strlen(value));
    else fputs("null", j->f);
}

void sm_json_int(struct sm_json *j, const char *key, int64_t value)
{
    lead(j, key, true);
    fprintf(j->f, "%" PRId64, value);
}

void sm_json_uint(struct sm_json *j, const char *key, uint64_t value)
{
    lead(j, key, true);
    fprintf(j->f, "%" PRIu64, value);
}

void sm_json_num(struct sm_json *j, const char *key, double value)
{
    char text[40];
    lead(j, key, true);
    if (!isfinite(value)) {
        fputs("null", j->f);
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value) break;
    }
    fputs(text, j->f);
}

void sm_json_bool(struct sm_json *j, const char *key, bool value)
{
    lead(j, key, true);
    fputs(value ? "true" : "false", j->f);
}

bool sm_json_end(struct sm_json *j)
{
    assert(!j->depth);
    fputc('\n', j->f);
    return !fflush(j->f) && !ferror(j->f);
}
