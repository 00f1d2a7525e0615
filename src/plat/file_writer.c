/* SPDX-License-Identifier: MIT */
#include "plat/file_writer.h"

#include "base/mem.h"
#include "plat/file_name.h"
#include "plat/out.h"
#include "plat/plat.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct sm_writer {
    int fd;
    char *temp, *path; /* one block */
    size_t temp_bytes;
};

static void release(struct sm_writer *w)
{
    if (!w) return;
    if (w->fd >= 0) (void)close(w->fd);
    sm_mem_free(w->temp, w->temp_bytes);
    sm_mem_free(w, sizeof *w);
}

static smol_status open_temp(struct sm_writer **out, const char *path, mode_t mode, smol_error *err)
{
    *out = NULL;
    struct sm_writer *w = sm_mem_new(sizeof *w);
    if (!w) return SM_FAIL(err, NOMEM, "no memory to write a file");
    const size_t n = strlen(path) + 1;
    w->fd = -1;
    w->temp_bytes = 2 * n + 32;
    w->temp = sm_mem_new(w->temp_bytes);
    if (!w->temp) {
        release(w);
        return SM_FAIL(err, NOMEM, "no memory to write a file");
    }
    w->path = w->temp + w->temp_bytes - n;
    memcpy(w->path, path, n);
    (void)snprintf(w->temp, n + 32, "%s.%ld.tmp", path, (long)getpid());
    (void)unlink(w->temp); /* of a dead process that had our number */
    w->fd = open(w->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (w->fd < 0) {
        const smol_status st =
            SM_FAIL_SYS(err, SM_PATH_FMT ": cannot create the file", SM_PATH(w->temp));
        release(w);
        return st;
    }
    *out = w;
    return SMOL_OK;
}

smol_status sm_writer_open(struct sm_writer **out, const char *path, smol_error *err)
{
    return open_temp(out, path, 0600, err);
}

smol_status sm_writer_put(struct sm_writer *w, const void *data, size_t n, smol_error *err)
{
    const uint8_t *p = data;
    const size_t all = n;
    while (n) {
        const ssize_t put = write(w->fd, p, n < (size_t)1 << 22 ? n : (size_t)1 << 22);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0)
            return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write %zu bytes", SM_PATH(w->temp), all);
        p += put;
        n -= (size_t)put;
    }
    return SMOL_OK;
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
    else st = sm_path_sync_folder(w->path, err);
    release(w);
    return st;
}

void sm_writer_abort(struct sm_writer *w)
{
    if (w) (void)unlink(w->temp);
    release(w);
}

smol_status sm_file_replace(const char *path, const void *data, size_t n, smol_error *err)
{
    struct sm_writer *w;
    SM_TRY(open_temp(&w, path, 0666, err));
    const smol_status st = sm_writer_put(w, data, n, err);
    if (st == SMOL_OK) return sm_writer_commit(w, err);
    sm_writer_abort(w);
    return st;
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
