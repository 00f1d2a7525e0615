/* SPDX-License-Identifier: MIT */
/* Reading files: what a path is that is no regular file, bytes at any offset with and without
 * direct reads, locks, and files that are replaced as a whole. */
#include "tap.h"

#include "plat/plat.h"
#include "temp.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define FILE_BYTES (3u * 1000u * 1000u + 77u)

static uint8_t *content, *stage;

static void refuses(const char *path, smol_status want, const char *words)
{
    struct sm_file *f = (struct sm_file *)&f;
    smol_error err = {0};
    const smol_status st = sm_file_open(&f, path, true, &err);
    TAP_OK(st == want && !f && strstr(err.msg, words), "status %d: %s", st, err.msg);
    if (st == SMOL_OK) sm_file_close(f);
}

static void test_kinds(void)
{
    char longer[700];
    refuses(temp_path("missing"), SMOL_IO, "there is no such file");
    refuses(temp_dir(), SMOL_IO, "is a directory");
    refuses("", SMOL_IO, "the file name is empty");
    refuses("/dev/null", SMOL_IO, "is a character device");
    if (!mkfifo(temp_path("pipe"), 0600)) refuses(temp_path("pipe"), SMOL_IO, "is a pipe");
    if (!symlink("nowhere", temp_path("link")))
        refuses(temp_path("link"), SMOL_IO, "a link to a file that does not exist");
    refuses(temp_path("missing/file"), SMOL_IO, "there is no such file");
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    refuses(longer, SMOL_IO, "name too long");
    (void)snprintf(longer, sizeof longer, "%s/%0150d/missing\n\033[31mred", temp_dir(), 1);
    refuses(longer, SMOL_IO, "missing?\?[31mred: there is no such file");

    const char *path = temp_write_text("secret", "x");
    if (geteuid() == 0) {
        TAP_SKIP(1, "root may read everything");
    } else if (!chmod(path, 0)) {
        refuses(path, SMOL_IO, "no permission to read");
    }
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    (void)snprintf(addr.sun_path, sizeof addr.sun_path, "%s", temp_path("socket"));
    if (fd >= 0 && !bind(fd, (struct sockaddr *)&addr, sizeof addr))
        refuses(temp_path("socket"), SMOL_IO, "cannot open");
    if (fd >= 0) (void)close(fd);
}

static void test_lock(void)
{
    const char *path = temp_write_text("locked", "some text");
    struct sm_file *a = NULL, *b = NULL;
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    TAP_OK(fd >= 0 && !flock(fd, LOCK_EX | LOCK_NB), "a writer locks the file");
    refuses(path, SMOL_IO, "is being written by another program");
    TAP_OK(!flock(fd, LOCK_UN), "and unlocks it");
    TAP_IS_INT(sm_file_open(&a, path, true, NULL), SMOL_OK, "one reader");
    TAP_IS_INT(sm_file_open(&b, path, false, NULL), SMOL_OK, "and another");
    TAP_OK(flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK, "keep the writer out");
    sm_file_close(a);
    sm_file_close(b);
    TAP_OK(!flock(fd, LOCK_EX | LOCK_NB), "until both have closed it");
    (void)close(fd);
}

static void test_reads(const char *path, bool want_direct)
{
    struct sm_file *f = NULL;
    smol_error err = {0};
    unsigned wrong = 0;
    uint64_t sum = 0;
    const uint8_t *data = NULL;
    TAP_IS_INT(sm_file_open(&f, path, want_direct, &err), SMOL_OK, "open");
    TAP_IS_INT(sm_file_size(f), FILE_BYTES, "size");
    TAP_IS_STR(sm_file_path(f), path, "path");
    TAP_IS_INT(sm_file_bytes_read(f), 0, "nothing read yet");
    printf("# direct: asked %d, got %d\n", want_direct, sm_file_is_direct(f));
    for (unsigned i = 0; i < 300; i++) {
        /* around block borders, at both ends, and anywhere */
        const size_t n = i % 3 ? tap_random_below(20000) : tap_random_below(400000);
        uint64_t at = i % 4 == 0   ? FILE_BYTES - n
                      : i % 4 == 1 ? tap_random_below(600) * 4096 + tap_random_below(3) - 1
                                   : tap_random_below(FILE_BYTES - n);
        if (i % 50 == 1) at = 0;
        if (at > FILE_BYTES - n) at = FILE_BYTES - n;
        memset(stage, 0xee, n + 2 * SM_IO_ALIGN);
        if (sm_file_read_direct(f, at, n, stage, &data, &err) || memcmp(data, content + at, n))
            wrong++;
        if (sm_file_read(f, at, stage, n, &err) || memcmp(stage, content + at, n)) wrong++;
        sum += 2 * n;
    }
    TAP_OK(wrong == 0, "600 reads equal the file, %u do not (%s)", wrong, err.msg);
    TAP_OK(sm_file_bytes_read(f) >= sum, "all bytes counted");

    static const struct {
        uint64_t at;
        size_t n;
    } beyond[] = {
        {FILE_BYTES - 10, 11},    {FILE_BYTES, 1},
        {FILE_BYTES + 4096, 100}, {(uint64_t)1 << 40, 4096},
        {UINT64_MAX - 5, 4},      {UINT64_MAX - 5, 100},
        {INT64_MAX, 1},
    };
    for (size_t i = 0; i < sizeof beyond / sizeof beyond[0]; i++) {
        memset(&err, 0, sizeof err);
        const smol_status a = sm_file_read_direct(f, beyond[i].at, beyond[i].n, stage, &data, &err);
        const smol_status b = sm_file_read(f, beyond[i].at, stage, beyond[i].n, NULL);
        TAP_OK(a == SMOL_FORMAT && b == SMOL_FORMAT && err.at == beyond[i].at &&
                   strstr(err.msg, "shorter than its header says") &&
                   strstr(err.msg, "ends at 3000077"),
               "%s", err.msg);
    }
    TAP_OK(!sm_file_read_direct(f, FILE_BYTES, 0, stage, &data, NULL) &&
               !sm_file_read(f, UINT64_MAX, NULL, 0, NULL),
           "no byte can be had anywhere");
    sm_file_close(f);
}

