/* SPDX-License-Identifier: MIT */
#include "lib/input.h"

#include "tap.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/smol-input-XXXXXX";
static char path[128];

static const char *file_of(const char *data, size_t n)
{
    (void)snprintf(path, sizeof path, "%s/file", folder);
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f)) abort();
    return path;
}

static void check_good(const char *name, const char *want, size_t n_want)
{
    smol_error err = {0};
    char *data = NULL;
    size_t n = 99;
    const smol_status st = sm_input_read(file_of(want, n_want), 1 << 20, &data, &n, &err);
    TAP_OK(st == SMOL_OK && n == n_want && data && !memcmp(data, want, n) && !data[n], "%s", name);
    free(data);
}

static void check_bad(const char *name, const char *p, size_t max, smol_status want,
                      const char *sentence)
{
    smol_error err = {0};
    char *data = NULL;
    size_t n = 99;
    const smol_status st = sm_input_read(p, max, &data, &n, &err);
    TAP_OK(st == want && !data && n == 0, "%s", name);
    if (!TAP_OK(strstr(err.msg, sentence) != NULL, "%s: says so", name))
        printf("#   %s\n", err.msg);
}

static void check_pipe(void)
{
    int end[2];
    char *data = NULL, p[32];
    size_t n = 0;
    smol_error err = {0};
    if (pipe(end)) abort();
    if (write(end[1], "from a pipe", 11) != 11) abort();
    (void)close(end[1]);
    (void)snprintf(p, sizeof p, "/dev/fd/%d", end[0]);
    TAP_OK(sm_input_read(p, 100, &data, &n, &err) == SMOL_OK && n == 11 &&
               !memcmp(data, "from a pipe", 11),
           "a pipe");
    free(data);
    (void)close(end[0]);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    if (!mkdtemp(folder)) return 1;
    static char large[300000];
    for (size_t i = 0; i < sizeof large; i++) large[i] = (char)tap_random();

    check_good("an empty file", "", 0);
    check_good("bytes with a NUL", "a\0b", 3);
    check_good("more than the first buffer", large, sizeof large);
    check_good("exactly the first buffer", large, 65536);
    check_pipe();
    check_bad("one byte too long", file_of(large, 65536), 65535, SMOL_LIMIT,
              "is longer than 65535 bytes");
    check_bad("a folder", folder, 100, SMOL_IO, "is a folder");
    check_bad("a missing file", "/nowhere/at/all", 100, SMOL_IO, "No such file");
    if (geteuid() != 0) {
        (void)chmod(file_of("x", 1), 0);
        check_bad("an unreadable file", path, 100, SMOL_IO, "Permission denied");
    } else {
        TAP_SKIP(2, "root reads everything");
    }
    (void)unlink(path);
    (void)rmdir(folder);
    return tap_done();
}
