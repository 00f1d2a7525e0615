/* SPDX-License-Identifier: MIT */
/* Files: one, or all parts of a split set. Names count from 1, split.no from 0. */
#include "base/mem.h"
#include "gguf/gguf_int.h"

#include <inttypes.h>
#include <stdio.h>

#define TAIL_CHARS 20u /* "-00001-of-00005.gguf" */

smol_status sm_gguf_parse(struct sm_gguf **out, const uint8_t *bytes, size_t n, uint64_t file_bytes,
                          smol_error *err)
{
    struct sm_cursor c;
    struct sm_gguf *g;
    void *p;
    smol_status st;
    *out = NULL;
    SM_TRY(sm_gguf_alloc(&p, sizeof *g, err));
    g = p;
    sm_cursor_memory(&c, bytes, n, file_bytes, err);
    SM_TRY_OUT(st, sm_gguf_set_file(g, "", file_bytes, err));
    SM_TRY_OUT(st, sm_gguf_read(g, &c, err));
    *out = g;
    g = NULL;
out:
    sm_gguf_free(g);
    return st;
}

static smol_status open_one(struct sm_gguf **out, const char *path, bool cut, smol_error *err)
{
    struct sm_cursor c = {0};
    struct sm_file *f = NULL;
    struct sm_gguf *g = NULL;
    void *p;
    smol_status st;
    *out = NULL;
    SM_TRY_OUT(st, sm_file_open(&f, path, false, err));
    SM_TRY_OUT(st, sm_gguf_alloc(&p, sizeof *g, err));
    g = p;
    g->cut = cut;
    sm_cursor_file(&c, f, err);
    SM_TRY_OUT(st, sm_gguf_set_file(g, path, sm_file_size(f), err));
    SM_TRY_OUT(st, sm_gguf_read(g, &c, err));
    *out = g;
    g = NULL;
out:
    sm_gguf_free(g);
    sm_cursor_close(&c);
    sm_file_close(f);
    return st;
}

/* ---- split sets ---------------------------------------------------------------------------- */

struct split {
    uint64_t no, count, n_tensors;
    bool has_n_tensors;
};

