/* SPDX-License-Identifier: MIT */
/* The data of the new file. A piece is some rows of one matrix (of one expert), or a range of bytes
 * that are copied. All threads make the pieces of one batch while the caller, before it helps them,
 * writes the batch before. */
#include "store/requant_int.h"

#include "quant/encode.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define PIECE_BYTES ((uint64_t)256 << 10) /* of either file; a row may be longer */
#define PIECES 16u                        /* of a batch */

struct piece {
    uint32_t tensor;
    uint64_t mat, row, n_rows; /* of an encoded tensor */
    uint64_t at;               /* of a copied one: bytes before it */
    size_t bytes;              /* in the new file */
};

struct batch {
    struct piece piece[PIECES];
    unsigned n;
    uint8_t *bytes; /* PIECES * room */
};

/* What one thread needs to make a piece. */
struct maker {
    uint8_t *raw; /* rows as they are in IN */
    float *x, *v; /* one row, and the importance of its columns... */
    bool has_v;
    uint32_t tensor; /* ...of this matrix */
    uint64_t mat;
    smol_status st;
    smol_error err;
    unsigned failed; /* the piece that could not be made */
};

struct stream {
    const struct sm_requant *r;
    struct sm_gguf_writer *w;
    struct sm_pool *pool;
    unsigned n_threads;
    struct batch batch[2];
    struct maker maker[SM_POOL_MAX];
    size_t room, raw_bytes, n_cols; /* of a piece; the longest row */
    uint32_t tensor; /* the next piece's */
    uint64_t mat, row, at;
    uint64_t written, total;
    smol_status st;
    smol_error *err;
};

/* ---- cutting ------------------------------------------------------------------------------- */

static uint64_t at_least_one(uint64_t n) { return n ? n : 1; }

/* Rows of a piece: as many as keep both sides below PIECE_BYTES. */
static uint64_t piece_rows(const struct sm_requant_tensor *t)
{
    const uint64_t a = sm_row_bytes(t->info->type, t->info->dim[0]);
    const uint64_t b = sm_row_bytes(t->type, t->info->dim[0]);
    return at_least_one(PIECE_BYTES / (a > b ? a : b));
}

static struct piece next_copied(struct stream *s, const struct sm_requant_tensor *t)
{
    const uint64_t left = t->info->bytes - s->at;
    const uint64_t n = left < PIECE_BYTES ? left : PIECE_BYTES;
    const struct piece p = {.tensor = s->tensor, .at = s->at, .bytes = (size_t)n};
    s->at += n;
    if (s->at == t->info->bytes) {
        s->at = 0;
        s->tensor++;
    }
    return p;
}

static struct piece next_encoded(struct stream *s, const struct sm_requant_tensor *t)
{
    const uint64_t *dim = t->info->dim, left = dim[1] - s->row, most = piece_rows(t);
    const uint64_t n = left < most ? left : most;
    const struct piece p = {.tensor = s->tensor,
                            .mat = s->mat,
                            .row = s->row,
                            .n_rows = n,
                            .bytes = (size_t)(n * sm_row_bytes(t->type, dim[0]))};
    s->row += n;
    if (s->row == dim[1]) {
        s->row = 0;
        if (++s->mat == dim[2] * dim[3]) {
            s->mat = 0;
            s->tensor++;
        }
    }
    return p;
}

static unsigned cut(void *arg, unsigned side)
{
    struct stream *s = arg;
    struct batch *b = &s->batch[side];
    b->n = 0;
    while (b->n < PIECES && s->tensor < s->r->n_tensors) {
        const struct sm_requant_tensor *t = &s->r->tensor[s->tensor];
        b->piece[b->n++] = t->copied ? next_copied(s, t) : next_encoded(s, t);
    }
    return b->n;
}

/* ---- making -------------------------------------------------------------------------------- */

static smol_status importance_of(const struct stream *s, struct maker *m, const struct piece *p)
{
    const struct sm_requant_tensor *t = &s->r->tensor[p->tensor];
    if (m->has_v && m->tensor == p->tensor && m->mat == p->mat) return SMOL_OK;
    m->has_v = false;
    m->tensor = p->tensor;
    m->mat = p->mat;
    if (!t->has_entry) return SMOL_OK;
    SM_TRY(
        sm_imatrix_row(s->r->imatrix, &t->entry, t->entry.n_mat > 1 ? p->mat : 0, m->v, &m->err));
    m->has_v = true;
    return SMOL_OK;
}

static bool all_finite(const float *x, size_t n)
{
    bool finite = true;
    for (size_t i = 0; i < n; i++) finite &= isfinite(x[i]) != 0;
    return finite;
}

static smol_status encode_piece(const struct stream *s, struct maker *m, const struct piece *p,
                                uint8_t *out)
{
    const struct sm_requant_tensor *t = &s->r->tensor[p->tensor];
    const struct sm_tensor_info *i = t->info;
    const size_t n_cols = (size_t)i->dim[0];
    const size_t in_row = (size_t)sm_row_bytes(i->type, n_cols);
    const size_t out_row = (size_t)sm_row_bytes(t->type, n_cols);
    const uint64_t first = p->mat * i->dim[1] + p->row, at = i->at + first * in_row;
    SM_TRY(importance_of(s, m, p));
    SM_TRY(sm_file_read(s->r->file[i->file], at, m->raw, (size_t)p->n_rows * in_row, &m->err));
    for (uint64_t k = 0; k < p->n_rows; k++, out += out_row) {
        sm_decode_row(i->type, m->raw + k * in_row, m->x, n_cols);
        if (!all_finite(m->x, n_cols))
            return SM_FAIL_AT(&m->err, FORMAT, at + k * in_row,
                              "%s: row %" PRIu64 " has weights that are no finite numbers", i->name,
                              first + k);
        sm_encode_row(t->type, m->x, n_cols, m->has_v ? m->v : NULL, out);
        if (!sm_blocks_finite(t->type, out, n_cols / sm_traits_of(t->type)->block))
            return SM_FAIL_AT(&m->err, UNSUPPORTED, at + k * in_row,
                              "%s: row %" PRIu64 " has weights too large for %s", i->name,
                              first + k, sm_type_name(t->type));
    }
    return SMOL_OK;
}

