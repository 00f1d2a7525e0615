/* SPDX-License-Identifier: MIT */
/* Whole files into memory, for prompts and texts. */
#ifndef SM_TOOLS_INPUT_H
#define SM_TOOLS_INPUT_H

#include <smol/smol.h>
#include <stdbool.h>
#include <stddef.h>

/* The bytes of a regular file, a pipe or (path "-") standard input, at most max_bytes of them.
 * *data is malloc'ed, has a zero byte after the *n bytes, and belongs to the caller (free). On
 * failure *data is NULL and err names what the path is: missing, a folder, unreadable, too long.
 * CANCELLED: Ctrl-C while it was waited for. */
smol_status sm_input_read(const char *path, size_t max_bytes, char **data, size_t *n,
                          smol_error *err) __attribute__((warn_unused_result));
/* What a text may take of a budget (0: not given): half of it, and at most max_bytes. */
size_t sm_input_limit(uint64_t budget_bytes, size_t max_bytes);
/* What to plan for a text beside the model: nothing for a small one, else `share` times its
 * bytes. */
uint64_t sm_input_planned(size_t n, unsigned share);
/* False: a regular file or a device that does not begin with these n <= 32 bytes, so that a file of
 * another kind need not be read first. What cannot be looked at counts as true. */
bool sm_input_begins(const char *path, const void *head, size_t n);

#endif
