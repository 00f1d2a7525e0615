/* SPDX-License-Identifier: MIT */
/* Units of a pack: from the source into it, back from the disk for comparison, and out again. */
#include "base/bits.h"
#include "store/pack_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a job ---------------------------------------------------------------------------------- */

struct sm_pack_span sm_pack_span_of(const struct sm_pack_job *j, size_t i)
{
    const struct sm_pack_unit *u = &j->unit[i];
    struct sm_pack_span s = {0};
    if (u->tensor == SM_PACK_RAW) {
        const struct sm_pack_raw *r = &j->pack->raw[u->mat];
        const uint64_t from = (uint64_t)u->unit * SM_PACK_UNIT_BYTES, left = r->bytes - from;
        s.file = r->file;
        s.source_at = r->source_at + from;
        s.at = r->at + from;
        s.source_bytes = s.bytes = (size_t)(left < SM_PACK_UNIT_BYTES ? left : SM_PACK_UNIT_BYTES);
        return s;
    }
    const struct sm_place *p = &j->pack->place[u->tensor];
    const struct sm_tensor_info *t = sm_gguf_tensor(j->g, u->tensor);
    const uint64_t row = (uint64_t)u->unit * p->unit_rows;
    s.file = p->source_file;
    s.n_rows = sm_place_unit_rows(p, u->unit);
    s.row_bytes = (size_t)p->row_bytes;
    s.n_cols = (size_t)t->dim[0];
    s.type = t->type;
    s.x8 = p->x8;
    s.source_at = p->source_at + ((uint64_t)u->mat * p->n_rows + row) * p->row_bytes;
    s.at = sm_place_row_at(p, u->mat, row);
    s.source_bytes = s.n_rows * s.row_bytes;
    s.bytes = (size_t)sm_place_bytes(p, s.n_rows);
    return s;
}

const char *sm_pack_unit_name(const struct sm_pack_job *j, size_t i, char buf[SM_PACK_UNIT_NAME])
{
    const struct sm_pack_unit *u = &j->unit[i];
    char expert[24] = "";
    if (u->tensor == SM_PACK_RAW) {
        (void)snprintf(buf, SM_PACK_UNIT_NAME, "what the source file holds beside tensors");
        return buf;
    }
    const struct sm_place *p = &j->pack->place[u->tensor];
    const uint32_t row = u->unit * p->unit_rows;
    if (p->n_mat > 1) (void)snprintf(expert, sizeof expert, " expert %" PRIu32, u->mat);
    (void)snprintf(buf, SM_PACK_UNIT_NAME, "tensor %s%s rows %" PRIu32 " to %" PRIu32,
                   sm_gguf_tensor(j->g, u->tensor)->name, expert, row,
                   row + sm_place_unit_rows(p, u->unit) - 1);
    return buf;
}

/* Every sum belongs to exactly one unit, and units follow one another in the file. */
static smol_status list_units(struct sm_pack_job *j, smol_error *err)
{
    const struct sm_pack *p = j->pack;
    static const char bad[] = "the pack is damaged: its checksums do not fit its tensors";
    uint64_t n = 0;
    j->unit = sm_mem_new(p->n_sums * sizeof *j->unit);
    uint8_t *seen = sm_mem_new(p->n_sums);
    smol_status st = SMOL_OK;
    if (!j->unit || !seen) {
        st = SM_FAIL(err, NOMEM, "no memory for the list of a pack's parts");
        goto out;
    }
    for (size_t i = 0; i < p->n_raw && st == SMOL_OK; i++) {
        for (uint64_t u = 0; u < sm_raw_units(&p->raw[i]) && st == SMOL_OK; u++, n++) {
            const uint64_t at = p->raw[i].first_sum + u;
            if (seen[at]++) st = SM_FAIL(err, FORMAT, bad);
            j->unit[at] = (struct sm_pack_unit){SM_PACK_RAW, (uint32_t)i, (uint32_t)u};
        }
    }
    j->n_raw_units = (size_t)n;
    for (size_t i = 0; i < p->n_tensors && st == SMOL_OK; i++) {
        const struct sm_place *t = &p->place[i];
        for (uint32_t m = 0; m < t->n_mat && st == SMOL_OK; m++)
            for (uint32_t u = 0; u < t->n_units && st == SMOL_OK; u++, n++) {
                const uint64_t at = sm_place_sum(t, m, u);
                if (seen[at]++) st = SM_FAIL(err, FORMAT, bad);
                j->unit[at] = (struct sm_pack_unit){(uint32_t)i, m, u};
            }
    }
    if (st == SMOL_OK && n != p->n_sums) st = SM_FAIL(err, FORMAT, bad);
    for (size_t i = 0; i < p->n_sums && st == SMOL_OK; i++) {
        const struct sm_pack_span s = sm_pack_span_of(j, i);
        j->total_bytes += s.source_bytes;
        if (s.bytes > SM_PACK_UNIT_MAX || s.source_bytes > SM_PACK_UNIT_MAX)
            st = SM_FAIL(err, LIMIT, "the pack has parts of more than 64 MiB");
        if (s.bytes > j->unit_bytes) j->unit_bytes = s.bytes;
        if (s.source_bytes > j->unit_bytes) j->unit_bytes = s.source_bytes;
    }
out:
    sm_mem_free(seen, p->n_sums);
    return st;
}

