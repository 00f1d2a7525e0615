/* SPDX-License-Identifier: MIT */
/* The parsed object: memory, names to indices, accessors. */
#include "gguf/gguf.h"
#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_int.h"

#include <inttypes.h>
#include <time.h>

smol_status sm_gguf_alloc(void **out, uint64_t n, smol_error *err)
{
    *out = NULL;
    if (n == 0) return SMOL_OK;
    if (n <= SIZE_MAX / 2) *out = sm_mem_new((size_t)n);
    if (!*out)
        return SM_FAIL(err, NOMEM, "no memory for %" PRIu64 " bytes of a model file's header", n);
    return SMOL_OK;
}

const char *sm_gguf_quote(char *buf, const void *p, uint64_t n)
{
    const unsigned char *s = p;
    const size_t max = SM_GGUF_QUOTE - 4; /* 64 characters, then "..." */
    size_t i = 0;
    for (; i < n && i < max; i++)
        buf[i] = (char)(s[i] >= 0x20 && s[i] < 0x7f && s[i] != '\'' ? s[i] : '?');
    for (unsigned k = 0; n > max && k < 3; k++) buf[i++] = '.';
    buf[i] = 0;
    return buf;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Seeded per object, so that nobody can prepare a file full of colliding names. The seed changes
 * only the order of slots, never an answer. */
static uint64_t hash_name(uint64_t seed, const char *p, size_t n)
{
    uint64_t h = seed ^ (n * UINT64_C(0x9e3779b97f4a7c15));
    while (n) {
        const size_t k = n < 8 ? n : 8;
        uint64_t w = 0;
        memcpy(&w, p, k);
        h = (h ^ w) * UINT64_C(0xd6e8feb86659fd93);
        h ^= h >> 29;
        h *= (seed | 1);
        h ^= h >> 32;
        p += k;
        n -= k;
    }
    return h;
}

struct sm_str sm_gguf_kv_name(const struct sm_gguf *g, size_t i) { return g->kv[i].key; }

struct sm_str sm_gguf_tensor_name(const struct sm_gguf *g, size_t i)
{
    const struct sm_str s = {g->tensor[i].name, strlen(g->tensor[i].name)};
    return s;
}

/* Index of a name, or SIZE_MAX; *slot: where it is or would go. The index has a free slot. */
static size_t index_find(const struct sm_gguf *g, const struct sm_name_index *ix,
                         sm_gguf_name_fn name, struct sm_str key, size_t *slot)
{
    const size_t mask = ix->n_slots - 1;
    size_t s = (size_t)hash_name(g->seed, key.p, key.n) & mask;
    for (; ix->slot[s]; s = (s + 1) & mask) {
        const size_t i = ix->slot[s] - 1u;
        const struct sm_str have = name(g, i);
        if (have.n == key.n && !memcmp(have.p, key.p, key.n)) {
            *slot = s;
            return i;
        }
    }
    *slot = s;
    return SIZE_MAX;
}

void sm_gguf_index_free(struct sm_name_index *ix)
{
    sm_mem_free(ix->slot, ix->n_slots * sizeof *ix->slot);
    memset(ix, 0, sizeof *ix);
}

smol_status sm_gguf_index_build(struct sm_gguf *g, struct sm_name_index *ix, sm_gguf_name_fn name,
                                size_t n, size_t *dup, smol_error *err)
{
    *dup = n;
    size_t n_slots = 8;
    while (n_slots < 2 * n) n_slots *= 2;
    if (!g->seed) /* address layout and time: enough that a file cannot know it */
        g->seed = ((uint64_t)(uintptr_t)g * UINT64_C(0x9e3779b97f4a7c15)) ^ (uint64_t)time(NULL) ^
                  ((uint64_t)clock() << 40) ^ 1u;
    void *p;
    SM_TRY(sm_gguf_alloc(&p, n_slots * sizeof *ix->slot, err));
    sm_gguf_index_free(ix);
    ix->slot = p;
    ix->n_slots = n_slots;
    for (size_t i = 0; i < n; i++) {
        size_t slot;
        if (index_find(g, ix, name, name(g, i), &slot) != SIZE_MAX) {
            *dup = i;
            return SMOL_OK;
        }
        ix->slot[slot] = (uint32_t)(i + 1);
    }
    return SMOL_OK;
}

const struct sm_kv *sm_gguf_find(const struct sm_gguf *g, const char *key)
{
    size_t slot;
    const struct sm_str s = {key, strlen(key)};
    if (!g->kv_index.slot) return NULL;
    const size_t i = index_find(g, &g->kv_index, sm_gguf_kv_name, s, &slot);
    return i == SIZE_MAX ? NULL : &g->kv[i];
}

const struct sm_tensor_info *sm_gguf_find_tensor(const struct sm_gguf *g, const char *name)
{
    size_t slot;
    const struct sm_str s = {name, strlen(name)};
    if (!g->tensor_index.slot) return NULL;
    const size_t i = index_find(g, &g->tensor_index, sm_gguf_tensor_name, s, &slot);
    return i == SIZE_MAX ? NULL : &g->tensor[i];
}

/* ---- life ---------------------------------------------------------------------------------- */

smol_status sm_gguf_set_file(struct sm_gguf *g, const char *path, uint64_t bytes, smol_error *err)
{
    void *file, *copy;
    const size_t n = strlen(path) + 1;
    SM_TRY(sm_gguf_alloc(&file, sizeof *g->file, err));
    g->file = file;
    g->n_files = 1;
    SM_TRY(sm_gguf_alloc(&copy, n, err));
    memcpy(copy, path, n);
    g->file[0].path = copy;
    g->file[0].path_bytes = n;
    g->file[0].bytes = bytes;
    return SMOL_OK;
}

void sm_gguf_free(struct sm_gguf *g)
{
    if (!g) return;
    sm_mem_free(g->head.p, g->head.n);
    sm_mem_free(g->kv, g->kv_alloc * sizeof *g->kv);
    sm_gguf_index_free(&g->kv_index);
    sm_mem_free(g->tensor, g->n_tensors * sizeof *g->tensor);
    sm_mem_free(g->names, g->names_bytes);
    sm_gguf_index_free(&g->tensor_index);
    for (size_t i = 0; i < g->n_files; i++) sm_mem_free(g->file[i].path, g->file[i].path_bytes);
    sm_mem_free(g->file, g->n_files * sizeof *g->file);
    sm_pack_free(g->pack);
    sm_mem_free(g, sizeof *g);
}

size_t sm_gguf_memory(const struct sm_gguf *g)
{
    size_t n = sizeof *g + g->head.n + g->kv_alloc * sizeof *g->kv + g->names_bytes +
               g->n_tensors * sizeof *g->tensor + g->n_files * sizeof *g->file +
               (g->kv_index.n_slots + g->tensor_index.n_slots) * sizeof(uint32_t) +
               sm_pack_memory(g->pack);
    for (size_t i = 0; i < g->n_files; i++) n += g->file[i].path_bytes;
    return n;
}

static bool is_large_array(const struct sm_kv *kv)
{
    return kv->type == SM_KV_ARRAY && kv->bytes > SM_GGUF_DROP_BYTES;
}

void sm_gguf_drop_arrays(struct sm_gguf *g)
{
    size_t bytes = 0, n = 0, dup;
    for (size_t i = 0; i < g->n_kv; i++)
        if (!is_large_array(&g->kv[i])) bytes += g->kv[i].key.n + (size_t)g->kv[i].bytes;
    for (size_t i = 0; i < g->n_kv; i++) n += is_large_array(&g->kv[i]);
    if (n == 0 || bytes == 0) return;
    uint8_t *head = sm_mem_new(bytes), *p = head;
    if (!head) return; /* keeping everything is always right */
    n = 0;
    for (size_t i = 0; i < g->n_kv; i++) {
        struct sm_kv kv = g->kv[i];
        if (is_large_array(&kv)) continue;
        memcpy(p, kv.key.p, kv.key.n);
        kv.key.p = (const char *)p;
        p += kv.key.n;
        if (kv.bytes) memcpy(p, kv.data, (size_t)kv.bytes);
        kv.data = p;
        p += kv.bytes;
        g->kv[n++] = kv;
    }
    sm_mem_free(g->head.p, g->head.n);
    g->head.p = head;
    g->head.n = bytes;
    g->n_kv = n;
    /* Same size or smaller, names known to be unique: refill in place. */
    memset(g->kv_index.slot, 0, g->kv_index.n_slots * sizeof *g->kv_index.slot);
    for (size_t i = 0; i < n; i++) {
        (void)index_find(g, &g->kv_index, sm_gguf_kv_name, g->kv[i].key, &dup);
        g->kv_index.slot[dup] = (uint32_t)(i + 1);
    }
}

/* ---- accessors ----------------------------------------------------------------------------- */

uint32_t sm_gguf_version(const struct sm_gguf *g) { return g->version; }
uint32_t sm_gguf_alignment(const struct sm_gguf *g) { return g->alignment; }
size_t sm_gguf_n_files(const struct sm_gguf *g) { return g->n_files; }
const char *sm_gguf_file_path(const struct sm_gguf *g, size_t i)
{
    return i < g->n_files ? g->file[i].path : NULL;
}
uint64_t sm_gguf_file_bytes(const struct sm_gguf *g, size_t i)
{
    return i < g->n_files ? g->file[i].bytes : 0;
}
size_t sm_gguf_n_kv(const struct sm_gguf *g) { return g->n_kv; }
const struct sm_kv *sm_gguf_kv(const struct sm_gguf *g, size_t i)
{
    return i < g->n_kv ? &g->kv[i] : NULL;
}
size_t sm_gguf_n_tensors(const struct sm_gguf *g) { return g->n_tensors; }
const struct sm_tensor_info *sm_gguf_tensor(const struct sm_gguf *g, size_t i)
{
    return i < g->n_tensors ? &g->tensor[i] : NULL;
}

size_t sm_gguf_tensor_index(const struct sm_gguf *g, const struct sm_tensor_info *t)
{
    return (size_t)(t - g->tensor);
}
