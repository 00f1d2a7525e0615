/* SPDX-License-Identifier: MIT */
/* The source of a pack again, byte for byte: every file is its size in zero bytes, and what the
 * pack holds of it is put in its place. */
#include "store/pack_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---------------------------------------------------------------------------------- */

#define TAIL_BYTES 32u

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Length of PATH without ".gguf" and without "-00001-of-00005". */
static size_t stem_of(const char *path)
{
    size_t n = strlen(path);
    if (n > 5 && !strcmp(path + n - 5, ".gguf")) n -= 5;
    if (n <= 15) return n;
    const char *t = path + n - 15;
    bool part = t[0] == '-' && !strncmp(t + 6, "-of-", 4);
    for (unsigned i = 0; i < 5; i++) part = part && is_digit(t[1 + i]) && is_digit(t[10 + i]);
    return part ? n - 15 : n;
}

/* The i-th of n output files; the caller frees strlen(out) + TAIL_BYTES. */
static char *out_name(const char *out, size_t i, size_t n)
{
    const size_t bytes = strlen(out) + TAIL_BYTES;
    char *p = sm_mem_new(bytes);
    if (!p) return NULL;
    if (n == 1) (void)snprintf(p, bytes, "%s", out);
    else
        (void)snprintf(p, bytes, "%.*s-%05u-of-%05u.gguf", (int)stem_of(out), out,
                       (unsigned)(i + 1), (unsigned)n);
    return p;
}

/* ---- one file at a time --------------------------------------------------------------------- */

static smol_status put_unit(struct sm_pack_job *j, struct sm_file *from, size_t i, smol_error *err)
{
    char name[SM_PACK_UNIT_NAME];
    const struct sm_pack_span s = sm_pack_span_of(j, i);
    const uint8_t *packed;
    SM_TRY(sm_file_read_direct(from, s.at, s.bytes, j->stage, &packed, err));
    const uint64_t have = sm_hash64(packed, s.bytes, 0);
    if (have != j->pack->sums[i])
        return SM_FAIL_AT(err, FORMAT, s.at,
                          "the pack is damaged: %s, byte %" PRIu64 ": expected checksum %016" PRIx64
                          ", found %016" PRIx64,
                          sm_pack_unit_name(j, i, name), s.at, j->pack->sums[i], have);
    sm_pack_unit_undo(j, &s, packed);
    return sm_out_write(j->out, s.source_at, j->rows, s.source_bytes, err);
}

static smol_status put_file(struct sm_pack_job *j, struct sm_file *from, uint32_t file,
                            const char *part, smol_error *err)
{
    static const uint8_t zero;
    const uint64_t size = j->pack->source[file].bytes;
    uint64_t end = 0;
    SM_TRY(sm_path_remove(part, err));
    SM_TRY(sm_out_open(&j->out, part, SM_OUT_NEW, true, err));
    for (size_t i = 0; i < j->pack->n_sums; i++) {
        const struct sm_pack_span s = sm_pack_span_of(j, i);
        if (s.file != file) continue;
        SM_TRY(put_unit(j, from, i, err));
        if (s.source_at + s.source_bytes > end) end = s.source_at + s.source_bytes;
        j->done_bytes += s.source_bytes;
        sm_pack_progress(j, "unpacking");
        if (j->opt->cancel && *j->opt->cancel)
            return SM_FAIL(err, CANCELLED, "unpacking was stopped");
    }
    if (end < size) SM_TRY(sm_out_write(j->out, size - 1, &zero, 1, err));
    return sm_out_sync(j->out, err);
}

static smol_status undo_file(struct sm_pack_job *j, struct sm_file *from, uint32_t file,
                             const char *path, smol_error *err)
{
    char *part = sm_pack_path(path, ".part");
    if (!part) return SM_FAIL(err, NOMEM, "no memory for a path");
    smol_status st = put_file(j, from, file, part, err);
    if (st == SMOL_OK) st = sm_path_rename(part, path, err);
    if (st != SMOL_OK && j->out) sm_path_drop(part);
    sm_out_close(j->out);
    j->out = NULL;
    sm_mem_free(part, strlen(part) + 1);
    return st;
}

static smol_status undo_all(struct sm_pack_job *j, struct sm_file *from, const char *out,
                            smol_error *err)
{
    const size_t n = j->pack->n_sources;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        char *name = out_name(out, i, n);
        if (!name) return SM_FAIL(err, NOMEM, "no memory for a path");
        const bool exists = sm_path_exists(name);
        const smol_status st = exists ? SM_FAIL(err, IO, "%s exists already", name) : SMOL_OK;
        sm_mem_free(name, strlen(out) + TAIL_BYTES);
        SM_TRY(st);
        sum += j->pack->source[i].bytes;
    }
    if (sm_path_room(out) < sum)
        return SM_FAIL(
            err, IO, "the source needs %" PRIu64 " MiB and the folder has room for %" PRIu64 " MiB",
            (sum >> 20) + 1, sm_path_room(out) >> 20);
    for (size_t i = 0; i < n; i++) {
        char *name = out_name(out, i, n);
        if (!name) return SM_FAIL(err, NOMEM, "no memory for a path");
        const smol_status st = undo_file(j, from, (uint32_t)i, name, err);
        sm_mem_free(name, strlen(out) + TAIL_BYTES);
        SM_TRY(st);
    }
    return sm_path_sync_folder(out, err);
}

smol_status sm_pack_undo(const char *in, const char *out, const struct sm_pack_options *o,
                         struct sm_pack_report *report, smol_error *err)
{
    struct sm_pack_job j = {.opt = o};
    struct sm_gguf *g = NULL;
    struct sm_file *from = NULL;
    smol_status st = SMOL_OK;
    *report = (struct sm_pack_report){0};
    SM_TRY_OUT(st, sm_gguf_open(&g, in, err));
    if (!sm_gguf_pack(g)) {
        st = SM_FAIL(err, UNSUPPORTED, "%s is not a pack", in);
        goto out;
    }
    SM_TRY_OUT(st, sm_file_open(&from, in, true, err));
    SM_TRY_OUT(st, sm_pack_job_undo(&j, g, err));
    j.file_bytes = sm_file_size(from);
    SM_TRY_OUT(st, undo_all(&j, from, out, err));
    sm_pack_fill_report(&j, report);
out:
    sm_pack_job_end(&j);
    sm_file_close(from);
    sm_gguf_free(g);
    return st;
}