static size_t cached_pages(const char *path)
{
    const size_t page = sm_page_bytes(), n = (FILE_BYTES + page - 1) / page;
    unsigned char *seen = malloc(n);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    void *p = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
    size_t count = 0;
    if (p != MAP_FAILED && seen && !mincore(p, FILE_BYTES, seen))
        for (size_t i = 0; i < n; i++) count += seen[i] & 1u;
    if (p != MAP_FAILED) (void)munmap(p, FILE_BYTES);
    (void)close(fd);
    free(seen);
    return count;
}

/* Whatever way the file is read, our reads leave nothing in the page cache. */
static void test_drop_behind(const char *path)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    (void)fdatasync(fd);
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    (void)close(fd);
    if (sm_file_system_hint(path) || cached_pages(path)) {
        TAP_SKIP(4, "this file system keeps its pages in memory");
        return;
    }
    const uint8_t *data = NULL;
    for (int direct = 0; direct < 2; direct++) {
        struct sm_file *f = NULL;
        bool good = sm_file_open(&f, path, direct, NULL) == SMOL_OK;
        for (unsigned i = 0; i < 200 && good; i++) {
            const size_t n = 1 + tap_random_below(i % 2 ? 3000 : 300000);
            good = !sm_file_read_direct(f, tap_random_below(FILE_BYTES - n), n, stage, &data, NULL);
            /* small reads one after the other, as a header is read */
            for (uint64_t at = i * 5000; at < i * 5000 + 5000 && good; at += 700)
                good = !sm_file_read(f, at, stage, 700, NULL);
        }
        const size_t most = cached_pages(path);
        TAP_OK(good && most <= 1, "direct %d: %zu pages cached while open", direct, most);
        sm_file_close(f);
        TAP_IS_INT(cached_pages(path), 0, "none after closing");
    }
}

static void test_replace(void)
{
    smol_error err = {0};
    char back[64] = "";
    struct stat st;
    const char *path = temp_path("learned");
    TAP_IS_INT(sm_file_replace(path, "one", 3, &err), SMOL_OK, "a new file");
    TAP_IS_INT(sm_file_replace(path, "second", 6, &err), SMOL_OK, "replaced");
    FILE *f = fopen(path, "rb");
    TAP_OK(f && fread(back, 1, sizeof back, f) == 6 && !memcmp(back, "second", 6), "whole");
    if (f) (void)fclose(f);
    TAP_IS_INT(sm_file_replace(temp_path("no/such/folder"), "x", 1, &err), SMOL_IO, "no folder");
    TAP_OK(strstr(err.msg, "cannot create the file"), "%s", err.msg);
    memset(&err, 0, sizeof err);
    (void)mkdir(temp_path("folder"), 0777);
    TAP_IS_INT(sm_file_replace(temp_path("folder"), "x", 1, &err), SMOL_IO, "over a folder");

    struct rlimit old, low;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &old);
    low = old;
    low.rlim_cur = 1000;
    memset(&err, 0, sizeof err);
    (void)setrlimit(RLIMIT_FSIZE, &low);
    const smol_status full = sm_file_replace(path, content, 5000, &err);
    (void)setrlimit(RLIMIT_FSIZE, &old);
    TAP_OK(full == SMOL_IO && strstr(err.msg, "cannot write 5000 bytes"), "full: %s", err.msg);
    TAP_OK(!stat(path, &st) && st.st_size == 6, "the old file is whole");
    char temp[700];
    (void)snprintf(temp, sizeof temp, "%s.%ld.tmp", path, (long)getpid());
    TAP_OK(access(temp, F_OK), "no temporary file stays");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    content = malloc(FILE_BYTES);
    stage = aligned_alloc(SM_IO_ALIGN, 1u << 20);
    if (!content || !stage) return 1;
    for (size_t i = 0; i < FILE_BYTES; i++) content[i] = (uint8_t)(tap_random() >> 24);
    const char *path = temp_write("data.bin", content, FILE_BYTES);
    test_kinds();
    test_lock();
    path = temp_path("data.bin");
    char own[600];
    (void)snprintf(own, sizeof own, "%s", path);
    test_reads(own, false);
    test_reads(own, true);
    test_drop_behind(own);
    test_replace();
    sm_file_close(NULL);

    struct sm_file *f = NULL;
    const uint8_t *data = NULL;
    TAP_IS_INT(sm_file_open(&f, temp_write("empty", "", 0), true, NULL), SMOL_OK, "empty file");
    TAP_OK(sm_file_size(f) == 0 && sm_file_read_direct(f, 0, 1, stage, &data, NULL) == SMOL_FORMAT,
           "has no byte");
    sm_file_close(f);
    free(content);
    free(stage);
    return tap_done();
}
