/* SPDX-License-Identifier: MIT */
/* One file: header, key-value pairs, tensor records. Layout: see gguf_int.h for why the same
 * code runs twice. Facts: published GGUF format, versions 2 and 3. */
#include "base/bits.h"
#include "base/mem.h"
#include "gguf/gguf_int.h"
#include "quant/quant.h"

#include <inttypes.h>

/* What a walk learns. The second walk also fills the tables of g. */
struct walk {
    struct sm_cursor *c;
    struct sm_gguf *g; /* NULL on the first walk */
    uint32_t version, alignment;
    uint64_t n_tensors, n_kv;
    uint64_t names_bytes; /* of all tensor names, terminators included */
    uint64_t end;         /* of the header */
    uint64_t data_at;
    smol_error *err;
};

/* Bytes of a value of each type; 0: string or array. */
static const uint8_t kv_bytes[SM_KV_TYPE_COUNT] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};

/* ---- the first 24 bytes -------------------------------------------------------------------- */

static smol_status wrong_kind(struct sm_cursor *c)
{
    uint8_t first[4096];
    char buf[120];
    size_t n = c->size < sizeof first ? (size_t)c->size : sizeof first;
    c->pos = 0;
    if (!c->file && n > c->have) n = c->have;
    if (n) {
        const uint8_t *p;
        SM_TRY(sm_cursor_take(c, n, &p, "its first bytes"));
        memcpy(first, p, n);
    }
    return SM_FAIL(c->err, FORMAT, "the file %s",
                   sm_gguf_kind(first, n, c->size, buf, sizeof buf));
}

static smol_status read_start(struct walk *w)
{
    struct sm_cursor *c = w->c;
    const uint8_t *p;
    if (c->size > SM_GGUF_FILE_MAX)
        return SM_FAIL(w->err, LIMIT, "a file of %" PRIu64 " bytes is too large", c->size);
    if (c->size < 4) return wrong_kind(c);
    SM_TRY(sm_cursor_take(c, 4, &p, "the magic"));
    if (memcmp(p, "GGUF", 4)) return wrong_kind(c);
    SM_TRY(sm_cursor_u32(c, &w->version, "the version"));
    if (w->version != 0 && (w->version & 0xffffu) == 0)
        return SM_FAIL_AT(w->err, UNSUPPORTED, 4,
                          "the file is big-endian (version at byte 4 reads as %08x): only "
                          "little-endian GGUF is read",
                          w->version);
    if (w->version == 1)
        return SM_FAIL_AT(w->err, UNSUPPORTED, 4,
                          "the file is GGUF version 1 (byte 4), expected 2 or 3: convert it again");
    if (w->version != 2 && w->version != 3)
        return SM_FAIL_AT(w->err, UNSUPPORTED, 4,
                          "GGUF version at byte 4: expected 2 or 3, found %" PRIu32, w->version);
    SM_TRY(sm_cursor_u64(c, &w->n_tensors, "the tensor count"));
    SM_TRY(sm_cursor_u64(c, &w->n_kv, "the metadata count"));
    const uint64_t left = c->size - c->pos;
    if (w->n_kv > left / 13 || w->n_kv > SM_GGUF_N_KV_MAX)
        return SM_FAIL_AT(w->err, FORMAT, 16,
                          "metadata count at byte 16: expected at most %" PRIu64
                          " in a file of %" PRIu64 " bytes, found %" PRIu64,
                          left / 13 < SM_GGUF_N_KV_MAX ? left / 13 : SM_GGUF_N_KV_MAX, c->size,
                          w->n_kv);
    if (w->n_tensors > left / 24 || w->n_tensors > SM_GGUF_N_TENSOR_MAX)
        return SM_FAIL_AT(w->err, FORMAT, 8,
                          "tensor count at byte 8: expected at most %" PRIu64
                          " in a file of %" PRIu64 " bytes, found %" PRIu64,
                          left / 24 < SM_GGUF_N_TENSOR_MAX ? left / 24 : SM_GGUF_N_TENSOR_MAX,
                          c->size, w->n_tensors);
    return SMOL_OK;
}

/* ---- metadata ------------------------------------------------------------------------------ */

/* A length that would be fine in a longer file. */
static const char cut_short[] = ": the file is cut short or damaged";

