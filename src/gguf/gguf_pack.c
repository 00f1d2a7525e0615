/* SPDX-License-Identifier: MIT */
/* Reading the description of a pack from its metadata, as hostile as everything else in a file: the
 * checksum finds accidents, the checks find the rest. */
#include "gguf/gguf_pack.h"
#include "base/bits.h"
#include "base/hash.h"
#include "gguf/gguf_int.h"
#include "quant/quant.h"

#include <inttypes.h>

enum {
    COL_TYPE, COL_N_DIMS, COL_DIM, COL_FILE = COL_DIM + 4, COL_SOURCE_AT, COL_LAYOUT, COL_AT,
    COL_STRIDE, COL_UNIT_ROWS, COL_FIRST_SUM, COL_SUM_STRIDE
};
_Static_assert(COL_SUM_STRIDE + 1 == SM_PACK_TABLE_COLUMNS, "columns of smol.pack.table");

const struct sm_pack *sm_gguf_pack(const struct sm_gguf *g) { return g->pack; }
struct sm_pack *sm_gguf_pack_mutable(struct sm_gguf *g) { return g->pack; }

uint64_t sm_gguf_head_bytes(const struct sm_gguf *g) { return g->head.n; }

void sm_pack_free(struct sm_pack *p)
{
    if (!p) return;
    sm_mem_free(p->place, p->n_tensors * sizeof *p->place);
    sm_mem_free(p->raw, p->n_raw * sizeof *p->raw);
    sm_mem_free(p->sums, p->n_sums * sizeof *p->sums);
    sm_mem_free(p->source, p->n_sources * sizeof *p->source);
    sm_mem_free(p->names, p->names_bytes);
    sm_mem_free(p, sizeof *p);
}

size_t sm_pack_memory(const struct sm_pack *p)
{
    if (!p) return 0;
    return sizeof *p + p->n_tensors * sizeof *p->place + p->n_raw * sizeof *p->raw +
           p->n_sums * sizeof *p->sums + p->n_sources * sizeof *p->source + p->names_bytes;
}

uint64_t sm_pack_head_checksum(const uint8_t *head, uint64_t head_bytes, uint64_t checksum_at,
                               uint64_t file_bytes)
{
    static const uint8_t zero[8];
    struct sm_hash h;
    sm_hash_begin(&h, file_bytes);
    sm_hash_put(&h, "GGUF", 4);
    sm_hash_put(&h, head + 4, (size_t)(checksum_at - 4));
    sm_hash_put(&h, zero, 8);
    sm_hash_put(&h, head + checksum_at + 8, (size_t)(head_bytes - checksum_at - 8));
    return sm_hash_end(&h);
}

/* ---- keys ----------------------------------------------------------------------------------- */

/* An array key of a given element type. */
static smol_status find_array(const struct sm_gguf *g, const char *key, uint32_t elem_type,
                              const struct sm_kv **out, smol_error *err)
{
    *out = sm_gguf_find(g, key);
    if (*out && (*out)->type == SM_KV_ARRAY && (*out)->elem_type == elem_type) return SMOL_OK;
    return SM_FAIL(err, FORMAT, "the pack is damaged: key '%s' is missing or has another type",
                   key);
}

/* An array of u64 as aligned memory of the pack. */
static smol_status copy_u64(const struct sm_kv *kv, void **out, smol_error *err)
{
    SM_TRY(sm_gguf_alloc(out, kv->bytes, err));
    if (kv->bytes) memcpy(*out, kv->data, (size_t)kv->bytes);
    return SMOL_OK;
}

static smol_status check_head(const struct sm_gguf *g, struct sm_pack *p, uint64_t file_bytes,
                              smol_error *err)
{
    const struct sm_kv *kv = sm_gguf_find(g, "smol.pack.checksum");
    if (!kv || kv->type != SM_KV_U64)
        return SM_FAIL(err, FORMAT, "the pack is damaged: key 'smol.pack.checksum' is missing");
    p->checksum_at = kv->at;
    p->head_bytes = g->head.n;
    const uint64_t have = sm_pack_head_checksum(g->head.p, g->head.n, kv->at, file_bytes);
    if (have != sm_ld64(kv->data))
        return SM_FAIL_AT(err, FORMAT, kv->at,
                          "the header of the pack is damaged: expected checksum %016" PRIx64
                          ", found %016" PRIx64,
                          sm_ld64(kv->data), have);
    return SMOL_OK;
}

