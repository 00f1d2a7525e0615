/* SPDX-License-Identifier: MIT */
/* One run of rows: read it, check its scales, put it into place in kernel layout. This is the only
 * place where weight bytes enter memory, whatever their home, and it runs in the reader threads:
 * repacking costs 0.1 ms a megabyte there and overlaps the next read of another reader. */
#include "base/hash.h"
#include "quant/x8_finite.h"
#include "store/store_int.h"

#include <stdio.h>
#include <string.h>

size_t sm_stage_bytes(size_t run_bytes, size_t row_bytes, bool verify)
{
    const size_t one = sm_round_up(run_bytes + 2 * SM_IO_ALIGN, SM_IO_ALIGN);
    return verify ? 2 * one + sm_round_up(row_bytes, SM_IO_ALIGN) : one;
}

smol_status sm_stage_new(struct sm_stage *st, size_t run_bytes, size_t row_bytes, bool verify,
                         smol_error *err)
{
    const size_t one = sm_round_up(run_bytes + 2 * SM_IO_ALIGN, SM_IO_ALIGN);
    void *pages;
    *st = (struct sm_stage){0};
    st->n_bytes = sm_stage_bytes(run_bytes, row_bytes, verify);
    SM_TRY(sm_pages_new(&pages, st->n_bytes, err));
    st->data = pages;
    if (verify) {
        st->again = st->data + one;
        st->row = st->again + one;
    }
    return SMOL_OK;
}

void sm_stage_free(struct sm_stage *st)
{
    sm_pages_free(st->data, st->n_bytes);
    *st = (struct sm_stage){0};
}

uint32_t sm_run_rows(uint32_t n_rows, size_t row_bytes, size_t bytes, const struct sm_place *place)
{
    if (place && place->n_units > 1) {
        const size_t units = bytes / row_bytes / place->unit_rows, n = units ? units : 1;
        return n * place->unit_rows < n_rows ? (uint32_t)n * place->unit_rows : n_rows;
    }
    if (place) return n_rows; /* one unit */
    const size_t fit = row_bytes ? bytes / row_bytes & ~(size_t)7 : n_rows;
    const size_t rows = fit < 8 ? 8 : fit;
    return rows < n_rows ? (uint32_t)rows : n_rows;
}

struct sm_run sm_weight_run(const struct sm_store *s, const struct sm_weight *w, uint32_t row,
                            uint32_t n_rows, uint8_t *dst)
{
    const struct sm_place *place = w->info->place;
    const size_t row_bytes = (size_t)sm_row_bytes(w->type, w->n_in);
    return (struct sm_run){
        .info = w->info,
        .file = s->file[w->info->file],
        .at = place ? sm_place_row_at(place, 0, row) : w->info->at + (uint64_t)row * row_bytes,
        .type = w->type,
        .x8 = w->x8,
        .n_in = w->n_in,
        .row0 = row,
        .n_rows = n_rows,
        .row_bytes = row_bytes,
        .expert = -1,
        .place = place,
        .mat_row = row,
        .dst = dst,
    };
}

void sm_piece_run(const struct sm_store *s, const struct sm_expert_pool *p, uint32_t slot,
                  uint32_t expert, uint32_t piece, struct sm_run *run, unsigned *half)
{
    static const uint8_t order[SM_PARTS] = {SM_PART_GATE, SM_PART_UP, SM_PART_GATE_BIAS,
                                            SM_PART_UP_BIAS, SM_PART_DOWN, SM_PART_DOWN_BIAS};
    unsigned i = 0;
    while (piece >= p->part[order[i]].n_pieces) piece -= p->part[order[i++]].n_pieces;
    const struct sm_part *part = &p->part[order[i]];
    const struct sm_expert_shape *shape = part->shape;
    const uint32_t row0 = piece * part->rows_per_piece, left = shape->n_out - row0;
    const uint64_t row = (uint64_t)expert * shape->n_out + row0;
    const size_t before = shape->x8 ? (size_t)sm_x8_bytes(shape->type, row0, shape->n_in)
                                    : (size_t)row0 * part->row_bytes;
    const struct sm_place *place = part->info->place;
    *half = order[i] == SM_PART_DOWN || order[i] == SM_PART_DOWN_BIAS ? SM_HALF_DOWN
                                                                      : SM_HALF_GATE_UP;
    *run = (struct sm_run){
        .info = part->info,
        .file = s->file[part->info->file],
        .at = place ? sm_place_row_at(place, expert, row0) : part->info->at + row * part->row_bytes,
        .type = shape->type,
        .x8 = shape->x8,
        .n_in = shape->n_in,
        .row0 = row,
        .n_rows = left < part->rows_per_piece ? left : part->rows_per_piece,
        .row_bytes = part->row_bytes,
        .expert = (int32_t)expert,
        .place = place,
        .mat = expert,
        .mat_row = row0,
        .dst = p->slot[slot].data + shape->offset_bytes + before,
    };
}

