/* SPDX-License-Identifier: MIT */
/* Files for reading, on Linux: two descriptors, one through the page cache and one past it. */
#include "plat/plat.h"

#include "base/log.h"
#include "base/mem.h"
#include "plat/file_name.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == 8, "file offsets need 64 bits: -D_FILE_OFFSET_BITS=64");

/* A small buffered read keeps its last page, since the next one mostly begins there. */
#define SMALL_BYTES ((size_t)32 << 10)
#define NO_PAGE UINT64_MAX

struct sm_file {
    char *path;
    size_t path_bytes;
    int fd;                      /* through the page cache; holds the shared lock */
    int direct_fd;               /* past it, -1 if refused or not wanted */
    uint64_t size;               /* at open */
    size_t page;                 /* bytes of a page */
    atomic_bool direct;          /* cleared for good by the first refusal */
    atomic_uint_fast64_t n_read; /* bytes */
    atomic_uint_fast64_t kept;   /* number of the page that was not dropped, or NO_PAGE */
};

/* ---- raw calls ---------------------------------------------------------------------------- */

static int raw_open(const char *path, int flags) { return open(path, flags); }
static ssize_t raw_pread(int fd, void *buf, size_t n, off_t at) { return pread(fd, buf, n, at); }

static struct sm_io_ops io_ops = {raw_open, raw_pread};
struct sm_io_ops *sm_plat_io(void) { return &io_ops; }

static int open_retrying(const char *path, int flags)
{
    int fd = -1;
    do fd = io_ops.open(path, flags);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static ssize_t pread_retrying(int fd, void *buf, size_t n, uint64_t at)
{
    ssize_t got = -1;
    do got = io_ops.pread(fd, buf, n, (off_t)at);
    while (got < 0 && errno == EINTR);
    return got;
}

static bool is_refusal(int sys) { return sys == EINVAL || sys == EOPNOTSUPP || sys == ENOSYS; }

/* ---- open --------------------------------------------------------------------------------- */

/* The sentence for a path that could not be opened; errno is set. */
static smol_status cannot_open(const char *path, smol_error *err)
{
    const int sys = errno;
    struct stat st;
    if (sys == ENOENT && path[0] == 0) return SM_FAIL(err, IO, "the file name is empty");
    if (sys == ENOENT && !lstat(path, &st) && S_ISLNK(st.st_mode))
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE,
                       SM_PATH_FMT " is a link to a file that does not exist", SM_PATH(path));
    if (sys == ENOENT || sys == ENOTDIR)
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE,
                       SM_PATH_FMT ": there is no such file", SM_PATH(path));
    if (sys == EACCES || sys == EPERM)
        return sm_fail(err, SMOL_IO, sys, UINT64_MAX, SM_WHERE,
                       SM_PATH_FMT ": no permission to read it", SM_PATH(path));
    errno = sys;
    return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot open it", SM_PATH(path));
}

static const char *kind_name(mode_t mode)
{
    if (S_ISDIR(mode)) return "a directory";
    if (S_ISFIFO(mode)) return "a pipe";
    if (S_ISSOCK(mode)) return "a socket";
    if (S_ISCHR(mode)) return "a character device";
    if (S_ISBLK(mode)) return "a block device";
    return "something else";
}

/* A writer (pack, unpack) holds the exclusive lock; file systems without locks are no obstacle. */
static smol_status take_shared_lock(int fd, const char *path, smol_error *err)
{
    int rc = -1;
    do rc = flock(fd, LOCK_SH | LOCK_NB);
    while (rc && errno == EINTR);
    if (rc && errno == EWOULDBLOCK)
        return SM_FAIL_SYS(err, SM_PATH_FMT " is being written by another program, which locked it",
                           SM_PATH(path));
    return SMOL_OK;
}

/* Some file systems take O_DIRECT and read through the page cache all the same (encrypted f2fs and
 * ext4): a page that was not cached before a direct read must not be cached after it. Where all the
 * pages looked at are cached already nothing can be said, and the system is believed. */
static bool passes_cache(const struct sm_file *f, uint8_t *buf)
{
    const uint64_t n_pages = f->size / f->page;
    unsigned char seen = 0;
    for (unsigned i = 0; i < 8 && n_pages; i++) { /* the file's end first: rarely read before us */
        const uint64_t at = (n_pages - 1 - i * (n_pages - 1) / 8) * f->page;
        void *p = mmap(NULL, f->page, PROT_READ, MAP_SHARED, f->fd, (off_t)at);
        if (p == MAP_FAILED) return true;
        const bool cold = !mincore(p, f->page, &seen) && !(seen & 1);
        bool good = true;
        if (cold) {
            const ssize_t got = pread_retrying(f->direct_fd, buf, SM_IO_ALIGN, at);
            good = got < 0 ? !is_refusal(errno) : !(got && !mincore(p, f->page, &seen) && seen & 1);
        }
        (void)munmap(p, f->page);
        if (cold) return good;
    }
    return true;
}

