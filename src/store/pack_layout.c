/* SPDX-License-Identifier: MIT */
/* The layout of a pack: what the source holds beside its tensors, then the dense tensors in the
 * order in which a token needs them, then the experts of each layer, one extent each: gate, up and
 * down in kernel layout exactly as a slot of the pool holds them. */
#include "base/bits.h"
#include "gguf/gguf_write.h"
#include "store/pack_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct raw { uint64_t v[SM_PACK_RAW_COLUMNS]; };
struct row { uint64_t v[SM_PACK_TABLE_COLUMNS]; };
struct key { uint64_t hi, lo; uint32_t i; };
enum { V_AT = 9, V_STRIDE, V_UNIT_ROWS, V_FIRST_SUM, V_SUM_STRIDE };

struct layout {
    const struct sm_gguf *g;
    const struct sm_pack_files *in;
    size_t n;                /* tensors */
    struct key *order;       /* [n] tensors, sorted by what is wanted */
    struct row *row;         /* [n] */
    uint8_t *is_expert;      /* [n] part of an extent */
    struct raw *raw;
    size_t n_raw, raw_room;
    uint64_t at;             /* in the data section */
    uint64_t n_sums;
    struct sm_gguf_writer *w;
};

/* ---- what is no tensor ---------------------------------------------------------------------- */

static smol_status is_zero(const struct layout *l, size_t file, uint64_t at, uint64_t n,
                           uint8_t *stage, bool *zero, smol_error *err)
{
    *zero = true;
    while (n && *zero) {
        const size_t k = n < SM_PACK_UNIT_BYTES ? (size_t)n : SM_PACK_UNIT_BYTES;
        const uint8_t *p;
        SM_TRY(sm_pack_files_read(l->in, file, at, k, stage, &p, err));
        for (size_t i = 0; i < k && *zero; i++) *zero = p[i] == 0;
        at += k;
        n -= k;
    }
    return SMOL_OK;
}

static smol_status add_raw(struct layout *l, size_t file, uint64_t at, uint64_t n, uint8_t *stage,
                           smol_error *err)
{
    bool zero = false;
    if (!n) return SMOL_OK;
    if (at) SM_TRY(is_zero(l, file, at, n, stage, &zero, err)); /* a header never is */
    if (zero) return SMOL_OK;
    if (l->n_raw == l->raw_room) {
        const size_t room = l->raw_room ? 2 * l->raw_room : 64;
        struct raw *list = sm_mem_new(room * sizeof *list);
        if (!list) return SM_FAIL(err, NOMEM, "no memory for the layout of a pack");
        if (l->n_raw) memcpy(list, l->raw, l->n_raw * sizeof *list);
        sm_mem_free(l->raw, l->raw_room * sizeof *l->raw);
        l->raw = list;
        l->raw_room = room;
    }
    l->raw[l->n_raw++] = (struct raw){{file, at, n, l->at, l->n_sums}};
    l->n_sums += (n + SM_PACK_UNIT_BYTES - 1) / SM_PACK_UNIT_BYTES;
    l->at = sm_round_up64(l->at + n, SM_ALIGN);
    return SMOL_OK;
}

