/* SPDX-License-Identifier: MIT */
/* Metadata, tensor records and layout of a file to be written. */
#include "gguf/gguf_write.h"
#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_int.h"
#include "gguf/gguf_write_int.h"
#include "quant/quant.h"

#include <assert.h>
#include <inttypes.h>

smol_status sm_gguf_writer_new(struct sm_gguf_writer **out, smol_error *err)
{
    void *p;
    *out = NULL;
    SM_TRY(sm_gguf_alloc(&p, sizeof **out, err));
    *out = p;
    return SMOL_OK;
}

static void free_pair(struct sm_write_pair *p)
{
    sm_mem_free(p->own_key, p->kv.key.n);
    sm_mem_free(p->own_data, (size_t)p->kv.bytes);
}

void sm_gguf_writer_free(struct sm_gguf_writer *w)
{
    if (!w) return;
    sm_gguf_writer_drop_file(w);
    for (size_t i = 0; i < w->n_pairs; i++) free_pair(&w->pair[i]);
    sm_mem_free(w->pair, w->pairs_room * sizeof *w->pair);
    sm_mem_free(w->tensor, w->tensors_room * sizeof *w->tensor);
    sm_mem_free(w->head, w->head_bytes);
    sm_mem_free(w, sizeof *w);
}

/* Room for one more element of an array that grows by doubling. */
static smol_status grow(void **array, size_t *room, size_t n, size_t each, smol_error *err)
{
    void *p;
    if (n < *room) return SMOL_OK;
    const size_t want = *room ? 2 * *room : 32;
    SM_TRY(sm_gguf_alloc(&p, (uint64_t)want * each, err));
    if (n) memcpy(p, *array, n * each);
    sm_mem_free(*array, *room * each);
    *array = p;
    *room = want;
    return SMOL_OK;
}

/* ---- metadata ------------------------------------------------------------------------------ */

static size_t find_pair(const struct sm_gguf_writer *w, struct sm_str key)
{
    size_t i = 0;
    while (i < w->n_pairs &&
           (w->pair[i].kv.key.n != key.n || memcmp(w->pair[i].kv.key.p, key.p, key.n)))
        i++;
    return i;
}

/* Takes what is owned by `pair`, also on failure. */
static smol_status put_pair(struct sm_gguf_writer *w, struct sm_write_pair pair, smol_error *err)
{
    assert(!w->head);
    const size_t i = find_pair(w, pair.kv.key);
    if (i < w->n_pairs) {
        free_pair(&w->pair[i]);
    } else {
        void *p = w->pair;
        const smol_status st = grow(&p, &w->pairs_room, w->n_pairs, sizeof pair, err);
        if (st != SMOL_OK) {
            free_pair(&pair);
            return st;
        }
        w->pair = p;
        w->n_pairs++;
    }
    w->pair[i] = pair;
    return SMOL_OK;
}

smol_status sm_gguf_writer_copy_kv(struct sm_gguf_writer *w, const struct sm_gguf *g,
                                   smol_error *err)
{
    for (size_t i = 0; i < sm_gguf_n_kv(g); i++) {
        const struct sm_write_pair pair = {.kv = *sm_gguf_kv(g, i)};
        if (pair.kv.key.n >= 6 && !memcmp(pair.kv.key.p, "split.", 6)) continue;
        SM_TRY(put_pair(w, pair, err));
    }
    return SMOL_OK;
}

smol_status sm_gguf_writer_set(struct sm_gguf_writer *w, const char *key, uint32_t type,
                               uint32_t elem_type, uint64_t count, const void *data, size_t bytes,
                               smol_error *err)
{
    const bool array = type == SM_KV_ARRAY;
    struct sm_write_pair pair = {.kv = {.type = type,
                                        .elem_type = array ? elem_type : type,
                                        .count = array ? count : 1,
                                        .bytes = bytes}};
    SM_TRY(sm_gguf_alloc(&pair.own_key, strlen(key), err));
    pair.kv.key.n = strlen(key);
    const smol_status st = sm_gguf_alloc(&pair.own_data, bytes, err);
    if (st != SMOL_OK) {
        sm_mem_free(pair.own_key, pair.kv.key.n);
        return st;
    }
    if (pair.kv.key.n) memcpy(pair.own_key, key, pair.kv.key.n);
    if (bytes) memcpy(pair.own_data, data, bytes);
    pair.kv.key.p = pair.own_key;
    pair.kv.data = pair.own_data;
    return put_pair(w, pair, err);
}

