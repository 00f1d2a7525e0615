/* SPDX-License-Identifier: MIT */
#include "plat/file_writer.h"

#include "plat/file_name.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sm_writer {
    int fd;
    char *temp, *path;
};

static void release(struct sm_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) (void)close(w->fd);
    free(w->temp);
    free(w->path);
    free(w);
}

smol_status sm_writer_open(struct sm_writer **out, const char *path, smol_error *err)
{
    *out = NULL;
    struct sm_writer *w = calloc(1, sizeof *w);
    if (!w) return SM_FAIL(err, NOMEM, "no memory to write a file");
    w->fd = -1;
    w->path = strdup(path);
    if (!w->path || asprintf(&w->temp, "%s.%ld.tmp", path, (long)getpid()) < 0) {
        w->temp = NULL;
        release(w);
        return SM_FAIL(err, NOMEM, "no memory to write a file");
    }
    (void)unlink(w->temp); /* of a dead process that had our number */
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (w->fd < 0) {
        const smol_status st =
            SM_FAIL_SYS(err, SM_PATH_FMT ": cannot create the file", SM_PATH(w->temp));
        release(w);
        return st;
    }
    *out = w;
    return SMOL_OK;
}

smol_status sm_writer_put(struct sm_writer *w, const void *data, size_t n, smol_error *err)
{
    const uint8_t *p = data;
    while (n) {
        const ssize_t put = write(w->fd, p, n < (size_t)1 << 22 ? n : (size_t)1 << 22);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write", SM_PATH(w->temp));
        p += put;
        n -= (size_t)put;
    }
    return SMOL_OK;
}

/* Behind a rename: the folder, where it can be synced, and its pages leave the cache. */
static void sync_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path ? 1 : 0] = 0;
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

smol_status sm_writer_commit(struct sm_writer *w, smol_error *err)
{
    smol_status st = SMOL_OK;
    if (fsync(w->fd)) st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write", SM_PATH(w->temp));
    (void)posix_fadvise(w->fd, 0, 0, POSIX_FADV_DONTNEED); /* the budget covers the page cache */
    if (close(w->fd) && st == SMOL_OK)
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write", SM_PATH(w->temp));
    w->fd = -1;
    if (st == SMOL_OK && rename(w->temp, w->path))
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot put the new file in place", SM_PATH(w->path));
    if (st != SMOL_OK) (void)unlink(w->temp);
    else sync_folder(w->temp);
    release(w);
    return st;
}

void sm_writer_abort(struct sm_writer *w)
{
    if (w) (void)unlink(w->temp);
    release(w);
}

void sm_folder_each(const char *folder, const char *suffix, sm_folder_fn fn, void *arg)
{
    DIR *d = opendir(folder);
    if (!d) return;
    const size_t n = strlen(suffix);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        struct stat s;
        const size_t len = strlen(e->d_name);
        if (len <= n || strcmp(e->d_name + len - n, suffix) != 0) continue;
        if (fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) || !S_ISREG(s.st_mode)) continue;
        if (!fn(arg, e->d_name, (uint64_t)s.st_size, (int64_t)s.st_mtim.tv_sec)) break;
    }
    (void)closedir(d);
}

bool sm_file_remove(const char *path) { return unlink(path) == 0; }

void sm_file_touch(const char *path) { (void)utimensat(AT_FDCWD, path, NULL, 0); }
