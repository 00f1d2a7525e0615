/* SPDX-License-Identifier: MIT */
/* The key/value cache of one layer: rows of n_kv heads of keys and of values in one of the KV
 * formats, for positions 0 .. capacity-1, or for the last `capacity` positions in a ring (a layer
 * with a sliding window never holds more than its window). The memory belongs to the session. */
#ifndef SM_KV_H
#define SM_KV_H

#include "graph/rope.h"

struct sm_kv_cache {
    enum sm_kv_type type;
    uint32_t n_kv, dk, dv, capacity;
    size_t k_head_bytes, v_head_bytes, k_stride, v_stride; /* a head; all heads of a position */
    bool ring; /* position p is in row p mod capacity */
    uint8_t *k, *v;
};

/* Bytes of one head of n values; 0 when the format cannot hold it (q8_0 needs multiples of 32). */
size_t sm_kv_head_bytes(enum sm_kv_type type, uint32_t n);
/* Fix shapes and take the memory from `a` (only counts while a->base is NULL) for `capacity`
 * positions, or for `window` positions in a ring where that is fewer (0: no window). */
void sm_kv_layout(struct sm_kv_cache *c, struct sm_arena *a, enum sm_kv_type type, uint32_t n_kv,
                  uint32_t dk, uint32_t dv, uint32_t capacity, uint32_t window);
/* The same for one head whose value is the first part of its key (latent attention). */
void sm_kv_layout_latent(struct sm_kv_cache *c, struct sm_arena *a, enum sm_kv_type type,
                         uint32_t dk, uint32_t capacity);
/* Store the key and value of one head at a position; v is not read when dv is 0. */
void sm_kv_store(const struct sm_kern *kern, struct sm_kv_cache *c, uint32_t pos, uint32_t head,
                 const float *k, const float *v);
/* Move positions [from, end) down by `by` <= from and turn their keys by as much: channels
 * [first, first + r->n_rot) of each head. Not for rings. tmp: dk floats and r->n_rot. Lossy:
 * docs/arithmetic.md section 5. */
void sm_kv_shift(const struct sm_kern *kern, struct sm_kv_cache *c, const struct sm_rope *r,
                 uint32_t first, uint32_t from, uint32_t end, uint32_t by, float *tmp);

#endif
