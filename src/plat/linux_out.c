/* SPDX-License-Identifier: MIT */
/* Files that are written, on Linux. */
#include "plat/out.h"

#include "base/mem.h"
#include "plat/file_name.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#ifndef FALLOC_FL_KEEP_SIZE
#include <linux/falloc.h>
#endif

struct sm_out {
    char *path;
    size_t path_bytes;
    int fd;
    int direct_fd; /* for reading back past the page cache; -1: refused */
};

/* ---- raw calls ------------------------------------------------------------------------------ */

static int raw_open(const char *path, int flags, unsigned mode) { return open(path, flags, mode); }
static ssize_t raw_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    return pwrite(fd, buf, n, at);
}
static int raw_sync(int fd) { return fsync(fd); }
static int raw_punch(int fd, off_t at, off_t n)
{
    return fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n);
}
static int raw_rename(const char *from, const char *to) { return rename(from, to); }
static int raw_unlink(const char *path) { return unlink(path); }
static int raw_close(int fd) { return close(fd); }

static struct sm_out_ops out_ops = {raw_open,  raw_pwrite, raw_sync, raw_punch,
                                    raw_rename, raw_unlink, raw_close};
struct sm_out_ops *sm_plat_out(void) { return &out_ops; }

/* ---- open ----------------------------------------------------------------------------------- */

static smol_status cannot_open(const char *path, bool exists, smol_error *err)
{
    const int sys = errno;
    const char *what = exists ? "write to it" : "create the file";
    if (sys == EEXIST) return SM_FAIL(err, IO, SM_PATH_FMT " exists already", SM_PATH(path));
    if (sys == EACCES || sys == EPERM)
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE, SM_PATH_FMT ": no permission to %s",
                       SM_PATH(path), what);
    if (sys == EROFS)
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE,
                       SM_PATH_FMT ": cannot %s, the file system is read-only", SM_PATH(path),
                       what);
    if (sys == ENOENT)
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE, SM_PATH_FMT ": there is no such %s",
                       SM_PATH(path), exists ? "file" : "folder");
    return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot %s", SM_PATH(path), what);
}

