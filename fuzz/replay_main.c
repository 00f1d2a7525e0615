/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target over the files of its corpus, and over a few mutations of each, as a normal
 * test: usage replay_NAME [--seed N] [--mutations N] [--part K/N] FILE-OR-FOLDER...
 * --part: of a folder only every N-th file, from the K-th (0 is the first), so that N processes
 * share it. A crash or a sanitizer report ends the program before its plan, which is a failure. */
#include "../tests/tap.h"

#include <dirent.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static unsigned n_mutations = 64, part = 0, n_parts = 1;

/* The whole file in a buffer of exactly its size (so that an over-read is seen), or NULL. */
static uint8_t *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    uint8_t *data = NULL;
    *size = 0;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END)) {
        const long end = ftell(f);
        rewind(f);
        if (end >= 0 && (data = malloc((size_t)end + !end)) != NULL)
            *size = fread(data, 1, (size_t)end, f);
    }
    (void)fclose(f);
    return data;
}

/* Flip, overwrite, cut or repeat bytes of a copy, and run it. */
static void run_mutation(const uint8_t *data, size_t size)
{
    size_t n = size;
    if (n && tap_random_below(4) == 0) n = (size_t)tap_random_below(n);
    uint8_t *copy = malloc(n + !n);
    if (!copy) return;
    memcpy(copy, data, n);
    for (uint64_t k = tap_random_below(8); n && k; k--) {
        static const uint8_t hard[] = {0, 1, 0x7f, 0x80, 0xff, '\n', '{', '"'};
        const size_t at = (size_t)tap_random_below(n);
        switch (tap_random_below(3)) {
        case 0: copy[at] ^= (uint8_t)(1u << tap_random_below(8)); break;
        case 1: copy[at] = hard[tap_random_below(sizeof hard)]; break;
        default: {
            const size_t from = (size_t)tap_random_below(n);
            size_t len = (size_t)tap_random_below(16);
            if (len > n - at) len = n - at;
            if (len > n - from) len = n - from;
            memmove(copy + at, copy + from, len);
        }
        }
    }
    (void)LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void run_file(const char *path)
{
    size_t size;
    uint8_t *data = read_all(path, &size);
    if (!data) {
        TAP_OK(0, "cannot read %s", path);
        return;
    }
    (void)LLVMFuzzerTestOneInput(data, size);
    for (unsigned i = 0; i < n_mutations; i++) run_mutation(data, size);
    const char *base = strrchr(path, '/');
    TAP_OK(1, "%s and %u mutations", base ? base + 1 : path, n_mutations);
    free(data);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void run_folder(const char *path)
{
    DIR *dir = opendir(path);
    char *name[4096];
    size_t n = 0;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (e->d_name[0] != '.' && n < sizeof name / sizeof *name) name[n++] = strdup(e->d_name);
    if (dir) (void)closedir(dir);
    qsort(name, n, sizeof *name, by_name);
    for (size_t i = 0; i < n; i++) {
        char full[4096];
        (void)snprintf(full, sizeof full, "%s/%s", path, name[i]);
        if (i % n_parts == part) run_file(full);
        free(name[i]);
    }
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    const uint8_t none[1] = {0};
    (void)LLVMFuzzerTestOneInput(none, 0);
    TAP_OK(1, "empty input");
    for (int i = 1; i < argc; i++) {
        struct stat st;
        if (!strcmp(argv[i], "--seed") && i + 1 < argc) {
            i++;
        } else if (!strcmp(argv[i], "--mutations") && i + 1 < argc) {
            n_mutations = (unsigned)strtoul(argv[++i], NULL, 10);
        } else if (!strcmp(argv[i], "--part") && i + 1 < argc) {
            char *rest;
            part = (unsigned)strtoul(argv[++i], &rest, 10);
            n_parts = *rest == '/' ? (unsigned)strtoul(rest + 1, NULL, 10) : 0;
            if (part >= n_parts) {
                TAP_OK(0, "--part %s is not K/N", argv[i]);
                break;
            }
        } else if (stat(argv[i], &st)) {
            TAP_OK(0, "cannot read %s", argv[i]);
        } else if (S_ISDIR(st.st_mode)) {
            run_folder(argv[i]);
        } else {
            run_file(argv[i]);
        }
    }
    return tap_done();
}
