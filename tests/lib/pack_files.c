/* SPDX-License-Identifier: MIT */
#include "pack_files.h"
#include "gguf/gguf_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint8_t *file_read(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    uint8_t *p = NULL;
    *n = 0;
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END)) *n = (size_t)ftell(f);
    rewind(f);
    p = malloc(*n + 1);
    if (!p || fread(p, 1, *n, f) != *n) abort();
    (void)fclose(f);
    return p;
}

static void write_all(const char *path, const uint8_t *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || (n && fwrite(p, 1, n, f) != n) || fclose(f)) abort();
}

bool files_same(const char *a, const char *b)
{
    size_t n, m;
    uint8_t *p = file_read(a, &n), *q = file_read(b, &m);
    const bool same = p && q && n == m && !memcmp(p, q, n);
    free(p);
    free(q);
    return same;
}

void file_copy(const char *from, const char *to)
{
    size_t n;
    uint8_t *p = file_read(from, &n);
    if (!p) abort();
    write_all(to, p, n);
    free(p);
}

uint64_t file_bytes(const char *path)
{
    FILE *f = fopen(path, "rb");
    uint64_t n = 0;
    if (f && !fseek(f, 0, SEEK_END)) n = (uint64_t)ftell(f);
    if (f) (void)fclose(f);
    return n;
}

smol_status pack_file(const char *in, const char *out, bool in_place, uint64_t group_bytes,
                      smol_error *err)
{
    const struct sm_pack_options o = {.in_place = in_place, .group_bytes = group_bytes};
    struct sm_pack_report r;
    *err = (smol_error){0};
    return sm_pack_make(in, out, &o, &r, err);
}

smol_status unpack_file(const char *in, const char *out, smol_error *err)
{
    const struct sm_pack_options o = {0};
    struct sm_pack_report r;
    *err = (smol_error){0};
    return sm_pack_undo(in, out, &o, &r, err);
}

void file_copy_dirty(const char *from, const char *to, size_t n, uint64_t seed)
{
    struct sm_gguf *g;
    smol_error err = {0};
    size_t size;
    uint8_t *p = file_read(from, &size);
    if (!p || sm_gguf_open(&g, from, &err) != SMOL_OK) abort();
    uint8_t *q = realloc(p, size + n), *covered = calloc(1, size + n);
    if (!q || !covered) abort();
    memset(covered, 1, (size_t)sm_gguf_head_bytes(g));
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        memset(covered + t->at, 1, (size_t)t->bytes);
    }
    for (size_t i = 0; i < size + n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        if (!covered[i]) q[i] = (uint8_t)(seed >> 56);
    }
    write_all(to, q, size + n);
    sm_gguf_free(g);
    free(q);
    free(covered);
}

void file_split(const char *from, const char *to, unsigned n)
{
    struct sm_gguf *g;
    smol_error err = {0};
    size_t size;
    char path[600];
    uint8_t *p = file_read(from, &size);
    if (!p || sm_gguf_open(&g, from, &err) != SMOL_OK) abort();
    const size_t n_tensors = sm_gguf_n_tensors(g);
    for (unsigned part = 0; part < n; part++) {
        struct sm_gguf_writer *w;
        const size_t lo = n_tensors * part / n, hi = n_tensors * (part + 1) / n;
        smol_status st = sm_gguf_writer_new(&w, &err);
        if (st == SMOL_OK && part == 0) st = sm_gguf_writer_copy_kv(w, g, &err);
        if (st == SMOL_OK)
            st =
                sm_gguf_writer_set_split(w, (uint16_t)part, (uint16_t)n, (uint32_t)n_tensors, &err);
        for (size_t i = lo; i < hi && st == SMOL_OK; i++) {
            const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
            st = sm_gguf_writer_add_tensor(w, t->name, t->type, t->n_dims, t->dim, &err);
        }
        (void)snprintf(path, sizeof path, "%s-%05u-of-%05u.gguf", to, part + 1, n);
        if (st == SMOL_OK) st = sm_gguf_writer_create(w, path, &err);
        for (size_t i = lo; i < hi && st == SMOL_OK; i++) {
            const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
            st = sm_gguf_writer_put(w, p + t->at, (size_t)t->bytes, &err);
        }
        if (st == SMOL_OK) st = sm_gguf_writer_end(w, &err);
        if (st != SMOL_OK) abort();
        sm_gguf_writer_free(w);
    }
    sm_gguf_free(g);
    free(p);
}