static smol_status read_length(struct walk *w, uint64_t max, uint64_t *n, const char *what,
                               const char *key)
{
    const uint64_t at = w->c->pos;
    SM_TRY(sm_cursor_u64(w->c, n, what));
    const uint64_t left = w->c->size - w->c->pos;
    if (*n > max || *n > left)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "length of %s%s%s%s at byte %" PRIu64 ": expected at most %" PRIu64
                          ", found %" PRIu64 "%s",
                          what, key ? " of key '" : "", key ? key : "", key ? "'" : "", at,
                          max < left ? max : left, *n, *n > max ? "" : cut_short);
    return SMOL_OK;
}

static smol_status read_array(struct walk *w, struct sm_kv *kv, const char *key)
{
    struct sm_cursor *c = w->c;
    const uint64_t type_at = c->pos;
    SM_TRY(sm_cursor_u32(c, &kv->elem_type, "an array"));
    if (kv->elem_type >= SM_KV_TYPE_COUNT || kv->elem_type == SM_KV_ARRAY)
        return SM_FAIL_AT(w->err, FORMAT, type_at,
                          "key '%s': array element type at byte %" PRIu64
                          ": expected 0 to 8 or 10 to 12, found %" PRIu32,
                          key, type_at, kv->elem_type);
    SM_TRY(sm_cursor_u64(c, &kv->count, "an array"));
    const uint64_t left = c->size - c->pos;
    const uint64_t each = kv->elem_type == SM_KV_STRING ? 8 : kv_bytes[kv->elem_type];
    if (kv->count > left / each)
        return SM_FAIL_AT(w->err, FORMAT, type_at + 4,
                          "key '%s': array count at byte %" PRIu64 ": expected at most %" PRIu64
                          ", found %" PRIu64 "%s",
                          key, type_at + 4, left / each, kv->count, cut_short);
    kv->at = c->pos;
    if (kv->elem_type != SM_KV_STRING) {
        kv->bytes = kv->count * each;
        return sm_cursor_skip(c, kv->bytes, &kv->data, "an array");
    }
    SM_TRY(sm_cursor_skip(c, 0, &kv->data, "an array"));
    for (uint64_t i = 0; i < kv->count; i++) {
        const uint8_t *p;
        uint64_t n;
        SM_TRY(read_length(w, SM_GGUF_STR_MAX, &n, "a string", key));
        SM_TRY(sm_cursor_skip(c, n, &p, "a string"));
    }
    kv->bytes = c->pos - kv->at;
    return SMOL_OK;
}

static smol_status read_value(struct walk *w, struct sm_kv *kv, const char *key)
{
    struct sm_cursor *c = w->c;
    const uint64_t type_at = c->pos;
    kv->count = 1;
    SM_TRY(sm_cursor_u32(c, &kv->type, "a value type"));
    if (kv->type >= SM_KV_TYPE_COUNT)
        return SM_FAIL_AT(w->err, FORMAT, type_at,
                          "key '%s': value type at byte %" PRIu64
                          ": expected 0 to 12, found %" PRIu32,
                          key, type_at, kv->type);
    kv->elem_type = kv->type;
    if (kv->type == SM_KV_ARRAY) return read_array(w, kv, key);
    kv->bytes = kv_bytes[kv->type];
    if (kv->type == SM_KV_STRING)
        SM_TRY(read_length(w, SM_GGUF_STR_MAX, &kv->bytes, "the string", key));
    kv->at = c->pos;
    return sm_cursor_skip(c, kv->bytes, &kv->data, "a value");
}

/* The one key that decides where everything is. Its value has been stepped over: read it again. */
static smol_status take_alignment(struct walk *w, const struct sm_kv *kv)
{
    const uint8_t *p;
    if (kv->type != SM_KV_U32)
        return SM_FAIL_AT(w->err, FORMAT, kv->at,
                          "general.alignment at byte %" PRIu64
                          ": expected value type 4 (u32), found type %" PRIu32,
                          kv->at, kv->type);
    w->c->pos = kv->at;
    SM_TRY(sm_cursor_take(w->c, 4, &p, "general.alignment"));
    const uint32_t a = sm_ld32(p);
    if (a == 0 || (a & (a - 1)) || a > SM_GGUF_ALIGN_MAX)
        return SM_FAIL_AT(w->err, FORMAT, kv->at,
                          "general.alignment at byte %" PRIu64
                          ": expected a power of two up to 16777216, found %" PRIu32,
                          kv->at, a);
    w->alignment = a;
    return SMOL_OK;
}

