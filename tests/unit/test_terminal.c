/* SPDX-License-Identifier: MIT */
/* What models and files made reaches a terminal without control characters. */
#include "lib/terminal.h"
#include "tap.h"

#include <stdlib.h>

static void check(const char *text, size_t n, bool safe, const char *want, const char *what)
{
    char found[256] = "";
    FILE *f = tmpfile();
    bool good = f && sm_print_text(f, text, n, safe) && fflush(f) == 0;
    if (f) {
        rewind(f);
        const size_t k = fread(found, 1, sizeof found - 1, f);
        good = good && k == strlen(want);
        (void)fclose(f);
    }
    TAP_OK(good && !strcmp(found, want), "%s", what);
}

int main(int argc, char **argv)
{
    static const char plain[] = "a\tb\n\xc3\xa9\xe4\xb8\x96\xf0\x9f\x98\x8a~\xc2\xa0";
    static const char evil[] = "x\033[2J\033]0;title\a\r\b\x7f\xc2\x9b" "31m\x9b!\xff\xe4\xb8";
    tap_init(argc, argv);
    check(plain, sizeof plain - 1, true, plain, "text, tabs and line feeds stay");
    check(evil, sizeof evil - 1, true, "x?[2J?]0;title?????31m?!???",
          "control characters, of 8 bits too, and broken UTF-8 become question marks");
    check(evil, sizeof evil - 1, false, evil, "what is no terminal gets the bytes");
    FILE *full = fopen("/dev/full", "w");
    if (full) {
        (void)setvbuf(full, NULL, _IONBF, 0);
        TAP_OK(!sm_print_text(full, "x", 1, true), "a failed write is told");
        (void)fclose(full);
    }
    (void)setenv("TERM", "dumb", 1);
    TAP_OK(!sm_terminal_moves(0) && !sm_terminal_colours(0), "a dumb terminal");
    return tap_done();
}
