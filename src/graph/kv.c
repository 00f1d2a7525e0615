/* SPDX-License-Identifier: MIT */
#include "graph/kv.h"
#include "base/fmath.h"
#include "quant/quant.h"

#include <assert.h>
#include <string.h>

size_t sm_kv_head_bytes(enum sm_kv_type type, uint32_t n)
{
    switch (type) {
    case SM_KV_F32: return (size_t)n * 4;
    case SM_KV_F16: return (size_t)n * 2;
    case SM_KV_Q8_0: return n % 32 ? 0 : (size_t)n / 32 * 34;
    case SM_KV_COUNT: break;
    }
    return 0;
}

void sm_kv_layout(struct sm_kv_cache *c, struct sm_arena *a, enum sm_kv_type type, uint32_t n_kv,
                  uint32_t dk, uint32_t dv, uint32_t capacity, uint32_t window)
{
    const bool ring = window && window < capacity;
    if (ring) capacity = window;
    *c = (struct sm_kv_cache){.type = type, .n_kv = n_kv, .dk = dk, .dv = dv,
                              .capacity = capacity, .ring = ring};
    c->k_head_bytes = sm_kv_head_bytes(type, dk);
    c->v_head_bytes = sm_kv_head_bytes(type, dv);
    c->k_stride = c->k_head_bytes * n_kv;
    c->v_stride = c->v_head_bytes * n_kv;
    c->k = sm_arena_take(a, c->k_stride * capacity);
    c->v = sm_arena_take(a, c->v_stride * capacity);
}

void sm_kv_layout_latent(struct sm_kv_cache *c, struct sm_arena *a, enum sm_kv_type type,
                         uint32_t dk, uint32_t capacity)
{
    sm_kv_layout(c, a, type, 1, dk, 0, capacity, 0);
    c->v = c->k;
    c->v_stride = c->k_stride;
}

void sm_kv_store(const struct sm_kern *kern, struct sm_kv_cache *c, uint32_t pos, uint32_t head,
                 const float *k, const float *v)
{
    const size_t row = c->ring ? pos % c->capacity : pos;
    kern->kv_store[c->type](c->k + row * c->k_stride + head * c->k_head_bytes, k, c->dk);
    if (c->dv) kern->kv_store[c->type](c->v + row * c->v_stride + head * c->v_head_bytes, v, c->dv);
}

/* A head as it was stored, in f32. */
static void load_head(enum sm_kv_type type, const uint8_t *head, float *x, uint32_t n)
{
    static const uint32_t as[SM_KV_COUNT] = {[SM_KV_F32] = SM_F32, [SM_KV_F16] = SM_F16,
                                             [SM_KV_Q8_0] = SM_Q8_0};
    sm_decode_row(as[type], head, x, n);
}

void sm_kv_shift(const struct sm_kern *kern, struct sm_kv_cache *c, const struct sm_rope *r,
                 uint32_t first, uint32_t from, uint32_t end, uint32_t by, float *tmp)
{
    float *const x = tmp, *const cs = tmp + c->dk;
    const uint32_t half = r->n_rot / 2;
    assert(!c->ring && by <= from && from <= end && end <= c->capacity);
    for (uint32_t i = 0; i < half; i++) { /* back by `by`; the gain is in the keys already */
        const double angle = (double)by * r->freq[i];
        cs[i] = (float)sm_cos(angle);
        cs[half + i] = (float)-sm_sin(angle);
    }
    for (uint32_t pos = from; pos < end; pos++)
        for (uint32_t h = 0; h < c->n_kv; h++) {
            const size_t head = h * c->k_head_bytes;
            load_head(c->type, c->k + pos * c->k_stride + head, x, c->dk);
            (r->adjacent ? kern->rope_adjacent : kern->rope_half)(x + first, cs, r->n_rot);
            kern->kv_store[c->type](c->k + (pos - by) * c->k_stride + head, x, c->dk);
        }
    if (c->dv)
        memmove(c->v + (from - by) * c->v_stride, c->v + from * c->v_stride,
                (end - from) * c->v_stride);
}
