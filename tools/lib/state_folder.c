/* SPDX-License-Identifier: MIT */
#include "state_folder.h"
#include "cache_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void sm_state_folder(char *buf, size_t n)
{
    const char *own = getenv("SMOL_CACHE");
    if (!own) {
        if (!sm_cache_folder(true, buf, n)) *buf = 0;
        return;
    }
    if (!strcmp(own, "off") || !sm_fits(snprintf(buf, n, "%s", own), n)) *buf = 0;
    if (*buf) (void)mkdir(buf, 0700); /* where it is missing, states cannot be kept: said then */
}