static smol_status read_kv(struct walk *w, struct sm_kv *kv)
{
    struct sm_cursor *c = w->c;
    char q[SM_GGUF_QUOTE];
    const uint64_t at = c->pos;
    const uint8_t *p;
    uint64_t n;
    memset(kv, 0, sizeof *kv);
    SM_TRY(read_length(w, SM_GGUF_KEY_MAX, &n, "a key", NULL));
    if (n == 0)
        return SM_FAIL_AT(w->err, FORMAT, at, "a metadata key at byte %" PRIu64 " is empty", at);
    SM_TRY(sm_cursor_take(c, (size_t)n, &p, "a key"));
    (void)sm_gguf_quote(q, p, n);
    if (memchr(p, 0, (size_t)n))
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "metadata key '%s' at byte %" PRIu64 " contains a zero byte", q, at);
    static const char fork_prefix[] = "prism.hadamard.";
    if (n >= sizeof fork_prefix - 1 && !memcmp(p, fork_prefix, sizeof fork_prefix - 1))
        return SM_FAIL_AT(w->err, UNSUPPORTED, at,
                          "unsupported fork variant: key '%s' at byte %" PRIu64
                          " asks for a rotation that only PrismML's fork knows",
                          q, at);
    static const char align[] = "general.alignment";
    const bool is_align = n == sizeof align - 1 && !memcmp(p, align, sizeof align - 1);
    kv->key.p = (const char *)p; /* lasting only over whole memory */
    kv->key.n = (size_t)n;
    SM_TRY(read_value(w, kv, q));
    return is_align ? take_alignment(w, kv) : SMOL_OK;
}

/* ---- tensors ------------------------------------------------------------------------------- */

static smol_status read_name(struct walk *w, char name[SM_GGUF_NAME_MAX + 1], char *quoted,
                             size_t *n_out)
{
    const uint64_t at = w->c->pos;
    const uint8_t *p;
    uint64_t n;
    SM_TRY(sm_cursor_u64(w->c, &n, "a tensor name"));
    if (n == 0 || n > SM_GGUF_NAME_MAX)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "length of a tensor name at byte %" PRIu64
                          ": expected 1 to 63, found %" PRIu64,
                          at, n);
    SM_TRY(sm_cursor_take(w->c, (size_t)n, &p, "a tensor name"));
    memcpy(name, p, (size_t)n);
    name[n] = 0;
    (void)sm_gguf_quote(quoted, name, n);
    if (memchr(name, 0, (size_t)n))
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor name '%s' at byte %" PRIu64 " contains a zero byte", quoted, at);
    *n_out = (size_t)n;
    return SMOL_OK;
}

static smol_status read_dims(struct walk *w, struct sm_tensor_info *t, const char *q)
{
    struct sm_cursor *c = w->c;
    uint64_t at = c->pos, n_elements = 1;
    SM_TRY(sm_cursor_u32(c, &t->n_dims, "a tensor record"));
    if (t->n_dims > 4)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor '%s': dimensions at byte %" PRIu64
                          ": expected at most 4, found %" PRIu32,
                          q, at, t->n_dims);
    for (unsigned i = 0; i < 4; i++) t->dim[i] = 1;
    for (unsigned i = 0; i < t->n_dims; i++) {
        at = c->pos;
        SM_TRY(sm_cursor_u64(c, &t->dim[i], "a tensor record"));
        if (t->dim[i] == 0 || t->dim[i] > INT64_MAX)
            return SM_FAIL_AT(w->err, FORMAT, at,
                              "tensor '%s': size of dimension %u at byte %" PRIu64
                              ": expected 1 or more, found %" PRId64,
                              q, i, at, (int64_t)t->dim[i]);
        if (!sm_mul_ok(n_elements, t->dim[i], &n_elements) || n_elements > INT64_MAX)
            return SM_FAIL_AT(w->err, FORMAT, at,
                              "tensor '%s': size of dimension %u at byte %" PRIu64
                              ": %" PRIu64 " makes more than 2^63 elements",
                              q, i, at, t->dim[i]);
    }
    return SMOL_OK;
}

