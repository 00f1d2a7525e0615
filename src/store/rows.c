/* SPDX-License-Identifier: MIT */
/* Single rows: the embedding table stays in the file and a row is read when a token needs it (one
 * block of 4 KiB mostly), unless the same table is resident as the tied head. */
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

static smol_status read_row(struct sm_store *s, const struct sm_weight *w, uint32_t row, float *out,
                            smol_error *err)
{
    struct sm_stage *st = &s->row_stage;
    struct sm_file *f = s->file[w->info->file];
    const size_t n = (size_t)sm_row_bytes(w->type, w->n_in);
    const uint64_t at = w->info->at + (uint64_t)row * n;
    const struct sm_traits *t = sm_traits_of(w->type);
    const uint8_t *data, *again;
    SM_TRY(sm_limited_read(s, f, at, n, st->data, &data, err));
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
    if (w->home == SM_HOME_BY_ROW) return read_row(s, w, row, out, err);
    assert(w->data);
    if (w->x8) sm_x8_decode_row(w->type, w->data, row, w->n_in, out);
    else sm_decode_row(w->type, w->data + (size_t)row * sm_row_bytes(w->type, w->n_in), out, w->n_in);
    return SMOL_OK;
}
