/* SPDX-License-Identifier: MIT */
/* Files that a command is told to write: none may take the place of a model, or of what the same
 * command reads, and one that cannot be written is told before the work. */
#ifndef SM_TOOLS_OUTPUTS_H
#define SM_TOOLS_OUTPUTS_H

#include "options.h"
#include <stdbool.h>
#include <stdio.h>

/* A regular file that begins as a model does, or as a pack that is not finished. */
bool sm_output_is_model(const char *path);
/* False: --stats, --trace, --logits or --svg would write over a model or an input (args and files
 * of options); it has been said which. */
bool sm_outputs_spare_inputs(const struct sm_options *o, int n_args, char *const *args);

/* False: --stats, --trace or --svg cannot be written, as its folder or the file itself says; it has
 * been said why. Nothing is made or changed: what only a write can find, a full disk, is found
 * then. */
bool sm_outputs_writable(const struct sm_options *o);

/* False: the file that a command makes is one that it reads (`in`, NULL at its end), or is there
 * already, or its folder takes none; it has been said. */
bool sm_output_is_new(const char *out, const char *const *in);

/* A whole small file with what `write` puts of `what` (false: it could not): on a full disk what
 * was there stays, and nothing new is left. False, with errno: it could not be written. */
bool sm_output_write(const char *path, bool (*write)(FILE *f, const void *what), const void *what);

#endif