smol_status sm_limited_read(struct sm_store *s, struct sm_file *f, uint64_t at, size_t n,
                            uint8_t *stage, const uint8_t **data, smol_error *err)
{
    const uint64_t from = at & ~(uint64_t)(SM_IO_ALIGN - 1);
    const size_t whole = (size_t)(sm_round_up64(at + n, SM_IO_ALIGN) - from);
    const uint64_t start = sm_now_ns(), due = sm_limit_enter(&s->limit, whole, start);
    SM_TRY(sm_file_read_direct(f, at, n, stage, data, err));
    if (due) {
        const uint64_t now = sm_now_ns();
        if (now < due) sm_sleep_ns(due - now);
    }
    return SMOL_OK;
}

/* "file: tensor T, expert E, row R at byte A: why"; the name of the file without its folders, since
 * a message has 200 bytes. */
static smol_status fail_run(const struct sm_run *run, uint64_t row, uint64_t at,
                            const smol_error *cause, smol_error *err)
{
    const char *path = sm_file_path(run->file), *slash = strrchr(path, '/');
    char expert[24] = "";
    if (run->expert >= 0) (void)snprintf(expert, sizeof expert, ", expert %d", (int)run->expert);
    if (err && err->code != SMOL_OK) return cause->code;
    (void)sm_fail(err, cause->code, cause->sys, at, cause->where,
                  "%s: tensor %s%s, row %llu at byte %llu: %s", slash ? slash + 1 : path,
                  run->info->name, expert, (unsigned long long)row, (unsigned long long)at,
                  cause->msg);
    return cause->code;
}

static bool held_as_x8(const struct sm_run *run) { return run->x8 && run->place && run->place->x8; }

static smol_status not_finite(const struct sm_run *run, uint32_t row, size_t into, smol_error *err)
{
    smol_error cause = {0};
    (void)SM_FAIL(&cause, FORMAT, "a scale is infinite or not a number");
    return fail_run(run, run->row0 + row, run->at + into, &cause, err);
}

/* The same for rows that lie in groups of 8. */
static smol_status check_finite_x8(const struct sm_run *run, const uint8_t *x8, smol_error *err)
{
    const struct sm_traits *t = sm_traits_of(run->type);
    const size_t per_group = run->row_bytes / t->block_bytes, group_bytes = 8 * run->row_bytes;
    const uint32_t n_groups = (run->n_rows + 7) / 8;
    if (sm_x8_finite(run->type, x8, per_group * n_groups)) return SMOL_OK;
    for (uint32_t g = 0; g < n_groups; g++)
        if (!sm_x8_finite(run->type, x8 + g * group_bytes, per_group))
            return not_finite(run, 8 * g, g * group_bytes, err);
    return SMOL_OK;
}

static smol_status check_finite(const struct sm_run *run, const uint8_t *rows, smol_error *err)
{
    const struct sm_traits *t = sm_traits_of(run->type);
    const size_t per_row = t->block_bytes ? run->row_bytes / t->block_bytes : 0;
    if (held_as_x8(run)) return check_finite_x8(run, rows, err);
    if (sm_blocks_finite(run->type, rows, per_row * run->n_rows)) return SMOL_OK;
    for (uint32_t r = 0; r < run->n_rows; r++) {
        for (size_t b = 0; b < per_row; b++) {
            const size_t into = (size_t)r * run->row_bytes + b * t->block_bytes;
            if (!sm_blocks_finite(run->type, rows + into, 1)) return not_finite(run, r, into, err);
        }
    }
    return SMOL_OK;
}

/* Compare units of a pack with their checksums: `data` holds n_rows rows from row `row` (the first
 * of a unit) of matrix `mat`. False: *unit does not agree. */
static bool units_good(const struct sm_store *s, const struct sm_place *place, uint32_t mat,
                       uint32_t row, uint32_t n_rows, const uint8_t *data, uint32_t *unit)
{
    const struct sm_pack *pack = sm_gguf_pack(s->gguf);
    *unit = row / place->unit_rows;
    for (uint32_t left = n_rows, n; left; left -= n, data += sm_place_bytes(place, n), ++*unit) {
        n = sm_place_unit_rows(place, *unit);
        if (n > left) n = left;
        if (sm_hash64(data, (size_t)sm_place_bytes(place, n), 0) !=
            pack->sums[sm_place_sum(place, mat, *unit)])
            return false;
    }
    return true;
}

