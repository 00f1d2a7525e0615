/* SPDX-License-Identifier: MIT */
/* Tokens inside the tags of a template. */
#include "tok/jinja_parse.h"

#include <stdlib.h>
#include <string.h>

static bool is_letter(char c) { return (c | 32) >= 'a' && (c | 32) <= 'z' ? true : c == '_'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

smol_status sm_jinja_expected(struct sm_jparse *s, const char *what)
{
    char found[3] = {(char)(s->sign < 256 ? s->sign : '='), 0, 0};
    s->j->line = s->line;
    switch (s->token) {
    case SM_JT_END: return SM_J_FAIL(s->j, FORMAT, "expected %s before the end of the tag", what);
    case SM_JT_NAME: return SM_J_FAIL(s->j, FORMAT, "expected %s, found %.40s", what, s->name);
    case SM_JT_TEXT: return SM_J_FAIL(s->j, FORMAT, "expected %s, found a text", what);
    case SM_JT_INT:
    case SM_JT_FLOAT: return SM_J_FAIL(s->j, FORMAT, "expected %s, found a number", what);
    case SM_JT_SIGN: break;
    }
    return SM_J_FAIL(s->j, FORMAT, "expected %s, found \"%s\"", what, found);
}

bool sm_jinja_is_name(const struct sm_jparse *s, const char *name)
{
    return s->token == SM_JT_NAME && !strcmp(s->name, name);
}

smol_status sm_jinja_expect(struct sm_jparse *s, int sign, const char *what)
{
    if (!sm_jinja_is_sign(s, sign)) return sm_jinja_expected(s, what);
    return sm_jinja_next(s);
}

/* Behind a backslash, as Python reads it; an unknown one stays as it is. */
static void read_escape(struct sm_jparse *s, struct sm_jbuf *b)
{
    static const char letters[] = "nrtabfv\\'\"", plain[] = "\n\r\t\a\b\f\v\\'\"";
    const char c = s->p[s->at++];
    const char *e = c ? strchr(letters, c) : NULL;
    unsigned digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0, base = 16;
    if (c >= '0' && c <= '7') {
        digits = 3;
        base = 8;
        s->at--;
    }
    if (e) {
        sm_jbuf_text(b, plain + (e - letters), 1, false);
        return;
    }
    if (c == '\n') return; /* a line that goes on */
    uint32_t v = 0;
    unsigned n = 0;
    for (; n < digits && s->at + n < s->n; n++) {
        const char d = s->p[s->at + n];
        const unsigned x = is_digit(d)                          ? (unsigned)(d - '0')
                           : (d | 32) >= 'a' && (d | 32) <= 'f' ? (unsigned)((d | 32) - 'a' + 10)
                                                                : 99u;
        if (x >= base) break;
        v = v * base + x;
    }
    if (digits && (n == digits || (base == 8 && n))) {
        s->at += n;
        sm_jbuf_char(b, v, false);
    } else {
        sm_jbuf_text(b, "\\", 1, false);
        sm_jbuf_text(b, &c, 1, false);
    }
}

static smol_status read_text(struct sm_jparse *s)
{
    struct sm_jbuf b = {.j = s->j};
    const char quote = s->p[s->at++];
    for (;;) {
        const size_t from = s->at;
        while (s->at < s->n && s->p[s->at] != quote && s->p[s->at] != '\\') {
            if (s->p[s->at] == '\n') s->line++;
            s->at++;
        }
        sm_jbuf_text(&b, s->p + from, s->at - from, false);
        if (s->at + 1 >= s->n && !(s->at < s->n && s->p[s->at] == quote))
            return SM_J_FAIL(s->j, FORMAT, "a text without end");
        if (s->p[s->at++] == quote) break;
        read_escape(s, &b);
    }
    s->token = SM_JT_TEXT;
    s->value.type = SM_J_STR;
    return sm_jbuf_end(&b, &s->value.u.s);
}

static smol_status read_number(struct sm_jparse *s)
{
    char text[48];
    size_t n = 0;
    bool whole = true;
    for (; s->at < s->n; s->at++) {
        const char c = s->p[s->at], next = s->at + 1 < s->n ? s->p[s->at + 1] : 0;
        if (c == '_' && is_digit(next)) continue;
        if (c == '.' && whole && is_digit(next)) whole = false;
        else if ((c == 'e' || c == 'E') && (is_digit(next) || next == '-' || next == '+'))
            whole = false;
        else if ((c == '-' || c == '+') && n && (text[n - 1] | 32) == 'e') {
        } else if (!is_digit(c)) break;
        if (n == sizeof text - 1) return SM_J_FAIL(s->j, FORMAT, "a number of too many digits");
        text[n++] = c;
    }
    text[n] = 0;
    if (whole && n > 18) return SM_J_FAIL(s->j, UNSUPPORTED, "a number of %zu digits", n);
    s->token = whole ? SM_JT_INT : SM_JT_FLOAT;
    if (whole) s->value = sm_jinja_int(strtoll(text, NULL, 10));
    else s->value = (struct sm_jval){.type = SM_J_FLOAT, .u.f = strtod(text, NULL)};
    return SMOL_OK;
}

static smol_status read_sign(struct sm_jparse *s)
{
    static const struct {
        char text[3];
        int sign;
    } two[] = {{"==", SM_JO_EQ}, {"!=", SM_JO_NE},  {"<=", SM_JO_LE},
               {">=", SM_JO_GE}, {"**", SM_JO_POW}, {"//", SM_JO_DIV}};
    const char *p = s->p + s->at;
    s->token = SM_JT_SIGN;
    for (size_t i = 0; s->n - s->at >= 2 && i < sizeof two / sizeof *two; i++) {
        if (memcmp(p, two[i].text, 2) != 0) continue;
        s->sign = two[i].sign;
        s->at += 2;
        return SMOL_OK;
    }
    if (!*p || !strchr("+-/*%~[](){}<>=.:|,", *p))
        return SM_J_FAIL(s->j, FORMAT, "an unexpected character (byte 0x%02x) in a tag",
                         (unsigned)(uint8_t)*p);
    s->sign = *p;
    s->at++;
    return SMOL_OK;
}

/* }} or %} with its - or +; 0 when it is none. `deep`: inside brackets, where }} is two of them. */
static size_t closing(const struct sm_jparse *s)
{
    const char *p = s->p + s->at;
    const size_t left = s->n - s->at, mark = left && (*p == '-' || *p == '+');
    if (left < mark + 2 || p[mark + 1] != '}') return 0;
    if (p[mark] == '%') return mark + 2;
    return p[mark] == '}' && s->closes >= 0 ? mark + 2 : 0;
}

smol_status sm_jinja_next(struct sm_jparse *s)
{
    while (s->at < s->n && memchr(" \t\n\r\f\v", s->p[s->at], 6)) {
        if (s->p[s->at] == '\n') s->line++;
        s->at++;
    }
    s->j->line = s->line;
    if (s->at >= s->n) return SM_J_FAIL(s->j, FORMAT, "a tag without end");
    const char c = s->p[s->at];
    const size_t end = closing(s);
    if (end) {
        s->token = SM_JT_END;
        s->closes = s->p[s->at + end - 2] == '%' ? 2 : 1;
        s->strip_after = c == '-';
        s->keep_after = c == '+';
        s->at += end;
        return SMOL_OK;
    }
    if (is_letter(c)) {
        const size_t from = s->at;
        while (s->at < s->n && (is_letter(s->p[s->at]) || is_digit(s->p[s->at]))) s->at++;
        s->token = SM_JT_NAME;
        s->name = sm_jinja_intern(s->j, s->p + from, s->at - from);
        return s->name ? SMOL_OK : sm_jinja_full(s->j);
    }
    if (c == '"' || c == '\'') return read_text(s);
    if (is_digit(c)) return read_number(s);
    return read_sign(s);
}
