/* SPDX-License-Identifier: MIT */
/* Single rows: the embedding table stays in the file and a row is read when a token needs it (one
 * block of 4 KiB mostly), unless the same table is resident as the tied head. */
#include "quant/x8_finite.h"
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

/* A row of a pack: its unit is read, since that is what has a checksum. */
static smol_status read_packed_row(struct sm_store *s, const struct sm_weight *w, uint32_t row,
                                   float *out, smol_error *err)
{
    const struct sm_place *p = w->info->place;
    const struct sm_traits *t = sm_traits_of(w->type);
    const uint32_t unit = row / p->unit_rows, first = unit * p->unit_rows;
    const uint32_t n_rows = sm_place_unit_rows(p, unit), r = row - first;
    const size_t n = (size_t)sm_place_bytes(p, n_rows), row_bytes = (size_t)p->row_bytes;
    const uint64_t at = sm_place_row_at(p, 0, first);
    const uint8_t *data, *again;
    uint32_t bad;
    SM_TRY(sm_limited_read(s, s->file[w->info->file], at, n, s->row_stage.data, &data, err));
    if (!sm_units_good(s, p, 0, first, n_rows, data, &bad))
        return SM_FAIL_AT(err, FORMAT, at,
                          "the pack is damaged: tensor %s, row %u at byte %llu: what was read does not "
                          "have its checksum",
                          w->info->name, (unsigned)row, (unsigned long long)at);
    if (s->opt.verify) {
        SM_TRY(sm_limited_read(s, s->file[w->info->file], at, n, s->row_stage.again, &again, err));
        if (memcmp(data, again, n))
            return SM_FAIL_AT(err, IO, at,
                              "verification failed: two reads of row %u of tensor %s differ",
                              (unsigned)row, w->info->name);
    }
    const size_t per_row = t->block_bytes ? row_bytes / t->block_bytes : 0;
    const bool finite = p->x8 ? sm_x8_finite(w->type, data + r / 8 * 8 * row_bytes, per_row)
                              : sm_blocks_finite(w->type, data + r * row_bytes, per_row);
    if (!finite)
        return SM_FAIL_AT(err, FORMAT, at,
                          "tensor %s, row %u at byte %llu: a scale is infinite or not a number",
                          w->info->name, (unsigned)row, (unsigned long long)at);
    if (p->x8) sm_x8_decode_row(w->type, data, r, w->n_in, out);
    else sm_decode_row(w->type, data + r * row_bytes, out, w->n_in);
    return SMOL_OK;
}

static smol_status read_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                            smol_error *err)
{
    struct sm_stage *st = &s->row_stage;
    struct sm_file *f = s->file[w->info->file];
    const size_t n = (size_t)sm_row_bytes(w->type, w->n_in);
    const uint64_t at = w->info->at + (uint64_t)row * n;
    const struct sm_traits *t = sm_traits_of(w->type);
    const uint8_t *data, *again;
    const uint64_t start = sm_now_ns();
    SM_TRY(sm_limited_read(s, f, at, n, st->data, &data, err));
    s->stats.demand_wait_ns += sm_now_ns() - start; /* nothing else can be done meanwhile */
    if (s->opt.verify) {
        SM_TRY(sm_limited_read(s, f, at, n, st->again, &again, err));
        if (memcmp(data, again, n))
            return SM_FAIL_AT(err, IO, at,
                              "verification failed: two reads of row %u of tensor %s differ",
                              (unsigned)row, w->info->name);
    }
    if (!sm_blocks_finite(w->type, data, t->block_bytes ? n / t->block_bytes : 0))
        return SM_FAIL_AT(err, FORMAT, at,
                          "tensor %s, row %u at byte %llu: a scale is infinite or not a number",
                          w->info->name, (unsigned)row, (unsigned long long)at);
    sm_decode_row(w->type, data, out, w->n_in);
    return SMOL_OK;
}

smol_status sm_store_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                         smol_error *err)
{
    assert(row < w->n_out);
    if (w->home != SM_HOME_RESIDENT && w->info->place) return read_packed_row(s, w, row, out, err);
    if (w->home != SM_HOME_RESIDENT) return read_row(s, w, row, out, err);
    assert(w->data);
    if (w->x8) sm_x8_decode_row(w->type, w->data, row, w->n_in, out);
    else sm_decode_row(w->type, w->data + (size_t)row * sm_row_bytes(w->type, w->n_in), out, w->n_in);
    return SMOL_OK;
}