/* Opens the second descriptor and tries one real read; on any refusal the file stays buffered. */
static void open_direct(struct sm_file *f, const struct stat *st)
{
    uint8_t room[2 * SM_IO_ALIGN];
    uint8_t *buf = room + (SM_IO_ALIGN - (uintptr_t)room % SM_IO_ALIGN) % SM_IO_ALIGN;
    struct statfs fs;
    struct stat st2;
    if (!fstatfs(f->fd, &fs) && ((uint32_t)fs.f_type == 0x01021994u || /* tmpfs, ramfs: the page */
                                 (uint32_t)fs.f_type == 0x858458f6u))  /* cache is the file */
        return;
    f->direct_fd = open_retrying(f->path, O_RDONLY | O_CLOEXEC | O_DIRECT);
    if (f->direct_fd < 0) return;
    if (!fstat(f->direct_fd, &st2) && st2.st_dev == st->st_dev && st2.st_ino == st->st_ino) {
        const ssize_t got = pread_retrying(f->direct_fd, buf, SM_IO_ALIGN, 0);
        if ((got >= 0 || !is_refusal(errno)) && passes_cache(f, buf)) {
            atomic_store(&f->direct, true);
            return;
        }
    }
    (void)close(f->direct_fd);
    f->direct_fd = -1;
}

smol_status sm_file_open(struct sm_file **out, const char *path, bool direct, smol_error *err)
{
    smol_status st = SMOL_OK;
    struct stat info;
    *out = NULL;
    struct sm_file *f = sm_mem_new(sizeof *f);
    if (!f) return SM_FAIL(err, NOMEM, "no memory to open a file");
    f->fd = f->direct_fd = -1;
    f->page = sm_page_bytes();
    atomic_store(&f->kept, NO_PAGE);
    f->path_bytes = strlen(path) + 1;
    f->path = sm_mem_new(f->path_bytes);
    if (!f->path) {
        st = SM_FAIL(err, NOMEM, "no memory to open a file");
        goto out;
    }
    memcpy(f->path, path, f->path_bytes);

    /* O_NONBLOCK: a pipe without a writer must not hang us; regular files ignore it. */
    f->fd = open_retrying(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (f->fd < 0) {
        st = cannot_open(path, err);
        goto out;
    }
    if (fstat(f->fd, &info)) {
        st = SM_FAIL_SYS(err, SM_PATH_FMT ": cannot ask for its size", SM_PATH(path));
        goto out;
    }
    if (!S_ISREG(info.st_mode)) {
        st = SM_FAIL(err, IO, SM_PATH_FMT " is %s, not a file", SM_PATH(path),
                     kind_name(info.st_mode));
        goto out;
    }
    f->size = (uint64_t)info.st_size;
    SM_TRY_OUT(st, take_shared_lock(f->fd, path, err));
    (void)posix_fadvise(f->fd, 0, 0, POSIX_FADV_RANDOM); /* read ahead only what we ask for */
    if (direct) open_direct(f, &info);
    *out = f;
    f = NULL;
out:
    sm_file_close(f);
    return st;
}

void sm_file_close(struct sm_file *f)
{
    if (!f) return;
    const uint64_t kept = atomic_load(&f->kept);
    if (f->fd >= 0 && kept != NO_PAGE)
        (void)posix_fadvise(f->fd, (off_t)(kept * f->page), (off_t)f->page, POSIX_FADV_DONTNEED);
    if (f->direct_fd >= 0) (void)close(f->direct_fd);
    if (f->fd >= 0) (void)close(f->fd); /* gives the lock back */
    sm_mem_free(f->path, f->path_bytes);
    sm_mem_free(f, sizeof *f);
}

uint64_t sm_file_size(const struct sm_file *f) { return f->size; }
bool sm_file_is_direct(const struct sm_file *f) { return atomic_load(&f->direct); }
const char *sm_file_path(const struct sm_file *f) { return f->path; }
uint64_t sm_file_bytes_read(const struct sm_file *f) { return atomic_load(&f->n_read); }

/* ---- read --------------------------------------------------------------------------------- */

static void drop_pages(struct sm_file *f, uint64_t first, uint64_t end)
{
    if (first >= end) return;
    (void)posix_fadvise(f->fd, (off_t)(first * f->page), (off_t)((end - first) * f->page),
                        POSIX_FADV_DONTNEED);
}

/* Drop-behind: the pages that the read of n bytes at `at` left in the page cache, whole pages
 * outward. At most one page a file stays, the last one when it is to be kept. */
static void drop_behind(struct sm_file *f, uint64_t at, size_t n, bool keep_last)
{
    const uint64_t first = at / f->page, end = (at + n + f->page - 1) / f->page;
    const uint64_t keep = keep_last ? end - 1 : NO_PAGE;
    const uint64_t old = atomic_exchange(&f->kept, keep);
    if (old != NO_PAGE && old != keep && (old < first || old >= end)) drop_pages(f, old, old + 1);
    drop_pages(f, first, keep == NO_PAGE ? end : keep);
}

static smol_status too_short(const struct sm_file *f, uint64_t at, size_t n, uint64_t end,
                             smol_error *err)
{
    if (at <= f->size && n <= f->size - at)
        return SM_FAIL_AT(err, FORMAT, at,
                          SM_PATH_FMT ": the file was cut while in use: %zu bytes wanted at %llu, "
                                      "it now ends at %llu",
                          SM_PATH(f->path), n, (unsigned long long)at, (unsigned long long)end);
    return SM_FAIL_AT(err, FORMAT, at,
                      SM_PATH_FMT ": the file is shorter than its header says: %zu bytes wanted at "
                                  "%llu, it ends at %llu",
                      SM_PATH(f->path), n, (unsigned long long)at, (unsigned long long)end);
}

/* Nothing could be read at `at`: the end is there, or before it. */
static uint64_t found_end(const struct sm_file *f, uint64_t at)
{
    struct stat st;
    return !fstat(f->fd, &st) && (uint64_t)st.st_size < at ? (uint64_t)st.st_size : at;
}

/* Buffered reads of exactly n bytes at `at`; the caller drops the pages. For the sentence, the
 * caller's request may be larger: want_at, want_n. */
static smol_status read_buffered(struct sm_file *f, uint64_t at, uint8_t *buf, size_t n,
                                 uint64_t want_at, size_t want_n, smol_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread_retrying(f->fd, buf + done, n - done, at + done);
        if (got < 0) {
            return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot read %zu bytes at %llu", SM_PATH(f->path),
                               n - done, (unsigned long long)(at + done));
        }
        if (got == 0) return too_short(f, want_at, want_n, found_end(f, at + done), err);
        done += (size_t)got;
        atomic_fetch_add(&f->n_read, (uint64_t)got);
    }
    return SMOL_OK;
}

