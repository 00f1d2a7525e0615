/* SPDX-License-Identifier: MIT */
/* Texts of the template interpreter: characters, stripping, searching, replacing, joining. */
#include "tok/jinja_int.h"

#include <string.h>

size_t sm_jinja_char(struct sm_jstr s, size_t at)
{
    if (at >= s.n) return 0;
    const uint8_t c = (uint8_t)s.p[at];
    const size_t n = c < 0xc2 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 1;
    if (n > s.n - at) return 1;
    for (size_t i = 1; i < n; i++)
        if (((uint8_t)s.p[at + i] & 0xc0) != 0x80) return 1;
    return n;
}

size_t sm_jinja_length(struct sm_jstr s)
{
    size_t n = 0;
    for (size_t at = 0; at < s.n; at += sm_jinja_char(s, at)) n++;
    return n;
}

/* Code point of a whole character; only white space above ASCII matters. */
static uint32_t code_point(const char *p, size_t n)
{
    const uint8_t *u = (const uint8_t *)p;
    if (n == 2) return (u[0] & 0x1fu) << 6 | (u[1] & 0x3fu);
    if (n == 3) return (u[0] & 0xfu) << 12 | (u[1] & 0x3fu) << 6 | (u[2] & 0x3fu);
    return n == 1 ? u[0] : 0x10000u;
}

/* What Python's str.isspace() says. */
static bool is_space(const char *p, size_t n)
{
    const uint32_t c = code_point(p, n);
    if (n == 1) return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1c && c <= 0x1f);
    return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
           c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

static bool strips(const char *p, size_t n, struct sm_jstr chars)
{
    if (!chars.p) return is_space(p, n);
    for (size_t at = 0, k; (k = sm_jinja_char(chars, at)) > 0; at += k)
        if (k == n && !memcmp(chars.p + at, p, n)) return true;
    return false;
}

/* Bytes of the last character. */
static size_t last_char(struct sm_jstr s)
{
    size_t k = 1;
    while (k < 4 && k < s.n && ((uint8_t)s.p[s.n - k] & 0xc0) == 0x80) k++;
    return sm_jinja_char(s, s.n - k) == k ? k : 1;
}

struct sm_jstr sm_jinja_strip(struct sm_jinja *j, struct sm_jstr s, struct sm_jstr chars, bool left,
                              bool right)
{
    while (left && s.n) {
        const size_t k = sm_jinja_char(s, 0);
        if (!sm_jinja_count(j, k + chars.n) || !strips(s.p, k, chars)) break;
        s = sm_jinja_cut(s, k, s.n);
    }
    while (right && s.n) {
        const size_t k = last_char(s);
        if (!sm_jinja_count(j, k + chars.n) || !strips(s.p + s.n - k, k, chars)) break;
        s.n -= k;
    }
    return s;
}

size_t sm_jinja_search(struct sm_jstr s, struct sm_jstr what, size_t from)
{
    if (from > s.n) return SIZE_MAX;
    if (!what.n) return from;
    const char *p = memmem(s.p + from, s.n - from, what.p, what.n);
    return p ? (size_t)(p - s.p) : SIZE_MAX;
}

smol_status sm_jinja_case(struct sm_jinja *j, struct sm_jstr s, char how, struct sm_jval *out)
{
    struct sm_jbuf b = {.j = j};
    struct sm_jstr text;
    bool inside = false;
    sm_jbuf_put(&b, s);
    SM_TRY(sm_jbuf_end(&b, &text));
    for (size_t i = 0; i < b.n; i++) {
        char *c = &b.p[i];
        const bool low = *c >= 'a' && *c <= 'z', high = *c >= 'A' && *c <= 'Z';
        const bool raise = how == 'u' || (how == 't' && !inside) || (how == 'c' && i == 0);
        if (low && raise) *c = (char)(*c - 32);
        else if (high && !raise) *c = (char)(*c + 32);
        inside = low || high || (uint8_t)*c >= 0x80;
    }
    *out = sm_jinja_str(text);
    return SMOL_OK;
}

smol_status sm_jinja_replace(struct sm_jinja *j, struct sm_jstr s, struct sm_jstr from,
                             struct sm_jstr to, int64_t count, struct sm_jval *out)
{
    struct sm_jbuf b = {.j = j};
    size_t at = 0;
    SM_TRY(sm_jinja_cost(j, s.n));
    while (count != 0 && at <= s.n) {
        const size_t hit = sm_jinja_search(s, from, at);
        if (hit == SIZE_MAX) break;
        size_t next = hit + from.n;
        sm_jbuf_put(&b, sm_jinja_cut(s, at, hit));
        sm_jbuf_put(&b, to);
        if (!from.n) { /* between all characters */
            next = hit + sm_jinja_char(s, hit);
            if (next == hit) {
                at = s.n;
                break;
            }
            sm_jbuf_put(&b, sm_jinja_cut(s, hit, next));
        }
        at = next;
        if (count > 0) count--;
    }
    sm_jbuf_put(&b, sm_jinja_cut(s, at, s.n));
    out->type = SM_J_STR;
    return sm_jbuf_end(&b, &out->u.s);
}

smol_status sm_jinja_join(struct sm_jinja *j, const struct sm_jlist *l, struct sm_jstr between,
                          struct sm_jval *out)
{
    struct sm_jbuf b = {.j = j};
    for (size_t i = 0; i < l->n; i++) {
        struct sm_jstr s;
        if (i) sm_jbuf_put(&b, between);
        SM_TRY(sm_jinja_print(j, &l->v[i], &s));
        sm_jbuf_put(&b, s);
    }
    out->type = SM_J_STR;
    return sm_jbuf_end(&b, &out->u.s);
}
