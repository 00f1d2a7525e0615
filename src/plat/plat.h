/* SPDX-License-Identifier: MIT */
/* The contract with the operating system. Everything OS-specific is behind this header and out.h:
 * linux_*.c, memory_files.c (what /proc and cgroups say), threads.c, clock.c. Functions are
 * thread-safe unless said otherwise. */
#ifndef SM_PLAT_H
#define SM_PLAT_H

#include "base/status.h"
#include <stdbool.h>
#include <sys/types.h>

/* ---- files -------------------------------------------------------------------------------- */

/* Raw system calls under every read, so that tests can inject faults below the store. */
struct sm_io_ops {
    int (*open)(const char *path, int flags);
    ssize_t (*pread)(int fd, void *buf, size_t n, off_t at);
};
/* The table in use; tests may overwrite entries before any file is open. */
struct sm_io_ops *sm_plat_io(void);

struct sm_file;
#define SM_IO_ALIGN ((size_t)4096) /* offset, length and address of every direct read */

/* Open a regular file for reading. `direct`: ask for reads that bypass the page cache; when the
 * system refuses (on open or on the first read) reads go through the page cache and drop behind,
 * and sm_file_is_direct says so. Holds a shared lock. Names what the path is when it is no regular
 * file (missing, directory, no permission). */
SM_NODISCARD smol_status sm_file_open(struct sm_file **out, const char *path, bool direct,
                                      smol_error *err);
void sm_file_close(struct sm_file *f); /* NULL is fine */
uint64_t sm_file_size(const struct sm_file *f); /* bytes at open */
bool sm_file_is_direct(const struct sm_file *f);
const char *sm_file_path(const struct sm_file *f);
/* Exactly n bytes at `at`, any alignment, buffered with drop-behind; retries EINTR and short reads;
 * the end of the file inside the range is FORMAT ("file is shorter than its header says"). */
SM_NODISCARD smol_status sm_file_read(struct sm_file *f, uint64_t at, void *buf, size_t n,
                                      smol_error *err);
/* As sm_file_read, but through direct reads of the aligned superset into `stage` (SM_IO_ALIGN
 * aligned, at least n + 2 * SM_IO_ALIGN bytes); *data points at the wanted byte inside `stage`.
 * Falls back to buffered reads with drop-behind when direct reads are refused. */
SM_NODISCARD smol_status sm_file_read_direct(struct sm_file *f, uint64_t at, size_t n,
                                             uint8_t *stage, const uint8_t **data,
                                             smol_error *err);
/* Bytes read from this file so far by both calls (aligned supersets counted whole). */
uint64_t sm_file_bytes_read(const struct sm_file *f);

/* Replace a file atomically: temporary file beside it, fsync, rename. */
SM_NODISCARD smol_status sm_file_replace(const char *path, const void *data, size_t n,
                                         smol_error *err);

/* ---- threads ------------------------------------------------------------------------------ */

/* Compute threads. The caller is worker 0; n - 1 threads are started. Started threads are pinned,
 * one to a core, when n is the number of allowed cores, and so is the caller (the thread that makes
 * the pool, until it frees it); with fewer threads they are kept on the n largest cores where cores
 * differ, and the caller's own mask is left alone. They spin briefly between jobs (not on a
 * single core), then sleep. With more threads than cores they take turns. n: 1 to SM_POOL_MAX, else
 * ARG. */
#define SM_POOL_MAX 64u
struct sm_pool;
SM_NODISCARD smol_status sm_pool_new(struct sm_pool **out, unsigned n_threads, smol_error *err);
void sm_pool_free(struct sm_pool *p);
unsigned sm_pool_size(const struct sm_pool *p);
/* Run fn(arg, worker, n_workers) on the caller (worker 0), at the same time and at most once on
 * each other worker that the system lets run before the caller's own call returns, and return when
 * all calls have. So a job claims its work piece by piece from a counter, and the caller's call
 * returns when there is none left. Only the thread that made the pool calls it; not re-entrant. No
 * allocation. */
