/* SPDX-License-Identifier: MIT */
/* Shared by the files of this folder only.
 *
 * A header is walked twice by the same code. The first walk checks everything that can be checked
 * record by record and keeps nothing but a few numbers; it looks at the file through a bounded
 * buffer, so a bad file costs at most a few MB whatever it claims. The second walk runs over the
 * whole header in one piece of memory and fills the tables, whose sizes are known by then. */
#ifndef SM_GGUF_INT_H
#define SM_GGUF_INT_H

#include "gguf/gguf.h"
#include "gguf/gguf_pack.h"
#include "plat/plat.h"

#include <string.h>

#define SM_GGUF_KEY_MAX ((uint64_t)64 << 10)
#define SM_GGUF_STR_MAX ((uint64_t)16 << 20)
#define SM_GGUF_N_KV_MAX 65536u
#define SM_GGUF_N_TENSOR_MAX 1000000u
#define SM_GGUF_NAME_MAX 63u
#define SM_GGUF_ALIGN_MAX ((uint64_t)16 << 20)
#define SM_GGUF_FILE_MAX (UINT64_C(1) << 62) /* so that sums of two offsets cannot wrap */
#define SM_GGUF_HEADER_MAX ((uint64_t)512 << 20)
#define SM_GGUF_KEEP_MAX ((size_t)4 << 20)    /* header bytes kept by the first walk */
#define SM_GGUF_WINDOW ((size_t)256 << 10)    /* first read, and reads beyond KEEP_MAX */
#define SM_GGUF_DROP_BYTES ((uint64_t)64 << 10) /* arrays up to this survive drop_arrays */

struct sm_block_mem { uint8_t *p; size_t n; }; /* owned, from sm_mem_new */

/* Names to indices: open addressing over index + 1, at most half full, seeded. */
struct sm_name_index { uint32_t *slot; size_t n_slots; };

struct sm_shard { char *path; size_t path_bytes; uint64_t bytes; };

struct sm_gguf {
    struct sm_block_mem head; /* header bytes of part 0; keys and values point into it */
    struct sm_kv *kv;
    size_t n_kv, kv_alloc;
    struct sm_name_index kv_index;
    struct sm_tensor_info *tensor;
    size_t n_tensors;
    char *names; /* all tensor names, terminated */
    size_t names_bytes;
    struct sm_name_index tensor_index;
    struct sm_shard *file;
    size_t n_files;
    uint64_t seed;
    uint64_t data_at; /* of the file parsed last */
    bool cut;         /* weights beyond the end of the file are accepted */
    uint32_t version, alignment;
    struct sm_pack *pack; /* NULL: not a pack */
};

/* ---- cursor -------------------------------------------------------------------------------- */

struct sm_cursor {
    const uint8_t *base; /* bytes [at, at + have) of the file */
    uint64_t at;
    size_t have;
    uint64_t pos, size; /* pos <= size always; size is that of the file */
    bool whole;         /* base holds the whole header: pointers into it stay valid */
    struct sm_file *file; /* NULL: memory only */
    struct sm_block_mem keep, window; /* owned by a cursor over a file */
    smol_error *err;
};

void sm_cursor_memory(struct sm_cursor *c, const uint8_t *bytes, size_t n, uint64_t file_bytes,
                      smol_error *err);
void sm_cursor_file(struct sm_cursor *c, struct sm_file *f, smol_error *err);
void sm_cursor_close(struct sm_cursor *c);
/* n bytes at pos, n <= SM_GGUF_KEY_MAX; valid until the next call. `what` ends the sentence "the
 * file ends inside …". */
SM_NODISCARD smol_status sm_cursor_take(struct sm_cursor *c, size_t n, const uint8_t **out,
                                        const char *what);
/* Step over n bytes without looking; *out points at them when c->whole, else it is NULL. */
SM_NODISCARD smol_status sm_cursor_skip(struct sm_cursor *c, uint64_t n, const uint8_t **out,
                                        const char *what);
SM_NODISCARD smol_status sm_cursor_u32(struct sm_cursor *c, uint32_t *out, const char *what);
SM_NODISCARD smol_status sm_cursor_u64(struct sm_cursor *c, uint64_t *out, const char *what);

/* ---- the rest ------------------------------------------------------------------------------ */

/* Printable copy for messages: strange bytes become '?', long text is cut with "...". Room for
 * SM_GGUF_QUOTE bytes at buf. Returns buf. */
#define SM_GGUF_QUOTE 68u
const char *sm_gguf_quote(char *buf, const void *p, uint64_t n);

/* What a file is that does not begin with the magic of GGUF: "is a web page (HTML)". Never NULL;
 * buf has room for the answer when it must be composed. first: up to 4 KiB of the file. */
const char *sm_gguf_kind(const uint8_t *first, size_t n, uint64_t file_bytes, char *buf,
                         size_t buf_bytes);

/* Parse one file into g (fresh from calloc-like zero), tensors marked with `file`. */
SM_NODISCARD smol_status sm_gguf_read(struct sm_gguf *g, struct sm_cursor *c, smol_error *err);

/* After the rest of a file: if it is a pack, show the tensors of its source (gguf_pack.h). */
SM_NODISCARD smol_status sm_gguf_read_pack(struct sm_gguf *g, uint64_t file_bytes, smol_error *err);
void sm_pack_free(struct sm_pack *p); /* NULL is fine */
size_t sm_pack_memory(const struct sm_pack *p);

/* All tensors of one file together: no overlap, no unexplained gap, inside the file, in any
 * order. */
SM_NODISCARD smol_status sm_gguf_check_layout(const struct sm_gguf *g, uint64_t file_bytes,
                                              smol_error *err);

/* Index n names; name(ctx, i) gives the i-th. *dup: an index whose name occurred before, n if
 * none. NOMEM only. */
typedef struct sm_str (*sm_gguf_name_fn)(const struct sm_gguf *g, size_t i);
struct sm_str sm_gguf_kv_name(const struct sm_gguf *g, size_t i);
struct sm_str sm_gguf_tensor_name(const struct sm_gguf *g, size_t i);
SM_NODISCARD smol_status sm_gguf_index_build(struct sm_gguf *g, struct sm_name_index *ix,
                                             sm_gguf_name_fn name, size_t n, size_t *dup,
                                             smol_error *err);
void sm_gguf_index_free(struct sm_name_index *ix);
/* Allocation with the sentence for failure; n == 0 gives NULL and OK. */
SM_NODISCARD smol_status sm_gguf_alloc(void **out, uint64_t n, smol_error *err);
SM_NODISCARD smol_status sm_gguf_set_file(struct sm_gguf *g, const char *path, uint64_t bytes,
                                          smol_error *err);

#endif
