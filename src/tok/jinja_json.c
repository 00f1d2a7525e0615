/* SPDX-License-Identifier: MIT */
/* JSON for the template interpreter: messages and tools come in as it, tojson writes it. */
#include "tok/jinja_int.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEST_MAX 64u

/* ---- reading ---- */

struct reader {
    struct sm_jinja *j;
    const char *text;
    size_t n, at;
    smol_error *err;
};

SM_COLD static smol_status wrong(const struct reader *r, const char *what)
{
    return SM_FAIL_AT(r->err, FORMAT, r->at, "not JSON at byte %zu: %s", r->at, what);
}

static void skip_space(struct reader *r)
{
    while (r->at < r->n && memchr(" \t\r\n", r->text[r->at], 4)) r->at++;
}

static bool take(struct reader *r, char c)
{
    if (r->at >= r->n || r->text[r->at] != c) return false;
    r->at++;
    return true;
}

static int hex4(const struct reader *r, size_t at)
{
    int v = 0;
    if (r->n - at < 4) return -1;
    for (size_t i = 0; i < 4; i++) {
        const char c = r->text[at + i];
        const int d = c >= '0' && c <= '9'                 ? c - '0'
                      : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
                                                           : -1;
        if (d < 0) return -1;
        v = v * 16 + d;
    }
    return v;
}

/* Behind "\u"; half a surrogate pair becomes U+FFFD. */
static smol_status read_unicode(struct reader *r, struct sm_jbuf *b)
{
    const int high = hex4(r, r->at);
    if (high < 0) return wrong(r, "\\u without four hex digits");
    r->at += 4;
    uint32_t c = (uint32_t)high;
    if (c >= 0xd800 && c < 0xdc00 && r->n - r->at >= 6 && r->text[r->at] == '\\' &&
        r->text[r->at + 1] == 'u') {
        const int low = hex4(r, r->at + 2);
        if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + ((uint32_t)low - 0xdc00);
            r->at += 6;
        }
    }
    sm_jbuf_char(b, c, true);
    return SMOL_OK;
}

static smol_status read_string(struct reader *r, struct sm_jval *out)
{
    static const char escapes[] = "\"\\/bfnrt", plain[] = "\"\\/\b\f\n\r\t";
    struct sm_jbuf b = {.j = r->j};
    if (!take(r, '"')) return wrong(r, "expected a text");
    for (;;) {
        const size_t from = r->at;
        while (r->at < r->n && r->text[r->at] != '"' && r->text[r->at] != '\\' &&
               (uint8_t)r->text[r->at] >= 32)
            r->at++;
        sm_jbuf_text(&b, r->text + from, r->at - from, true);
        if (take(r, '"')) break;
        if (!take(r, '\\') || r->at >= r->n) return wrong(r, "a text without end");
        const char c = r->text[r->at++];
        const char *e = c ? strchr(escapes, c) : NULL;
        if (c == 'u') SM_TRY(read_unicode(r, &b));
        else if (e) sm_jbuf_text(&b, plain + (e - escapes), 1, true);
        else return wrong(r, "an unknown escape");
    }
    out->type = SM_J_STR;
    return sm_jbuf_end(&b, &out->u.s);
}

static smol_status read_number(struct reader *r, struct sm_jval *out)
{
    char text[64];
    size_t n = 0;
    bool whole = true;
    while (r->at + n < r->n && n < sizeof text - 1 &&
           memchr("+-.0123456789eE", r->text[r->at + n], 15)) {
        text[n] = r->text[r->at + n];
        if (text[n] == '.' || text[n] == 'e' || text[n] == 'E') whole = false;
        n++;
    }
    text[n] = 0;
    char *end = text;
    const size_t sign = text[0] == '-';
    if (text[sign] < '0' || text[sign] > '9') return wrong(r, "no value");
    if (whole && n - sign <= 18) {
        out->type = SM_J_INT;
        out->u.i = strtoll(text, &end, 10);
    } else {
        out->type = SM_J_FLOAT;
        out->u.f = strtod(text, &end);
    }
    if (*end) return wrong(r, "a number that is none");
    if (out->type == SM_J_FLOAT && !(out->u.f - out->u.f == 0))
        return wrong(r, "a number too large");
    r->at += n;
    return SMOL_OK;
}

static smol_status read_value(struct reader *r, unsigned depth, struct sm_jval *out);

static smol_status read_list(struct reader *r, unsigned depth, struct sm_jval *out)
{
    if (!sm_jinja_list(r->j, out)) return sm_jinja_full(r->j);
    skip_space(r);
    if (take(r, ']')) return SMOL_OK;
    do {
        struct sm_jval v;
        SM_TRY(read_value(r, depth, &v));
        if (!sm_jinja_append(r->j, out->u.list, v)) return sm_jinja_full(r->j);
        skip_space(r);
    } while (take(r, ','));
    return take(r, ']') ? SMOL_OK : wrong(r, "expected , or ]");
}

