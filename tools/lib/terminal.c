/* SPDX-License-Identifier: MIT */
#include "terminal.h"
#include "tok/unicode.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool sm_terminal_moves(int fd)
{
    const char *term = getenv("TERM");
    return term && *term && strcmp(term, "dumb") != 0 && isatty(fd) == 1;
}

bool sm_terminal_colours(int fd)
{
    const char *none = getenv("NO_COLOR");
    return sm_terminal_moves(fd) && !(none && *none);
}

static bool harmless(const unsigned char *p, size_t n)
{
    if (n == 1) return (p[0] >= 32 && p[0] != 127) || p[0] == '\n' || p[0] == '\t';
    return n > 1 && !(p[0] == 0xc2 && p[1] < 0xa0);
}

bool sm_print_text(FILE *f, const char *text, size_t n, bool safe)
{
    const unsigned char *p = (const unsigned char *)text;
    if (!safe) return fwrite(text, 1, n, f) == n;
    for (size_t i = 0; i < n;) {
        const size_t k = sm_utf8_length(p + i, n - i, false);
        if (harmless(p + i, k)) (void)fwrite(p + i, 1, k, f);
        else (void)fputc('?', f);
        i += k ? k : 1;
    }
    return !ferror(f);
}
