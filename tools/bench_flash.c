/* SPDX-License-Identifier: MIT */
/* Speed of a flash chip: direct reads of several block sizes by several readers, scattered and in
 * order, from one large file. The best values go to the device profile. */
#include "bench.h"

#include "lib/cache_path.h"
#include "lib/json.h"
#include "lib/model_args.h"
#include "lib/progress.h"

#include "base/mem.h"
#include "base/rng.h"
#include "plat/plat.h"
#include "store/device_profile.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READERS_MAX 8u
#define FILE_LEAST ((uint64_t)64 << 20) /* a smaller one sits in some cache */
#define MADE_BYTES ((uint64_t)512 << 20)
#define KIB 1024u

static const uint32_t random_blocks[] = {64 * KIB, 128 * KIB, 256 * KIB, 512 * KIB, 1024 * KIB};
static const uint32_t sequential_blocks[] = {1024 * KIB, 2048 * KIB, 4096 * KIB, 8192 * KIB};
static const unsigned readers[] = {1, 2, 3, 4, 8};
enum {
    N_RANDOM = sizeof random_blocks / sizeof *random_blocks,
    N_SEQUENTIAL = sizeof sequential_blocks / sizeof *sequential_blocks,
    N_READERS = sizeof readers / sizeof *readers,
    N_ROWS = (N_RANDOM + N_SEQUENTIAL) * N_READERS
};

struct row {
    bool random;
    uint32_t block;
    unsigned n_readers;
    double mb_s, ms; /* ms: of one read */
};

struct job {
    struct sm_file *file;
    uint64_t file_bytes, seed, stop_ns;
    bool random;
    uint32_t block;
    atomic_uint_fast64_t next, bytes, ns; /* ns: of all reads together */
    atomic_bool failed;
};

/* Reads until the time is over; a read that was begun counts whole. */
static void read_blocks(void *arg)
{
    struct job *j = arg;
    const uint64_t n_blocks = j->file_bytes / j->block;
    uint8_t *stage = NULL;
    const size_t room = j->block + 2 * SM_IO_ALIGN;
    void *p;
    if (sm_pages_new(&p, room, NULL) != SMOL_OK) {
        atomic_store(&j->failed, true);
        return;
    }
    stage = p;
    for (uint64_t start = sm_now_ns(); start < j->stop_ns;) {
        const uint8_t *data;
        const uint64_t i = atomic_fetch_add(&j->next, 1);
        const uint64_t at = (j->random ? sm_mix64(j->seed + i * SM_MIX64_STEP) : j->seed + i) %
                            n_blocks * j->block;
        if (sm_file_read_direct(j->file, at, j->block, stage, &data, NULL) != SMOL_OK) {
            atomic_store(&j->failed, true);
            break;
        }
        const uint64_t end = sm_now_ns();
        atomic_fetch_add(&j->bytes, j->block);
        atomic_fetch_add(&j->ns, end - start);
        start = end;
    }
    sm_pages_free(stage, room);
}

static bool run_row(struct sm_file *f, struct row *r, uint64_t seed, uint64_t ns)
{
    struct job j = {.file = f, .file_bytes = sm_file_size(f), .random = r->random,
                    .block = r->block, .seed = sm_mix64(seed + 1)};
    struct sm_thread *t[READERS_MAX] = {NULL};
    const uint64_t start = sm_now_ns();
    j.stop_ns = start + ns;
    for (unsigned i = 0; i < r->n_readers; i++)
        if (sm_thread_new(&t[i], read_blocks, &j, "smol-flash", NULL) != SMOL_OK) j.failed = true;
    for (unsigned i = 0; i < r->n_readers; i++)
        if (t[i]) sm_thread_join(t[i]);
    const double s = (double)(sm_now_ns() - start) * 1e-9;
    const double bytes = (double)j.bytes;
    r->mb_s = bytes * 1e-6 / s;
    r->ms = bytes > 0 ? (double)j.ns * 1e-6 * r->block / bytes : 0;
    return !j.failed;
}

/* ---- choosing ------------------------------------------------------------------------------ */

