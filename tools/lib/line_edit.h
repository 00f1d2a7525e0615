/* SPDX-License-Identifier: MIT */
/* Lines typed by a person. With libedit (SMOL_HAVE_LIBEDIT) they can be edited and older ones come
 * back; otherwise, on a dumb terminal and from a pipe they are read as the system gives them. */
#ifndef SM_TOOLS_LINE_EDIT_H
#define SM_TOOLS_LINE_EDIT_H

#include <stdbool.h>
#include <stddef.h>

/* LONG: longer than SM_LINE_BYTES, and left out; BROKEN: it cannot be read, errno says why. */
enum sm_line { SM_LINE_TEXT, SM_LINE_INTERRUPTED, SM_LINE_LONG, SM_LINE_END, SM_LINE_BROKEN };
#define SM_LINE_BYTES ((size_t)128 << 10)

struct sm_line_reader;
/* history: a file that lines are kept in, NULL: none. NULL when there is no memory. */
struct sm_line_reader *sm_line_open(const char *history);
void sm_line_close(struct sm_line_reader *r); /* NULL is fine */
/* One line without its end, *text valid until the next call. `prompt` is printed on a terminal
 * only. INTERRUPTED: Ctrl-C was pressed (the caller's handler has run); END: no more. */
enum sm_line sm_line_read(struct sm_line_reader *r, const char *prompt, const char **text,
                          size_t *n);
/* A whole entry, of one or more lines, for the history. */
void sm_line_remember(struct sm_line_reader *r, const char *text);

#endif
