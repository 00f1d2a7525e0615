/* SPDX-License-Identifier: MIT */
/* Making packs and undoing them (docs/pack-format.md). One thread. */
#ifndef SM_STORE_PACK_H
#define SM_STORE_PACK_H

#include "gguf/gguf_pack.h"
#include "store/store.h"

struct sm_pack_options {
    const struct sm_kern *kern; /* NULL: the reference permutation */
    bool in_place;              /* free the source as the pack grows */
    bool verify;                /* read the finished file back and compare it with its source */
    uint64_t group_bytes;       /* in place: copied between two records; 0: up to 32 MiB */
    sm_progress_fn progress;
    void *progress_arg;
    const volatile bool *cancel;
};

struct sm_pack_report {
    uint64_t source_bytes, out_bytes;
    uint64_t kernel_source_bytes, kernel_bytes; /* of what is held as x8: before and after */
    bool resumed;
    bool left_alone; /* in place: OUT was complete and nothing of its source was left */
};

/* IN (a GGUF file or any part of a split set) becomes the pack OUT. Not in place: OUT appears under
 * its name when it is complete and synced, and a failure leaves nothing. In place: a failure or a
 * power cut at any moment leaves files with which the same call goes on; at the end IN is gone.
 * Errors: ARG (IN is OUT), UNSUPPORTED (IN is a pack), IO, FORMAT, LIMIT, NOMEM, CANCELLED. */
SM_NODISCARD smol_status sm_pack_make(const char *in, const char *out,
                                      const struct sm_pack_options *o,
                                      struct sm_pack_report *report, smol_error *err);
/* The original file, byte for byte; of a split set all parts, named OUT-00001-of-0000N.gguf. All
 * checksums are checked. in_place and group_bytes are ignored. */
SM_NODISCARD smol_status sm_pack_undo(const char *in, const char *out,
                                      const struct sm_pack_options *o,
                                      struct sm_pack_report *report, smol_error *err);

#endif