static smol_status make_buffers(struct sm_pack_job *j, smol_error *err)
{
    const size_t unit = sm_round_up(j->unit_bytes, SM_IO_ALIGN);
    j->stage_bytes = unit + 2 * SM_IO_ALIGN;
    j->block_bytes = j->stage_bytes + 2 * unit + SM_IO_ALIGN;
    j->block = sm_mem_new(j->block_bytes);
    if (!j->block)
        return SM_FAIL(err, NOMEM, "no memory for buffers of %zu bytes", j->block_bytes);
    j->stage = j->block + (SM_IO_ALIGN - ((uintptr_t)j->block & (SM_IO_ALIGN - 1))) % SM_IO_ALIGN;
    j->packed = j->stage + j->stage_bytes;
    j->rows = j->packed + unit;
    return SMOL_OK;
}

smol_status sm_pack_job_begin(struct sm_pack_job *j, uint8_t *head, size_t head_bytes,
                              uint64_t file_bytes, smol_error *err)
{
    j->head = head;
    j->head_bytes = head_bytes;
    j->file_bytes = file_bytes;
    SM_TRY(sm_gguf_parse(&j->g, head, head_bytes, file_bytes, err));
    j->pack = sm_gguf_pack_mutable(j->g);
    if (!j->pack) return SM_FAIL(err, FORMAT, "the header is not that of a pack");
    SM_TRY(list_units(j, err));
    return make_buffers(j, err);
}

smol_status sm_pack_job_undo(struct sm_pack_job *j, struct sm_gguf *g, smol_error *err)
{
    j->g = g;
    j->pack = sm_gguf_pack_mutable(g);
    SM_TRY(list_units(j, err));
    return make_buffers(j, err);
}

void sm_pack_files_close(struct sm_pack_files *f)
{
    for (size_t i = 0; i < f->n; i++) {
        if (f->file) sm_file_close(f->file[i]);
        if (f->out) sm_out_close(f->out[i]);
    }
    sm_mem_free(f->file, f->n * sizeof *f->file);
    sm_mem_free(f->out, f->n * sizeof *f->out);
    memset(f, 0, sizeof *f);
}

smol_status sm_pack_files_open(struct sm_pack_files *f, const struct sm_gguf *g, bool exclusive,
                               smol_error *err)
{
    f->n = sm_gguf_n_files(g);
    if (exclusive) f->out = sm_mem_new(f->n * sizeof *f->out);
    else f->file = sm_mem_new(f->n * sizeof *f->file);
    if (!f->out && !f->file) return SM_FAIL(err, NOMEM, "no memory for the list of files");
    for (size_t i = 0; i < f->n; i++) {
        const char *path = sm_gguf_file_path(g, i);
        if (exclusive) SM_TRY(sm_out_open(&f->out[i], path, SM_OUT_KEPT, true, err));
        else SM_TRY(sm_file_open(&f->file[i], path, true, err));
        uint64_t size = 0;
        unsigned links;
        if (exclusive) SM_TRY(sm_out_stat(f->out[i], &size, &links, err));
        else size = sm_file_size(f->file[i]);
        if (size != sm_gguf_file_bytes(g, i))
            return SM_FAIL(err, IO, "%s changed while it was opened", path);
    }
    return SMOL_OK;
}

smol_status sm_pack_files_read(const struct sm_pack_files *f, size_t file, uint64_t at, size_t n,
                               uint8_t *stage, const uint8_t **data, smol_error *err)
{
    if (f->out) return sm_out_read(f->out[file], at, n, stage, data, err);
    return sm_file_read_direct(f->file[file], at, n, stage, data, err);
}

char *sm_pack_path(const char *path, const char *tail)
{
    const size_t bytes = strlen(path) + strlen(tail) + 1;
    char *p = sm_mem_new(bytes);
    if (p) (void)snprintf(p, bytes, "%s%s", path, tail);
    return p;
}

void sm_pack_job_end(struct sm_pack_job *j)
{
    if (j->pack) sm_mem_free(j->unit, j->pack->n_sums * sizeof *j->unit);
    if (j->head) sm_gguf_free(j->g);
    sm_mem_free(j->head, j->head_bytes);
    sm_mem_free(j->block, j->block_bytes);
    sm_pack_files_close(&j->in);
    sm_out_close(j->out);
    j->head = NULL;
}

