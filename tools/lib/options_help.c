/* SPDX-License-Identifier: MIT */
/* --help and the manual page, made from the option table. */
#include "options_table.h"

#include <string.h>

enum { WIDTH = 79, TEXT_COLUMN = 22 };

/* "-p, --prompt TEXT" into buf. */
static void heading(const struct sm_option *t, char *buf, size_t n)
{
    char letter[5] = "";
    if (t->letter) (void)snprintf(letter, sizeof letter, "-%c, ", t->letter);
    (void)snprintf(buf, n, "%s--%s%s%s", letter, t->name, t->value ? " " : "",
                   t->value ? t->value : "");
}

static void print_line(FILE *f, const struct sm_option *t)
{
    char head[64];
    heading(t, head, sizeof head);
    fprintf(f, "  %-*s%s", TEXT_COLUMN - 2, head, strlen(head) < TEXT_COLUMN - 2 ? "" : " ");
    fputs(t->help, f);
    if (t->shown) fprintf(f, " (%s)", t->shown);
    fputc('\n', f);
}

/* The rest: "--top-k N (40)  --top-p P (0.95) ...", wrapped. */
static void print_packed(FILE *f, unsigned command)
{
    size_t column = 0;
    for (unsigned i = 0; i < sm_option_count; i++) {
        const struct sm_option *t = &sm_option_table[i];
        char text[96];
        if (t->frequent || !(t->commands & command)) continue;
        const char *value = t->choices ? t->choices : t->value;
        (void)snprintf(text, sizeof text, "--%s%s%s%s%s%s", t->name, value ? " " : "",
                       value ? value : "", t->shown ? " (" : "", t->shown ? t->shown : "",
                       t->shown ? ")" : "");
        if (!column) fputs("More (see man smol):\n", f);
        if (!column || column + 2 + strlen(text) > WIDTH) {
            fprintf(f, "%s  %s", column ? "\n" : "", text);
            column = 2 + strlen(text);
        } else {
            fprintf(f, "  %s", text);
            column += 2 + strlen(text);
        }
    }
    if (column) fputc('\n', f);
}

void sm_options_print_help(FILE *f, unsigned command)
{
    for (unsigned i = 0; i < sm_option_count; i++)
        if (sm_option_table[i].frequent && (sm_option_table[i].commands & command))
            print_line(f, &sm_option_table[i]);
    print_packed(f, command);
}

/* Text with the characters that roff would interpret made plain. */
static void put_roff(FILE *f, const char *text)
{
    for (; *text; text++) {
        if (*text == '\\') fputs("\\e", f);
        else if (*text == '-') fputs("\\-", f);
        else fputc(*text, f);
    }
}

void sm_options_print_roff(FILE *f, unsigned command)
{
    for (unsigned i = 0; i < sm_option_count; i++) {
        const struct sm_option *t = &sm_option_table[i];
        if (!(t->commands & command)) continue;
        fputs(".TP\n", f);
        if (t->letter) fprintf(f, "\\fB\\-%c\\fR, ", t->letter);
        fputs("\\fB\\-\\-", f);
        put_roff(f, t->name);
        fputs("\\fR", f);
        if (t->value) fprintf(f, " \\fI%s\\fR", t->choices ? t->choices : t->value);
        fputc('\n', f);
        put_roff(f, t->help);
        if (t->shown) {
            fputs(" (default: ", f);
            put_roff(f, t->shown);
            fputc(')', f);
        }
        fputs(".\n", f);
    }
}
