/* SPDX-License-Identifier: MIT */
#include "cache_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

bool sm_cache_folder(bool make, char *buf, size_t cap)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    const char *named = getenv("SMOL_CACHE");
    if (named) {
        if (!strcmp(named, "off") || !sm_fits(snprintf(buf, cap, "%s", named), cap)) return false;
        if (make) (void)mkdir(buf, 0700);
        return true;
    }
    const bool own = cache && *cache == '/'; /* a relative path is to be ignored */
    if (!own && (!home || *home != '/')) return false;
    if (!sm_fits(snprintf(buf, cap, "%s%s", own ? cache : home, own ? "" : "/.cache"), cap))
        return false;
    if (make) (void)mkdir(buf, 0700); /* the cache folder itself may be new */
    const size_t n = strlen(buf);
    if (!sm_fits(snprintf(buf + n, cap - n, "/smol"), cap - n)) return false;
    if (make) (void)mkdir(buf, 0700);
    return true;
}

bool sm_cache_path(const char *name, bool make, char *buf, size_t cap)
{
    if (!sm_cache_folder(make, buf, cap)) return false;
    const size_t n = strlen(buf);
    return sm_fits(snprintf(buf + n, cap - n, "/%s", name), cap - n);
}

const char *sm_device_profile_path(bool make)
{
    static char path[1024];
    return sm_cache_path("device-profile", make, path, sizeof path) ? path : NULL;
}