static bool offset_ok(uint64_t at, size_t n)
{
    return n <= INT64_MAX - SM_IO_ALIGN && at <= (uint64_t)INT64_MAX - SM_IO_ALIGN - n;
}

smol_status sm_file_read(struct sm_file *f, uint64_t at, void *buf, size_t n, smol_error *err)
{
    if (n == 0) return SMOL_OK;
    if (!offset_ok(at, n)) return too_short(f, at, n, f->size, err);
    const smol_status st = read_buffered(f, at, buf, n, at, n, err);
    drop_behind(f, at, n, n < SMALL_BYTES);
    return st;
}

/* Direct reads of the aligned range [lo, hi) into stage until `need` bytes from lo are there or the
 * system stops giving whole blocks. Returns the bytes that are there, or -1 with errno. */
static ssize_t read_blocks(struct sm_file *f, uint64_t lo, uint64_t hi, uint8_t *stage, size_t need)
{
    size_t done = 0;
    while (done < need) {
        const ssize_t got =
            pread_retrying(f->direct_fd, stage + done, (size_t)(hi - lo) - done, lo + done);
        if (got < 0) return -1;
        atomic_fetch_add(&f->n_read, (uint64_t)got);
        done += (size_t)got;
        if (got == 0 || done % SM_IO_ALIGN) break; /* the end of the file, or nearly always so */
    }
    return (ssize_t)done;
}

smol_status sm_file_read_direct(struct sm_file *f, uint64_t at, size_t n, uint8_t *stage,
                                const uint8_t **data, smol_error *err)
{
    assert((uintptr_t)stage % SM_IO_ALIGN == 0);
    const uint64_t lo = at & ~(uint64_t)(SM_IO_ALIGN - 1);
    const size_t head = (size_t)(at - lo), need = head + n;
    *data = stage + head;
    if (n == 0) return SMOL_OK;
    if (!offset_ok(at, n)) return too_short(f, at, n, f->size, err);

    size_t have = 0;
    if (atomic_load_explicit(&f->direct, memory_order_relaxed)) {
        const ssize_t got = read_blocks(f, lo, sm_round_up64(at + n, SM_IO_ALIGN), stage, need);
        if (got < 0 && !is_refusal(errno))
            return SM_FAIL_SYS(err, SM_PATH_FMT ": cannot read %zu bytes at %llu", SM_PATH(f->path),
                               n, (unsigned long long)at);
        if (got < 0 && atomic_exchange(&f->direct, false)) /* for good; one thread says so */
            sm_log_note(SM_PATH_FMT ": the file system refused a direct read; reading goes on "
                                    "through the page cache",
                        SM_PATH(f->path));
        have = got < 0 ? 0 : (size_t)got;
    }
    if (have >= need) return SMOL_OK;
    /* Refused, or a short count that ends inside a block. The buffered call settles which of the
     * two it was: it goes on, or finds the end of the file. */
    const size_t from = have > head ? have : head;
    const smol_status st = read_buffered(f, lo + from, stage + from, need - from, at, n, err);
    drop_behind(f, lo + from, need - from, false);
    return st;
}
