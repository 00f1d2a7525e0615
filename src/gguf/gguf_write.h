/* SPDX-License-Identifier: MIT */
/* Writing GGUF v3 in the strict form that stock tools want: tensors in file order, no gaps, each
 * padded to the alignment. A sealed header is parsed by our own reader before a byte is written, so
 * what the reader refuses cannot be written. One thread per writer.
 *
 *     struct sm_gguf_writer *w;
 *     SM_TRY(sm_gguf_writer_new(&w, err));
 *     SM_TRY_OUT(st, sm_gguf_writer_copy_kv(w, g, err));            metadata of an open file
 *     SM_TRY_OUT(st, sm_gguf_writer_set_u32(w, "general.file_type", 10, err));
 *     for each tensor: SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, name, type, n_dims, dim, err));
 *     SM_TRY_OUT(st, sm_gguf_writer_create(w, path, err));          header written
 *     for each tensor, in order, in pieces of any size:
 *         SM_TRY_OUT(st, sm_gguf_writer_put(w, data, n, err));      padding comes by itself
 *     SM_TRY_OUT(st, sm_gguf_writer_end(w, err));                   the file appears under its name
 *     out: sm_gguf_writer_free(w);                                  unfinished: nothing is left
 */
#ifndef SM_GGUF_WRITE_H
#define SM_GGUF_WRITE_H

#include "gguf/gguf.h"

struct sm_gguf_writer;

SM_NODISCARD smol_status sm_gguf_writer_new(struct sm_gguf_writer **out, smol_error *err);
/* NULL is fine. A file begun by sm_gguf_writer_create and not ended is removed. */
void sm_gguf_writer_free(struct sm_gguf_writer *w);

/* ---- metadata: a key set twice keeps its place and takes the later value ------------------- */

/* All pairs of g but split.*, which describe files and not models. Values and keys are borrowed: g
 * must outlive the writer, and sm_gguf_drop_arrays(g) must not be called meanwhile. */
SM_NODISCARD smol_status sm_gguf_writer_copy_kv(struct sm_gguf_writer *w, const struct sm_gguf *g,
                                                smol_error *err);
/* Any value, in the form of struct sm_kv (arrays of strings: u64 length and bytes of each). The
 * bytes are copied. elem_type and count only matter for arrays. */
SM_NODISCARD smol_status sm_gguf_writer_set(struct sm_gguf_writer *w, const char *key,
                                            uint32_t type, uint32_t elem_type, uint64_t count,
                                            const void *data, size_t bytes, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_u32(struct sm_gguf_writer *w, const char *key,
                                                uint32_t value, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_u64(struct sm_gguf_writer *w, const char *key,
                                                uint64_t value, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_f32(struct sm_gguf_writer *w, const char *key,
                                                float value, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_bool(struct sm_gguf_writer *w, const char *key,
                                                 bool value, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_str(struct sm_gguf_writer *w, const char *key,
                                                const char *value, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_set_strings(struct sm_gguf_writer *w, const char *key,
                                                    const struct sm_str *value, size_t n,
                                                    smol_error *err);
/* The three keys of part `no` (from 0) of `count`, `n_tensors` in all parts together. */
SM_NODISCARD smol_status sm_gguf_writer_set_split(struct sm_gguf_writer *w, uint16_t no,
                                                  uint16_t count, uint32_t n_tensors,
                                                  smol_error *err);
/* Returns whether the key was there. */
bool sm_gguf_writer_remove(struct sm_gguf_writer *w, const char *key);

/* ---- tensors ------------------------------------------------------------------------------- */

/* Appends a tensor; dim has n_dims sizes, fastest first. The order is that of the file. */
SM_NODISCARD smol_status sm_gguf_writer_add_tensor(struct sm_gguf_writer *w, const char *name,
                                                   uint32_t type, uint32_t n_dims,
                                                   const uint64_t *dim, smol_error *err);

/* ---- sealing: after this, metadata and tensors are fixed ----------------------------------- */

/* Lay the file out, with the alignment that general.alignment says (32 without it), and check it.
 * The writing functions below seal by themselves. */
SM_NODISCARD smol_status sm_gguf_writer_seal(struct sm_gguf_writer *w, smol_error *err);
/* Of a sealed writer: header bytes with the padding before the data (owned by the writer), bytes of
 * the whole file, byte offset and size of tensor i in the file. */
const uint8_t *sm_gguf_writer_head(const struct sm_gguf_writer *w, size_t *n);
uint64_t sm_gguf_writer_file_bytes(const struct sm_gguf_writer *w);
uint64_t sm_gguf_writer_tensor_at(const struct sm_gguf_writer *w, size_t i);
uint64_t sm_gguf_writer_tensor_bytes(const struct sm_gguf_writer *w, size_t i);

/* ---- writing ------------------------------------------------------------------------------- */

/* Takes n bytes that follow those of the call before. */
typedef smol_status (*sm_gguf_sink)(void *ctx, const void *data, size_t n, smol_error *err);

/* Write the header to a sink, or to a new file PATH.part that sm_gguf_writer_end renames to
 * PATH. */
SM_NODISCARD smol_status sm_gguf_writer_begin(struct sm_gguf_writer *w, sm_gguf_sink sink,
                                              void *ctx, smol_error *err);
SM_NODISCARD smol_status sm_gguf_writer_create(struct sm_gguf_writer *w, const char *path,
                                               smol_error *err);
/* The next n bytes of tensor data, running on from tensor to tensor; too many are ARG. */
SM_NODISCARD smol_status sm_gguf_writer_put(struct sm_gguf_writer *w, const void *data, size_t n,
                                            smol_error *err);
/* All tensors must be complete. Pads the last one; a created file is synced and gets its name. */
SM_NODISCARD smol_status sm_gguf_writer_end(struct sm_gguf_writer *w, smol_error *err);

#endif
