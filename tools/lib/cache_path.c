/* SPDX-License-Identifier: MIT */
#include "cache_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool sm_cache_path(const char *name, bool make, char *buf, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const bool own = cache && *cache == '/'; /* a relative path is to be ignored */
    if (!own && (!home || *home != '/')) return false;
    const int n = snprintf(buf, cap, "%s%s/smol/%s", own ? cache : home, own ? "" : "/.cache", name);
    if (n < 0 || (size_t)n >= cap) return false;
    if (!make) return true;
    char *slash[2] = {NULL, NULL}; /* of the name and of the folder */
    for (char *p = buf; *p; p++)
        if (*p == '/') {
            slash[1] = slash[0];
            slash[0] = p;
        }
    for (int i = 1; i >= 0; i--) { /* the cache folder itself may be new */
        *slash[i] = 0;
        (void)mkdir(buf, 0700);
        *slash[i] = '/';
    }
    return true;
}

const char *sm_device_profile_path(bool make)
{
    static char path[1024];
    return sm_cache_path("device-profile", make, path, sizeof path) ? path : NULL;
}
