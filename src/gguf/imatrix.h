/* SPDX-License-Identifier: MIT */
/* Importance matrices: GGUF files of general.type "imatrix" that say, for each weight matrix and
 * each of its columns, how much an error there costs. Per weight WEIGHT two tensors: WEIGHT.in_sum2
 * F32 [n_in, n_mat], sums of squared activations, and WEIGHT.counts F32 [1, n_mat], how many were
 * summed; n_mat is the number of experts of a stack, else 1. Other tensors are ignored. Nothing in
 * a file is trusted. An open object is read-only and may be shared between threads. */
#ifndef SM_GGUF_IMATRIX_H
#define SM_GGUF_IMATRIX_H

#include "gguf/gguf.h"

struct sm_imatrix;

struct sm_imatrix_entry {
    const struct sm_tensor_info *sums, *counts;
    uint64_t n_in, n_mat;
};

/* Open and check: the kind of file, type and shape of every tensor that counts. Values are read
 * when they are asked for. */
SM_NODISCARD smol_status sm_imatrix_open(struct sm_imatrix **out, const char *path,
                                         smol_error *err);
/* The same of n bytes in memory, which must outlive the object. */
SM_NODISCARD smol_status sm_imatrix_parse(struct sm_imatrix **out, const uint8_t *bytes, size_t n,
                                          smol_error *err);
void sm_imatrix_free(struct sm_imatrix *im); /* NULL is fine */

const char *sm_imatrix_path(const struct sm_imatrix *im); /* "" for one in memory */
uint32_t sm_imatrix_n_entries(const struct sm_imatrix *im);
/* Number of chunks of text that were read and the first data set's name; false: not said. */
bool sm_imatrix_n_chunks(const struct sm_imatrix *im, uint32_t *n);
bool sm_imatrix_dataset(const struct sm_imatrix *im, struct sm_str *name);

/* The entry of a weight ("blk.0.attn_q.weight"); false: it has none. */
bool sm_imatrix_find(const struct sm_imatrix *im, const char *weight, struct sm_imatrix_entry *out);
/* One weight per column of matrix `mat` into v[n_in]: sum / count in single precision; all ones
 * where the count is 0. FORMAT: a value that is negative or no finite number. */
SM_NODISCARD smol_status sm_imatrix_row(const struct sm_imatrix *im,
                                        const struct sm_imatrix_entry *e, uint64_t mat, float *v,
                                        smol_error *err);
/* That this is the matrix of this model: every entry of one of its weights has that weight's shape,
 * and there is one at least. All their values are read once, so that nothing is found wrong later.
 * *n_other counts the entries of weights that the model does not have. */
SM_NODISCARD smol_status sm_imatrix_check(const struct sm_imatrix *im, const struct sm_gguf *model,
                                          uint32_t *n_other, smol_error *err);

#endif