static smol_status read_type(struct walk *w, struct sm_tensor_info *t, const char *q)
{
    const uint64_t at = w->c->pos;
    SM_TRY(sm_cursor_u32(w->c, &t->type, "a tensor record"));
    const struct sm_traits *tr = sm_traits_of(t->type);
    if (!tr || tr->block == 0) {
        if (t->type == 142 || t->type == 143)
            return SM_FAIL_AT(w->err, UNSUPPORTED, at,
                              "unsupported fork variant: tensor '%s' has type %" PRIu32
                              " at byte %" PRIu64 ", which only PrismML's fork knows",
                              q, t->type, at);
        const bool retired = t->type < SM_TYPE_COUNT;
        return SM_FAIL_AT(
            w->err, UNSUPPORTED, at,
            "tensor '%s': type at byte %" PRIu64 ": expected a known type, found %" PRId32 " (%s)",
            q, at, (int32_t)t->type, retired ? "retired long ago" : "of a newer version or a fork");
    }
    if (t->dim[0] % tr->block)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor '%s' (%s, byte %" PRIu64 "): expected rows of a multiple of %u "
                          "elements, found %" PRIu64,
                          q, tr->name, at, (unsigned)tr->block, t->dim[0]);
    t->bytes = t->dim[0] / tr->block;
    bool ok = sm_mul_ok(t->bytes, tr->block_bytes, &t->bytes);
    for (unsigned i = 1; i < 4; i++) ok = ok && sm_mul_ok(t->bytes, t->dim[i], &t->bytes);
    if (!ok || t->bytes > INT64_MAX - SM_GGUF_ALIGN_MAX)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor '%s' (%s, byte %" PRIu64 ") has more than 2^63 bytes", q,
                          tr->name, at);
    return SMOL_OK;
}

/* *n_name: length of the name, copied to name. t->at stays the offset in the data section. */
static smol_status read_tensor(struct walk *w, struct sm_tensor_info *t,
                               char name[SM_GGUF_NAME_MAX + 1], size_t *n_name)
{
    char q[SM_GGUF_QUOTE];
    memset(t, 0, sizeof *t);
    SM_TRY(read_name(w, name, q, n_name));
    SM_TRY(read_dims(w, t, q));
    SM_TRY(read_type(w, t, q));
    const uint64_t at = w->c->pos;
    SM_TRY(sm_cursor_u64(w->c, &t->at, "a tensor record"));
    if (t->at & (w->alignment - 1))
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor '%s': offset at byte %" PRIu64
                          ": expected a multiple of %" PRIu32 ", found %" PRIu64,
                          q, at, w->alignment, t->at);
    if (t->at > SM_GGUF_FILE_MAX)
        return SM_FAIL_AT(w->err, FORMAT, at,
                          "tensor '%s': offset at byte %" PRIu64
                          ": expected less than 2^62, found %" PRIu64,
                          q, at, t->at);
    return SMOL_OK;
}

/* ---- walks --------------------------------------------------------------------------------- */

static smol_status walk_kv(struct walk *w)
{
    struct sm_kv kv;
    w->alignment = 32;
    for (uint64_t i = 0; i < w->n_kv; i++) {
        SM_TRY(read_kv(w, &kv));
        if (w->g) w->g->kv[i] = kv;
    }
    return SMOL_OK;
}

static smol_status walk_tensors(struct walk *w)
{
    struct sm_tensor_info t;
    char name[SM_GGUF_NAME_MAX + 1];
    size_t n = 0;
    w->names_bytes = 0;
    for (uint64_t i = 0; i < w->n_tensors; i++) {
        SM_TRY(read_tensor(w, &t, name, &n));
        if (w->g) {
            char *to = w->g->names + w->names_bytes;
            memcpy(to, name, n + 1);
            t.name = to;
            t.at += w->data_at; /* both below 2^62 */
            w->g->tensor[i] = t;
        }
        w->names_bytes += n + 1;
    }
    w->end = w->c->pos;
    w->data_at = sm_round_up64(w->end, w->alignment);
    return SMOL_OK;
}

