/* SPDX-License-Identifier: MIT */
/* The sampling options of the command line as the library takes them. */
#ifndef SM_TOOLS_SAMPLING_ARGS_H
#define SM_TOOLS_SAMPLING_ARGS_H

#include "options.h"
#include <smol/smol.h>

void sm_sampling_args(const struct sm_options *o, smol_sampling *s);

#endif
