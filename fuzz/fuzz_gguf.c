/* SPDX-License-Identifier: MIT */
/* Headers of any content, as a whole file and as the beginning of a large one. What is accepted
 * must hold what gguf.h promises, and written again it must be read as the same. */
#include "require.h"

#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_pack.h"
#include "gguf/gguf_write.h"
#include "quant/quant.h"

#include <stdlib.h>
#include <string.h>

static volatile uint64_t sink; /* reads that may not be optimised away */

static void touch(const void *p, uint64_t n)
{
    const uint8_t *b = p;
    for (uint64_t i = 0; i < n; i++) sink += b[i];
}

static void check_kv(const struct sm_gguf *g)
{
    for (size_t i = 0; i < sm_gguf_n_kv(g); i++) {
        const struct sm_kv *kv = sm_gguf_kv(g, i);
        uint64_t at = 0, n = 0;
        struct sm_str s;
        require(kv->key.n > 0 && kv->type < SM_KV_TYPE_COUNT && kv->elem_type < SM_KV_TYPE_COUNT);
        touch(kv->data, kv->bytes);
        while (sm_gguf_next_str(kv, &at, &s)) {
            touch(s.p, s.n);
            n++;
        }
        if (kv->type == SM_KV_ARRAY && kv->elem_type == SM_KV_STRING) require(n == kv->count);
        char *key = malloc(kv->key.n + 1);
        if (!key) continue;
        memcpy(key, kv->key.p, kv->key.n);
        key[kv->key.n] = 0;
        require(sm_gguf_find(g, key) == kv);
        uint64_t u = 0;
        double d = 0;
        bool b = false, found;
        sink += (uint64_t)sm_gguf_u64(g, key, 1, 1000, &u, &found, NULL);
        sink += (uint64_t)sm_gguf_f64(g, key, &d, &found, NULL);
        sink += (uint64_t)sm_gguf_bool(g, key, &b, &found, NULL);
        sink += (uint64_t)sm_gguf_str(g, key, &s, &found, NULL);
        for (size_t k = 0; k < 3; k++) {
            smol_error err = {0};
            sink += (uint64_t)sm_gguf_u64_at(g, key, k, 0, UINT64_MAX, &u, NULL, &err);
        }
        free(key);
    }
}

static void check_tensors(const struct sm_gguf *g, uint64_t file_bytes)
{
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        const size_t n = strlen(t->name);
        require(n >= 1 && n <= 63 && t->n_dims <= 4 && sm_traits_of(t->type));
        require(t->at <= file_bytes && t->bytes <= file_bytes - t->at && t->bytes > 0);
        require(t->bytes == sm_row_bytes(t->type, t->dim[0]) * t->dim[1] * t->dim[2] * t->dim[3]);
        require(sm_gguf_find_tensor(g, t->name) == t && t->file == 0);
        const struct sm_tensor_info *u = sm_gguf_tensor(g, i + 1);
        if (u) require(t->at + t->bytes <= u->at || u->at + u->bytes <= t->at);
    }
}

static bool same_value(const struct sm_kv *a, const struct sm_kv *b)
{
    return a->type == b->type && a->elem_type == b->elem_type && a->count == b->count &&
           a->bytes == b->bytes && (!a->bytes || !memcmp(a->data, b->data, (size_t)a->bytes));
}

/* Metadata and tensors written again: the same, unless the whole is too large for a file. */
static void write_again(const struct sm_gguf *g)
{
    struct sm_gguf_writer *w;
    struct sm_gguf *h = NULL;
    size_t n;
    require(sm_gguf_writer_new(&w, NULL) == SMOL_OK);
    require(sm_gguf_writer_copy_kv(w, g, NULL) == SMOL_OK);
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        require(sm_gguf_writer_add_tensor(w, t->name, t->type, t->n_dims, t->dim, NULL) == SMOL_OK);
    }
    require(sm_gguf_writer_seal(w, NULL) == SMOL_OK);
    const uint8_t *head = sm_gguf_writer_head(w, &n);
    require(sm_gguf_parse(&h, head, n, sm_gguf_writer_file_bytes(w), NULL) == SMOL_OK);
    require(sm_gguf_n_tensors(h) == sm_gguf_n_tensors(g));
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i), *u = sm_gguf_tensor(h, i);
        require(!strcmp(t->name, u->name) && t->type == u->type && t->bytes == u->bytes);
        require(u->at == sm_gguf_writer_tensor_at(w, i));
    }
    for (size_t i = 0, k = 0; i < sm_gguf_n_kv(g); i++) {
        const struct sm_kv *a = sm_gguf_kv(g, i);
        if (a->key.n >= 6 && !memcmp(a->key.p, "split.", 6)) continue;
        const struct sm_kv *b = sm_gguf_kv(h, k++);
        require(b && a->key.n == b->key.n && !memcmp(a->key.p, b->key.p, a->key.n));
        require(same_value(a, b));
    }
    sm_gguf_free(h);
    sm_gguf_writer_free(w);
}

static void parse(const uint8_t *data, size_t size, uint64_t file_bytes)
{
    struct sm_gguf *g;
    smol_error err = {0};
    const size_t held = sm_mem_held();
    const smol_status st = sm_gguf_parse(&g, data, size, file_bytes, &err);
    require((st == SMOL_OK) == (g != NULL) && err.code == st);
    if (st != SMOL_OK) {
        require(strlen(err.msg) > 10);
    } else if (sm_gguf_pack(g)) { /* fuzz_pack.c */
        check_kv(g);
    } else {
        require(sm_mem_held() - held == sm_gguf_memory(g));
        check_kv(g);
        check_tensors(g, file_bytes);
        write_again(g);
        sm_gguf_drop_arrays(g);
        check_kv(g);
        require(sm_mem_held() - held == sm_gguf_memory(g));
    }
    sm_gguf_free(g);
    require(sm_mem_held() == held);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    parse(data, size, size);
    parse(data, size, size + (UINT64_C(1) << 40));
    return 0;
}
