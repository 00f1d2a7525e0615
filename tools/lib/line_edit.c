/* SPDX-License-Identifier: MIT */
#include "line_edit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef SMOL_HAVE_LIBEDIT
#include <histedit.h>
#include <locale.h>
#endif

#define HISTORY_LINES 500

struct sm_line_reader {
    bool terminal, edits;
    char *plain; /* a line as it came */
    size_t cap;
    const char *prompt;
    char *history_path;
#ifdef SMOL_HAVE_LIBEDIT
    EditLine *el;
    History *history;
    HistEvent event;
#endif
};

#ifdef SMOL_HAVE_LIBEDIT

static char *give_prompt(EditLine *el)
{
    static char text[64];
    struct sm_line_reader *r = NULL;
    (void)el_get(el, EL_CLIENTDATA, &r);
    (void)snprintf(text, sizeof text, "%s", r && r->prompt ? r->prompt : "");
    return text;
}

static void start_editing(struct sm_line_reader *r)
{
    const char *term = getenv("TERM");
    if (!r->terminal || !term || !*term || !strcmp(term, "dumb")) return;
    (void)setlocale(LC_CTYPE, ""); /* wide characters; numbers stay as they are */
    r->el = el_init("smol", stdin, stdout, stderr);
    if (!r->el) return;
    r->history = history_init();
    if (r->history) {
        (void)history(r->history, &r->event, H_SETSIZE, HISTORY_LINES);
        (void)history(r->history, &r->event, H_SETUNIQUE, 1);
        if (r->history_path) (void)history(r->history, &r->event, H_LOAD, r->history_path);
        (void)el_set(r->el, EL_HIST, history, r->history);
    }
    (void)el_set(r->el, EL_CLIENTDATA, r);
    (void)el_set(r->el, EL_PROMPT, give_prompt);
    (void)el_set(r->el, EL_EDITOR, "emacs");
    (void)el_set(r->el, EL_SIGNAL, 1); /* size changes, suspending */
    static const char *const keys[][2] = {
        {"^R", "em-inc-search-prev"},  {"\033[1~", "ed-move-to-beg"},
        {"\033[H", "ed-move-to-beg"},  {"\033OH", "ed-move-to-beg"},
        {"\033[4~", "ed-move-to-end"}, {"\033[F", "ed-move-to-end"},
        {"\033OF", "ed-move-to-end"},  {"\033[3~", "ed-delete-next-char"}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)el_set(r->el, EL_BIND, keys[i][0], keys[i][1], NULL);
    r->edits = true;
}

static void stop_editing(struct sm_line_reader *r)
{
    if (r->history && r->history_path && r->edits)
        (void)history(r->history, &r->event, H_SAVE, r->history_path);
    if (r->history) history_end(r->history);
    if (r->el) el_end(r->el);
}

static enum sm_line read_edited(struct sm_line_reader *r, const char **text, size_t *n)
{
    int count = 0;
    errno = 0;
    const char *line = el_gets(r->el, &count);
    if (!line || count <= 0) {
        const bool interrupted = errno == EINTR || count < 0;
        if (interrupted) {
            el_reset(r->el);
            fputc('\n', stdout);
        }
        return interrupted ? SM_LINE_INTERRUPTED : SM_LINE_END;
    }
    *text = line;
    *n = (size_t)count;
    return SM_LINE_TEXT;
}

void sm_line_remember(struct sm_line_reader *r, const char *text)
{
    if (r->history && *text) (void)history(r->history, &r->event, H_ENTER, text);
}

#else

static void start_editing(struct sm_line_reader *r) { r->edits = false; }
static void stop_editing(struct sm_line_reader *r) { (void)r; }
static enum sm_line read_edited(struct sm_line_reader *r, const char **text, size_t *n)
{
    (void)r;
    (void)text;
    (void)n;
    return SM_LINE_END;
}
void sm_line_remember(struct sm_line_reader *r, const char *text)
{
    (void)r;
    (void)text;
}

#endif

/* Room for one more byte; what is too long or has no room is skipped to the end of its line. */
static bool has_room(struct sm_line_reader *r, size_t n)
{
    if (n < r->cap) return true;
    const size_t cap = r->cap ? 2 * r->cap : 1024;
    char *p = n < SM_LINE_BYTES ? realloc(r->plain, cap) : NULL;
    if (!p) return false;
    r->plain = p;
    r->cap = cap;
    return true;
}

static enum sm_line read_plain(struct sm_line_reader *r, const char **text, size_t *n)
{
    bool whole = true;
    int c;
    if (r->terminal) {
        fputs(r->prompt, stdout);
        (void)fflush(stdout);
    }
    errno = 0;
    *n = 0;
    while ((c = getc(stdin)) != EOF) {
        if (whole && has_room(r, *n)) r->plain[(*n)++] = (char)c;
        else whole = false;
        if (c == '\n') break;
        if (!whole && *n >= 3) { /* its last bytes say whether a text of many lines ends there */
            memmove(r->plain + *n - 3, r->plain + *n - 2, 2);
            r->plain[*n - 1] = (char)c;
        }
    }
    if (c == EOF && ferror(stdin)) {
        const bool interrupted = errno == EINTR;
        const int why = errno;
        clearerr(stdin);
        if (interrupted && r->terminal) fputc('\n', stdout);
        errno = why;
        return interrupted ? SM_LINE_INTERRUPTED : SM_LINE_BROKEN;
    }
    if (c == EOF && !*n) {
        clearerr(stdin); /* a terminal may go on behind Ctrl-D */
        return SM_LINE_END;
    }
    *text = r->plain;
    return whole ? SM_LINE_TEXT : SM_LINE_LONG;
}

struct sm_line_reader *sm_line_open(const char *history)
{
    struct sm_line_reader *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->terminal = isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
    r->history_path = history ? strdup(history) : NULL;
    start_editing(r);
    return r;
}

void sm_line_close(struct sm_line_reader *r)
{
    if (!r) return;
    stop_editing(r);
    free(r->history_path);
    free(r->plain);
    free(r);
}

enum sm_line sm_line_read(struct sm_line_reader *r, const char *prompt, const char **text,
                          size_t *n)
{
    r->prompt = prompt;
    *text = "";
    *n = 0;
    const enum sm_line got = r->edits ? read_edited(r, text, n) : read_plain(r, text, n);
    if (got == SM_LINE_TEXT)
        while (*n && ((*text)[*n - 1] == '\n' || (*text)[*n - 1] == '\r')) --*n;
    return got;
}
