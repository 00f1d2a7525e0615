/* SPDX-License-Identifier: MIT */
#include "store_file.h"

#include "plat/plat.h"
#include "temp.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 32u

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void put(struct store_file *f, const void *p, size_t n)
{
    while (f->n_bytes + n > f->cap) {
        f->cap = f->cap ? 2 * f->cap : 65536;
        f->bytes = realloc(f->bytes, f->cap);
        assert(f->bytes);
    }
    memcpy(f->bytes + f->n_bytes, p, n);
    f->n_bytes += n;
}
static void put32(struct store_file *f, uint32_t v) { put(f, &v, sizeof v); }
static void put64(struct store_file *f, uint64_t v) { put(f, &v, sizeof v); }
static void put_str(struct store_file *f, const char *s)
{
    put64(f, strlen(s));
    put(f, s, strlen(s));
}
static void pad(struct store_file *f)
{
    while (f->n_bytes % ALIGNMENT) put(f, "", 1);
}

struct tensor { char name[64]; uint32_t type, n_dims; uint64_t dim[3], offset, bytes; };
struct list { struct tensor t[512]; unsigned n; uint64_t end; };

static void plan_tensor(struct list *l, int layer, const char *part, uint32_t type, uint64_t a,
                        uint64_t b, uint64_t c)
{
    assert(l->n < 512);
    struct tensor *t = &l->t[l->n++];
    if (layer >= 0) (void)snprintf(t->name, sizeof t->name, "blk.%d.%s.weight", layer, part);
    else (void)snprintf(t->name, sizeof t->name, "%s.weight", part);
    t->type = type;
    t->n_dims = c ? 3 : b ? 2 : 1;
    t->dim[0] = a;
    t->dim[1] = b;
    t->dim[2] = c;
    t->bytes = sm_row_bytes(type, a) * (b ? b : 1) * (c ? c : 1);
    t->offset = l->end;
    l->end = (l->end + t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static void plan_all(struct list *l, const struct store_shape *s)
{
    memset(l, 0, sizeof *l);
    plan_tensor(l, -1, "token_embd", s->type_embd, s->n_embd, s->n_vocab, 0);
    for (int i = 0; i < (int)s->n_layers; i++) {
        plan_tensor(l, i, "norm", SM_F32, s->n_embd, 0, 0);
        plan_tensor(l, i, "dense", s->type_dense, s->n_embd, s->n_embd + 3, 0);
        if (s->fused) {
            plan_tensor(l, i, "ffn_gate_up_exps", s->type_gate, s->n_embd, 2 * s->n_ffn,
                        s->n_expert);
        } else {
            plan_tensor(l, i, "ffn_gate_exps", s->type_gate, s->n_embd, s->n_ffn, s->n_expert);
            plan_tensor(l, i, "ffn_up_exps", s->type_gate, s->n_embd, s->n_ffn, s->n_expert);
        }
        plan_tensor(l, i, "ffn_down_exps", s->mixed && i % 2 ? s->type_gate : s->type_down,
                    s->n_ffn, s->n_embd, s->n_expert);
    }
}

/* Random blocks whose scales are finite. */
static void put_blocks(struct store_file *f, const struct tensor *t, uint64_t *random)
{
    uint8_t block[1024];
    const size_t n = sm_traits_of(t->type)->block_bytes;
    assert(n + 8 <= sizeof block);
    for (uint64_t done = 0; done < t->bytes; done += n) {
        do {
            for (size_t i = 0; i < n; i += 8) {
                const uint64_t z = next_random(random);
                memcpy(block + i, &z, sizeof z);
            }
        } while (!sm_blocks_finite(t->type, block, 1));
        put(f, block, n);
    }
    pad(f);
}

void store_file_make(struct store_file *f, const char *name, const struct store_shape *shape)
{
    static struct list l;
    smol_error err = {0};
    uint64_t random = shape->seed + 1;
    memset(f, 0, sizeof *f);
    f->shape = *shape;
    plan_all(&l, shape);
    put32(f, SM_GGUF_MAGIC);
    put32(f, 3);
    put64(f, l.n);
    put64(f, 1);
    put_str(f, "general.architecture");
    put32(f, SM_KV_STRING);
    put_str(f, "test");
    for (unsigned i = 0; i < l.n; i++) {
        const struct tensor *t = &l.t[i];
        put_str(f, t->name);
        put32(f, t->n_dims);
        for (unsigned d = 0; d < t->n_dims; d++) put64(f, t->dim[d]);
        put32(f, t->type);
        put64(f, t->offset);
    }
    pad(f);
    for (unsigned i = 0; i < l.n; i++) put_blocks(f, &l.t[i], &random);
    f->path = strdup(temp_write(name, f->bytes, f->n_bytes));
    if (sm_gguf_open(&f->gguf, f->path, &err) != SMOL_OK) {
        (void)fprintf(stderr, "%s\n", err.msg);
        abort();
    }
    f->packed = calloc(sm_gguf_n_tensors(f->gguf), sizeof *f->packed);
    assert(f->packed);
}

void store_file_free(struct store_file *f)
{
    for (size_t i = 0; i < sm_gguf_n_tensors(f->gguf); i++) free(f->packed[i]);
    free(f->packed);
    sm_gguf_free(f->gguf);
    free(f->bytes);
    free((char *)(uintptr_t)f->path);
    memset(f, 0, sizeof *f);
}

/* ---- the fake reader
 * -------------------------------------------------------------------------- */

static struct sm_io_ops real;
static struct { const struct store_file *f; store_file_before before; void *arg; } fake;

static ssize_t fake_pread(int fd, void *buf, size_t n, off_t at)
{
    (void)fd;
    const size_t from = (size_t)at < fake.f->n_bytes ? (size_t)at : fake.f->n_bytes;
    const size_t left = fake.f->n_bytes - from, got = n < left ? n : left;
    if (fake.before) fake.before(fake.arg, (uint64_t)at, n);
    memcpy(buf, fake.f->bytes + from, got);
    return (ssize_t)got;
}

void store_file_fake(const struct store_file *f, store_file_before before, void *arg)
{
    if (!fake.f) real = *sm_plat_io();
    fake.f = f;
    fake.before = before;
    fake.arg = arg;
    sm_plat_io()->pread = fake_pread;
}

void store_file_unfake(void)
{
    if (fake.f) *sm_plat_io() = real;
    fake.f = NULL;
}

const struct sm_tensor_info *store_file_tensor(const struct store_file *f, int layer,
                                               const char *part)
{
    char name[64];
    if (layer >= 0) (void)snprintf(name, sizeof name, "blk.%d.%s.weight", layer, part);
    else (void)snprintf(name, sizeof name, "%s.weight", part);
    return sm_gguf_find_tensor(f->gguf, name);
}

smol_status store_file_declare(const struct store_file *f, struct sm_store *s,
                               const struct sm_weight **weights, smol_error *err)
{
    const struct sm_weight *none[3];
    for (int i = 0; i < (int)f->shape.n_layers; i++) {
        const struct sm_weight **w = weights ? weights + 2 * i : none;
        uint32_t pool;
        SM_TRY(sm_store_add(s, store_file_tensor(f, i, "norm"), SM_HOME_RESIDENT, &w[0], err));
        SM_TRY(sm_store_add(s, store_file_tensor(f, i, "dense"), SM_HOME_RESIDENT, &w[1], err));
        const struct sm_expert_tensors t = {
            .gate = store_file_tensor(f, i, f->shape.fused ? "ffn_gate_up_exps" : "ffn_gate_exps"),
            .up = f->shape.fused ? NULL : store_file_tensor(f, i, "ffn_up_exps"),
            .down = store_file_tensor(f, i, "ffn_down_exps")};
        SM_TRY(sm_store_add_experts(s, &t, &pool, err));
        assert(pool == (uint32_t)i);
    }
    return sm_store_add(s, store_file_tensor(f, -1, "token_embd"), SM_HOME_BY_ROW,
                        weights ? &weights[2 * f->shape.n_layers] : none, err);
}

/* A tensor packed as one matrix: its experts are whole groups, so theirs are parts of it. */
static const uint8_t *packed(const struct store_file *f, const struct sm_tensor_info *t)
{
    const size_t n_rows = (size_t)(t->dim[1] * t->dim[2]);
    size_t i = 0;
    while (sm_gguf_tensor(f->gguf, i) != t) i++;
    if (!f->packed[i]) {
        f->packed[i] = malloc((size_t)sm_x8_bytes(t->type, n_rows, t->dim[0]));
        assert(f->packed[i]);
        sm_x8_pack(t->type, f->packed[i], f->bytes + t->at,
                   (size_t)sm_row_bytes(t->type, t->dim[0]), n_rows, (size_t)t->dim[0]);
    }
    return f->packed[i];
}

bool store_file_same(const struct store_file *f, const struct sm_tensor_info *t, uint64_t row0,
                     uint32_t n_rows, const uint8_t *held)
{
    const size_t row_bytes = (size_t)sm_row_bytes(t->type, t->dim[0]);
    const uint8_t *rows = f->bytes + t->at + row0 * row_bytes;
    if (!sm_type_is_x8(t->type)) return !memcmp(held, rows, row_bytes * n_rows);
    assert(row0 % 8 == 0 && (n_rows % 8 == 0 || t->dim[2] == 1));
    return !memcmp(held, packed(f, t) + sm_x8_bytes(t->type, row0, t->dim[0]),
                   (size_t)sm_x8_bytes(t->type, n_rows, t->dim[0]));
}

bool store_file_same_expert(const struct store_file *f, const struct sm_pool_info *info, int layer,
                            uint32_t expert, const struct sm_expert *e, unsigned halves)
{
    bool same = true;
    const uint32_t n_ffn = f->shape.n_ffn, n_gate = info->gate.n_out;
    const char *gate = info->fused ? "ffn_gate_up_exps" : "ffn_gate_exps";
    const uint64_t row = (uint64_t)expert * n_gate;
    if (halves & 1) {
        const struct sm_tensor_info *g = store_file_tensor(f, layer, gate);
        const struct sm_tensor_info *u =
            info->fused ? g : store_file_tensor(f, layer, "ffn_up_exps");
        same = store_file_same(f, g, row, n_ffn, e->gate) &&
               store_file_same(f, u, row + (info->fused ? n_ffn : 0), n_ffn, e->up);
    }
    if (halves & 2)
        same =
            same && store_file_same(f, store_file_tensor(f, layer, "ffn_down_exps"),
                                    (uint64_t)expert * info->down.n_out, info->down.n_out, e->down);
    return same;
}