/* The smallest block, then the fewest readers, that reach 95 % of the fastest. */
static const struct row *cheapest(const struct row *row, size_t n, bool random)
{
    const struct row *best = NULL;
    double most = 0;
    for (size_t i = 0; i < n; i++)
        if (row[i].random == random && row[i].mb_s > most) most = row[i].mb_s;
    for (size_t i = 0; i < n; i++) {
        const struct row *r = &row[i];
        if (r->random != random || r->mb_s < 0.95 * most) continue;
        if (!best || r->n_readers < best->n_readers ||
            (r->n_readers == best->n_readers && r->block < best->block))
            best = r;
    }
    return best;
}

static void summarise(const struct row *row, size_t n, struct sm_flash_profile *p)
{
    const struct row *scattered = cheapest(row, n, true), *in_order = cheapest(row, n, false);
    p->n_readers = scattered->n_readers;
    p->piece_bytes = scattered->block;
    p->mb_s = scattered->mb_s;
    p->block_bytes = in_order->block;
    p->one_mb_s = 0;
    for (size_t i = 0; i < n; i++) {
        if (row[i].n_readers != 1) continue;
        if (!row[i].random && row[i].mb_s > p->one_mb_s) p->one_mb_s = row[i].mb_s;
        if (row[i].random && row[i].block == 1024 * KIB) p->random_ms = row[i].ms;
    }
}

/* ---- printing ------------------------------------------------------------------------------ */

static void print_text(const struct row *row, size_t n, const struct sm_flash_profile *p)
{
    printf("reads          KiB");
    for (int i = 0; i < N_READERS; i++) printf(" %6u rd", readers[i]);
    printf("   (10^6 bytes/s)");
    for (size_t i = 0; i < n; i++) {
        if (i % N_READERS == 0)
            printf("\n%-12s %5u", row[i].random ? "scattered" : "in order", row[i].block / KIB);
        printf(" %9.1f", row[i].mb_s);
    }
    printf("\n\nall readers   %.1f MB/s with %u readers and pieces of %u KiB\n", p->mb_s,
           p->n_readers, p->piece_bytes / KIB);
    printf("one reader    %.1f MB/s in order, %.2f ms for a scattered MiB\n", p->one_mb_s,
           p->random_ms);
    printf("streaming     blocks of %u KiB\n", p->block_bytes / KIB);
}

static bool print_json(const struct row *row, size_t n, const struct sm_flash_profile *p,
                       const char *path, bool direct)
{
    struct sm_json j;
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_str(&j, "path", path);
    sm_json_bool(&j, "direct", direct);
    sm_json_num(&j, "mb_s", p->mb_s);
    sm_json_uint(&j, "readers", p->n_readers);
    sm_json_uint(&j, "piece_bytes", p->piece_bytes);
    sm_json_uint(&j, "block_bytes", p->block_bytes);
    sm_json_num(&j, "one_mb_s", p->one_mb_s);
    sm_json_num(&j, "random_ms", p->random_ms);
    sm_json_open(&j, "rows", '[');
    for (size_t i = 0; i < n; i++) {
        sm_json_open(&j, NULL, '{');
        sm_json_bool(&j, "scattered", row[i].random);
        sm_json_uint(&j, "block_bytes", row[i].block);
        sm_json_uint(&j, "readers", row[i].n_readers);
        sm_json_num(&j, "mb_s", row[i].mb_s);
        sm_json_num(&j, "ms", row[i].ms);
        sm_json_close(&j);
    }
    sm_json_close(&j);
    sm_json_close(&j);
    return sm_json_end(&j);
}

/* ---- the file ------------------------------------------------------------------------------ */

static bool write_noise(int fd, uint64_t *block)
{
    for (uint64_t at = 0; at < MADE_BYTES; at += 1024 * KIB) {
        for (size_t i = 0; i < 1024 * KIB / 8; i++) block[i] = sm_mix64(at + i);
        for (size_t done = 0; done < 1024 * KIB;) { /* the rest of a short write says why */
            const ssize_t n = write(fd, (const char *)block + done, 1024 * KIB - done);
            if (sm_interrupted || (n < 0 && errno != EINTR)) return false;
            if (n > 0) done += (size_t)n;
        }
        sm_progress_show(NULL, "writing a file to read", at, MADE_BYTES);
    }
    return fsync(fd) == 0;
}

