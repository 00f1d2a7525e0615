/* SPDX-License-Identifier: MIT */
#include "disk_log.h"
#include "pack_files.h"
#include "plat/out.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK 4096u
#define MAX_FDS 4096
#define MAX_FILES 64

enum kind { MAKE, WRITE, PUNCH, SYNC, SYNC_FOLDER, REMOVE, RENAME };
struct entry {
    enum kind kind;
    int file;
    uint64_t at;
    size_t n;
    uint8_t *data;
    char name[64], to[64];
};

struct file { char name[64]; uint8_t *data; size_t n; };

static struct sm_out_ops real;
static bool have_real, watching;
static char folder[400];
static struct entry *log_of;
static size_t n_log, log_room;
static struct file first[MAX_FILES]; /* at the start */
static int n_first, n_files;
static int fd_file[MAX_FDS]; /* -1: a folder, -2: not ours */
static char live[MAX_FILES][64];
static uint64_t peak, write_in, sync_in;
static int write_sys, sync_sys;

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void measure(void)
{
    char path[600];
    uint64_t sum = 0;
    struct dirent *e;
    struct stat st;
    if (!watching) return;
    DIR *d = opendir(folder);
    while (d && (e = readdir(d))) {
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
        if (!stat(path, &st) && S_ISREG(st.st_mode)) sum += (uint64_t)st.st_blocks * 512;
    }
    if (d) (void)closedir(d);
    if (sum > peak) peak = sum;
}

static struct entry *add(enum kind kind, int file)
{
    if (n_log == log_room) {
        log_room = log_room ? 2 * log_room : 256;
        log_of = realloc(log_of, log_room * sizeof *log_of);
        if (!log_of) abort();
    }
    struct entry *e = &log_of[n_log++];
    memset(e, 0, sizeof *e);
    e->kind = kind;
    e->file = file;
    return e;
}

static int find_live(const char *name)
{
    for (int i = 0; i < n_files; i++)
        if (!strcmp(live[i], name)) return i;
    return -1;
}

static int log_open(const char *path, int flags, unsigned mode)
{
    const int fd = real.open(path, flags, mode);
    if (fd < 0 || fd >= MAX_FDS) return fd;
    if (flags & O_DIRECTORY) {
        fd_file[fd] = -1;
        return fd;
    }
    const char *name = base_name(path);
    int file = find_live(name);
    if (file < 0 && n_files < MAX_FILES) {
        file = n_files++;
        (void)snprintf(live[file], sizeof live[file], "%s", name);
        struct entry *e = add(MAKE, file);
        (void)snprintf(e->name, sizeof e->name, "%s", name);
    }
    fd_file[fd] = file;
    return fd;
}

static bool due(uint64_t *in)
{
    if (!*in) return false;
    return --*in == 0;
}

static ssize_t log_pwrite(int fd, const void *buf, size_t n, off_t at)
{
    if (due(&write_in)) {
        errno = write_sys;
        return -1;
    }
    const ssize_t put = real.pwrite(fd, buf, n, at);
    if (put > 0) {
        struct entry *e = add(WRITE, fd_file[fd]);
        e->at = (uint64_t)at;
        e->n = (size_t)put;
        e->data = malloc((size_t)put);
        if (!e->data) abort();
        memcpy(e->data, buf, (size_t)put);
    }
    measure();
    return put;
}

static int log_sync(int fd)
{
    if (due(&sync_in)) {
        errno = sync_sys;
        return -1;
    }
    (void)add(fd_file[fd] == -1 ? SYNC_FOLDER : SYNC, fd_file[fd]);
    return 0;
}

static int log_punch(int fd, off_t at, off_t n)
{
    const int rc = real.punch(fd, at, n);
    struct entry *e = add(PUNCH, fd_file[fd]);
    e->at = (uint64_t)at;
    e->n = (size_t)n;
    measure();
    return rc;
}

static int log_rename(const char *from, const char *to)
{
    const int rc = real.rename(from, to);
    struct entry *e = add(RENAME, find_live(base_name(from)));
    (void)snprintf(e->name, sizeof e->name, "%s", base_name(from));
    (void)snprintf(e->to, sizeof e->to, "%s", base_name(to));
    if (e->file >= 0) (void)snprintf(live[e->file], sizeof live[0], "%s", e->to);
    return rc;
}

static int log_unlink(const char *path)
{
    const int rc = real.unlink(path);
    const int file = find_live(base_name(path));
    if (rc || file < 0) return rc;
    struct entry *e = add(REMOVE, file);
    (void)snprintf(e->name, sizeof e->name, "%s", base_name(path));
    live[file][0] = 0;
    return rc;
}

static void take_real(void)
{
    if (!have_real) real = *sm_plat_out();
    have_real = true;
}

static void forget(void)
{
    for (size_t i = 0; i < n_log; i++) free(log_of[i].data);
    for (int i = 0; i < n_first; i++) free(first[i].data);
    n_log = 0;
    n_first = n_files = 0;
    memset(live, 0, sizeof live);
}

