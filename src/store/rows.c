/* SPDX-License-Identifier: MIT */
/* Single rows: the embedding table stays in the file and a row is read when a token needs it (one
 * block of 4 KiB mostly), unless the same table is resident as the tied head. Few words make up
 * most of a text: what was read is kept as far as the plan leaves room, a cell for each row modulo
 * their number (ids are by frequency in most vocabularies, so that common words do not meet). */
#include "store/store_int.h"

#include "base/mem.h"

#include <assert.h>
#include <string.h>

static size_t data_bytes(const struct sm_store *s)
{
    return sm_round_up(s->by_row_bytes_max, SM_ALIGN);
}

size_t sm_row_cell_bytes(const struct sm_store *s) { return data_bytes(s) + sizeof *s->row.of; }

smol_status sm_rows_new(struct sm_store *s, uint32_t n, smol_error *err)
{
    struct sm_row_cells *c = &s->row;
    c->n = n + 1;
    c->bytes = c->n * sm_row_cell_bytes(s);
    c->data = sm_mem_new(c->bytes);
    if (!c->data)
        return SM_FAIL(err, NOMEM, "no memory for %u rows of %zu bytes", (unsigned)c->n,
                       s->by_row_bytes_max);
    c->of = (void *)(c->data + c->n * data_bytes(s));
    return SMOL_OK;
}

void sm_rows_free(struct sm_store *s)
{
    sm_mem_free(s->row.data, s->row.bytes);
}

/* A row that is not in memory: itself, in a pack its unit, since that is what has a checksum. */
static smol_status read_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                            smol_error *err)
{
    const struct sm_place *p = w->info->place;
    const uint32_t unit = p ? row / p->unit_rows : row, cell = unit % s->row.n;
    const uint32_t first = p ? unit * p->unit_rows : row, n = p ? sm_place_unit_rows(p, unit) : 1;
    uint8_t *data = s->row.data + cell * data_bytes(s);
    struct sm_run run = sm_weight_run(s, w, first, n, data);
    run.x8 = p && p->x8; /* one row of a plain file is not worth a group of 8 */
    if (s->row.of[cell].w != w || s->row.of[cell].first != first || s->opt.verify) {
        const uint64_t start = sm_now_ns();
        s->row.of[cell].w = NULL;
        sm_sched_lock(&s->sched);
        sm_busy_begin(&s->sched.busy);
        sm_sched_unlock(&s->sched);
        const smol_status st = sm_run_read(s, &s->row_stage, &run, err);
        sm_sched_lock(&s->sched);
        sm_busy_end(&s->sched.busy);
        sm_sched_unlock(&s->sched);
        if (st != SMOL_OK) return st;
        s->row.of[cell].w = w;
        s->row.of[cell].first = first;
        s->stats.demand_wait_ns += sm_now_ns() - start; /* nothing else can be done meanwhile */
    }
    if (run.x8) sm_x8_decode_row(w->type, data, row - first, w->n_in, out);
    else sm_decode_row(w->type, data + (row - first) * run.row_bytes, out, w->n_in);
    return SMOL_OK;
}

smol_status sm_store_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                         smol_error *err)
{
    assert(row < w->n_out);
    if (w->home != SM_HOME_RESIDENT) return read_row(s, w, row, out, err);
    assert(w->data);
    if (w->x8) sm_x8_decode_row(w->type, w->data, row, w->n_in, out);
    else
        sm_decode_row(w->type, w->data + (size_t)row * sm_row_bytes(w->type, w->n_in), out,
                      w->n_in);
    return SMOL_OK;
}
