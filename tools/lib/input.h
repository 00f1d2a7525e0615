/* SPDX-License-Identifier: MIT */
/* Whole files into memory, for prompts and texts. */
#ifndef SM_TOOLS_INPUT_H
#define SM_TOOLS_INPUT_H

#include <smol/smol.h>
#include <stddef.h>

/* The bytes of a regular file, a pipe or (path "-") standard input, at most max_bytes of them.
 * *data is malloc'ed, has a zero byte after the *n bytes, and belongs to the caller (free). On
 * failure *data is NULL and err names what the path is: missing, a folder, unreadable, too long. */
smol_status sm_input_read(const char *path, size_t max_bytes, char **data, size_t *n,
                          smol_error *err) __attribute__((warn_unused_result));

#endif