static smol_status read_sources(const struct sm_gguf *g, struct sm_pack *p, smol_error *err)
{
    const struct sm_kv *names, *bytes;
    struct sm_str s;
    uint64_t cursor = 0;
    void *mem;
    SM_TRY(find_array(g, "smol.source.names", SM_KV_STRING, &names, err));
    SM_TRY(find_array(g, "smol.source.bytes", SM_KV_U64, &bytes, err));
    if (names->count != bytes->count || !names->count || names->count > 65535)
        return SM_FAIL(err, FORMAT, "the pack is damaged: %" PRIu64 " names and %" PRIu64
                       " sizes of source files", names->count, bytes->count);
    SM_TRY(sm_gguf_alloc(&mem, names->count * sizeof *p->source, err));
    p->source = mem;
    p->n_sources = (size_t)names->count;
    p->names_bytes = (size_t)(names->bytes); /* 8 bytes of length each leave room for the ends */
    SM_TRY(sm_gguf_alloc(&mem, p->names_bytes, err));
    p->names = mem;
    char *to = p->names;
    for (size_t i = 0; i < p->n_sources; i++) {
        if (!sm_gguf_next_str(names, &cursor, &s) || memchr(s.p, 0, s.n) || memchr(s.p, '/', s.n))
            return SM_FAIL(err, FORMAT, "the pack is damaged: bad name of source file %zu", i);
        memcpy(to, s.p, s.n);
        p->source[i] = (struct sm_pack_source){to, sm_ld64(bytes->data + 8 * i)};
        if (p->source[i].bytes > SM_GGUF_FILE_MAX)
            return SM_FAIL(err, FORMAT, "the pack is damaged: source file %zu is too large", i);
        to += s.n + 1;
    }
    return SMOL_OK;
}

static smol_status read_raw(const struct sm_gguf *g, struct sm_pack *p, uint64_t file_bytes,
                            smol_error *err)
{
    const struct sm_kv *kv;
    void *mem;
    SM_TRY(find_array(g, "smol.source.raw", SM_KV_U64, &kv, err));
    if (kv->count % SM_PACK_RAW_COLUMNS || kv->count > UINT32_MAX)
        return SM_FAIL(err, FORMAT, "the pack is damaged: smol.source.raw has %" PRIu64 " numbers",
                       kv->count);
    SM_TRY(sm_gguf_alloc(&mem, kv->count / SM_PACK_RAW_COLUMNS * sizeof *p->raw, err));
    p->raw = mem;
    p->n_raw = (size_t)(kv->count / SM_PACK_RAW_COLUMNS);
    for (size_t i = 0; i < p->n_raw; i++) {
        const uint8_t *v = kv->data + i * SM_PACK_RAW_COLUMNS * 8;
        const uint64_t file = sm_ld64(v);
        struct sm_pack_raw *r = &p->raw[i];
        *r = (struct sm_pack_raw){(uint32_t)file, sm_ld64(v + 8), sm_ld64(v + 16), sm_ld64(v + 24),
                                  sm_ld64(v + 32)};
        const uint64_t source = file < p->n_sources ? p->source[file].bytes : 0;
        if (!r->bytes || r->bytes > source || r->source_at > source - r->bytes ||
            r->bytes > file_bytes || r->at > file_bytes - r->bytes || r->at < g->data_at ||
            sm_raw_units(r) > p->n_sums || r->first_sum > p->n_sums - sm_raw_units(r))
            return SM_FAIL(err, FORMAT,
                           "the pack is damaged: bytes %zu of the source are out of range", i);
    }
    return SMOL_OK;
}

/* ---- tensors -------------------------------------------------------------------------------- */

static smol_status bad_tensor(const char *name, const char *what, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    return SM_FAIL(err, FORMAT, "the pack is damaged: tensor '%s': %s out of range",
                   sm_gguf_quote(q, name, strlen(name)), what);
}

