/* SPDX-License-Identifier: MIT */
/* GGUF v2 and v3 containers, split files included. Nothing in a file is trusted: every count is
 * checked against the bytes left before it is used, every failure names what, byte offset, expected
 * and found. A parsed object is read-only and may be shared between threads. */
#ifndef SM_GGUF_H
#define SM_GGUF_H

#include "base/status.h"
#include <stdbool.h>

#define SM_GGUF_MAGIC 0x46554747u /* "GGUF" little-endian */

enum sm_gguf_type {
    SM_KV_U8, SM_KV_I8, SM_KV_U16, SM_KV_I16, SM_KV_U32, SM_KV_I32, SM_KV_FLOAT32, SM_KV_BOOL,
    SM_KV_STRING, SM_KV_ARRAY, SM_KV_U64, SM_KV_I64, SM_KV_FLOAT64, SM_KV_TYPE_COUNT
};

struct sm_str { const char *p; size_t n; }; /* not terminated, may hold any byte */

struct sm_kv {
    struct sm_str key;
    uint32_t type;       /* enum sm_gguf_type */
    uint32_t elem_type;  /* of arrays */
    uint64_t count;      /* elements of an array, 1 otherwise */
    const uint8_t *data; /* value bytes, unaligned; strings: after their length */
    uint64_t bytes;      /* of the value at data */
    uint64_t at;         /* byte offset of the value in its file, for messages */
};

struct sm_place; /* gguf_pack.h */

struct sm_tensor_info {
    const char *name;   /* terminated copy, 1..63 bytes */
    uint32_t type;      /* GGUF type id with a known block size */
    uint32_t n_dims;    /* 0..4 */
    uint64_t dim[4];    /* fastest first; missing ones are 1 */
    uint64_t at;        /* absolute byte offset in its file */
    uint64_t bytes;
    uint32_t file;      /* shard, 0-based */
    const struct sm_place *place; /* how a pack holds it; NULL: rows in file order at `at` */
};

struct sm_gguf;

/* Read the header of a file (all shards when it is part of a split set, whichever shard is named).
 * Reads with sm_file_read; keeps the header bytes. A file of another kind is named for what it
 * is. */
SM_NODISCARD smol_status sm_gguf_open(struct sm_gguf **out, const char *path, smol_error *err);
/* As sm_gguf_open, but of a file that was cut off behind its header (the start of a download) only
 * the header is read: for plans. Weights must not be read through it unless sm_gguf_is_whole says
 * so. */
SM_NODISCARD smol_status sm_gguf_open_header(struct sm_gguf **out, const char *path,
                                             smol_error *err);
bool sm_gguf_is_whole(const struct sm_gguf *g);
/* Parse one header image of n bytes of a file of file_bytes bytes (n <= file_bytes). For tests and
 * fuzzing: no file is touched. The bytes are copied. */
SM_NODISCARD smol_status sm_gguf_parse(struct sm_gguf **out, const uint8_t *bytes, size_t n,
                                       uint64_t file_bytes, smol_error *err);
void sm_gguf_free(struct sm_gguf *g); /* NULL is fine */
/* Give the header bytes of arrays back (vocabularies) once they have been used: after this, array
 * values of more than 64 KiB are absent. Everything else stays. */
void sm_gguf_drop_arrays(struct sm_gguf *g);

uint32_t sm_gguf_version(const struct sm_gguf *g);
uint32_t sm_gguf_alignment(const struct sm_gguf *g);
size_t sm_gguf_n_files(const struct sm_gguf *g);
const char *sm_gguf_file_path(const struct sm_gguf *g, size_t i);
uint64_t sm_gguf_file_bytes(const struct sm_gguf *g, size_t i);
/* Bytes of memory this object holds. */
size_t sm_gguf_memory(const struct sm_gguf *g);

size_t sm_gguf_n_kv(const struct sm_gguf *g);
const struct sm_kv *sm_gguf_kv(const struct sm_gguf *g, size_t i);
const struct sm_kv *sm_gguf_find(const struct sm_gguf *g, const char *key); /* NULL: absent */

size_t sm_gguf_n_tensors(const struct sm_gguf *g);
const struct sm_tensor_info *sm_gguf_tensor(const struct sm_gguf *g, size_t i);
/* Which tensor of g `t` is. */
size_t sm_gguf_tensor_index(const struct sm_gguf *g, const struct sm_tensor_info *t);
const struct sm_tensor_info *sm_gguf_find_tensor(const struct sm_gguf *g, const char *name);

/* Typed getters. *found tells whether the key exists (NULL: the key is required and its absence is
 * FORMAT). A wrong type or a value out of [lo, hi] is FORMAT and names key, offset and value. Any
 * integer type is accepted for integers, f32/f64 and integers for floats. */
SM_NODISCARD smol_status sm_gguf_u64(const struct sm_gguf *g, const char *key, uint64_t lo,
                                     uint64_t hi, uint64_t *out, bool *found, smol_error *err);
SM_NODISCARD smol_status sm_gguf_f64(const struct sm_gguf *g, const char *key, double *out,
                                     bool *found, smol_error *err);
SM_NODISCARD smol_status sm_gguf_bool(const struct sm_gguf *g, const char *key, bool *out,
                                      bool *found, smol_error *err);
SM_NODISCARD smol_status sm_gguf_str(const struct sm_gguf *g, const char *key, struct sm_str *out,
                                     bool *found, smol_error *err);
/* A scalar, or element i of an array of at least i + 1 elements (per-layer keys). */
SM_NODISCARD smol_status sm_gguf_u64_at(const struct sm_gguf *g, const char *key, size_t i,
                                        uint64_t lo, uint64_t hi, uint64_t *out, bool *found,
                                        smol_error *err);
SM_NODISCARD smol_status sm_gguf_f64_at(const struct sm_gguf *g, const char *key, size_t i,
                                        double *out, bool *found, smol_error *err);
/* "u8", "string", …; static. */
const char *sm_gguf_kv_type_name(uint32_t type);
/* Iterate the strings of a string array: *cursor starts at 0; returns false after the last one. */
bool sm_gguf_next_str(const struct sm_kv *kv, uint64_t *cursor, struct sm_str *out);

#endif