static smol_status read_dict(struct reader *r, unsigned depth, struct sm_jval *out)
{
    if (!sm_jinja_dict(r->j, out)) return sm_jinja_full(r->j);
    skip_space(r);
    if (take(r, '}')) return SMOL_OK;
    do {
        struct sm_jval k, v;
        skip_space(r);
        SM_TRY(read_string(r, &k));
        skip_space(r);
        if (!take(r, ':')) return wrong(r, "expected :");
        SM_TRY(read_value(r, depth, &v));
        if (!sm_jinja_put(r->j, out->u.dict, k, v)) return sm_jinja_full(r->j);
        SM_TRY(sm_jinja_cost(r->j, 0));
        skip_space(r);
    } while (take(r, ','));
    return take(r, '}') ? SMOL_OK : wrong(r, "expected , or }");
}

static bool take_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (r->n - r->at < n || memcmp(r->text + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static smol_status read_value(struct reader *r, unsigned depth, struct sm_jval *out)
{
    *out = sm_jinja_none();
    if (depth > NEST_MAX) return wrong(r, "nested too deeply");
    SM_TRY(sm_jinja_cost(r->j, 64));
    skip_space(r);
    if (r->at >= r->n) return wrong(r, "no value");
    if (r->text[r->at] == '"') return read_string(r, out);
    if (take(r, '[')) return read_list(r, depth + 1, out);
    if (take(r, '{')) return read_dict(r, depth + 1, out);
    if (take_word(r, "null")) return SMOL_OK;
    if (take_word(r, "true")) *out = sm_jinja_bool(true);
    else if (take_word(r, "false")) *out = sm_jinja_bool(false);
    else return read_number(r, out);
    return SMOL_OK;
}

smol_status sm_jinja_from_json(struct sm_jinja *j, const char *text, size_t n, struct sm_jval *out,
                               smol_error *err)
{
    struct reader r = {j, text, n, 0, err};
    smol_error *before = j->err;
    j->err = err;
    smol_status st = read_value(&r, 0, out);
    j->err = before;
    skip_space(&r);
    if (st == SMOL_OK && r.at < n) st = wrong(&r, "something behind the value");
    return st;
}

/* ---- writing ---- */

struct writer {
    struct sm_jbuf b;
    const struct sm_jinja_json_style *style;
};

static void put(struct writer *w, const char *text)
{
    sm_jbuf_text(&w->b, text, strlen(text), false);
}

static void put_string(struct writer *w, struct sm_jstr s)
{
    put(w, "\"");
    for (size_t at = 0, k; (k = sm_jinja_char(s, at)) > 0; at += k) {
        const uint8_t c = (uint8_t)s.p[at];
        const bool typed = s.typed && s.typed[at];
        static const char special[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
        const char *e = k == 1 && c ? strchr(special, c) : NULL;
        char t[16];
        if (e) (void)snprintf(t, sizeof t, "\\%c", letters[e - special]);
        else if (c < 32) (void)snprintf(t, sizeof t, "\\u%04x", c);
        else if (c < 128 || !w->style->ascii) {
            sm_jbuf_put(&w->b, sm_jinja_cut(s, at, at + k));
            continue;
        } else {
            uint32_t v = k == 4 ? c & 7u : k == 3 ? c & 15u : k == 2 ? c & 31u : 0xfffdu;
            for (size_t i = 1; i < k; i++) v = v << 6 | ((uint8_t)s.p[at + i] & 0x3fu);
            if (v < 0x10000) (void)snprintf(t, sizeof t, "\\u%04x", v);
            else
                (void)snprintf(t, sizeof t, "\\u%04x\\u%04x", 0xd7c0u + (v >> 10),
                               0xdc00u + (v & 0x3ff));
        }
        sm_jbuf_text(&w->b, t, strlen(t), typed);
    }
    put(w, "\"");
}

static void put_break(struct writer *w, unsigned depth)
{
    if (w->style->indent < 0) return;
    put(w, "\n");
    for (int64_t i = 0; i < w->style->indent * depth && !w->b.full; i++) put(w, " ");
}

static void put_between(struct writer *w, unsigned depth)
{
    if (w->style->item.p) sm_jbuf_put(&w->b, w->style->item);
    else put(w, w->style->indent < 0 ? ", " : ",");
    put_break(w, depth);
}

static smol_status put_value(struct writer *w, const struct sm_jval *v, unsigned depth);

static smol_status put_key(struct writer *w, const struct sm_jval *k)
{
    struct sm_jstr s;
    if (k->type == SM_J_NONE) s = sm_jinja_text("null").u.s;
    else if (k->type == SM_J_BOOL) s = sm_jinja_text(k->u.b ? "true" : "false").u.s;
    else SM_TRY(sm_jinja_print(w->b.j, k, &s));
    put_string(w, s);
    if (w->style->key.p) sm_jbuf_put(&w->b, w->style->key);
    else put(w, ": ");
    return SMOL_OK;
}

/* The member to write next when keys are sorted: the smallest above `last`. */
static size_t next_sorted(struct sm_jinja *j, const struct sm_jdict *d, size_t last)
{
    size_t best = SIZE_MAX;
    for (size_t i = 0; i < d->n; i++) {
        struct sm_jstr k = d->v[i].key.u.s;
        if (d->v[i].key.type != SM_J_STR) continue;
        const struct sm_jval *at[2] = {last < d->n ? &d->v[last].key : NULL,
                                       best < d->n ? &d->v[best].key : NULL};
        int order[2] = {1, -1};
        for (int s = 0; s < 2; s++) {
            if (!at[s]) continue;
            const size_t n = k.n < at[s]->u.s.n ? k.n : at[s]->u.s.n;
            (void)sm_jinja_count(j, n);
            const int c = n ? memcmp(k.p, at[s]->u.s.p, n) : 0;
            order[s] = c ? c : (k.n > at[s]->u.s.n) - (k.n < at[s]->u.s.n);
        }
        if (order[0] > 0 && order[1] < 0) best = i;
    }
    return best;
}

static smol_status put_dict(struct writer *w, const struct sm_jdict *d, unsigned depth)
{
    size_t last = SIZE_MAX;
    if (!d->n) {
        put(w, "{}");
        return SMOL_OK;
    }
    put(w, "{");
    put_break(w, depth);
    for (size_t i = 0; i < d->n; i++) {
        const size_t at = w->style->sort_keys ? next_sorted(w->b.j, d, last) : i;
        if (at == SIZE_MAX) break;
        SM_TRY(sm_jinja_cost(w->b.j, w->style->sort_keys ? 64 * d->n : 0));
        last = at;
        if (i) put_between(w, depth);
        SM_TRY(put_key(w, &d->v[at].key));
        SM_TRY(put_value(w, &d->v[at].value, depth));
    }
    put_break(w, depth - 1);
    put(w, "}");
    return SMOL_OK;
}

static smol_status put_list(struct writer *w, const struct sm_jlist *l, unsigned depth)
{
    if (!l->n) {
        put(w, "[]");
        return SMOL_OK;
    }
    put(w, "[");
    put_break(w, depth);
    for (size_t i = 0; i < l->n; i++) {
        if (i) put_between(w, depth);
        SM_TRY(put_value(w, &l->v[i], depth));
    }
    put_break(w, depth - 1);
    put(w, "]");
    return SMOL_OK;
}

static smol_status put_value(struct writer *w, const struct sm_jval *v, unsigned depth)
{
    char text[48];
    if (depth > NEST_MAX) return SM_J_FAIL(w->b.j, LIMIT, "tojson of a value nested too deeply");
    SM_TRY(sm_jinja_cost(w->b.j, 64));
    switch (v->type) {
    case SM_J_NONE: put(w, "null"); break;
    case SM_J_BOOL: put(w, v->u.b ? "true" : "false"); break;
    case SM_J_INT:
        (void)snprintf(text, sizeof text, "%lld", (long long)v->u.i);
        put(w, text);
        break;
    case SM_J_FLOAT:
        sm_jinja_number(v->u.f, text, sizeof text);
        put(w, text);
        break;
    case SM_J_STR: put_string(w, v->u.s); break;
    case SM_J_LIST: return put_list(w, v->u.list, depth + 1);
    case SM_J_DICT: return put_dict(w, v->u.dict, depth + 1);
    case SM_J_UNDEFINED:
    case SM_J_LOOP:
    case SM_J_CALL: return SM_J_FAIL(w->b.j, FORMAT, "tojson of %s", sm_jinja_type(v));
    }
    return SMOL_OK;
}

smol_status sm_jinja_to_json(struct sm_jinja *j, const struct sm_jval *v,
                             const struct sm_jinja_json_style *style, struct sm_jstr *out)
{
    struct writer w = {{.j = j}, style};
    SM_TRY(put_value(&w, v, 0));
    return sm_jbuf_end(&w.b, out);
}

void sm_jinja_number(double f, char *buf, size_t n)
{
    char digits[32];
    if (f - f != 0) { /* not finite */
        (void)snprintf(buf, n, "%s", f > 0 ? "inf" : f < 0 ? "-inf" : "nan");
        return;
    }
    for (int k = 1; k <= 17; k++) {
        (void)snprintf(digits, sizeof digits, "%.*e", k - 1, f);
        const double back = strtod(digits, NULL);
        if (!(back < f) && !(back > f)) {
            const int e = (int)strtol(strchr(digits, 'e') + 1, NULL, 10);
            if (e < -4 || e >= 16) {
                (void)snprintf(buf, n, "%s", digits);
                return;
            }
            const int after = k - 1 - e > 1 ? k - 1 - e : 1;
            (void)snprintf(buf, n, "%.*f", after, f);
            return;
        }
    }
    (void)snprintf(buf, n, "%.17g", f);
}