/* Type, sizes and bytes of one row of the table. */
static smol_status read_shape(const uint64_t *v, struct sm_tensor_info *t, smol_error *err)
{
    const struct sm_traits *tr =
        v[COL_TYPE] <= UINT32_MAX ? sm_traits_of((uint32_t)v[COL_TYPE]) : NULL;
    if (!tr || !tr->block || v[COL_N_DIMS] > 4) return bad_tensor(t->name, "its type", err);
    t->type = (uint32_t)v[COL_TYPE];
    t->n_dims = (uint32_t)v[COL_N_DIMS];
    uint64_t n = 1;
    for (unsigned i = 0; i < 4; i++) {
        t->dim[i] = v[COL_DIM + i];
        if (!t->dim[i] || (i >= t->n_dims && t->dim[i] != 1) || !sm_mul_ok(n, t->dim[i], &n) ||
            n > INT64_MAX)
            return bad_tensor(t->name, "its sizes", err);
    }
    if (t->dim[0] % tr->block) return bad_tensor(t->name, "its sizes", err);
    t->bytes = t->dim[0] / tr->block;
    bool ok = sm_mul_ok(t->bytes, tr->block_bytes, &t->bytes);
    for (unsigned i = 1; i < 4; i++) ok = ok && sm_mul_ok(t->bytes, t->dim[i], &t->bytes);
    return ok && t->bytes <= SM_GGUF_FILE_MAX ? SMOL_OK : bad_tensor(t->name, "its sizes", err);
}

static smol_status read_place(const struct sm_gguf *g, const struct sm_pack *p, const uint64_t *v,
                              const struct sm_tensor_info *t, struct sm_place *o,
                              uint64_t file_bytes, smol_error *err)
{
    const uint64_t all = t->dim[1] * t->dim[2] * t->dim[3], n_stack = t->dim[2] * t->dim[3];
    const uint64_t n_mat = v[COL_LAYOUT] == SM_LAYOUT_BY_ROW  ? all
                           : v[COL_LAYOUT] >= SM_LAYOUT_STACK ? n_stack
                                                              : 1; /* no overflow: read_shape */
    const uint64_t n_rows = all / n_mat;
    uint64_t body, last, sums;
    if (n_rows > UINT32_MAX / 2 || n_mat > UINT32_MAX / 2 || v[COL_LAYOUT] > SM_LAYOUT_STACK_X8 ||
        v[COL_FILE] >= p->n_sources || !v[COL_UNIT_ROWS] || v[COL_UNIT_ROWS] > UINT32_MAX / 2)
        return bad_tensor(t->name, "its place", err);
    *o = (struct sm_place){
        .x8 = v[COL_LAYOUT] == SM_LAYOUT_X8 || v[COL_LAYOUT] == SM_LAYOUT_STACK_X8, .at = v[COL_AT],
        .stride = v[COL_STRIDE],
        .row_bytes = sm_row_bytes(t->type, t->dim[0]), .n_mat = (uint32_t)n_mat,
        .n_rows = (uint32_t)n_rows, .unit_rows = (uint32_t)v[COL_UNIT_ROWS],
        .first_sum = v[COL_FIRST_SUM], .sum_stride = v[COL_SUM_STRIDE],
        .source_file = (uint32_t)v[COL_FILE], .source_at = v[COL_SOURCE_AT]};
    o->n_units = (o->n_rows + o->unit_rows - 1) / o->unit_rows;
    if ((o->x8 && !sm_type_is_x8(t->type)) || (o->unit_rows % 8 && o->n_units > 1))
        return bad_tensor(t->name, "its layout", err);
    const uint64_t source = p->source[o->source_file].bytes;
    if (t->bytes > source || o->source_at > source - t->bytes)
        return bad_tensor(t->name, "its place in the source", err);
    if (!sm_mul_ok(sm_round_up64(o->n_rows, o->x8 ? 8 : 1), o->row_bytes, &body) ||
        (n_mat > 1 && o->stride < body) || !sm_mul_ok(n_mat - 1, o->stride, &last) ||
        !sm_add_ok(last, body, &last) || o->at < g->data_at || last > file_bytes ||
        o->at > file_bytes - last)
        return bad_tensor(t->name, "its place", err);
    if (!sm_mul_ok(n_mat - 1, o->sum_stride, &sums) || !sm_add_ok(sums, o->n_units, &sums) ||
        sums > p->n_sums || o->first_sum > p->n_sums - sums)
        return bad_tensor(t->name, "its checksums", err);
    return SMOL_OK;
}

/* The tensors of the source, from the table; they replace the payload tensors of g. */
struct tensors { struct sm_tensor_info *info; char *names; size_t n, names_bytes; };

