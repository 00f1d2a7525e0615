/* SPDX-License-Identifier: MIT */
#include "learn_path.h"

#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fits(int written, size_t n) { return written > 0 && (size_t)written < n; }

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
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char full[PATH_MAX], folder[PATH_MAX];
    const char *name = strrchr(model, '/');
    if (!realpath(model, full)) return false;
    if (cache && cache[0] == '/') {
        if (!fits(snprintf(folder, sizeof folder, "%s", cache), sizeof folder)) return false;
    } else if (!home || home[0] != '/' ||
               !fits(snprintf(folder, sizeof folder, "%s/.cache", home), sizeof folder)) {
        return false;
    }
    (void)mkdir(folder, 0700);
    if (!fits(snprintf(buf, n, "%s/smol", folder), n)) return false;
    (void)mkdir(buf, 0700);
    return fits(snprintf(buf, n, "%s/smol/%s-%016llx.experts", folder, name ? name + 1 : model,
                         (unsigned long long)hash_of(full)), n);
}

bool sm_learn_path(const char *model, char *buf, size_t n)
{
    struct stat st;
    if (stat(model, &st) == 0 && S_ISREG(st.st_mode) && folder_writable(model) &&
        fits(snprintf(buf, n, "%s.experts", model), n))
        return true;
    if (in_cache(model, buf, n)) return true;
    buf[0] = 0;
    return false;
}
