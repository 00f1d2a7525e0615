/* SPDX-License-Identifier: MIT */
/* Strict readers of values, and the nearest name. */
#include "options.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool sm_parse_int(const char *text, int64_t lo, int64_t hi, int64_t *out)
{
    const char *digits = text + (*text == '-');
    char *end;
    if (*digits < '0' || *digits > '9')
        return false; /* strtoll would skip blanks and take a plus */
    errno = 0;
    const long long v = strtoll(text, &end, 10);
    if (errno || *end || v < lo || v > hi) return false;
    *out = v;
    return true;
}

bool sm_parse_float(const char *text, double lo, double hi, double *out)
{
    char *end;
    /* digits, sign, point and exponent only: no hexadecimal, no "nan", no blanks */
    if (!*text || text[strspn(text, "0123456789.+-eE")]) return false;
    errno = 0;
    const double v = strtod(text, &end);
    if (end == text || *end || !isfinite(v) || v < lo || v > hi) return false;
    *out = v;
    return true;
}

bool sm_parse_size(const char *text, uint64_t *out)
{
    static const char units[] = "KMGT";
    uint64_t whole = 0, thousandths = 0, factor = 1;
    const char *p = text;
    if (*p < '0' || *p > '9') return false;
    for (; *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(whole, 10u, &whole) ||
            __builtin_add_overflow(whole, (uint64_t)(*p - '0'), &whole))
            return false;
    if (*p == '.') {
        unsigned place = 100;
        if (p[1] < '0' || p[1] > '9') return false;
        for (p++; *p >= '0' && *p <= '9'; p++, place /= 10) {
            if (!place) return false;
            thousandths += (uint64_t)(*p - '0') * place;
        }
    }
    if (*p) {
        const char letter[2] = {(char)(*p & ~0x20),
                                0}; /* either case; a blank becomes the empty text */
        const char *unit = *letter ? strstr(units, letter) : NULL;
        if (!unit || p[1]) return false;
        factor <<= 10 * (unit - units + 1);
    } else if (thousandths) {
        return false; /* no fractions of a byte */
    }
    if (__builtin_mul_overflow(whole, factor, &whole)) return false;
    /* thousandths < 1000 and factor <= 2^40: fits */
    if (__builtin_add_overflow(whole, thousandths * factor / 1000, &whole)) return false;
    *out = whole;
    return true;
}

/* Edits (insert, delete, replace, swap of neighbours) between two short words; longer ones count
 * as far apart. */
static unsigned edits(const char *a, const char *b)
{
    enum { MAX = 32 };
    const size_t na = strlen(a), nb = strlen(b);
    unsigned d[MAX + 1][MAX + 1]; /* d[i][j]: first i of a against first j of b */
    if (na > MAX || nb > MAX) return MAX;
    for (size_t i = 0; i <= na; i++) {
        for (size_t j = 0; j <= nb; j++) {
            unsigned best = (unsigned)(i + j);
            if (i && j) {
                best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
                if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
                if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
            }
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[na][nb];
}

const char *sm_nearest(const char *word, const char *const *names)
{
    const size_t n = strlen(word);
    const char *best = NULL;
    unsigned least = n <= 4 ? 2 : 3; /* nearer than this; two edits of "run" are anything */
    for (; *names; names++) {
        const unsigned e = edits(word, *names);
        /* a name with some of its end missing is near too: "tok" for "tokenize" */
        const bool begins = n >= 3 && !strncmp(word, *names, n);
        if (begins || e < least) {
            best = *names;
            least = begins ? 1 : e;
        }
    }
    return best;
}