smol_status sm_gguf_writer_set_u32(struct sm_gguf_writer *w, const char *key, uint32_t value,
                                   smol_error *err)
{
    return sm_gguf_writer_set(w, key, SM_KV_U32, 0, 1, &value, sizeof value, err);
}

smol_status sm_gguf_writer_set_u64(struct sm_gguf_writer *w, const char *key, uint64_t value,
                                   smol_error *err)
{
    return sm_gguf_writer_set(w, key, SM_KV_U64, 0, 1, &value, sizeof value, err);
}

smol_status sm_gguf_writer_set_f32(struct sm_gguf_writer *w, const char *key, float value,
                                   smol_error *err)
{
    return sm_gguf_writer_set(w, key, SM_KV_FLOAT32, 0, 1, &value, sizeof value, err);
}

smol_status sm_gguf_writer_set_bool(struct sm_gguf_writer *w, const char *key, bool value,
                                    smol_error *err)
{
    const uint8_t byte = value;
    return sm_gguf_writer_set(w, key, SM_KV_BOOL, 0, 1, &byte, 1, err);
}

smol_status sm_gguf_writer_set_str(struct sm_gguf_writer *w, const char *key, const char *value,
                                   smol_error *err)
{
    return sm_gguf_writer_set(w, key, SM_KV_STRING, 0, 1, value, strlen(value), err);
}

smol_status sm_gguf_writer_set_strings(struct sm_gguf_writer *w, const char *key,
                                       const struct sm_str *value, size_t n, smol_error *err)
{
    uint64_t bytes = 0;
    void *p;
    for (size_t i = 0; i < n; i++) bytes += 8 + (uint64_t)value[i].n;
    SM_TRY(sm_gguf_alloc(&p, bytes, err));
    uint8_t *to = p;
    for (size_t i = 0; i < n; i++) {
        sm_st64(to, value[i].n);
        if (value[i].n) memcpy(to + 8, value[i].p, value[i].n);
        to += 8 + value[i].n;
    }
    const smol_status st =
        sm_gguf_writer_set(w, key, SM_KV_ARRAY, SM_KV_STRING, n, p, (size_t)bytes, err);
    sm_mem_free(p, (size_t)bytes);
    return st;
}

smol_status sm_gguf_writer_set_split(struct sm_gguf_writer *w, uint16_t no, uint16_t count,
                                     uint32_t n_tensors, smol_error *err)
{
    SM_TRY(sm_gguf_writer_set(w, "split.no", SM_KV_U16, 0, 1, &no, sizeof no, err));
    SM_TRY(sm_gguf_writer_set(w, "split.count", SM_KV_U16, 0, 1, &count, sizeof count, err));
    return sm_gguf_writer_set(w, "split.tensors.count", SM_KV_I32, 0, 1, &n_tensors,
                              sizeof n_tensors, err);
}

bool sm_gguf_writer_remove(struct sm_gguf_writer *w, const char *key)
{
    assert(!w->head);
    const struct sm_str s = {key, strlen(key)};
    const size_t i = find_pair(w, s);
    if (i == w->n_pairs) return false;
    free_pair(&w->pair[i]);
    w->n_pairs--;
    memmove(&w->pair[i], &w->pair[i + 1], (w->n_pairs - i) * sizeof *w->pair);
    return true;
}

/* ---- tensors ------------------------------------------------------------------------------- */

smol_status sm_gguf_writer_add_tensor(struct sm_gguf_writer *w, const char *name, uint32_t type,
                                      uint32_t n_dims, const uint64_t *dim, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    struct sm_write_tensor t = {.type = type, .n_dims = n_dims};
    const size_t n = strlen(name);
    const struct sm_traits *tr = sm_traits_of(type);
    assert(!w->head);
    (void)sm_gguf_quote(q, name, n);
    if (n == 0 || n > SM_GGUF_NAME_MAX)
        return SM_FAIL(err, ARG, "tensor name '%s': expected 1 to 63 bytes, found %zu", q, n);
    if (n_dims > 4)
        return SM_FAIL(err, ARG, "tensor '%s': expected at most 4 dimensions, found %" PRIu32, q,
                       n_dims);
    memcpy(t.name, name, n);
    for (unsigned i = 0; i < 4; i++) t.dim[i] = i < n_dims ? dim[i] : 1;
    if (!tr || t.dim[0] % tr->block)
        return SM_FAIL(err, ARG, "tensor '%s': rows of %" PRIu64 " elements do not fit type %s", q,
                       t.dim[0], sm_type_name(type));
    t.bytes = t.dim[0] / tr->block;
    bool ok = sm_mul_ok(t.bytes, tr->block_bytes, &t.bytes);
    for (unsigned i = 1; i < 4; i++) ok = ok && sm_mul_ok(t.bytes, t.dim[i], &t.bytes);
    if (!ok || t.bytes > INT64_MAX || t.bytes == 0)
        return SM_FAIL(err, ARG, "tensor '%s' has no size that a file can hold", q);
    void *p = w->tensor;
    SM_TRY(grow(&p, &w->tensors_room, w->n_tensors, sizeof t, err));
    w->tensor = p;
    w->tensor[w->n_tensors++] = t;
    return SMOL_OK;
}