typedef void (*sm_job_fn)(void *arg, unsigned worker, unsigned n_workers);
void sm_pool_run(struct sm_pool *p, sm_job_fn fn, void *arg);
/* Work that comes in batches of items and is written in order: while all workers make the items of
 * one batch, the caller, before it helps them, writes the batch before. Two places, side 0 and 1,
 * hold batches in turn. */
struct sm_batches {
    unsigned (*cut)(void *arg, unsigned side); /* the next batch; its items, 0: no more */
    /* One item, on any worker; false: this worker makes no more of the batch. */
    bool (*make)(void *arg, unsigned side, unsigned item, unsigned worker);
    void (*write)(void *arg, unsigned side); /* worker 0; at first of a batch that was never cut */
    bool (*go_on)(void *arg);                /* the caller, after each batch; false ends it */
    void *arg;
};
void sm_pool_batches(struct sm_pool *p, const struct sm_batches *b);

/* Stack bytes of each thread that the library starts (compute and reader threads). */
#define SM_STACK_BYTES ((size_t)256 << 10)

/* A plain thread with SM_STACK_BYTES of stack, and cores this process may use (1 at least). */
struct sm_thread;
SM_NODISCARD smol_status sm_thread_new(struct sm_thread **out, void (*fn)(void *), void *arg,
                                       const char *name, smol_error *err);
void sm_thread_join(struct sm_thread *t); /* frees it */
unsigned sm_cores_allowed(void);
/* Of those, the cores at least half as fast as the fastest: how many threads to start by default
 * (all where the system does not tell them apart). */
unsigned sm_cores_fast(void);

/* ---- time and memory ---------------------------------------------------------------------- */

uint64_t sm_now_ns(void);          /* monotonic */
uint64_t sm_thread_cpu_ns(void);   /* that the calling thread has run */
void sm_sleep_ns(uint64_t ns);
size_t sm_page_bytes(void);

struct sm_memory {
    uint64_t total_bytes;     /* of the machine */
    uint64_t available_bytes; /* what the system would concede now: the smaller of /proc/meminfo
                               * (less our own file pages) and the cgroup's headroom, v1 or v2 */
    int64_t margin_bytes; /* the same and page cache in use, which the system takes back before it
                           * ends anybody; negative: over a cgroup limit that was lowered */
    uint64_t limit_bytes;     /* cgroup limit, UINT64_MAX if none */
    uint64_t rss_bytes, peak_rss_bytes; /* of this process */
};
void sm_memory_probe(struct sm_memory *out);

/* The same for one who looks many times a second, in a tenth of the time: the files stay open.
 * Where they are is found out again every ten seconds. peak_rss_bytes is 0. NULL: there was no
 * memory for it, and each look is a probe. */
struct sm_memory_watch;
struct sm_memory_watch *sm_memory_watch_new(void);
void sm_memory_watch_look(struct sm_memory_watch *w, struct sm_memory *out);
void sm_memory_watch_free(struct sm_memory_watch *w);

/* An anonymous arena of n bytes, page-aligned. The system concedes its pages when they are touched:
 * sm_pages_new touches all, sm_pages_reserve none. */
SM_NODISCARD smol_status sm_pages_new(void **out, size_t n, smol_error *err);
SM_NODISCARD smol_status sm_pages_reserve(void **out, size_t n, smol_error *err);
/* Touch every page of [p, p + n) that holds nothing yet: zeros are written. */
void sm_pages_touch(void *p, size_t n);
void sm_pages_free(void *p, size_t n);
/* Bytes that were taken and not freed; dropped ones count. Any thread. */
size_t sm_pages_held(void);
/* Give whole pages of an arena back to the system; they read as zeros (and cost again) when
 * touched. */
void sm_pages_drop(void *p, size_t n);

/* Name of the file system behind a path when it is one that serves direct reads badly ("FUSE",
 * "tmpfs"), else NULL. */
const char *sm_file_system_hint(const char *path);

#endif