void sm_pack_progress(const struct sm_pack_job *j, const char *what)
{
    if (j->opt->progress)
        j->opt->progress(j->opt->progress_arg, what, j->done_bytes, j->total_bytes);
}

void sm_pack_fill_report(const struct sm_pack_job *j, struct sm_pack_report *r)
{
    for (size_t i = 0; i < j->pack->n_sources; i++) r->source_bytes += j->pack->source[i].bytes;
    r->out_bytes = j->file_bytes;
    for (size_t i = 0; i < j->pack->n_tensors; i++) {
        const struct sm_place *p = &j->pack->place[i];
        if (!p->x8) continue;
        r->kernel_source_bytes += (uint64_t)p->n_mat * p->n_rows * p->row_bytes;
        r->kernel_bytes += p->n_mat * sm_place_bytes(p, p->n_rows);
    }
}

/* ---- units ---------------------------------------------------------------------------------- */

static void permute(const struct sm_pack_job *j, const struct sm_pack_span *s, const uint8_t *rows)
{
    const sm_pack_x8_fn pack = j->opt->kern ? j->opt->kern->pack_x8 : sm_x8_pack;
    pack(s->type, j->packed, rows, s->row_bytes, s->n_rows, s->n_cols);
}

void sm_pack_unit_undo(const struct sm_pack_job *j, const struct sm_pack_span *s,
                       const uint8_t *packed)
{
    if (!s->x8) {
        memcpy(j->rows, packed, s->source_bytes);
        return;
    }
    for (uint32_t r = 0; r < s->n_rows; r++)
        sm_x8_unpack_row(s->type, packed, r, s->n_cols, j->rows + r * s->row_bytes);
}

static bool stopped(const struct sm_pack_job *j) { return j->opt->cancel && *j->opt->cancel; }

smol_status sm_pack_copy(struct sm_pack_job *j, size_t first, size_t end, struct sm_hash *h,
                         smol_error *err)
{
    for (size_t i = first; i < end; i++) {
        const struct sm_pack_span s = sm_pack_span_of(j, i);
        const uint8_t *rows, *packed;
        SM_TRY(
            sm_pack_files_read(&j->in, s.file, s.source_at, s.source_bytes, j->stage, &rows, err));
        if (h) sm_hash_put(h, rows, s.source_bytes);
        packed = s.x8 ? j->packed : rows;
        if (s.x8) permute(j, &s, rows);
        j->pack->sums[i] = sm_hash64(packed, s.bytes, 0);
        SM_TRY(sm_out_write(j->out, s.at, packed, s.bytes, err));
        j->done_bytes += s.source_bytes;
        sm_pack_progress(j, "packing");
        if (stopped(j)) return SM_FAIL(err, CANCELLED, "packing was stopped");
    }
    return SMOL_OK;
}

smol_status sm_pack_check(struct sm_pack_job *j, size_t first, size_t end, struct sm_hash *h,
                          smol_error *err)
{
    char name[SM_PACK_UNIT_NAME];
    for (size_t i = first; i < end; i++) {
        const struct sm_pack_span s = sm_pack_span_of(j, i);
        const uint8_t *packed;
        SM_TRY(sm_out_read(j->out, s.at, s.bytes, j->stage, &packed, err));
        if (sm_hash64(packed, s.bytes, 0) != j->pack->sums[i])
            return SM_FAIL_AT(
                err, IO, s.at,
                "%s: what came back from the disk is not what was written (byte %" PRIu64
                "): the disk or the memory is failing",
                sm_pack_unit_name(j, i, name), s.at);
        if (!h) continue;
        sm_pack_unit_undo(j, &s, packed);
        sm_hash_put(h, j->rows, s.source_bytes);
    }
    return SMOL_OK;
}

smol_status sm_pack_tail_write(struct sm_pack_job *j, smol_error *err)
{
    static const uint8_t zero;
    const struct sm_pack_span last = sm_pack_span_of(j, j->pack->n_sums - 1);
    if (last.at + last.bytes >= j->file_bytes) return SMOL_OK;
    return sm_out_write(j->out, j->file_bytes - 1, &zero, 1, err);
}

/* ---- header --------------------------------------------------------------------------------- */

void sm_pack_head_finish(struct sm_pack_job *j)
{
    memcpy(j->head + j->pack->sums_at, j->pack->sums, j->pack->n_sums * sizeof *j->pack->sums);
    sm_st64(
        j->head + j->pack->checksum_at,
        sm_pack_head_checksum(j->head, j->pack->head_bytes, j->pack->checksum_at, j->file_bytes));
}

smol_status sm_pack_head_write(struct sm_pack_job *j, const char magic[4], smol_error *err)
{
    SM_TRY(sm_out_write(j->out, 0, magic, 4, err));
    return sm_out_write(j->out, 4, j->head + 4, j->head_bytes - 4, err);
}