static smol_status read_tensors(const struct sm_gguf *g, struct sm_pack *p, struct tensors *o,
                                uint64_t file_bytes, smol_error *err)
{
    const struct sm_kv *names, *table;
    uint64_t cursor = 0, row[SM_PACK_TABLE_COLUMNS];
    struct sm_str s;
    void *mem;
    SM_TRY(find_array(g, "smol.pack.names", SM_KV_STRING, &names, err));
    SM_TRY(find_array(g, "smol.pack.table", SM_KV_U64, &table, err));
    if (names->count > SM_GGUF_N_TENSOR_MAX || table->count != names->count * SM_PACK_TABLE_COLUMNS)
        return SM_FAIL(err, FORMAT, "the pack is damaged: %" PRIu64 " names and a table of %" PRIu64
                       " numbers", names->count, table->count);
    SM_TRY(sm_gguf_alloc(&mem, names->count * sizeof *o->info, err));
    o->info = mem;
    o->n = (size_t)names->count;
    o->names_bytes = (size_t)names->bytes;
    SM_TRY(sm_gguf_alloc(&mem, o->names_bytes, err));
    o->names = mem;
    SM_TRY(sm_gguf_alloc(&mem, names->count * sizeof *p->place, err));
    p->place = mem;
    p->n_tensors = o->n;
    char *to = o->names;
    for (size_t i = 0; i < o->n; i++) {
        if (!sm_gguf_next_str(names, &cursor, &s) || !s.n || s.n > SM_GGUF_NAME_MAX ||
            memchr(s.p, 0, s.n))
            return SM_FAIL(err, FORMAT, "the pack is damaged: bad name of tensor %zu", i);
        memcpy(to, s.p, s.n); /* the block is zeroed: terminated */
        struct sm_tensor_info *t = &o->info[i];
        t->name = to;
        to += s.n + 1;
        memcpy(row, table->data + i * sizeof row, sizeof row);
        SM_TRY(read_shape(row, t, err));
        SM_TRY(read_place(g, p, row, t, &p->place[i], file_bytes, err));
        t->at = p->place[i].at;
        t->place = &p->place[i];
    }
    return SMOL_OK;
}

static void adopt(struct sm_gguf *g, struct tensors *o)
{
    sm_mem_free(g->tensor, g->n_tensors * sizeof *g->tensor);
    sm_mem_free(g->names, g->names_bytes);
    g->tensor = o->info;
    g->n_tensors = o->n;
    g->names = o->names;
    g->names_bytes = o->names_bytes;
    memset(o, 0, sizeof *o);
}

/* Size of a whole pack, of which perhaps only the start is here: its header's checksum covers
 * it. */
static uint64_t whole_bytes(const struct sm_gguf *g)
{
    uint64_t end = g->data_at;
    for (size_t i = 0; i < g->n_tensors; i++) {
        const uint64_t t = sm_round_up64(g->tensor[i].at + g->tensor[i].bytes, g->alignment);
        if (t > end) end = t;
    }
    return end;
}

smol_status sm_gguf_read_pack(struct sm_gguf *g, uint64_t file_bytes, smol_error *err)
{
    struct tensors o = {0};
    const struct sm_kv *sums;
    uint64_t version = 0;
    size_t dup;
    void *mem;
    bool found;
    smol_status st;
    SM_TRY(sm_gguf_u64(g, "smol.pack.version", 0, UINT32_MAX, &version, &found, err));
    if (!found || version == 0) return SMOL_OK; /* 0: while the header of a pack is laid out */
    if (version != 1)
        return SM_FAIL(err, UNSUPPORTED, "the pack has version %" PRIu64 ", expected 1", version);
    SM_TRY(sm_gguf_alloc(&mem, sizeof *g->pack, err));
    struct sm_pack *p = g->pack = mem;
    if (g->cut) file_bytes = whole_bytes(g);
    SM_TRY(check_head(g, p, file_bytes, err));
    SM_TRY(find_array(g, "smol.pack.sums", SM_KV_U64, &sums, err));
    p->sums_at = sums->at;
    SM_TRY(copy_u64(sums, &mem, err));
    p->sums = mem;
    p->n_sums = (size_t)sums->count;
    SM_TRY(read_sources(g, p, err));
    SM_TRY(read_raw(g, p, file_bytes, err));
    SM_TRY_OUT(st, read_tensors(g, p, &o, file_bytes, err));
    adopt(g, &o);
    SM_TRY_OUT(st, sm_gguf_index_build(g, &g->tensor_index, sm_gguf_tensor_name, g->n_tensors, &dup,
                                       err));
    if (dup < g->n_tensors)
        st = SM_FAIL(err, FORMAT, "the pack is damaged: two tensors have the name of tensor %zu",
                     dup);
out:
    sm_mem_free(o.info, o.n * sizeof *o.info);
    sm_mem_free(o.names, o.names_bytes);
    return st;
}
