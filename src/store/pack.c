/* SPDX-License-Identifier: MIT */
/* A pack beside its source: OUT.part is written, synced and renamed. */
#include "store/pack_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A sentence before hours of copying, not after them. */
static smol_status check_room(const char *out, uint64_t bytes, smol_error *err)
{
    const uint64_t room = sm_path_room(out);
    if (room >= bytes) return SMOL_OK;
    return SM_FAIL(err, IO, "the pack needs %" PRIu64 " MiB and the folder has room for %" PRIu64
                   " MiB: --in-place frees the source as it goes", (bytes >> 20) + 1, room >> 20);
}

static smol_status check_all(struct sm_pack_job *j, smol_error *err)
{
    struct sm_hash back, source;
    const size_t n = j->pack->n_sums;
    j->done_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sm_pack_span s = sm_pack_span_of(j, i);
        const uint8_t *rows;
        sm_hash_begin(&back, 0);
        sm_hash_begin(&source, 0);
        SM_TRY(sm_pack_check(j, i, i + 1, &back, err));
        SM_TRY(sm_file_read_direct(j->in.file[s.file], s.source_at, s.source_bytes, j->stage, &rows,
                                   err));
        sm_hash_put(&source, rows, s.source_bytes);
        char name[SM_PACK_UNIT_NAME];
        if (sm_hash_end(&back) != sm_hash_end(&source))
            return SM_FAIL(err, IO, "%s: the pack does not agree with the source",
                           sm_pack_unit_name(j, i, name));
        j->done_bytes += s.source_bytes;
        sm_pack_progress(j, "verifying");
        if (j->opt->cancel && *j->opt->cancel)
            return SM_FAIL(err, CANCELLED, "packing was stopped");
    }
    return SMOL_OK;
}

static smol_status write_all(struct sm_pack_job *j, smol_error *err)
{
    SM_TRY(sm_pack_head_write(j, SM_PACK_UNFINISHED, err));
    SM_TRY(sm_pack_copy(j, 0, j->pack->n_sums, NULL, err));
    SM_TRY(sm_pack_tail_write(j, err));
    if (j->opt->verify) {
        SM_TRY(sm_out_sync(j->out, err));
        SM_TRY(check_all(j, err));
    }
    sm_pack_head_finish(j);
    SM_TRY(sm_pack_head_write(j, "GGUF", err));
    return sm_out_sync(j->out, err);
}

smol_status sm_pack_make(const char *in, const char *out, const struct sm_pack_options *o,
                         struct sm_pack_report *report, smol_error *err)
{
    struct sm_pack_job j = {.opt = o};
    struct sm_gguf *g = NULL;
    smol_status st = SMOL_OK;
    size_t head_bytes = 0;
    uint64_t file_bytes = 0;
    uint8_t *head = NULL;
    char *part = NULL;
    *report = (struct sm_pack_report){0};
    if (o->in_place) return sm_pack_in_place(in, out, o, report, err);
    if (sm_path_exists(out)) return SM_FAIL(err, IO, "%s exists already", out);
    SM_TRY_OUT(st, sm_gguf_open(&g, in, err));
    if (sm_gguf_pack(g)) {
        st = SM_FAIL(err, UNSUPPORTED, "%s is a pack already", in);
        goto out;
    }
    SM_TRY_OUT(st, sm_pack_files_open(&j.in, g, false, err));
    SM_TRY_OUT(st, sm_pack_layout(g, &j.in, &head, &head_bytes, &file_bytes, err));
    SM_TRY_OUT(st, sm_pack_job_begin(&j, head, head_bytes, file_bytes, err));
    SM_TRY_OUT(st, check_room(out, file_bytes, err));
    part = sm_pack_path(out, ".part");
    if (!part) {
        st = SM_FAIL(err, NOMEM, "no memory for a path");
        goto out;
    }
    SM_TRY_OUT(st, sm_path_remove(part, err)); /* of a process that died */
    SM_TRY_OUT(st, sm_out_open(&j.out, part, SM_OUT_NEW, true, err));
    SM_TRY_OUT(st, write_all(&j, err));
    SM_TRY_OUT(st, sm_path_rename(part, out, err));
    st = sm_path_sync_folder(out, err);
    if (st != SMOL_OK) {
        sm_path_drop(out);
        goto out;
    }
    sm_pack_fill_report(&j, report);
out:
    if (st != SMOL_OK && j.out) sm_path_drop(part); /* gone when it was renamed */
    sm_pack_job_end(&j);
    if (part) sm_mem_free(part, strlen(part) + 1);
    sm_gguf_free(g);
    return st;
}