static int open_retrying(const char *path, int flags)
{
    int fd = -1;
    do fd = out_ops.open(path, flags, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static smol_status open_fd(struct sm_out *o, enum sm_out_how how, bool lock, smol_error *err)
{
    struct stat st;
    const int extra = how == SM_OUT_NEW ? O_CREAT | O_EXCL : 0;
    o->fd = open_retrying(o->path, O_RDWR | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | extra);
    if (o->fd < 0) return cannot_open(o->path, how == SM_OUT_KEPT, err);
    if (fstat(o->fd, &st) || !S_ISREG(st.st_mode))
        return SM_FAIL(err, IO, SM_PATH_FMT " is not a regular file", SM_PATH(o->path));
    if (lock && flock(o->fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK)
        return sm_fail(err, SMOL_IO, errno, UINT64_MAX, SM_WHERE,
                       SM_PATH_FMT " is in use by another program, which locked it",
                       SM_PATH(o->path));
    return SMOL_OK;
}

smol_status sm_out_open(struct sm_out **out, const char *path, enum sm_out_how how, bool lock,
                        smol_error *err)
{
    *out = NULL;
    struct sm_out *o = sm_mem_new(sizeof *o);
    if (!o) return SM_FAIL(err, NOMEM, "no memory to open a file");
    o->fd = o->direct_fd = -1;
    o->path_bytes = strlen(path) + 1;
    o->path = sm_mem_new(o->path_bytes);
    smol_status st = SMOL_OK;
    if (o->path) {
        memcpy(o->path, path, o->path_bytes);
        st = open_fd(o, how, lock, err);
    } else {
        st = SM_FAIL(err, NOMEM, "no memory to open a file");
    }
    if (st != SMOL_OK) {
        sm_out_close(o);
        return st;
    }
    *out = o;
    return SMOL_OK;
}

void sm_out_close(struct sm_out *o)
{
    if (!o) return;
    if (o->direct_fd >= 0) (void)close(o->direct_fd);
    if (o->fd >= 0) (void)out_ops.close(o->fd);
    sm_mem_free(o->path, o->path_bytes);
    sm_mem_free(o, sizeof *o);
}

const char *sm_out_path(const struct sm_out *o) { return o->path; }

/* ---- write, sync, read back ----------------------------------------------------------------- */

smol_status sm_out_write(struct sm_out *o, uint64_t at, const void *data, size_t n, smol_error *err)
{
    const uint8_t *p = data;
    while (n) {
        const ssize_t put = out_ops.pwrite(o->fd, p, n, (off_t)at);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) {
            if (!put) errno = EIO;
            return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write %zu bytes at %llu",
                               SM_PATH(o->path), n, (unsigned long long)at);
        }
        p += put;
        at += (uint64_t)put;
        n -= (size_t)put;
    }
    return SMOL_OK;
}

smol_status sm_out_sync(struct sm_out *o, smol_error *err)
{
    int rc = -1;
    do rc = out_ops.sync(o->fd);
    while (rc && errno == EINTR);
    if (rc) return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot bring it to the disk", SM_PATH(o->path));
    return SMOL_OK;
}

static smol_status read_back(struct sm_out *o, int fd, uint64_t at, uint8_t *buf, size_t n,
                             size_t need, smol_error *err)
{
    for (size_t done = 0; done < need;) {
        const ssize_t got = sm_plat_io()->pread(fd, buf + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot read it back", SM_PATH(o->path));
        if (got == 0)
            return SM_FAIL_AT(err, IO, at + done, SM_PATH_FMT ": what was written is not there",
                              SM_PATH(o->path));
        done += (size_t)got;
    }
    return SMOL_OK;
}

smol_status sm_out_read(struct sm_out *o, uint64_t at, size_t n, uint8_t *stage,
                        const uint8_t **data, smol_error *err)
{
    assert((uintptr_t)stage % SM_IO_ALIGN == 0);
    const uint64_t lo = at & ~(uint64_t)(SM_IO_ALIGN - 1);
    const size_t head = (size_t)(at - lo);
    const size_t whole = (size_t)(sm_round_up64(at + n, SM_IO_ALIGN) - lo);
    *data = stage + head;
    if (n == 0) return SMOL_OK;
    if (o->direct_fd == -1) {
        o->direct_fd = open(o->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
        if (o->direct_fd < 0) o->direct_fd = -2;
    }
    if (o->direct_fd >= 0) {
        smol_error refused = {0};
        if (read_back(o, o->direct_fd, lo, stage, whole, head + n, &refused) == SMOL_OK)
            return SMOL_OK;
    }
    (void)posix_fadvise(o->fd, (off_t)lo, (off_t)whole, POSIX_FADV_DONTNEED);
    return read_back(o, o->fd, at, stage + head, n, n, err);
}

/* ---- holes ---------------------------------------------------------------------------------- */

smol_status sm_out_punch(struct sm_out *o, uint64_t at, uint64_t n, smol_error *err)
{
    const uint64_t lo = sm_round_up64(at, SM_IO_ALIGN),
                   hi = (at + n) & ~(uint64_t)(SM_IO_ALIGN - 1);
    if (lo >= hi) return SMOL_OK;
    int rc = -1;
    do rc = out_ops.punch(o->fd, (off_t)lo, (off_t)(hi - lo));
    while (rc && errno == EINTR);
    if (rc) return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot free parts of it", SM_PATH(o->path));
    return SMOL_OK;
}

smol_status sm_out_can_punch(struct sm_out *o, uint64_t at, bool *can, smol_error *err)
{
    uint8_t block[SM_IO_ALIGN];
    memset(block, 1, sizeof block);
    *can = false;
    SM_TRY(sm_out_write(o, sm_round_up64(at, SM_IO_ALIGN), block, sizeof block, err));
    *can = out_ops.punch(o->fd, (off_t)sm_round_up64(at, SM_IO_ALIGN), (off_t)sizeof block) == 0;
    return SMOL_OK;
}

smol_status sm_out_stat(struct sm_out *o, uint64_t *size, unsigned *n_links, smol_error *err)
{
    struct stat st;
    if (fstat(o->fd, &st))
        return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot ask for its size", SM_PATH(o->path));
    *size = (uint64_t)st.st_size;
    *n_links = (unsigned)st.st_nlink;
    return SMOL_OK;
}

/* ---- names ---------------------------------------------------------------------------------- */

smol_status sm_path_rename(const char *from, const char *to, smol_error *err)
{
    if (out_ops.rename(from, to))
        return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot put the new file in place", SM_PATH(to));
    return SMOL_OK;
}

smol_status sm_path_remove(const char *path, smol_error *err)
{
    if (out_ops.unlink(path) && errno != ENOENT)
        return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot remove it", SM_PATH(path));
    return SMOL_OK;
}

void sm_path_drop(const char *path) { (void)out_ops.unlink(path); }

smol_status sm_path_sync_folder(const char *path, smol_error *err)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash ? (size_t)(slash - path) + (slash == path) : 1;
    char *folder = sm_mem_new(n + 1);
    if (!folder) return SM_FAIL(err, NOMEM, "no memory for a path");
    memcpy(folder, slash ? path : ".", n);
    smol_status st = SMOL_OK;
    const int fd = open_retrying(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    /* Some file systems cannot sync a folder: then nothing more can be done. */
    if (fd >= 0 && out_ops.sync(fd) && errno == EIO)
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot bring the folder to the disk", SM_PATH(folder));
    if (fd >= 0) (void)out_ops.close(fd);
    sm_mem_free(folder, n + 1);
    return st;
}

bool sm_path_exists(const char *path)
{
    struct stat st;
    return !lstat(path, &st);
}

bool sm_path_same(const char *a, const char *b)
{
    struct stat x, y;
    return !stat(a, &x) && !stat(b, &y) && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* The folder of a path, with a slash at its end; *n bytes from sm_mem_new, NULL: no memory. */
static char *folder_of(const char *path, size_t *n)
{
    const char *slash = strrchr(path, '/');
    const size_t used = slash ? (size_t)(slash - path) + 1 : 2;
    char *folder = sm_mem_new(used + 1);
    if (folder) memcpy(folder, slash ? path : "./", used);
    *n = used + 1;
    return folder;
}

uint64_t sm_path_room(const char *path)
{
    struct statvfs v;
    size_t n;
    char *folder = folder_of(path, &n);
    uint64_t room = UINT64_MAX;
    if (!folder) return room;
    if (!statvfs(folder, &v)) room = (uint64_t)v.f_bavail * v.f_frsize;
    sm_mem_free(folder, n);
    return room;
}

bool sm_path_same_disk(const char *file, const char *path)
{
    struct stat x, y;
    size_t n;
    char *folder = folder_of(path, &n);
    const bool apart =
        folder && !stat(file, &x) && !stat(folder, &y) && x.st_dev != y.st_dev;
    if (folder) sm_mem_free(folder, n);
    return !apart;
}
