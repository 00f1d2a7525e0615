/* SPDX-License-Identifier: MIT */
#include "temp.h"

#include <errno.h>
#include <ftw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define MEMORY "/dev/shm"

static char dir[400];
static const char *base = "/tmp";

static void fail(const char *what, const char *path)
{
    fprintf(stderr, "tests: cannot %s %s: %s\n", what, path, strerror(errno));
    abort();
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    return remove(path);
}

static void remove_all(void) { (void)nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS); }

void temp_prefer_memory(unsigned mib)
{
    struct statvfs v;
    if (!access(MEMORY, W_OK | X_OK) && !statvfs(MEMORY, &v) &&
        (uint64_t)v.f_bavail * v.f_frsize >= (uint64_t)mib << 20)
        base = MEMORY;
}

const char *temp_dir(void)
{
    if (dir[0]) return dir;
    const char *named = getenv("TMPDIR");
    (void)snprintf(dir, sizeof dir, "%s/smol-test-XXXXXX", named && named[0] ? named : base);
    if (!mkdtemp(dir)) fail("make", dir);
    (void)atexit(remove_all);
    return dir;
}

const char *temp_path(const char *name)
{
    static char paths[8][600];
    static unsigned next;
    char *path = paths[next++ % 8];
    (void)snprintf(path, sizeof paths[0], "%s/%s", temp_dir(), name);
    return path;
}

const char *temp_write(const char *name, const void *data, size_t n)
{
    const char *path = temp_path(name);
    char part[600];
    for (const char *slash = strchr(path + strlen(dir) + 1, '/'); slash;
         slash = strchr(slash + 1, '/')) {
        (void)snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, 0777) && errno != EEXIST) fail("make", part);
    }
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) fail("write", path);
    return path;
}

const char *temp_write_text(const char *name, const char *text)
{
    return temp_write(name, text, strlen(text));
}
