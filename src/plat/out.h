/* SPDX-License-Identifier: MIT */
/* Large files that are written, and files that are freed piece by piece. Every call that changes
 * anything on disk goes through one table, so that tests can log it, fail it, or play it back
 * without what a power cut would lose. One thread per object. */
#ifndef SM_PLAT_OUT_H
#define SM_PLAT_OUT_H

#include "plat/plat.h"

struct sm_out_ops {
    int (*open)(const char *path, int flags, unsigned mode); /* also folders, to sync them */
    ssize_t (*pwrite)(int fd, const void *buf, size_t n, off_t at);
    int (*sync)(int fd);
    int (*punch)(int fd, off_t at, off_t n); /* give blocks back, the size stays */
    int (*rename)(const char *from, const char *to);
    int (*unlink)(const char *path);
    int (*close)(int fd);
};
/* The table in use; tests may overwrite entries before any file is open. */
struct sm_out_ops *sm_plat_out(void);

struct sm_out;
enum sm_out_how {
    SM_OUT_NEW, /* must not exist */
    SM_OUT_KEPT /* must exist; is written in place */
};
/* Open for reading and writing. lock: take the exclusive lock (a file in use is a failure). */
SM_NODISCARD smol_status sm_out_open(struct sm_out **out, const char *path, enum sm_out_how how,
                                     bool lock, smol_error *err);
void sm_out_close(struct sm_out *o); /* NULL is fine; what was not synced may be lost */
const char *sm_out_path(const struct sm_out *o);
SM_NODISCARD smol_status sm_out_write(struct sm_out *o, uint64_t at, const void *data, size_t n,
                                      smol_error *err);
/* All bytes written so far are on the disk. A failure is final: the state of the file is
 * unknown. */
SM_NODISCARD smol_status sm_out_sync(struct sm_out *o, smol_error *err);
/* n bytes from the disk, not from the page cache where that can be had: `stage` as in
 * sm_file_read_direct. Only what was synced. */
SM_NODISCARD smol_status sm_out_read(struct sm_out *o, uint64_t at, size_t n, uint8_t *stage,
                                     const uint8_t **data, smol_error *err);
/* Free the whole blocks inside [at, at + n); nothing when there are none. */
SM_NODISCARD smol_status sm_out_punch(struct sm_out *o, uint64_t at, uint64_t n, smol_error *err);
/* True when the file system can free blocks inside this file (tried on a block that is written for
 * it at byte `at`, beyond everything that counts). */
SM_NODISCARD smol_status sm_out_can_punch(struct sm_out *o, uint64_t at, bool *can,
                                          smol_error *err);

/* What the in-place pack wants to know: links to the file, bytes. FORMAT-free: IO on failure. */
SM_NODISCARD smol_status sm_out_stat(struct sm_out *o, uint64_t *size, unsigned *n_links,
                                     smol_error *err);

/* Rename and remove, and make either last: sync the folder of a path. */
SM_NODISCARD smol_status sm_path_rename(const char *from, const char *to, smol_error *err);
SM_NODISCARD smol_status sm_path_remove(const char *path, smol_error *err); /* missing: OK */
void sm_path_drop(const char *path); /* the same where failing changes nothing */
SM_NODISCARD smol_status sm_path_sync_folder(const char *path, smol_error *err);
bool sm_path_exists(const char *path);
/* Both paths lead to the same file. */
bool sm_path_same(const char *a, const char *b);
/* Bytes that the folder of a path has room for; UINT64_MAX when unknown. */
uint64_t sm_path_room(const char *path);
/* What the file gives back is room for `path` (which need not exist); true when unknown. */
bool sm_path_same_disk(const char *file, const char *path);

#endif
