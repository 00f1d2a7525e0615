/* SPDX-License-Identifier: MIT */
#include "learn_path.h"
#include "cache_path.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folder of a path can be written. */
static bool folder_writable(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    if (!slash) return access(".", W_OK) == 0;
    const size_t n = slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) return false;
    memcpy(folder, path, n);
    folder[n] = 0;
    return access(folder, W_OK) == 0;
}

/* FNV-1a of a text: names in the cache must differ, nothing more. */
static uint64_t hash_of(const char *text)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u;
    return h;
}

static bool in_cache(const char *model, char *buf, size_t n)
{
    char full[PATH_MAX], file[PATH_MAX];
    const char *name = strrchr(model, '/');
    return realpath(model, full) &&
           sm_fits(snprintf(file, sizeof file, "%s-%016llx.experts", name ? name + 1 : model,
                            (unsigned long long)hash_of(full)), sizeof file) &&
           sm_cache_path(file, true, buf, n);
}

bool sm_learn_path(const char *model, char *buf, size_t n)
{
    struct stat st;
    if (stat(model, &st) == 0 && S_ISREG(st.st_mode) && folder_writable(model) &&
        sm_fits(snprintf(buf, n, "%s.experts", model), n))
        return true;
    if (in_cache(model, buf, n)) return true;
    buf[0] = 0;
    return false;
}
