/* SPDX-License-Identifier: MIT */
#include "tok/split.h"

static unsigned class_at(const uint8_t *p, const uint8_t *end, unsigned *n)
{
    if (p == end) {
        *n = 0;
        return 0;
    }
    return sm_unicode_class_of(sm_utf8_get(p, n));
}

/* End of the run of characters that have one of the classes, at most max of them (0: any). */
static const uint8_t *run_in(const uint8_t *p, const uint8_t *end, unsigned set, unsigned max)
{
    unsigned n, count = 0;
    while (p < end && (class_at(p, end, &n) & set) && (max == 0 || count++ < max)) p += n;
    return p;
}

/* End of the run of characters that have none of the classes. */
static const uint8_t *run_out(const uint8_t *p, const uint8_t *end, unsigned set)
{
    unsigned n;
    while (p < end && !(class_at(p, end, &n) & set)) p += n;
    return p;
}

static uint8_t lower(uint8_t c) { return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c; }
static bool is_lower(uint8_t c) { return c >= 'a' && c <= 'z'; }
static bool is_upper(uint8_t c) { return c >= 'A' && c <= 'Z'; }

/* '(s|t|re|ve|m|ll|d); the classes are those of ASCII letters only. */
static size_t contraction(const uint8_t *p, const uint8_t *end, bool any_case)
{
    if (end - p < 2 || p[0] != '\'') return 0;
    const uint8_t a = any_case ? lower(p[1]) : p[1];
    if (a == 's' || a == 't' || a == 'm' || a == 'd') return 2;
    if (end - p < 3) return 0;
    const uint8_t b = any_case ? lower(p[2]) : p[2];
    return (a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l') ? 3 : 0;
}

/* s+(?!\S)|s+ at white space: all but the last one when something visible follows. */
static size_t white_tail(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p, *last = p;
    unsigned n;
    while (q < end && (class_at(q, end, &n) & SM_UC_WS)) {
        last = q;
        q += n;
    }
    return (size_t)((q < end && last > p ? last : q) - p);
}

/* s*[\r\n]+ and then s+(?!\S)|s+ at white space: through the last line end of the run, if any. */
static size_t white(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *q = p, *line = NULL, *last = p;
    unsigned n, c;
    while (q < end && ((c = class_at(q, end, &n)) & SM_UC_WS)) {
        last = q;
        q += n;
        if (c & SM_UC_NL) line = q;
    }
    if (line) return (size_t)(line - p);
    return (size_t)((q < end && last > p ? last : q) - p);
}

/* CS | [space]?L+ | [space]?N+ | [space]?[^ s L N]+ | TAIL */
size_t sm_split_match_gpt2(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    const size_t short_form = contraction(p, end, false);
    if (short_form) return short_form;
    const uint8_t *q = p + (*p == ' ');
    unsigned n;
    const unsigned c = class_at(q, end, &n);
    if (c & SM_UC_L) return (size_t)(run_in(q, end, SM_UC_L, 0) - p);
    if (c & SM_UC_N) return (size_t)(run_in(q, end, SM_UC_N, 0) - p);
    if (q < end && !(c & SM_UC_WS))
        return (size_t)(run_out(q, end, SM_UC_WS | SM_UC_L | SM_UC_N) - p);
    return white_tail(p, end);
}

/* The letters at q as U*W+ | U+W*: U is any letter but a-z, W any letter but A-Z, so letters beyond
 * ASCII are both. U* takes all it can; W+ then needs a letter a-z there, or the last letter beyond
 * ASCII is given back to it. */
static const uint8_t *cased_word(const uint8_t *q, const uint8_t *end)
{
    const uint8_t *both = NULL;
    unsigned n;
    while (q < end && (class_at(q, end, &n) & SM_UC_L) && !is_lower(*q)) {
        q += n;
        if (n > 1) both = q;
    }
    if (q == end || !is_lower(*q)) return both ? both : q;
    while (q < end && (class_at(q, end, &n) & SM_UC_L) && !is_upper(*q)) q += n;
    return q;
}

/* [^\r\n L N]? word: the end of it, or NULL. */
static const uint8_t *word_at(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    unsigned n, m;
    const unsigned c = class_at(p, end, &n);
    const uint8_t *q = p;
    if (!(c & (SM_UC_NL | SM_UC_L | SM_UC_N)) && (class_at(p + n, end, &m) & s->word)) q = p + n;
    else if (!(c & s->word)) return NULL;
    if (!s->cased) return run_in(q, end, s->word, 0);
    q = cased_word(q, end);
    return s->tail_contractions ? q + contraction(q, end, true) : q;
}

/* CI | [^\r\n L N]?word | N{1,max} | [space]?[^ s L N word]+ line_ends | s*[\r\n]+ | TAIL */
size_t sm_split_match_words(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    const size_t short_form = s->contractions ? contraction(p, end, true) : 0;
    if (short_form) return short_form;
    const uint8_t *q = word_at(s, p, end);
    if (q) return (size_t)(q - p);
    unsigned n;
    if (class_at(p, end, &n) & SM_UC_N) return (size_t)(run_in(p, end, SM_UC_N, s->max) - p);
    const unsigned not_sign = SM_UC_WS | SM_UC_L | SM_UC_N | s->word;
    const uint8_t *sign = p + (*p == ' ');
    q = run_out(sign, end, not_sign);
    if (q == sign) return white(p, end);
    while (q < end && s->line_ends &&
           (*q == '\r' || *q == '\n' || (*q == '/' && s->line_ends == '/')))
        q++;
    return (size_t)(q - p);
}

static bool is_ascii_sign(uint8_t c)
{
    return (c >= 0x21 && c <= 0x2f) || (c >= 0x3a && c <= 0x40) || (c >= 0x5b && c <= 0x60) ||
           (c >= 0x7b && c <= 0x7e);
}

/* X[A-Za-z]+ | [^\r\n L P S]?[L M]+ | [space]?[P S]+[\r\n]* | s*[\r\n]+ | TAIL */
size_t sm_split_match_deepseek(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    const unsigned word = SM_UC_L | SM_UC_M, sign = SM_UC_P | SM_UC_S;
    unsigned n, m;
    const unsigned c = class_at(p, end, &n);
    if (is_ascii_sign(*p) && end - p > 1 && (is_lower(p[1]) || is_upper(p[1]))) {
        const uint8_t *q = p + 2;
        while (q < end && (is_lower(*q) || is_upper(*q))) q++;
        return (size_t)(q - p);
    }
    if (!(c & (SM_UC_NL | SM_UC_L | sign)) && (class_at(p + n, end, &m) & word))
        return (size_t)(run_in(p + n, end, word, 0) - p);
    if (c & word) return (size_t)(run_in(p, end, word, 0) - p);
    const uint8_t *first = p + (*p == ' '), *q = run_in(first, end, sign, 0);
    if (q > first) {
        while (q < end && (*q == '\r' || *q == '\n')) q++;
        return (size_t)(q - p);
    }
    return c & SM_UC_WS ? white(p, end) : 0;
}

/* [s]?[set]{1,max} */
size_t sm_split_match_run(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    unsigned n;
    const unsigned c = class_at(p, end, &n);
    const uint8_t *first = s->space && (c & SM_UC_WS) ? p + n : p;
    const uint8_t *q = run_in(first, end, s->set, s->max);
    return q > first ? (size_t)(q - p) : 0;
}

/* [P $ + < = > ^ ~ |]+ */
size_t sm_split_match_signs(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    (void)s;
    const uint8_t *q = p;
    unsigned n;
    while (q < end) {
        const unsigned c = class_at(q, end, &n);
        if (!(c & SM_UC_P) && (*q >= 0x80 || !(c & SM_UC_S) || *q == '`')) break;
        q += n;
    }
    return (size_t)(q - p);
}

/* [s]?[ranges]{1,max}, where max also is the least number. White space beyond ASCII never is in a
 * range, whatever the ranges say: the reference hides it from patterns without a Unicode class. */
size_t sm_split_match_ranges(const struct sm_split_pass *s, const uint8_t *p, const uint8_t *end)
{
    unsigned n, count = 0;
    const unsigned c = class_at(p, end, &n);
    const uint8_t *first = s->space && (c & SM_UC_WS) ? p + n : p, *q = first;
    while (q < end && (s->max == 0 || count < s->max)) {
        const uint32_t point = sm_utf8_get(q, &n);
        const struct sm_range *r = s->range;
        while (r->hi && (point < r->lo || point > r->hi)) r++;
        if (!r->hi || (point >= 0x80 && (sm_unicode_class_of(point) & SM_UC_WS))) break;
        q += n;
        count++;
    }
    return q > first && count >= s->max ? (size_t)(q - p) : 0;
}

/* s+ at the end of the text. Starts at the white space that ends it, or matches nothing: a caller
 * that tries every position would look at a long run once for each. */
static const uint8_t *last_white(const uint8_t *p, const uint8_t *end)
{
    const uint8_t *from = p;
    unsigned n;
    for (; p < end; p += n)
        if (!(class_at(p, end, &n) & SM_UC_WS)) from = p + n;
    return from;
}

static bool cut(const struct sm_split_rule *rule, unsigned i_pass, const uint8_t *p,
                const uint8_t *end, sm_split_piece piece, void *arg)
{
    if (p == end) return true;
    if (i_pass == rule->n_pass) return piece(arg, p, (size_t)(end - p));
    const struct sm_split_pass *s = &rule->pass[i_pass];
    const uint8_t *gap = p;
    if (!s->match) {
        const uint8_t *from = last_white(p, end);
        return cut(rule, i_pass + 1, p, from, piece, arg) &&
               cut(rule, i_pass + 1, from, end, piece, arg);
    }
    while (p < end) {
        const size_t n = s->match(s, p, end);
        if (n == 0) {
            unsigned step;
            (void)sm_utf8_get(p, &step);
            p += step;
            continue;
        }
        if (!cut(rule, i_pass + 1, gap, p, piece, arg)) return false;
        if (!cut(rule, i_pass + 1, p, p + n, piece, arg)) return false;
        p += n;
        gap = p;
    }
    return cut(rule, i_pass + 1, gap, end, piece, arg);
}

bool sm_split_text(const struct sm_split_rule *rule, const uint8_t *text, size_t n,
                   sm_split_piece piece, void *arg)
{
    return cut(rule, 0, text, text + n, piece, arg);
}
