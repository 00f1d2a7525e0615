/* SPDX-License-Identifier: MIT */
/* Where the list of a model's most used experts lives. */
#ifndef SM_TOOLS_LEARN_PATH_H
#define SM_TOOLS_LEARN_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* MODEL.experts beside the model when that can be written, else a name made of the model's full
 * path in the cache folder (sm_cache_folder, made when it is missing). False: neither is possible,
 * or buf is too small. */
bool sm_learn_path(const char *model, char *buf, size_t n);

#endif
