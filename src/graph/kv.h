/* SPDX-License-Identifier: MIT */
/* The key/value cache of one layer: positions 0 .. capacity-1, each with n_kv heads of keys and of
 * values in one of the KV formats. The memory belongs to the session. */
#ifndef SM_KV_H
#define SM_KV_H

#include "graph/graph.h"

struct sm_kv_cache {
    enum sm_kv_type type;
    uint32_t n_kv, dk, dv, capacity;
    size_t k_head_bytes, v_head_bytes, k_stride, v_stride; /* a head; all heads of a position */
    uint8_t *k, *v;
};

/* Bytes of one head of n values; 0 when the format cannot hold it (q8_0 needs multiples of 32). */
size_t sm_kv_head_bytes(enum sm_kv_type type, uint32_t n);
/* Fix shapes and take the memory from `a` (only counts while a->base is NULL). */
void sm_kv_layout(struct sm_kv_cache *c, struct sm_arena *a, enum sm_kv_type type, uint32_t n_kv,
                  uint32_t dk, uint32_t dv, uint32_t capacity);

#endif