static int by_key(const void *x, const void *y)
{
    const struct key *a = x, *b = y;
    if (a->hi != b->hi) return a->hi < b->hi ? -1 : 1;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

static smol_status find_raw(struct layout *l, smol_error *err)
{
    const size_t bytes = SM_PACK_UNIT_BYTES + 3 * SM_IO_ALIGN;
    uint8_t *block = sm_mem_new(bytes);
    if (!block) return SM_FAIL(err, NOMEM, "no memory for the layout of a pack");
    uint8_t *stage = block + (SM_IO_ALIGN - ((uintptr_t)block & (SM_IO_ALIGN - 1)));
    smol_status st = SMOL_OK;
    size_t i = 0;
    for (size_t k = 0; k < l->n; k++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(l->g, k);
        l->order[k] = (struct key){t->file, t->at, (uint32_t)k};
    }
    if (l->n) qsort(l->order, l->n, sizeof *l->order, by_key);
    for (size_t file = 0; file < sm_gguf_n_files(l->g); file++) {
        uint64_t at = 0;
        for (; i < l->n; i++) {
            const struct sm_tensor_info *t = sm_gguf_tensor(l->g, l->order[i].i);
            if (t->file != file) break;
            SM_TRY_OUT(st, add_raw(l, file, at, t->at - at, stage, err));
            at = t->at + t->bytes;
        }
        SM_TRY_OUT(st, add_raw(l, file, at, sm_gguf_file_bytes(l->g, file) - at, stage, err));
    }
out:
    sm_mem_free(block, bytes);
    return st;
}

/* ---- tensors -------------------------------------------------------------------------------- */

/* Rows under one checksum: whole groups of 8 that fit SM_PACK_UNIT_BYTES, units of like size. Rows
 * that are read one by one need small ones. */
static uint64_t unit_rows(const struct sm_tensor_info *t, uint64_t n, uint64_t row_bytes)
{
    if (!strcmp(t->name, "token_embd.weight")) return n < 8 ? n : 8;
    const uint64_t fit = row_bytes ? SM_PACK_UNIT_BYTES / row_bytes & ~(uint64_t)7 : n;
    const uint64_t most = fit < 8 ? 8 : fit, units = (n + most - 1) / most;
    const uint64_t rows = sm_round_up64((n + units - 1) / units, 8);
    return rows < n ? rows : n;
}

/* Kernel layout, unless the table is only read row by row or padding to 8 rows costs over 3 %. */
static bool wants_x8(const struct layout *l, const struct sm_tensor_info *t, uint64_t n)
{
    const uint64_t padded = sm_round_up64(n, 8);
    if (!sm_type_is_x8(t->type) || (padded - n) * 100 > 3 * n) return false;
    return strcmp(t->name, "token_embd.weight") || !sm_gguf_find_tensor(l->g, "output.weight");
}

/* The biases of experts, {n, n_expert}: a row belongs to the extent of its expert. */
static bool is_expert_bias(const struct sm_tensor_info *t)
{
    const size_t n = strlen(t->name);
    return n > 10 && !strcmp(t->name + n - 10, "_exps.bias") && t->n_dims == 2 && t->type == SM_F32;
}

/* One tensor at l->at, or the part of an extent: stride and sum_stride 0 mean "by itself". */
static smol_status place(struct layout *l, uint32_t i, uint64_t at, uint64_t stride,
                         uint64_t first_sum, uint64_t sum_stride, uint64_t *bytes, uint64_t *sums,
                         smol_error *err)
{
    const struct sm_tensor_info *t = sm_gguf_tensor(l->g, i);
    const uint64_t all = t->dim[1] * t->dim[2] * t->dim[3]; /* below 2^63: the reader's check */
    const bool by_row = stride && is_expert_bias(t), stack = stride && !by_row;
    const uint64_t n_mat = by_row ? all : stack ? t->dim[2] * t->dim[3] : 1, n_rows = all / n_mat;
    const bool x8 = !by_row && wants_x8(l, t, n_rows);
    const uint64_t row_bytes = sm_row_bytes(t->type, t->dim[0]);
    const uint64_t rows = unit_rows(t, n_rows, row_bytes), n_units = (n_rows + rows - 1) / rows;
    const uint64_t layout = by_row  ? SM_LAYOUT_BY_ROW
                            : stack ? (x8 ? SM_LAYOUT_STACK_X8 : SM_LAYOUT_STACK)
                                    : (x8 ? SM_LAYOUT_X8 : SM_LAYOUT_ROWS);
    const uint64_t body = sm_round_up64(n_rows, x8 ? 8 : 1) * row_bytes;
    if (sm_round_up64(rows, 8) * row_bytes > SM_PACK_UNIT_MAX || n_rows > UINT32_MAX / 2 ||
        n_mat > UINT32_MAX / 2)
        return SM_FAIL(err, LIMIT, "tensor %s has rows too long to be packed", t->name);
    *bytes = sm_round_up64(body, SM_ALIGN);
    *sums = n_units;
    l->row[i] = (struct row){{t->type, t->n_dims, t->dim[0], t->dim[1], t->dim[2], t->dim[3],
                              t->file, t->at, layout, at, stride ? stride : *bytes, rows, first_sum,
                              sum_stride ? sum_stride : n_units}};
    return SMOL_OK;
}

static smol_status place_dense(struct layout *l, uint32_t i, smol_error *err)
{
    const struct sm_tensor_info *t = sm_gguf_tensor(l->g, i);
    uint64_t bytes, sums;
    SM_TRY(place(l, i, l->at, 0, l->n_sums, 0, &bytes, &sums, err));
    if (bytes > INT64_MAX / 4) return SM_FAIL(err, LIMIT, "tensor %s is too large", t->name);
    l->at += bytes;
    l->n_sums += sums;
    return SMOL_OK;
}

/* The order of a forward pass; what is not listed comes after its neighbours. */
static const char *const ranks[] = {
    "attn_norm", "attn_q",       "attn_kv",   "attn_k",         "attn_v",       "attn_rot",
    "ssm",       "shortconv",    "attn_gate", "attn_sinks",     "attn",         "post_attention",
    "ffn_norm",  "ffn_gate_inp", "exp_probs", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp",
    "ffn_gate",  "ffn_up",       "ffn_down"};
#define N_RANKS (sizeof ranks / sizeof *ranks)

static uint64_t rank_of(const struct sm_tensor_info *t)
{
    char *end;
    if (!strncmp(t->name, "output", 6)) return UINT64_MAX;
    if (strncmp(t->name, "blk.", 4) || t->name[4] < '0' || t->name[4] > '9') return 0;
    const uint64_t layer = strtoul(t->name + 4, &end, 10) & 0xffffff;
    const char *base = *end == '.' ? end + 1 : end;
    for (size_t i = 0; i < N_RANKS; i++)
        if (!strncmp(base, ranks[i], strlen(ranks[i]))) return (layer + 1) << 8 | i;
    return (layer + 1) << 8 | N_RANKS;
}

/* ---- experts -------------------------------------------------------------------------------- */

/* The parts of an extent, in the order in which they become ready. */
static const char *const part_names[] = {"ffn_gate_exps.weight", "ffn_gate_up_exps.weight",
                                         "ffn_up_exps.weight",   "ffn_gate_exps.bias",
                                         "ffn_gate_up_exps.bias", "ffn_up_exps.bias",
                                         "ffn_down_exps.weight", "ffn_down_exps.bias"};
enum {
    P_GATE,
    P_GATE_UP,
    P_UP,
    P_GATE_BIAS,
    P_GATE_UP_BIAS,
    P_UP_BIAS,
    P_DOWN,
    P_DOWN_BIAS,
    N_PARTS
};

/* The tensor blk.<layer>.<part>, if it is a stack for n_expert experts (0: any number; it is
 * set). */
static const struct sm_tensor_info *expert_part(const struct layout *l, unsigned layer,
                                                unsigned part, uint64_t *n_expert)
{
    char name[64];
    (void)snprintf(name, sizeof name, "blk.%u.%s", layer, part_names[part]);
    const struct sm_tensor_info *t = sm_gguf_find_tensor(l->g, name);
    if (!t) return NULL;
    const bool matrix = t->n_dims == 3 && sm_type_is_matrix(t->type), bias = is_expert_bias(t);
    const uint64_t n = matrix ? t->dim[2] : bias ? t->dim[1] : 0;
    if (n < 2 || n >= UINT16_MAX || (*n_expert && n != *n_expert)) return NULL;
    *n_expert = n;
    return t;
}

/* The parts of a layer with experts; 0: it has none that can share an extent. */
static unsigned find_parts(const struct layout *l, unsigned layer, uint32_t part[N_PARTS],
                           uint64_t *n_expert)
{
    const struct sm_tensor_info *t[N_PARTS], *first = sm_gguf_tensor(l->g, 0);
    unsigned n = 0;
    *n_expert = 0;
    for (unsigned i = 0; i < N_PARTS; i++) t[i] = expert_part(l, layer, i, n_expert);
    const bool split = t[P_GATE] && t[P_UP] && !t[P_GATE_UP],
               fused = t[P_GATE_UP] && !t[P_GATE] && !t[P_UP];
    if (!t[P_DOWN] || (!split && !fused)) return 0;
    for (unsigned i = 0; i < N_PARTS; i++)
        if (t[i]) part[n++] = (uint32_t)(t[i] - first);
    return n;
}

/* They come behind the dense tensors. */
static void mark_experts(struct layout *l, unsigned layer)
{
    uint32_t part[N_PARTS];
    uint64_t n_mat;
    const unsigned n = find_parts(l, layer, part, &n_mat);
    for (unsigned i = 0; i < n; i++) l->is_expert[part[i]] = 1;
}

static smol_status place_experts(struct layout *l, unsigned layer, smol_error *err)
{
    uint32_t part[N_PARTS];
    uint64_t bytes[N_PARTS], sums[N_PARTS], stride = 0, n_units = 0, offset = 0, unit = 0, n_mat,
                                            end;
    const unsigned n = find_parts(l, layer, part, &n_mat);
    if (!n) return SMOL_OK; /* dense tensors like others */
    for (unsigned i = 0; i < n; i++) { /* sizes first */
        SM_TRY(place(l, part[i], 0, 1, 0, 1, &bytes[i], &sums[i], err));
        stride += bytes[i];
        n_units += sums[i];
    }
    stride = sm_round_up64(stride, SM_PACK_ALIGN);
    l->at = sm_round_up64(l->at, SM_PACK_ALIGN);
    for (unsigned i = 0; i < n; i++) {
        SM_TRY(place(l, part[i], l->at + offset, stride, l->n_sums + unit, n_units, &bytes[i],
                     &sums[i], err));
        offset += bytes[i];
        unit += sums[i];
    }
    const uint64_t dim[2] = {stride, n_mat};
    if (!sm_mul_ok(stride, n_mat, &end) || end > INT64_MAX / 4)
        return SM_FAIL(err, LIMIT, "the experts of layer %u are too large", layer);
    l->at += end;
    l->n_sums += n_units * n_mat;
    char name[64];
    (void)snprintf(name, sizeof name, "smol.experts.%u", layer);
    return sm_gguf_writer_add_tensor(l->w, name, SM_I8, 2, dim, err);
}

/* ---- all of it ------------------------------------------------------------------------------ */

/* A payload tensor from byte `from` of the data section to the present one. */
static smol_status add_payload(struct layout *l, const char *name, uint64_t from, smol_error *err)
{
    const uint64_t n = l->at - from;
    if (n) SM_TRY(sm_gguf_writer_add_tensor(l->w, name, SM_I8, 1, &n, err));
    l->at = sm_round_up64(l->at, SM_PACK_ALIGN);
    return SMOL_OK;
}

static bool is_expert(const struct sm_tensor_info *t)
{
    return strstr(t->name, "_exps.weight") != NULL;
}

static smol_status place_all(struct layout *l, smol_error *err)
{
    SM_TRY(find_raw(l, err));
    SM_TRY(add_payload(l, "smol.source", 0, err));
    const uint64_t at = l->at;
    unsigned n_layers = 0;
    for (size_t i = 0; i < l->n; i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(l->g, i);
        if (!is_expert(t) || strncmp(t->name, "blk.", 4)) continue;
        const unsigned long layer = strtoul(t->name + 4, NULL, 10);
        if (layer < 65536 && layer >= n_layers) n_layers = (unsigned)layer + 1;
    }
    for (unsigned i = 0; i < n_layers; i++) mark_experts(l, i);
    for (size_t i = 0; i < l->n; i++)
        l->order[i] = (struct key){rank_of(sm_gguf_tensor(l->g, i)), i, (uint32_t)i};
    if (l->n) qsort(l->order, l->n, sizeof *l->order, by_key);
    for (size_t i = 0; i < l->n; i++)
        if (!l->is_expert[l->order[i].i]) SM_TRY(place_dense(l, l->order[i].i, err));
    SM_TRY(add_payload(l, "smol.dense", at, err));
    for (unsigned i = 0; i < n_layers; i++) SM_TRY(place_experts(l, i, err));
    return SMOL_OK;
}

static smol_status set_u64s(struct layout *l, const char *key, const void *v, uint64_t n,
                            smol_error *err)
{
    return sm_gguf_writer_set(l->w, key, SM_KV_ARRAY, SM_KV_U64, n, v, (size_t)n * 8, err);
}

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static smol_status set_sources(struct layout *l, smol_error *err)
{
    const size_t n = sm_gguf_n_files(l->g);
    struct sm_str *names = sm_mem_new(n * sizeof *names);
    uint64_t *bytes = sm_mem_new(n * sizeof *bytes);
    smol_status st = SMOL_OK;
    if (names && bytes) {
        for (size_t i = 0; i < n; i++) {
            const char *name = base_name(sm_gguf_file_path(l->g, i));
            names[i] = (struct sm_str){name, strlen(name)};
            bytes[i] = sm_gguf_file_bytes(l->g, i);
        }
        st = sm_gguf_writer_set_strings(l->w, "smol.source.names", names, n, err);
        if (st == SMOL_OK) st = set_u64s(l, "smol.source.bytes", bytes, n, err);
    } else {
        st = SM_FAIL(err, NOMEM, "no memory for the layout of a pack");
    }
    sm_mem_free(names, n * sizeof *names);
    sm_mem_free(bytes, n * sizeof *bytes);
    return st;
}

static smol_status set_names(struct layout *l, smol_error *err)
{
    struct sm_str *names = sm_mem_new((l->n + 1) * sizeof *names);
    if (!names) return SM_FAIL(err, NOMEM, "no memory for the layout of a pack");
    for (size_t i = 0; i < l->n; i++) {
        const char *name = sm_gguf_tensor(l->g, i)->name;
        names[i] = (struct sm_str){name, strlen(name)};
    }
    const smol_status st = sm_gguf_writer_set_strings(l->w, "smol.pack.names", names, l->n, err);
    sm_mem_free(names, (l->n + 1) * sizeof *names);
    return st;
}

static smol_status set_keys(struct layout *l, smol_error *err)
{
    SM_TRY(sm_gguf_writer_copy_kv(l->w, l->g, err));
    SM_TRY(sm_gguf_writer_set_u32(l->w, "general.alignment", SM_PACK_ALIGN, err));
    SM_TRY(sm_gguf_writer_set_u32(l->w, "smol.pack.version", 0, err)); /* 1 in finish_head */
    SM_TRY(sm_gguf_writer_set_u64(l->w, "smol.pack.checksum", 0, err));
    SM_TRY(set_sources(l, err));
    SM_TRY(set_u64s(l, "smol.source.raw", l->raw, l->n_raw * SM_PACK_RAW_COLUMNS, err));
    SM_TRY(set_names(l, err));
    SM_TRY(set_u64s(l, "smol.pack.table", l->row, l->n * SM_PACK_TABLE_COLUMNS, err));
    uint64_t *sums = sm_mem_new((size_t)l->n_sums * 8 + 8);
    if (!sums) return SM_FAIL(err, NOMEM, "no memory for the checksums of a pack");
    const smol_status st = set_u64s(l, "smol.pack.sums", sums, l->n_sums, err);
    sm_mem_free(sums, (size_t)l->n_sums * 8 + 8);
    return st;
}

static void shift(uint8_t *head, const struct sm_kv *kv, size_t columns, size_t column, uint64_t by)
{
    for (uint64_t i = column; i < kv->count; i += columns) {
        uint8_t *p = head + kv->at + i * 8;
        sm_st64(p, sm_ld64(p) + by);
    }
}

/* Offsets count from the start of the file once the size of the header is known; then the version
 * makes it a pack. */
static smol_status finish_head(const struct layout *l, uint8_t *head, size_t n, smol_error *err)
{
    struct sm_gguf *g;
    SM_TRY(sm_gguf_parse(&g, head, n, sm_gguf_writer_file_bytes(l->w), err));
    shift(head, sm_gguf_find(g, "smol.pack.table"), SM_PACK_TABLE_COLUMNS, V_AT, n);
    shift(head, sm_gguf_find(g, "smol.source.raw"), SM_PACK_RAW_COLUMNS, 3, n);
    sm_st32(head + sm_gguf_find(g, "smol.pack.version")->at, 1);
    const uint64_t at = sm_gguf_find(g, "smol.pack.checksum")->at;
    sm_st64(head + at, sm_pack_head_checksum(head, sm_gguf_head_bytes(g), at,
                                             sm_gguf_writer_file_bytes(l->w)));
    sm_gguf_free(g);
    return SMOL_OK;
}

static void free_layout(struct layout *l)
{
    sm_gguf_writer_free(l->w);
    sm_mem_free(l->order, l->n * sizeof *l->order);
    sm_mem_free(l->row, l->n * sizeof *l->row);
    sm_mem_free(l->is_expert, l->n);
    sm_mem_free(l->raw, l->raw_room * sizeof *l->raw);
}

smol_status sm_pack_layout(const struct sm_gguf *g, const struct sm_pack_files *in, uint8_t **head,
                           size_t *head_bytes, uint64_t *file_bytes, smol_error *err)
{
    struct layout l = {.g = g, .in = in, .n = sm_gguf_n_tensors(g)};
    smol_status st = SMOL_OK;
    *head = NULL;
    if (l.n) {
        l.order = sm_mem_new(l.n * sizeof *l.order);
        l.row = sm_mem_new(l.n * sizeof *l.row);
        l.is_expert = sm_mem_new(l.n);
        if (!l.order || !l.row || !l.is_expert) {
            st = SM_FAIL(err, NOMEM, "no memory for the layout of a pack");
            goto out;
        }
    }
    SM_TRY_OUT(st, sm_gguf_writer_new(&l.w, err));
    SM_TRY_OUT(st, place_all(&l, err));
    SM_TRY_OUT(st, set_keys(&l, err));
    SM_TRY_OUT(st, sm_gguf_writer_seal(l.w, err));
    const uint8_t *sealed = sm_gguf_writer_head(l.w, head_bytes);
    *file_bytes = sm_gguf_writer_file_bytes(l.w);
    *head = sm_mem_new(*head_bytes);
    if (!*head) {
        st = SM_FAIL(err, NOMEM, "no memory for the header of a pack");
        goto out;
    }
    memcpy(*head, sealed, *head_bytes);
    SM_TRY_OUT(st, finish_head(&l, *head, *head_bytes, err));
out:
    if (st != SMOL_OK && *head) {
        sm_mem_free(*head, *head_bytes);
        *head = NULL;
    }
    free_layout(&l);
    return st;
}
