/* SPDX-License-Identifier: MIT */
/* Completion scripts for shells, made from the table of options and the list of commands. */
#ifndef SM_TOOLS_COMPLETE_H
#define SM_TOOLS_COMPLETE_H

#include "command.h"

/* Print the script for "bash", "zsh" or "fish"; false: another shell. Commands without `run` are
 * left out. */
bool sm_complete_print(FILE *f, const char *shell, const struct sm_command *commands, int n);

#endif