static smol_status read_split(const struct sm_gguf *g, struct split *s, smol_error *err)
{
    bool found;
    memset(s, 0, sizeof *s);
    s->count = 1;
    SM_TRY(sm_gguf_u64(g, "split.count", 1, 65535, &s->count, &found, err));
    if (!found) return SMOL_OK;
    SM_TRY(sm_gguf_u64(g, "split.no", 0, s->count - 1, &s->no, NULL, err));
    return sm_gguf_u64(g, "split.tensors.count", 0, INT32_MAX, &s->n_tensors, &s->has_n_tensors,
                       err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

/* Path of part i of the set to which `path` belongs; `out` has room for strlen(path) + 1. */
static void part_path(char *out, const char *path, uint64_t i, uint64_t count)
{
    const size_t n = strlen(path), stem = n - TAIL_CHARS;
    memcpy(out, path, stem);
    (void)snprintf(out + stem, TAIL_CHARS + 1, "-%05u-of-%05u.gguf", (unsigned)(i + 1),
                   (unsigned)count);
}

static smol_status check_name(const char *path, const struct split *s, smol_error *err)
{
    char want[TAIL_CHARS + 1];
    const size_t n = strlen(path);
    (void)snprintf(want, sizeof want, "-%05u-of-%05u.gguf", (unsigned)(s->no + 1),
                   (unsigned)s->count);
    if (n > TAIL_CHARS && !strcmp(path + n - TAIL_CHARS, want)) return SMOL_OK;
    return SM_FAIL(err, FORMAT,
                   "the file is part %" PRIu64 " of %" PRIu64 " of a split model: expected a name "
                   "that ends in %s, so that the other parts can be found",
                   s->no + 1, s->count, want);
}

/* A failure of another part than the one that the user named must say which. */
static smol_status name_part(smol_error *err, const smol_error *inner, const char *path, uint64_t i,
                             uint64_t count)
{
    const char *name = base_name(path);
    const size_t n = strlen(name), keep = 40; /* the end of a name tells more than its start */
    return sm_fail(err, inner->code, inner->sys, inner->at, inner->where,
                   "part %" PRIu64 " of %" PRIu64 " (%s%s): %s", i + 1, count,
                   n > keep ? "..." : "", n > keep ? name + n - keep : name, inner->msg);
}

static smol_status open_part(struct sm_gguf **out, const char *path, uint64_t i,
                             const struct split *set, smol_error *err)
{
    smol_error inner = {0};
    struct sm_gguf *g = NULL;
    struct split s;
    smol_status st;
    SM_TRY_OUT(st, open_one(&g, path, false, &inner));
    SM_TRY_OUT(st, read_split(g, &s, &inner));
    if (g->pack) {
        st = SM_FAIL(&inner, FORMAT, "it is a pack, which has no parts");
        goto out;
    }
    if (s.count != set->count)
        st = SM_FAIL(&inner, FORMAT, "expected split.count %" PRIu64 ", found %" PRIu64, set->count,
                     s.count);
    else if (s.no != i)
        st = SM_FAIL(&inner, FORMAT, "expected split.no %" PRIu64 ", found %" PRIu64, i, s.no);
    else if (s.has_n_tensors && set->has_n_tensors && s.n_tensors != set->n_tensors)
        st = SM_FAIL(&inner, FORMAT, "expected split.tensors.count %" PRIu64 ", found %" PRIu64,
                     set->n_tensors, s.n_tensors);
out:
    if (st != SMOL_OK) {
        sm_gguf_free(g);
        *out = NULL;
        return name_part(err, &inner, path, i, set->count);
    }
    /* Of later parts only the tensors count. */
    if (i > 0) {
        sm_mem_free(g->head.p, g->head.n);
        g->head.p = NULL;
        g->head.n = 0;
        sm_mem_free(g->kv, g->kv_alloc * sizeof *g->kv);
        g->kv = NULL;
        g->n_kv = g->kv_alloc = 0;
        sm_gguf_index_free(&g->kv_index);
        sm_gguf_index_free(&g->tensor_index);
    }
    *out = g;
    return SMOL_OK;
}

/* Move the tensors and the file of parts 1 … n-1 into part 0. */
static smol_status merge(struct sm_gguf **part, size_t n, smol_error *err)
{
    struct sm_gguf *g = part[0];
    size_t n_tensors = 0, names_bytes = 0, dup, at = 0, name_at = 0;
    void *tensors, *names = NULL, *files = NULL;
    smol_status st;
    for (size_t i = 0; i < n; i++) {
        n_tensors += part[i]->n_tensors;
        names_bytes += part[i]->names_bytes;
    }
    if (n_tensors > SM_GGUF_N_TENSOR_MAX)
        return SM_FAIL(err, LIMIT, "the parts hold %zu tensors, at most 1000000 are accepted",
                       n_tensors);
    SM_TRY_OUT(st, sm_gguf_alloc(&tensors, n_tensors * sizeof *g->tensor, err));
    SM_TRY_OUT(st, sm_gguf_alloc(&names, names_bytes, err));
    SM_TRY_OUT(st, sm_gguf_alloc(&files, n * sizeof *g->file, err));
    struct sm_tensor_info *to = tensors;
    for (size_t i = 0; i < n; i++) {
        struct sm_gguf *p = part[i];
        if (p->names_bytes) memcpy((char *)names + name_at, p->names, p->names_bytes);
        for (size_t k = 0; k < p->n_tensors; k++) {
            to[at] = p->tensor[k];
            to[at].name = (char *)names + name_at + (p->tensor[k].name - p->names);
            to[at++].file = (uint32_t)i;
        }
        name_at += p->names_bytes;
        ((struct sm_shard *)files)[i] = p->file[0];
        memset(&p->file[0], 0, sizeof p->file[0]);
    }
    sm_mem_free(g->tensor, g->n_tensors * sizeof *g->tensor);
    sm_mem_free(g->names, g->names_bytes);
    sm_mem_free(g->file, g->n_files * sizeof *g->file);
    g->tensor = tensors;
    g->n_tensors = n_tensors;
    g->names = names;
    g->names_bytes = names_bytes;
    g->file = files;
    g->n_files = n;
    SM_TRY(sm_gguf_index_build(g, &g->tensor_index, sm_gguf_tensor_name, n_tensors, &dup, err));
    if (dup < n_tensors) {
        char q[SM_GGUF_QUOTE];
        return SM_FAIL_AT(err, FORMAT, to[dup].at,
                          "tensor name '%s' occurs twice, the second in part %" PRIu32
                          " with data at byte %" PRIu64,
                          sm_gguf_quote(q, to[dup].name, strlen(to[dup].name)), to[dup].file + 1,
                          to[dup].at);
    }
    return SMOL_OK;
out:
    sm_mem_free(tensors, n_tensors * sizeof *g->tensor);
    sm_mem_free(names, names_bytes);
    return st;
}

/* `named` is the part that the user gave; it is consumed. */
static smol_status open_set(struct sm_gguf **out, struct sm_gguf *named, const char *path,
                            const struct split *set, smol_error *err)
{
    const size_t n = (size_t)set->count, path_bytes = strlen(path) + 1;
    struct sm_gguf **part = NULL;
    char *name = NULL;
    void *p;
    smol_status st;
    sm_gguf_free(named); /* read again in its place: headers are small */
    SM_TRY_OUT(st, sm_gguf_alloc(&p, n * sizeof *part, err));
    part = p;
    SM_TRY_OUT(st, sm_gguf_alloc(&p, path_bytes, err));
    name = p;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        part_path(name, path, i, n);
        SM_TRY_OUT(st, open_part(&part[i], name, i, set, err));
        sum += part[i]->n_tensors;
    }
    if (set->has_n_tensors && sum != set->n_tensors) {
        st = SM_FAIL(err, FORMAT,
                     "split.tensors.count: expected the %" PRIu64
                     " tensors that all %zu parts hold, found %" PRIu64,
                     sum, n, set->n_tensors);
        goto out;
    }
    SM_TRY_OUT(st, merge(part, n, err));
    *out = part[0];
    part[0] = NULL;
out:
    for (size_t i = 0; part && i < n; i++) sm_gguf_free(part[i]);
    sm_mem_free(part, n * sizeof *part);
    sm_mem_free(name, path_bytes);
    return st;
}

smol_status sm_gguf_open(struct sm_gguf **out, const char *path, smol_error *err)
{
    struct sm_gguf *g;
    struct split set;
    *out = NULL;
    SM_TRY(open_one(&g, path, false, err));
    smol_status st = read_split(g, &set, err);
    if (st == SMOL_OK && set.count > 1) st = check_name(path, &set, err);
    if (st != SMOL_OK) {
        sm_gguf_free(g);
        return st;
    }
    if (set.count > 1) return open_set(out, g, path, &set, err);
    *out = g;
    return SMOL_OK;
}

smol_status sm_gguf_open_header(struct sm_gguf **out, const char *path, smol_error *err)
{
    smol_error whole = {0};
    *out = NULL;
    const smol_status st = sm_gguf_open(out, path, &whole);
    if (st == SMOL_OK) return st;
    smol_error cut = {0};
    if (open_one(out, path, true, &cut) == SMOL_OK) return SMOL_OK;
    if (err && err->code == SMOL_OK) *err = whole;
    return st;
}
