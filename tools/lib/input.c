/* SPDX-License-Identifier: MIT */
#include "input.h"

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

/* Read to the end of fd; the buffer doubles, so that pipes of any length work. */
static smol_status read_all(int fd, const char *path, size_t max_bytes, char **data, size_t *n,
                            smol_error *err)
{
    size_t used = 0, room = 65536;
    char *buf = malloc(room + 1);
    while (buf) {
        const ssize_t got = read(fd, buf + used, room - used);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) {
            const int sys = errno;
            free(buf);
            return fail(err, SMOL_IO, sys, "cannot read %s: %s", path, strerror(sys));
        }
        used += (size_t)got;
        if (used > max_bytes) {
            free(buf);
            return fail(err, SMOL_LIMIT, 0, "%s is longer than %zu bytes", path, max_bytes);
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

smol_status sm_input_read(const char *path, size_t max_bytes, char **data, size_t *n,
                          smol_error *err)
{
    struct stat st;
    *data = NULL;
    *n = 0;
    if (!strcmp(path, "-")) return read_all(0, "standard input", max_bytes, data, n, err);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return fail(err, SMOL_IO, errno, "cannot open %s: %s", path, strerror(errno));
    smol_status st_code;
    if (!fstat(fd, &st) && S_ISDIR(st.st_mode))
        st_code = fail(err, SMOL_IO, EISDIR, "%s is a folder, a file is needed", path);
    else st_code = read_all(fd, path, max_bytes, data, n, err);
    (void)close(fd);
    return st_code;
}