/* ---- sealing ------------------------------------------------------------------------------- */

struct out { uint8_t *p; uint64_t n; }; /* p NULL: count only */

static void put(struct out *o, const void *data, uint64_t n)
{
    if (o->p && n) memcpy(o->p + o->n, data, (size_t)n);
    o->n += n;
}
static void put32(struct out *o, uint32_t v) { put(o, &v, sizeof v); }
static void put64(struct out *o, uint64_t v) { put(o, &v, sizeof v); }

static void put_head(const struct sm_gguf_writer *w, struct out *o)
{
    put(o, "GGUF", 4);
    put32(o, 3);
    put64(o, w->n_tensors);
    put64(o, w->n_pairs);
    for (size_t i = 0; i < w->n_pairs; i++) {
        const struct sm_kv *kv = &w->pair[i].kv;
        put64(o, kv->key.n);
        put(o, kv->key.p, kv->key.n);
        put32(o, kv->type);
        if (kv->type == SM_KV_ARRAY) {
            put32(o, kv->elem_type);
            put64(o, kv->count);
        } else if (kv->type == SM_KV_STRING) {
            put64(o, kv->bytes);
        }
        put(o, kv->data, kv->bytes);
    }
    for (size_t i = 0; i < w->n_tensors; i++) {
        const struct sm_write_tensor *t = &w->tensor[i];
        put64(o, strlen(t->name));
        put(o, t->name, strlen(t->name));
        put32(o, t->n_dims);
        for (unsigned k = 0; k < t->n_dims; k++) put64(o, t->dim[k]);
        put32(o, t->type);
        put64(o, t->at); /* offset from the start of the data */
    }
}

static uint32_t alignment_of(const struct sm_gguf_writer *w)
{
    const struct sm_str key = {"general.alignment", 17};
    const size_t i = find_pair(w, key);
    const uint32_t a =
        i < w->n_pairs && w->pair[i].kv.bytes == 4 ? sm_ld32(w->pair[i].kv.data) : 32;
    return a && !(a & (a - 1)) && a <= SM_GGUF_ALIGN_MAX ? a : 32; /* the reader will complain */
}

smol_status sm_gguf_writer_seal(struct sm_gguf_writer *w, smol_error *err)
{
    struct sm_gguf *g;
    struct out o = {NULL, 0};
    uint64_t at = 0;
    void *p;
    if (w->head) return SMOL_OK;
    w->alignment = alignment_of(w);
    for (size_t i = 0; i < w->n_tensors; i++) {
        w->tensor[i].at = at;
        if (!sm_add_ok(at, w->tensor[i].bytes, &at) || at > INT64_MAX / 2)
            return SM_FAIL(err, LIMIT, "the tensors together do not fit a file");
        at = sm_round_up64(at, w->alignment);
    }
    put_head(w, &o);
    const uint64_t head_bytes = sm_round_up64(o.n, w->alignment);
    SM_TRY(sm_gguf_alloc(&p, head_bytes, err));
    o = (struct out){p, 0};
    put_head(w, &o);
    w->file_bytes = head_bytes + at;
    const smol_status st = sm_gguf_parse(&g, p, (size_t)head_bytes, w->file_bytes, err);
    if (st != SMOL_OK) {
        sm_mem_free(p, (size_t)head_bytes);
        return st;
    }
    sm_gguf_free(g);
    w->head = p;
    w->head_bytes = (size_t)head_bytes;
    for (size_t i = 0; i < w->n_tensors; i++) w->tensor[i].at += head_bytes;
    return SMOL_OK;
}

const uint8_t *sm_gguf_writer_head(const struct sm_gguf_writer *w, size_t *n)
{
    *n = w->head_bytes;
    return w->head;
}
uint64_t sm_gguf_writer_file_bytes(const struct sm_gguf_writer *w) { return w->file_bytes; }
uint64_t sm_gguf_writer_tensor_at(const struct sm_gguf_writer *w, size_t i)
{
    return w->tensor[i].at;
}
uint64_t sm_gguf_writer_tensor_bytes(const struct sm_gguf_writer *w, size_t i)
{
    return w->tensor[i].bytes;
}