/* In a folder: a file of noise without a name, so that none is left whatever ends the program; -1
 * after a failure, reported. `name` is another path to it. */
static int make_file(const char *folder, char *name, size_t cap)
{
    const int n = snprintf(name, cap, "%s/smol-flash-XXXXXX", folder);
    const int fd = sm_fits(n, cap) ? mkstemp(name) : -1;
    uint64_t *block = fd >= 0 ? malloc(1024 * KIB) : NULL;
    if (fd >= 0) (void)unlink(name);
    const bool good = block && write_noise(fd, block);
    const int why = errno;
    sm_progress_clear();
    free(block);
    if (good) {
        (void)snprintf(name, cap, "/proc/self/fd/%d", fd);
        return fd;
    }
    if (fd >= 0) (void)close(fd);
    if (sm_interrupted)
        (void)sm_complain(SM_EXIT_INTERRUPTED, "stopped");
    else
        (void)sm_complain(SM_EXIT_FAILED, "cannot write a file of %u MiB in %s: %s",
                          (unsigned)(MADE_BYTES >> 20), folder, strerror(why));
    return -1;
}

static int measure(const struct sm_options *o, const char *path, const char *shown)
{
    static struct row row[N_ROWS];
    struct sm_file *f;
    smol_error err = {0};
    size_t n = 0;
    if (sm_file_open(&f, path, true, &err) != SMOL_OK) return sm_report(&err);
    const uint64_t bytes = sm_file_size(f);
    if (bytes < FILE_LEAST) {
        sm_file_close(f);
        return sm_complain(SM_EXIT_FAILED, "%s is too small to measure with: %.1f MiB, expected 64 "
                                           "or more", path, (double)bytes / 1048576.0);
    }
    for (int k = 0; k < N_RANDOM + N_SEQUENTIAL; k++)
        for (int i = 0; i < N_READERS; i++, n++) {
            const bool random = k < N_RANDOM;
            row[n] =
                (struct row){random, random ? random_blocks[k] : sequential_blocks[k - N_RANDOM],
                             readers[i], 0, 0};
            sm_progress_show(NULL, "measuring", n, N_ROWS);
            const bool good = run_row(f, &row[n], n, (uint64_t)o->bench_ms * 1000000u);
            if (good && !sm_interrupted) continue;
            sm_progress_clear();
            sm_file_close(f);
            if (sm_interrupted) return sm_complain(SM_EXIT_INTERRUPTED, "stopped");
            return sm_complain(SM_EXIT_FAILED, "%s cannot be read", path);
        }
    sm_progress_clear();
    const bool direct = sm_file_is_direct(f);
    sm_file_close(f);
    struct sm_flash_profile p = {.device = sm_profile_device(shown)};
    const char *name = sm_device_profile_path(true);
    summarise(row, n, &p);
    if (o->json && !print_json(row, n, &p, shown, direct))
        return sm_output_failed("the result");
    if (!o->json) print_text(row, n, &p);
    if (!direct && !o->quiet)
        fprintf(stderr, "smol: note: the file system refuses direct reads; these went through the "
                        "page cache\n");
    /* a profile that cannot be kept is no failure: the figures are on the screen */
    const bool kept = name && sm_profile_keep(name, &p, &err) == SMOL_OK;
    if (o->quiet) return SM_EXIT_DONE;
    if (kept) fprintf(stderr, "smol: kept in %s\n", name);
    else fprintf(stderr, "smol: note: the device profile is not kept: %s\n",
                 name ? err.msg
                 : getenv("SMOL_CACHE") ? "SMOL_CACHE names no folder"
                                        : "neither XDG_CACHE_HOME nor HOME names a folder");
    return SM_EXIT_DONE;
}

int bench_flash(const struct sm_options *o, const char *path)
{
    struct stat s;
    char name[600];
    sm_progress_init(o->quiet);
    sm_catch_interrupt();
    if (stat(path, &s) != 0)
        return sm_complain(SM_EXIT_FAILED, "cannot open %s: %s", path, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return measure(o, path, path);
    const int fd = make_file(path, name, sizeof name);
    if (fd < 0) return sm_interrupted ? SM_EXIT_INTERRUPTED : SM_EXIT_FAILED;
    const int code = measure(o, name, path);
    (void)close(fd);
    return code;
}