static smol_status check_sums(struct sm_store *s, const struct sm_run *run, const uint8_t *data,
                              smol_error *err)
{
    smol_error cause = {0};
    uint32_t unit = 0;
    if (!run->place || units_good(s, run->place, run->mat, run->mat_row, run->n_rows, data, &unit))
        return SMOL_OK;
    (void)SM_FAIL(&cause, FORMAT, "the pack is damaged: what was read does not have its checksum");
    const uint32_t row = unit * run->place->unit_rows;
    return fail_run(run, run->row0 - run->mat_row + row, sm_place_row_at(run->place, run->mat, row),
                    &cause, err);
}

static smol_status read_rows(struct sm_store *s, const struct sm_run *run, uint8_t *stage,
                             const uint8_t **rows, smol_error *err)
{
    smol_error cause = {0};
    const size_t n = sm_run_file_bytes(run->n_rows, run->row_bytes, run->place);
    if (sm_limited_read(s, run->file, run->at, n, stage, rows, &cause) == SMOL_OK) return SMOL_OK;
    return fail_run(run, run->row0, run->at, &cause, err);
}

/* The rows of a run in the file that the pack was made from. */
static struct sm_run in_source(const struct sm_store *s, const struct sm_run *run)
{
    const struct sm_place *p = run->place;
    struct sm_run r = *run;
    r.place = NULL;
    r.file = s->source[p->source_file];
    r.at = p->source_at + ((uint64_t)run->mat * p->n_rows + run->mat_row) * run->row_bytes;
    return r;
}

static smol_status differs(const struct sm_run *run, uint64_t row, uint64_t at, uint8_t have,
                           uint8_t want, smol_error *err)
{
    smol_error cause = {0};
    (void)SM_FAIL(&cause, IO, "verification failed: in memory %02x, on disk %02x", have, want);
    return fail_run(run, row, at, &cause, err);
}

smol_status sm_run_verify(struct sm_store *s, struct sm_stage *st, const struct sm_run *run,
                          smol_error *err)
{
    const uint8_t *rows;
    const struct sm_run source = run->place && s->source ? in_source(s, run) : *run;
    SM_TRY(read_rows(s, &source, st->again, &rows, err));
    if (held_as_x8(&source)) {
        const size_t n = sm_run_file_bytes(run->n_rows, run->row_bytes, run->place);
        size_t i = 0;
        if (!memcmp(run->dst, rows, n)) return SMOL_OK;
        while (run->dst[i] == rows[i]) i++;
        return differs(run, run->row0 + ((i / run->row_bytes) & ~(uint64_t)7), run->at + i,
                       run->dst[i], rows[i], err);
    }
    for (uint32_t r = 0; r < run->n_rows; r++) {
        const uint8_t *want = rows + (size_t)r * run->row_bytes, *have;
        if (run->x8) {
            sm_x8_unpack_row(run->type, run->dst, r, run->n_in, st->row);
            have = st->row;
        } else {
            have = run->dst + (size_t)r * run->row_bytes;
        }
        if (!memcmp(have, want, run->row_bytes)) continue;
        size_t i = 0;
        while (have[i] == want[i]) i++;
        return differs(&source, run->row0 + r, source.at + (uint64_t)r * run->row_bytes + i,
                       have[i], want[i], err);
    }
    return SMOL_OK;
}

smol_status sm_run_read(struct sm_store *s, struct sm_stage *st, const struct sm_run *run,
                        smol_error *err)
{
    const uint8_t *rows;
    SM_TRY(read_rows(s, run, st->data, &rows, err));
    SM_TRY(check_sums(s, run, rows, err));
    SM_TRY(check_finite(run, rows, err));
    if (held_as_x8(run)) {
        memcpy(run->dst, rows, sm_run_file_bytes(run->n_rows, run->row_bytes, run->place));
    } else if (run->x8) {
        const sm_pack_x8_fn pack = s->opt.kern ? s->opt.kern->pack_x8 : sm_x8_pack;
        pack(run->type, run->dst, rows, run->row_bytes, run->n_rows, run->n_in);
    } else {
        memcpy(run->dst, rows, (size_t)run->n_rows * run->row_bytes);
    }
    return s->opt.verify ? sm_run_verify(s, st, run, err) : SMOL_OK;
}
