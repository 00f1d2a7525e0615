/* SPDX-License-Identifier: MIT */
#include "state_folder.h"
#include "cache_path.h"

/* Where the folder cannot be made, states cannot be kept: said then. */
void sm_state_folder(char *buf, size_t n)
{
    if (!sm_cache_folder(true, buf, n)) *buf = 0;
}
