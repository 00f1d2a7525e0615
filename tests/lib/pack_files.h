/* SPDX-License-Identifier: MIT */
/* Packing in tests: files compared, copied, and models with everything a GGUF file may hold beside
 * its tensors. */
#ifndef SM_TESTS_PACK_FILES_H
#define SM_TESTS_PACK_FILES_H

#include "store/pack.h"

/* All of a file, from malloc; NULL: it cannot be opened. */
uint8_t *file_read(const char *path, size_t *n);
bool files_same(const char *a, const char *b);
void file_copy(const char *from, const char *to); /* aborts on failure */
uint64_t file_bytes(const char *path);
/* sm_pack_make / sm_pack_undo with options for tests: group_bytes 0: the default. */
smol_status pack_file(const char *in, const char *out, bool in_place, uint64_t group_bytes,
                      smol_error *err);
smol_status unpack_file(const char *in, const char *out, smol_error *err);
/* A copy of a model with random bytes in the padding and `n` more at the end. */
void file_copy_dirty(const char *from, const char *to, size_t n, uint64_t seed);
/* The model in n parts, TO-00001-of-0000n.gguf; aborts on failure. */
void file_split(const char *from, const char *to, unsigned n);

#endif
