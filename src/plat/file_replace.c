/* SPDX-License-Identifier: MIT */
/* Replacing a small file so that a reader or a power cut sees the old one or the new one. */
#include "plat/plat.h"

#include "base/mem.h"
#include "plat/file_name.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int write_all(int fd, const uint8_t *data, size_t n)
{
    while (n) {
        const ssize_t put = write(fd, data, n);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) return -1;
        data += put;
        n -= (size_t)put;
    }
    return 0;
}

/* The rename itself must survive a power cut: its directory is synced too. Some file systems
 * cannot sync a directory; then nothing more can be done. */
static void sync_directory_of(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path ? 1 : 0] = 0;
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)fsync(fd);
    (void)close(fd);
}

smol_status sm_file_replace(const char *path, const void *data, size_t n, smol_error *err)
{
    smol_status st = SMOL_OK;
    const size_t bytes = strlen(path) + 32;
    int fd = -1;
    char *temp = sm_mem_new(bytes);
    if (!temp) return SM_FAIL(err, NOMEM, "no memory to write a file");
    (void)snprintf(temp, bytes, "%s.%ld.tmp", path, (long)getpid());

    (void)unlink(temp); /* of a dead process that had our number */
    fd = open(temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0) {
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot create the file", SM_PATH(temp));
        goto out;
    }
    if (write_all(fd, data, n) || fsync(fd)) {
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot write %zu bytes", SM_PATH(temp), n);
        goto out;
    }
    const int rc = close(fd);
    fd = -1;
    if (rc || rename(temp, path)) {
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot put the new file in place", SM_PATH(path));
        (void)unlink(temp);
        goto out;
    }
    sync_directory_of(temp);
out:
    if (fd >= 0) {
        (void)close(fd);
        (void)unlink(temp);
    }
    sm_mem_free(temp, bytes);
    return st;
}