static smol_status make_piece(const struct stream *s, struct maker *m, const struct piece *p,
                              uint8_t *out)
{
    const struct sm_requant_tensor *t = &s->r->tensor[p->tensor];
    if (!t->copied) return encode_piece(s, m, p, out);
    return sm_file_read(s->r->file[t->info->file], t->info->at + p->at, out, p->bytes, &m->err);
}

static void write_batch(void *arg, unsigned side)
{
    struct stream *s = arg;
    const struct batch *b = &s->batch[side];
    for (unsigned i = 0; i < b->n && s->st == SMOL_OK; i++) {
        s->st = sm_gguf_writer_put(s->w, b->bytes + i * s->room, b->piece[i].bytes, s->err);
        s->written += b->piece[i].bytes;
    }
    if (s->r->opt.progress)
        s->r->opt.progress(s->r->opt.progress_arg, "quantising", s->written, s->total);
}

static bool is_cancelled(const struct stream *s) { return s->r->opt.cancel && *s->r->opt.cancel; }

static bool make(void *arg, unsigned side, unsigned item, unsigned worker)
{
    struct stream *s = arg;
    struct batch *b = &s->batch[side];
    struct maker *m = &s->maker[worker];
    if (is_cancelled(s)) return false;
    m->failed = item;
    m->st = make_piece(s, m, &b->piece[item], b->bytes + item * s->room);
    return m->st == SMOL_OK;
}

/* The first failure in the order of the file, whichever thread met it, is s->st. */
static bool go_on(void *arg)
{
    struct stream *s = arg;
    const struct maker *first = NULL;
    if (s->st != SMOL_OK) return false;
    for (unsigned i = 0; i < s->n_threads; i++) {
        const struct maker *m = &s->maker[i];
        if (m->st != SMOL_OK && (!first || m->failed < first->failed)) first = m;
    }
    if (first) {
        s->st = first->st;
        if (s->err && s->err->code == SMOL_OK) *s->err = first->err;
    } else if (is_cancelled(s)) {
        s->st = SM_FAIL(s->err, CANCELLED, "stopped");
    }
    return s->st == SMOL_OK;
}

/* ---- memory -------------------------------------------------------------------------------- */

static void measure(struct stream *s)
{
    s->room = s->raw_bytes = PIECE_BYTES;
    for (size_t i = 0; i < s->r->n_tensors; i++) {
        const struct sm_requant_tensor *t = &s->r->tensor[i];
        s->total += sm_row_bytes(t->type, t->info->dim[0]) * t->info->dim[1] * t->info->dim[2] *
                    t->info->dim[3];
        if (t->copied) continue;
        const uint64_t n = piece_rows(t), n_cols = t->info->dim[0];
        const uint64_t in = n * sm_row_bytes(t->info->type, n_cols);
        const uint64_t out = n * sm_row_bytes(t->type, n_cols);
        if (in > s->raw_bytes) s->raw_bytes = (size_t)in;
        if (out > s->room) s->room = (size_t)out;
        if (n_cols > s->n_cols) s->n_cols = (size_t)n_cols;
    }
}

static smol_status take_memory(struct stream *s)
{
    measure(s);
    bool ok = true;
    for (int i = 0; i < 2; i++) ok = (s->batch[i].bytes = sm_mem_new(PIECES * s->room)) && ok;
    for (unsigned i = 0; i < s->n_threads && s->n_cols; i++) {
        struct maker *m = &s->maker[i];
        m->raw = sm_mem_new(s->raw_bytes);
        m->x = sm_mem_new(s->n_cols * sizeof *m->x);
        m->v = sm_mem_new(s->n_cols * sizeof *m->v);
        ok = ok && m->raw && m->x && m->v;
    }
    return ok ? SMOL_OK : SM_FAIL(s->err, NOMEM, "no memory for the rows that are encoded");
}

static void give_memory(struct stream *s)
{
    for (int i = 0; i < 2; i++) sm_mem_free(s->batch[i].bytes, PIECES * s->room);
    for (unsigned i = 0; i < s->n_threads; i++) {
        sm_mem_free(s->maker[i].raw, s->raw_bytes);
        sm_mem_free(s->maker[i].x, s->n_cols * sizeof(float));
        sm_mem_free(s->maker[i].v, s->n_cols * sizeof(float));
    }
    sm_pool_free(s->pool);
    sm_mem_free(s, sizeof *s);
}

smol_status sm_requant_stream(const struct sm_requant *r, struct sm_gguf_writer *w, smol_error *err)
{
    struct stream *s = sm_mem_new(sizeof *s);
    if (!s) return SM_FAIL(err, NOMEM, "no memory for a quantiser");
    s->r = r;
    s->w = w;
    s->err = err;
    s->n_threads = r->opt.n_threads;
    smol_status st = sm_pool_new(&s->pool, s->n_threads, err);
    if (st == SMOL_OK) st = take_memory(s);
    if (st == SMOL_OK) {
        sm_pool_batches(s->pool, &(struct sm_batches){cut, make, write_batch, go_on, s});
        st = s->st;
    }
    give_memory(s);
    return st;
}
