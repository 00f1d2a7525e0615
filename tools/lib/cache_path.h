/* SPDX-License-Identifier: MIT */
/* Files that the program keeps for itself between runs. */
#ifndef SM_TOOLS_CACHE_PATH_H
#define SM_TOOLS_CACHE_PATH_H

#include <stdbool.h>
#include <stddef.h>

/* snprintf wrote something, and all of it. */
static inline bool sm_fits(int written, size_t cap) { return written > 0 && (size_t)written < cap; }

/* SMOL_CACHE, else $XDG_CACHE_HOME/smol, else ~/.cache/smol; as sm_cache_path. */
bool sm_cache_folder(bool make, char *buf, size_t cap);
/* NAME in that folder. False when the environment names no folder, SMOL_CACHE is "off" or the path
 * does not fit. `make`: the folder is made where it is missing, as far as that is allowed. */
bool sm_cache_path(const char *name, bool make, char *buf, size_t cap);
/* The device profile that `smol bench --flash` writes and models are opened with; NULL: no place
 * for one. Static. */
const char *sm_device_profile_path(bool make);

#endif
