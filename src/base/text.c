/* SPDX-License-Identifier: MIT */
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

/* Length of the valid UTF-8 character at s, 0 if there is none, -1 if the string ends inside. */
static int char_length(const unsigned char *s)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const int n = s[0] < 0x80   ? 1
                  : s[0] < 0xc2 ? 0
                  : s[0] < 0xe0 ? 2
                  : s[0] < 0xf0 ? 3
                  : s[0] < 0xf5 ? 4
                                : 0;
    if (n < 2) return n;
    uint32_t v = s[0] & (0x7fu >> n);
    for (int i = 1; i < n; i++) {
        if (s[i] == 0) return -1;
        if ((s[i] & 0xc0) != 0x80) return 0;
        v = v << 6 | (s[i] & 0x3fu);
    }
    if (v < least[n] || v > 0x10ffff || (v >= 0xd800 && v < 0xe000)) return 0;
    return n == 2 && v < 0xa0 ? 0 : n; /* U+0080 to U+009F steer terminals too */
}

void sm_text_clean(char *text)
{
    unsigned char *s = (unsigned char *)text;
    while (*s) {
        const int n = char_length(s);
        if (n < 0) {
            *s = 0;
        } else if (n == 0 || *s < 0x20 || *s == 0x7f) {
            *s++ = '?';
        } else {
            s += n;
        }
    }
}
