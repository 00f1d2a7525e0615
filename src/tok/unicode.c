/* SPDX-License-Identifier: MIT */
#include "tok/unicode.h"

#include "base/bits.h"

/* Table 3-7 of the Unicode standard: the second byte decides what is overlong, a surrogate or too
 * large. Returns the length that a lead byte announces (0: none) and the range of the second. */
static unsigned lead(uint8_t b, bool surrogates, uint8_t *lo, uint8_t *hi)
{
    *lo = 0x80;
    *hi = 0xbf;
    if (b < 0xc2) return 0;
    if (b < 0xe0) return 2;
    if (b < 0xf0) {
        if (b == 0xe0) *lo = 0xa0;
        if (b == 0xed && !surrogates) *hi = 0x9f;
        return 3;
    }
    if (b > 0xf4) return 0;
    if (b == 0xf0) *lo = 0x90;
    if (b == 0xf4) *hi = 0x8f;
    return 4;
}

unsigned sm_utf8_length(const uint8_t *p, size_t n, bool surrogates)
{
    uint8_t lo, hi;
    if (p[0] < 0x80) return 1;
    const unsigned len = lead(p[0], surrogates, &lo, &hi);
    if (len == 0 || len > n || p[1] < lo || p[1] > hi) return 0;
    for (unsigned i = 2; i < len; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    return len;
}

size_t sm_utf8_valid(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i < n) {
        if (n - i >= 8 && !(sm_ld64(p + i) & 0x8080808080808080u)) {
            i += 8;
            continue;
        }
        const unsigned len = sm_utf8_length(p + i, n - i, true);
        if (len == 0) break;
        i += len;
    }
    return i;
}

unsigned sm_utf8_prefix(const uint8_t *p, size_t n, bool *more)
{
    uint8_t lo, hi;
    const unsigned len = lead(p[0], false, &lo, &hi);
    unsigned i = 1;
    if (len > 1 && n > 1 && p[1] >= lo && p[1] <= hi)
        for (i = 2; i < len && i < n && (p[i] & 0xc0) == 0x80;) i++;
    *more = i == n && i < len;
    return i;
}

unsigned sm_utf8_put(char *w, uint32_t c)
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
