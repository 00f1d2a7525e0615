/* SPDX-License-Identifier: MIT */
/* What a terminal takes. */
#ifndef SM_TOOLS_TERMINAL_H
#define SM_TOOLS_TERMINAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* The descriptor is a terminal whose cursor can be moved (TERM is neither absent nor "dumb"). */
bool sm_terminal_moves(int fd);
/* The same, and nobody asked for no colours (NO_COLOR). */
bool sm_terminal_colours(int fd);

/* Print whole characters of a text that a model or a file made. Safe (for a terminal): control
 * characters other than line feed and tab, those of 8 bits too, and bytes that are no UTF-8 become
 * '?'. Else the bytes as they are. False: it could not be written. */
bool sm_print_text(FILE *f, const char *text, size_t n, bool safe);

#endif
