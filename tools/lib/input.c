/* SPDX-License-Identifier: MIT */
#include "input.h"
#include "model_args.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((format(printf, 4, 5))) static smol_status fail(smol_error *err, smol_status code,
                                                              int sys, const char *fmt, ...)
{
    if (err && err->code == SMOL_OK) {
        va_list ap;
        err->code = code;
        err->sys = sys;
        err->at = UINT64_MAX;
        err->where = __FILE__;
        va_start(ap, fmt);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
    }
    return code;
}

/* A pipe may never have anything to say: Ctrl-C ends the wait, where it is caught. */
static bool wait_again(void) { return errno == EINTR && !sm_interrupted; }

static smol_status cannot(smol_error *err, const char *what, const char *path)
{
    if (errno == EINTR) return fail(err, SMOL_CANCELLED, EINTR, "reading %s was stopped", path);
    return fail(err, SMOL_IO, errno, "cannot %s %s: %s", what, path, strerror(errno));
}

static smol_status too_long(smol_error *err, const char *path, size_t max_bytes)
{
    return fail(err, SMOL_LIMIT, 0, "%s is longer than %zu bytes", path, max_bytes);
}

/* Read to the end of fd; the buffer doubles, so that pipes of any length work. */
static smol_status read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *n,
                            smol_error *err)
{
    size_t used = 0, room = 65536;
    char *buf = malloc(room + 1);
    while (buf) {
        const ssize_t got = read(fd, buf + used, room - used);
        if (got < 0 && wait_again()) continue;
        if (got < 0) {
            const smol_status st = cannot(err, "read", path);
            free(buf);
            return st;
        }
        used += (size_t)got;
        if (used > max_bytes) {
            free(buf);
            return too_long(err, path, max_bytes);
        }
        if (!got) {
            buf[used] = 0;
            *data = buf;
            *n = used;
            return SMOL_OK;
        }
        if (used == room) {
            char *larger = realloc(buf, room * 2 + 1);
            if (!larger) free(buf);
            buf = larger;
            room *= 2;
        }
    }
    return fail(err, SMOL_NOMEM, 0, "no memory to read %s", path);
}

static smol_status open_input(const char *path, int *fd, struct stat *st, smol_error *err)
{
    do *fd = open(path, O_RDONLY | O_CLOEXEC);
    while (*fd < 0 && wait_again());
    if (*fd < 0) return cannot(err, "open", path);
    if (fstat(*fd, st)) memset(st, 0, sizeof *st);
    if (!S_ISDIR(st->st_mode)) return SMOL_OK;
    (void)close(*fd);
    return fail(err, SMOL_IO, EISDIR, "%s is a folder, a file is needed", path);
}

smol_status sm_input_read(const char *path, size_t max_bytes, char **data, size_t *n,
                          smol_error *err)
{
    struct stat file;
    int fd;
    *data = NULL;
    *n = 0;
    if (!strcmp(path, "-")) return read_all(0, "standard input", max_bytes, data, n, err);
    smol_status st = open_input(path, &fd, &file, err);
    if (st != SMOL_OK) return st;
    if (S_ISREG(file.st_mode) && (uint64_t)file.st_size > max_bytes)
        st = too_long(err, path, max_bytes);
    else st = read_all(fd, path, max_bytes, data, n, err);
    (void)close(fd);
    return st;
}

bool sm_input_begins(const char *path, const void *head, size_t n)
{
    char found[32];
    struct stat file;
    int fd;
    if (!strcmp(path, "-") || n > sizeof found) return true;
    if (stat(path, &file) || !(S_ISREG(file.st_mode) || S_ISCHR(file.st_mode))) return true;
    if (open_input(path, &fd, &file, NULL) != SMOL_OK) return true;
    const ssize_t got = read(fd, found, n);
    (void)close(fd);
    return got >= 0 && (size_t)got == n && !memcmp(found, head, n);
}

size_t sm_input_limit(uint64_t budget_bytes, size_t max_bytes)
{
    return budget_bytes && budget_bytes / 2 < max_bytes ? (size_t)(budget_bytes / 2) : max_bytes;
}

/* (what is planned for the program has room for a prompt of 64 KiB) */
uint64_t sm_input_planned(size_t n, unsigned share)
{
    return n > (size_t)64 << 10 ? (uint64_t)share * n : 0;
}
