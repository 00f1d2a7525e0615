/* SPDX-License-Identifier: MIT */
/* What `smol bench --flash` measured of the flash chips of this machine, kept between runs in a
 * file of the user's cache folder: lines of text, one for each file system.
 *
 *     smol device profile 1
 *     flash 00000000000000fe readers=4 piece=524288 block=8388608 mb_s=278 one_mb_s=151 random_ms=5
 *
 * The file is hostile until checked: one bad line and nothing in it is used. It can only change how
 * fast something runs, never an answer. */
#ifndef SM_DEVICE_PROFILE_H
#define SM_DEVICE_PROFILE_H

#include "base/status.h"
#include <stdbool.h>

#define SM_PROFILE_FLASHES 16u      /* file systems remembered; the oldest goes */
#define SM_PROFILE_BYTES_MAX 16384u /* of the file */
#define SM_PROFILE_READERS_MAX 16u
#define SM_PROFILE_PIECE_MAX ((uint32_t)1 << 20)  /* of expert reads; multiples of 4 KiB */
#define SM_PROFILE_BLOCK_MAX ((uint32_t)64 << 20) /* of sequential reads; the same */

struct sm_flash_profile {
    uint64_t device;      /* sm_profile_device() of a path on it */
    uint32_t n_readers;   /* threads that together reach mb_s, 1 .. SM_PROFILE_READERS_MAX */
    uint32_t piece_bytes; /* smallest scattered read that reaches mb_s, to within 5 % */
    uint32_t block_bytes; /* the same of sequential reads */
    double mb_s;          /* 10^6 bytes a second of scattered pieces, all readers */
    double one_mb_s;      /* one reader, sequential blocks */
    double random_ms;     /* one reader, one scattered MiB */
};

struct sm_profile {
    unsigned n;
    struct sm_flash_profile flash[SM_PROFILE_FLASHES]; /* the newest last */
};

/* Which file system a path is on; 0: cannot be told. Stays the same when it is mounted again at the
 * same place. */
uint64_t sm_profile_device(const char *path);

/* n bytes of a profile file. FORMAT names the line that is wrong, and *out is empty. */
SM_NODISCARD smol_status sm_profile_parse(struct sm_profile *out, const char *bytes, size_t n,
                                          smol_error *err);
/* The text of a profile into buf (at least SM_PROFILE_BYTES_MAX bytes); its length. */
size_t sm_profile_print(const struct sm_profile *p, char *buf, size_t cap);

/* What the file `name` (NULL: none) says about the device of `path`. False when there is nothing,
 * or nothing usable. */
bool sm_profile_find(const char *name, const char *path, struct sm_flash_profile *out);
/* Keep f in the file, replacing what there was about its device; its folder must exist. */
SM_NODISCARD smol_status sm_profile_keep(const char *name, const struct sm_flash_profile *f,
                                         smol_error *err);

#endif