void disk_log_start(const char *dir)
{
    char path[600];
    struct dirent *e;
    take_real();
    forget();
    peak = write_in = sync_in = 0;
    watching = false;
    (void)snprintf(folder, sizeof folder, "%s", dir);
    DIR *d = opendir(dir);
    while (d && (e = readdir(d))) {
        struct stat st;
        (void)snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
        if (stat(path, &st) || !S_ISREG(st.st_mode) || n_first == MAX_FILES) continue;
        (void)snprintf(first[n_first].name, sizeof first[0].name, "%.63s", e->d_name);
        (void)snprintf(live[n_first], sizeof live[0], "%.63s", e->d_name);
        first[n_first].data = file_read(path, &first[n_first].n);
        if (!first[n_first++].data) abort();
    }
    if (d) (void)closedir(d);
    n_files = n_first;
    *sm_plat_out() = (struct sm_out_ops){log_open,   log_pwrite, log_sync, log_punch,
                                         log_rename, log_unlink, real.close};
}

static int no_sync(int fd)
{
    (void)fd;
    return 0;
}

void disk_skip_syncs(void)
{
    take_real();
    sm_plat_out()->sync = no_sync;
}

void disk_log_stop(void)
{
    if (have_real) *sm_plat_out() = real;
}

size_t disk_log_n(void) { return n_log; }
void disk_log_watch_peak(void) { watching = true; }
uint64_t disk_log_peak_bytes(void) { return peak; }

void disk_fail_write(uint64_t n, int sys)
{
    write_in = n;
    write_sys = sys;
}

void disk_fail_sync(uint64_t n, int sys)
{
    sync_in = n;
    sync_sys = sys;
}

/* ---- playing -------------------------------------------------------------------------------- */

static uint64_t rng;
static bool lost(enum disk_loss loss)
{
    if (loss != DISK_LOSE_SOME) return loss == DISK_LOSE_ALL;
    rng = rng * 6364136223846793005u + 1442695040888963407u;
    return rng >> 63;
}

static void put(struct file *f, uint64_t at, const uint8_t *data, size_t n)
{
    if (at + n > f->n) {
        f->data = realloc(f->data, (size_t)at + n);
        if (!f->data) abort();
        memset(f->data + f->n, 0, (size_t)at + n - f->n);
        f->n = (size_t)at + n;
    }
    if (data) memcpy(f->data + at, data, n);
    else memset(f->data + at, 0, n);
}

static void apply(struct file *f, const struct entry *e, enum disk_loss loss, bool synced)
{
    for (uint64_t at = e->at; at < e->at + e->n;) {
        const uint64_t block = (at / BLOCK + 1) * BLOCK, end = e->at + e->n;
        const uint64_t to = block < end ? block : end;
        if (synced || !lost(loss))
            put(f, at, e->data ? e->data + (at - e->at) : NULL, (size_t)(to - at));
        at = to;
    }
}

/* True when a sync of the same kind follows entry i before n. */
static bool is_synced(size_t i, size_t n)
{
    const struct entry *e = &log_of[i];
    const bool name = e->kind == MAKE || e->kind == REMOVE || e->kind == RENAME;
    for (size_t k = i + 1; k < n; k++) {
        if (name && log_of[k].kind == SYNC_FOLDER) return true;
        if (!name && log_of[k].kind == SYNC && log_of[k].file == e->file) return true;
    }
    return false;
}

static void clear_folder(const char *to)
{
    char path[600];
    struct dirent *e;
    DIR *d = opendir(to);
    if (!d && mkdir(to, 0777)) abort();
    while (d && (e = readdir(d))) {
        (void)snprintf(path, sizeof path, "%s/%s", to, e->d_name);
        (void)unlink(path);
    }
    if (d) (void)closedir(d);
}

void disk_log_play(size_t n, enum disk_loss loss, uint64_t seed, const char *to)
{
    struct file file[MAX_FILES] = {0};
    char path[600];
    rng = seed * 0x9e3779b97f4a7c15u + 1;
    for (int i = 0; i < n_first; i++) {
        file[i] = first[i];
        file[i].data = malloc(first[i].n + 1);
        if (!file[i].data) abort();
        memcpy(file[i].data, first[i].data, first[i].n);
    }
    for (size_t i = 0; i < n; i++) {
        const struct entry *e = &log_of[i];
        if (e->file < 0) continue;
        struct file *f = &file[e->file];
        if (e->kind == WRITE || e->kind == PUNCH) apply(f, e, loss, is_synced(i, n));
        else if (e->kind == SYNC || e->kind == SYNC_FOLDER) continue;
        else if (!is_synced(i, n) && lost(loss)) continue;
        else if (e->kind == REMOVE) f->name[0] = 0;
        else (void)snprintf(f->name, sizeof f->name, "%s", e->kind == MAKE ? e->name : e->to);
    }
    clear_folder(to);
    for (int i = 0; i < n_files; i++) {
        if (file[i].name[0]) {
            if (snprintf(path, sizeof path, "%s/%.63s", to, file[i].name) >= (int)sizeof path)
                abort();
            FILE *out = fopen(path, "wb");
            if (!out || (file[i].n && fwrite(file[i].data, 1, file[i].n, out) != file[i].n) ||
                fclose(out))
                abort();
        }
        free(file[i].data);
    }
}
