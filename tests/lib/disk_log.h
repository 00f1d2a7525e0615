/* SPDX-License-Identifier: MIT */
/* What a power cut would leave. The calls below sm_out that change the disk are logged; any prefix
 * of the log can be played into another folder with any subset of what was not synced missing:
 * writes (in blocks of 4 KiB, each by itself), holes, new names, removed names. */
#ifndef SM_TESTS_DISK_LOG_H
#define SM_TESTS_DISK_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Remember the files of a folder and log from now on. What is asked is also done, except syncs,
 * which only cost time. */
void disk_log_start(const char *folder);
void disk_log_stop(void); /* the real calls again; the log stays */
size_t disk_log_n(void);

enum disk_loss { DISK_LOSE_ALL, DISK_LOSE_NONE, DISK_LOSE_SOME };
/* Make `to` (emptied first) what the folder would be after the first n calls. */
void disk_log_play(size_t n, enum disk_loss loss, uint64_t seed, const char *to);

/* Fail the n-th write or sync from now on (1 is the next) with an errno; 0: never. */
void disk_fail_write(uint64_t n, int sys);
void disk_fail_sync(uint64_t n, int sys);
/* From now on look, after every call, at the sum of blocks of all files of the folder; its
 * largest. */
void disk_log_watch_peak(void);
uint64_t disk_log_peak_bytes(void);

/* No syncs: tests that cannot lose anything run faster. disk_log_stop undoes it. */
void disk_skip_syncs(void);

#endif