/* The whole header in one exact piece: what the first walk kept, the rest read again. */
static smol_status take_head(struct sm_gguf *g, struct sm_cursor *c, uint64_t end)
{
    void *p;
    if (end > SIZE_MAX / 2)
        return SM_FAIL_AT(c->err, LIMIT, end, "the header of %" PRIu64
                          " bytes does not fit this machine's addresses", end);
    SM_TRY(sm_gguf_alloc(&p, end, c->err));
    g->head.p = p;
    g->head.n = (size_t)end;
    const uint8_t *from = c->file ? c->keep.p : c->base;
    size_t have = c->file ? (c->window.p ? c->keep.n : c->have) : c->have;
    if (have > g->head.n) have = g->head.n;
    if (have) memcpy(g->head.p, from, have);
    if (have == g->head.n) return SMOL_OK;
    return sm_file_read(c->file, have, g->head.p + have, g->head.n - have, c->err);
}

static smol_status make_tables(struct sm_gguf *g, const struct walk *w)
{
    void *p;
    SM_TRY(sm_gguf_alloc(&p, w->n_kv * sizeof *g->kv, w->err));
    g->kv = p;
    g->n_kv = g->kv_alloc = (size_t)w->n_kv;
    SM_TRY(sm_gguf_alloc(&p, w->n_tensors * sizeof *g->tensor, w->err));
    g->tensor = p;
    g->n_tensors = (size_t)w->n_tensors;
    SM_TRY(sm_gguf_alloc(&p, w->names_bytes, w->err));
    g->names = p;
    g->names_bytes = (size_t)w->names_bytes;
    return SMOL_OK;
}

static smol_status index_names(struct sm_gguf *g, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    size_t dup;
    SM_TRY(sm_gguf_index_build(g, &g->kv_index, sm_gguf_kv_name, g->n_kv, &dup, err));
    if (dup < g->n_kv)
        return SM_FAIL_AT(err, FORMAT, g->kv[dup].at,
                          "metadata key '%s' occurs twice, the second value is at byte %" PRIu64,
                          sm_gguf_quote(q, g->kv[dup].key.p, g->kv[dup].key.n), g->kv[dup].at);
    SM_TRY(sm_gguf_index_build(g, &g->tensor_index, sm_gguf_tensor_name, g->n_tensors, &dup, err));
    if (dup < g->n_tensors)
        return SM_FAIL_AT(err, FORMAT, g->tensor[dup].at,
                          "tensor name '%s' occurs twice, the second with data at byte %" PRIu64,
                          sm_gguf_quote(q, g->tensor[dup].name, strlen(g->tensor[dup].name)),
                          g->tensor[dup].at);
    return SMOL_OK;
}

/* Second walk, over g->head. Another writer may have changed the file between the reads, so nothing
 * that the first walk learned is taken for granted. */
static smol_status fill_tables(struct sm_gguf *g, const struct walk *first)
{
    static const char changed[] = "the file changed while its header was read";
    struct sm_cursor c;
    sm_cursor_memory(&c, g->head.p, g->head.n, first->c->size, first->err);
    struct walk w = {.c = &c, .err = first->err};
    SM_TRY(read_start(&w));
    if (w.n_kv != first->n_kv || w.n_tensors != first->n_tensors)
        return SM_FAIL(w.err, IO, "%s", changed);
    w.g = g;
    SM_TRY(walk_kv(&w));

    /* Once more without tables: the names must fit the block that was made for them. */
    const struct sm_cursor tensors = c;
    w.g = NULL;
    SM_TRY(walk_tensors(&w));
    if (w.names_bytes != first->names_bytes || w.end != first->end ||
        w.data_at != first->data_at)
        return SM_FAIL(w.err, IO, "%s", changed);
    c = tensors;
    w.g = g;
    SM_TRY(walk_tensors(&w));
    g->version = w.version;
    g->alignment = w.alignment;
    g->data_at = w.data_at;
    return SMOL_OK;
}

smol_status sm_gguf_read(struct sm_gguf *g, struct sm_cursor *c, smol_error *err)
{
    struct walk first = {.c = c, .err = err};
    SM_TRY(read_start(&first));
    SM_TRY(walk_kv(&first));
    SM_TRY(walk_tensors(&first));
    SM_TRY(take_head(g, c, first.end));
    sm_cursor_close(c);
    SM_TRY(make_tables(g, &first));
    SM_TRY(fill_tables(g, &first));
    SM_TRY(index_names(g, err));
    SM_TRY(sm_gguf_check_layout(g, g->cut ? UINT64_MAX : c->size, err));
    return sm_gguf_read_pack(g, g->cut ? UINT64_MAX : c->size, err);
}
