/* SPDX-License-Identifier: MIT */
/* Builds GGUF images byte by byte, right or wrong, for the tests of the reader. */
#ifndef TESTS_GGUF_BYTES_H
#define TESTS_GGUF_BYTES_H

#include "gguf/gguf.h"

struct gguf_bytes { uint8_t *p; size_t n, room; };

void gb_free(struct gguf_bytes *b);
void gb_put(struct gguf_bytes *b, const void *data, size_t n);
void gb_u8(struct gguf_bytes *b, uint8_t v);
void gb_u16(struct gguf_bytes *b, uint16_t v);
void gb_u32(struct gguf_bytes *b, uint32_t v);
void gb_u64(struct gguf_bytes *b, uint64_t v);
void gb_f32(struct gguf_bytes *b, float v);
void gb_f64(struct gguf_bytes *b, double v);
void gb_str(struct gguf_bytes *b, const char *s); /* length and bytes */
void gb_zeros(struct gguf_bytes *b, size_t n);
void gb_pad(struct gguf_bytes *b, size_t alignment); /* zeros to the next multiple */

/* Starts afresh: magic, version and counts. */
void gb_head(struct gguf_bytes *b, uint32_t version, uint64_t n_tensors, uint64_t n_kv);
void gb_key(struct gguf_bytes *b, const char *key, uint32_t type); /* the value comes next */
void gb_kv_u32(struct gguf_bytes *b, const char *key, uint32_t v);
void gb_kv_str(struct gguf_bytes *b, const char *key, const char *v);
/* dims: n_dims sizes. */
void gb_tensor(struct gguf_bytes *b, const char *name, uint32_t n_dims, const uint64_t *dims,
               uint32_t type, uint64_t offset);
/* One dimension. */
void gb_tensor1(struct gguf_bytes *b, const char *name, uint64_t n, uint32_t type, uint64_t offset);

/* One sentence: words, printable, no line end, not cut. */
int gb_is_sentence(const smol_error *err);
/* TAP points: the image is accepted; or it fails with `code` and a sentence that holds `part`. */
void gb_accept(const struct gguf_bytes *b, const char *what);
void gb_refuse(const struct gguf_bytes *b, smol_status code, const char *part, const char *what);
/* The same for an image that is the beginning of a file of file_bytes. */
void gb_refuse_in(const struct gguf_bytes *b, uint64_t file_bytes, smol_status code,
                  const char *part, const char *what);

#endif
