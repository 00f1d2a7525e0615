/* SPDX-License-Identifier: MIT */
/* A small GGUF with layers of experts and made-up weights, its bytes kept in memory, so that what a
 * store holds can be compared with what it should hold. */
#ifndef SM_TESTS_STORE_FILE_H
#define SM_TESTS_STORE_FILE_H

#include "gguf/gguf.h"
#include "store/pager.h"

struct store_shape {
    uint32_t n_layers, n_expert;
    uint32_t n_embd, n_ffn;      /* multiples of the blocks */
    uint32_t n_vocab;
    uint32_t type_gate, type_down, type_dense, type_embd;
    bool fused;                  /* one gate_up tensor instead of two */
    bool mixed;                  /* in odd layers down is of type_gate too */
    uint64_t seed;
};

struct store_file {
    struct store_shape shape;
    const char *path;            /* valid until the program ends */
    uint8_t *bytes;
    size_t n_bytes, cap;
    struct sm_gguf *gguf;
    uint8_t **packed;            /* by tensor: the whole of it as x8, made when first wanted */
};

/* Write it below temp_dir() and read its header; aborts when that fails. */
void store_file_make(struct store_file *f, const char *name, const struct store_shape *shape);
void store_file_free(struct store_file *f);

/* A fake reader: until store_file_unfake, every pread (of any file) is served from f's bytes in
 * memory. `before` (may be NULL) is called first, in the reading thread: it may sleep or wait, so
 * that a test scripts latencies and the order of completion. */
typedef void (*store_file_before)(void *arg, uint64_t at, size_t n);
void store_file_fake(const struct store_file *f, store_file_before before, void *arg);
void store_file_unfake(void);

/* "blk.L.PART", NULL if absent; PART: ffn_gate_exps, ffn_up_exps, ffn_gate_up_exps, ffn_down_exps,
 * dense, norm; and without a layer: token_embd, all with ".weight". */
const struct sm_tensor_info *store_file_tensor(const struct store_file *f, int layer,
                                               const char *part);

/* Declare everything in a store: per layer norm and dense resident and one pool; the embedding by
 * row. weights: [2 * n_layers + 1], may be NULL. */
smol_status store_file_declare(const struct store_file *f, struct sm_store *s,
                               const struct sm_weight **weights, smol_error *err);

/* True when the memory at `held` is rows [row0, row0 + n_rows) of the tensor in kernel layout. */
bool store_file_same(const struct store_file *f, const struct sm_tensor_info *t, uint64_t row0,
                     uint32_t n_rows, const uint8_t *held);
/* True when e holds expert `expert` of pool (layer) `layer`; `halves`: 1 gate and up, 2 down. */
bool store_file_same_expert(const struct store_file *f, const struct sm_pool_info *info, int layer,
                            uint32_t expert, const struct sm_expert *e, unsigned halves);

#endif
