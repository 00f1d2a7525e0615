/* SPDX-License-Identifier: MIT */
/* A model file written again with other formats (quant/mix.h says which). Pieces of rows are read,
 * decoded, encoded and written one batch at a time by all threads: memory is a few MiB whatever the
 * model's size, and the bytes do not depend on the number of threads. One caller per object.
 *
 *     SM_TRY(sm_requant_open(&r, in, &options, err));       header, checks, what each tensor gets
 *     ... sm_requant_report(r) says what will change, and what should be warned of ...
 *     SM_TRY_OUT(st, sm_requant_write(r, out, err));
 *     out: sm_requant_free(r);
 */
#ifndef SM_STORE_REQUANT_H
#define SM_STORE_REQUANT_H

#include "gguf/imatrix.h"
#include "quant/mix.h"
#include "store/store.h"

struct sm_requant;

struct sm_requant_options {
    uint32_t experts, rest;   /* types that can be encoded, or SM_MIX_KEEP; not both */
    const char *imatrix_path; /* NULL: none */
    unsigned n_threads;       /* 1 at least */
    sm_progress_fn progress;
    void *progress_arg;
    const volatile bool *cancel;
};

struct sm_requant_tally {
    uint64_t n_tensors, n_weights, bytes;
};

struct sm_requant_report {
    uint64_t n_weights, in_bytes, out_bytes;     /* of all tensors */
    uint64_t in_file_bytes, out_file_bytes;      /* out: once it is being written */
    struct sm_requant_tally type[SM_TYPE_COUNT]; /* of the new file */
    struct sm_requant_tally why[SM_MIX_WHY_COUNT];
    /* The first tensor of a kind, and the type it gets; NULL: there is none. */
    const char *example[SM_MIX_WHY_COUNT];
    uint32_t example_type[SM_MIX_WHY_COUNT];
    /* Encoded again from a format of fewer than 8 bits, and one of those formats. */
    uint64_t n_again;
    uint32_t again_type;
    /* Encoded without importance though there is a matrix and the format looks at it, and the first
     * of them; entries of the matrix that are of no weight of this model. */
    uint64_t n_without;
    const char *without;
    uint32_t n_other;
    uint64_t n_encoded;
    bool encodes[SM_TYPE_COUNT]; /* to which formats */
};

/* Errors: UNSUPPORTED (a pack, a format that cannot be decoded), FORMAT (also an importance matrix
 * that is damaged or another model's), IO, NOMEM, LIMIT. */
SM_NODISCARD smol_status sm_requant_open(struct sm_requant **out, const char *in,
                                         const struct sm_requant_options *o, smol_error *err);
void sm_requant_free(struct sm_requant *r); /* NULL is fine */
const struct sm_requant_report *sm_requant_report(const struct sm_requant *r);
const struct sm_gguf *sm_requant_gguf(const struct sm_requant *r); /* the header of IN */

/* OUT appears under its name when it is complete and synced; a failure leaves nothing. ARG: OUT is
 * a file that is read, also by another name. IO: OUT exists, or the folder has no room for it. */
SM_NODISCARD smol_status sm_requant_write(struct sm_requant *r, const char *out, smol_error *err);

#endif
