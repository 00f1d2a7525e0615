/* SPDX-License-Identifier: MIT */
/* Single rows: the embedding table stays in the file and a row is read when a token needs it (one
 * block of 4 KiB mostly), unless the same table is resident as the tied head. */
#include "store/store_int.h"

#include <assert.h>

/* A row that is not in memory: itself, in a pack its unit, since that is what has a checksum. */
static smol_status read_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                            smol_error *err)
{
    const struct sm_place *p = w->info->place;
    const uint32_t first = p ? row / p->unit_rows * p->unit_rows : row;
    const uint32_t n = p ? sm_place_unit_rows(p, row / p->unit_rows) : 1;
    struct sm_run run = sm_weight_run(s, w, first, n, s->row_data);
    const uint64_t start = sm_now_ns();
    run.x8 = p && p->x8; /* one row of a plain file is not worth a group of 8 */
    SM_TRY(sm_run_read(s, &s->row_stage, &run, err));
    s->stats.demand_wait_ns += sm_now_ns() - start; /* nothing else can be done meanwhile */
    if (run.x8) sm_x8_decode_row(w->type, s->row_data, row - first, w->n_in, out);
    else sm_decode_row(w->type, s->row_data + (row - first) * run.row_bytes, out, w->n_in);
    return SMOL_OK;
}

smol_status sm_store_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                         smol_error *err)
{
    assert(row < w->n_out);
    if (w->home != SM_HOME_RESIDENT) return read_row(s, w, row, out, err);
    assert(w->data);
    if (w->x8) sm_x8_decode_row(w->type, w->data, row, w->n_in, out);
    else sm_decode_row(w->type, w->data + (size_t)row * sm_row_bytes(w->type, w->n_in), out, w->n_in);
    return SMOL_OK;
}
