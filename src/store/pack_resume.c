/* SPDX-License-Identifier: MIT */
/* What an earlier in-place pack left behind: whose OUT and journal these are, going on with them,
 * and what is still to be removed. Records alone are trusted; a recorded part of the source is
 * never read again (pack_inplace.c has the order of steps that makes this safe). */
#include "base/bits.h"
#include "store/pack_int.h"

#include <inttypes.h>
#include <string.h>

/* ---- whose files these are ------------------------------------------------------------------- */

/* What the first bytes of a file say; false: it cannot be read. */
bool sm_inplace_begins_with(const char *path, const char magic[4])
{
    struct sm_file *f;
    uint8_t b[4];
    bool is = false;
    if (sm_file_open(&f, path, false, NULL) != SMOL_OK) return false;
    if (sm_file_size(f) >= 4 && sm_file_read(f, 0, b, 4, NULL) == SMOL_OK)
        is = !memcmp(b, magic, 4);
    sm_file_close(f);
    return is;
}

/* Of a file that was made and whose first bytes were lost: nothing, or zeros. */
static bool is_empty(const char *path)
{
    static const uint8_t zero[4];
    struct sm_file *f;
    uint8_t b[4] = {0};
    if (sm_file_open(&f, path, false, NULL) != SMOL_OK) return false;
    const uint64_t n = sm_file_size(f);
    const bool empty =
        n <= 4 && sm_file_read(f, 0, b, (size_t)n, NULL) == SMOL_OK && !memcmp(b, zero, 4);
    sm_file_close(f);
    return empty;
}

/* The journal beside OUT is one of another source, of which something may be in OUT alone: the
 * magic from the first record on, groups that were freed from the second. The source here is whole,
 * so a second record is never its own. */
static smol_status check_owner(struct sm_inplace *p, const char *out, smol_error *err)
{
    const uint64_t identity = sm_ld64(p->j.head + p->j.pack->checksum_at);
    struct sm_journal_head h = {0};
    struct sm_journal old = {0};
    uint64_t n = 0;
    bool ok = false;
    smol_status st = sm_journal_open(&old, p->log_path, &h, &ok, err);
    if (st == SMOL_OK && ok) st = sm_journal_count(&old, &h, &n, err);
    sm_journal_close(&old);
    SM_TRY(st);
    if (n > 1 || (n == 1 && h.identity != identity))
        return SM_FAIL(err, IO,
                       "%s holds what --in-place took from another file: give that file as IN; "
                       "nothing was changed",
                       out);
    return SMOL_OK;
}

/* IN is whole: what an earlier attempt of its own left is worth nothing, and may be a mixture. */
smol_status sm_inplace_clear_old(struct sm_inplace *p, const char *out, smol_error *err)
{
    struct sm_out *old = NULL;
    if (sm_path_exists(out)) {
        if (!sm_inplace_begins_with(out, SM_PACK_UNFINISHED) && !is_empty(out))
            return SM_FAIL(err, IO, "%s exists already", out);
        SM_TRY(sm_out_open(&old, out, SM_OUT_KEPT, true, err)); /* nobody is writing it */
    }
    smol_status st = old ? check_owner(p, out, err) : SMOL_OK;
    const bool log = sm_path_exists(p->log_path);
    if (st == SMOL_OK) st = sm_path_remove(out, err);
    if (st == SMOL_OK) st = sm_path_remove(p->log_path, err);
    /* A journal that came back beside the new OUT would speak for it. */
    if (st == SMOL_OK && log) st = sm_path_sync_folder(out, err);
    sm_out_close(old);
    return st;
}

/* ---- going on ------------------------------------------------------------------------------- */

/* The header of the unfinished OUT, its checksums taken as zero, if it is the one of the
 * journal. */
static smol_status take_head(struct sm_inplace *p, const struct sm_journal_head *h, uint8_t **head,
                             smol_error *err)
{
    uint8_t stage_room[3 * SM_IO_ALIGN];
    uint8_t *stage = stage_room + (SM_IO_ALIGN - (uintptr_t)stage_room % SM_IO_ALIGN) % SM_IO_ALIGN;
    *head = h->head_bytes <= SIZE_MAX / 2 ? sm_mem_new((size_t)h->head_bytes) : NULL;
    if (!*head) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    for (uint64_t at = 0, k; at < h->head_bytes; at += k) {
        const uint8_t *data;
        k = h->head_bytes - at < SM_IO_ALIGN ? h->head_bytes - at : SM_IO_ALIGN;
        SM_TRY(sm_out_read(p->j.out, at, (size_t)k, stage, &data, err));
        memcpy(*head + at, data, (size_t)k);
    }
    memcpy(*head, "GGUF", 4);
    const bool inside = h->head_bytes >= 64 && h->checksum_at >= 24 &&
                        h->checksum_at <= h->head_bytes - 8 && h->sums_at <= h->head_bytes &&
                        h->n_sums <= (h->head_bytes - h->sums_at) / 8;
    if (!inside) return SM_FAIL(err, FORMAT, "%s: the journal is damaged", p->log_path);
    memset(*head + h->sums_at, 0, (size_t)h->n_sums * 8);
    sm_st64(*head + h->checksum_at, h->identity);
    return SMOL_OK;
}

/* Paths of the source files beside the one that was named. */
static smol_status find_sources(struct sm_inplace *p, const char *in, smol_error *err)
{
    const struct sm_pack *pack = p->j.pack;
    const char *slash = strrchr(in, '/');
    const size_t folder = slash ? (size_t)(slash - in) + 1 : 0;
    p->n_in = pack->n_sources;
    p->in_path = sm_mem_new(p->n_in * sizeof *p->in_path);
    if (!p->in_path) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    for (size_t i = 0; i < p->n_in; i++) {
        if (p->n_in == 1) {
            p->in_path[i] = sm_pack_path(in, "");
            if (!p->in_path[i]) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
            break;
        }
        const size_t bytes = folder + strlen(pack->source[i].name) + 1;
        char *path = sm_mem_new(bytes);
        if (!path) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
        memcpy(path, in, folder);
        memcpy(path + folder, pack->source[i].name, bytes - folder);
        p->in_path[i] = path;
    }
    return SMOL_OK;
}

/* Open IN and see by its size and header (which is never freed) that it is the source of OUT. */
static smol_status match_sources(struct sm_inplace *p, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    j->in.n = p->n_in;
    j->in.out = sm_mem_new(p->n_in * sizeof *j->in.out);
    if (!j->in.out) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    for (size_t i = 0; i < p->n_in; i++) {
        uint64_t size;
        unsigned links;
        SM_TRY(sm_out_open(&j->in.out[i], p->in_path[i], SM_OUT_KEPT, true, err));
        SM_TRY(sm_out_stat(j->in.out[i], &size, &links, err));
        if (size != j->pack->source[i].bytes)
            return SM_FAIL(
                err, IO, "%s is not the source of %s: it has %" PRIu64 " bytes, expected %" PRIu64,
                p->in_path[i], sm_out_path(j->out), size, j->pack->source[i].bytes);
    }
    for (size_t u = 0; u < j->n_raw_units; u++) {
        const struct sm_pack_span s = sm_pack_span_of(j, u);
        const uint8_t *data;
        if (s.source_at != 0) continue;
        SM_TRY(sm_out_read(j->out, s.at, s.bytes, j->stage, &data, err));
        memcpy(j->rows, data, s.bytes);
        SM_TRY(sm_out_read(j->in.out[s.file], 0, s.bytes, j->stage, &data, err));
        if (s.bytes < 4 || memcmp(j->rows + 4, data + 4, s.bytes - 4))
            return SM_FAIL(err, IO, "%s is not the source of %s: its header is another",
                           p->in_path[s.file], sm_out_path(j->out));
    }
    return SMOL_OK;
}

static smol_status read_records(struct sm_inplace *p, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    uint64_t first, end;
    bool ok = true;
    while (ok) {
        SM_TRY(sm_journal_next(&p->log, j->pack->n_sums, &first, &end, j->pack->sums, &ok, err));
        for (uint64_t i = first; ok && i < end; i++) p->done[i] = true;
    }
    for (size_t i = 0; i < j->n_raw_units; i++)
        if (!p->done[i])
            return SM_FAIL(err, FORMAT, "%s: the journal is damaged", p->log_path);
    return SMOL_OK;
}

smol_status sm_inplace_resume(struct sm_inplace *p, const char *in, const char *out,
                              const struct sm_journal_head *h, smol_error *err)
{
    uint8_t *head = NULL;
    p->begun = true;
    SM_TRY(sm_out_open(&p->j.out, out, SM_OUT_KEPT, true, err));
    const smol_status st = take_head(p, h, &head, err);
    if (st != SMOL_OK) {
        if (head) sm_mem_free(head, (size_t)h->head_bytes);
        return st;
    }
    SM_TRY(sm_pack_job_begin(&p->j, head, (size_t)h->head_bytes, h->file_bytes, err));
    if (p->j.pack->n_sums != h->n_sums)
        return SM_FAIL(err, FORMAT, "%s does not belong to %s", p->log_path, out);
    p->group_bytes = h->group_bytes;
    SM_TRY(sm_inplace_new_done(p, err));
    SM_TRY(find_sources(p, in, err));
    SM_TRY(read_records(p, err));
    SM_TRY(match_sources(p, err));
    return sm_inplace_mark_sources(p, err);
}

/* IN has the name of a source of the pack: gone, since the pack is complete. */
static bool is_named(const struct sm_pack *pack, const char *in)
{
    const char *slash = strrchr(in, '/'), *name = slash ? slash + 1 : in;
    for (size_t i = 0; i < pack->n_sources; i++)
        if (!strcmp(pack->source[i].name, name)) return true;
    return false;
}

/* OUT is complete: only what is left of the source is to be removed. */
smol_status sm_inplace_clean_up(struct sm_inplace *p, const char *in, const char *out,
                                smol_error *err)
{
    struct sm_gguf *g;
    p->begun = true;
    SM_TRY(sm_gguf_open(&g, out, err));
    smol_status st = SMOL_OK;
    if (!sm_gguf_pack(g)) {
        st = SM_FAIL(err, IO, "%s exists already", out);
        goto out;
    }
    SM_TRY_OUT(st, sm_pack_job_undo(&p->j, g, err));
    SM_TRY_OUT(st, sm_out_open(&p->j.out, out, SM_OUT_KEPT, true, err));
    SM_TRY_OUT(st, find_sources(p, in, err));
    size_t n = 0; /* of a split set some parts may be gone already */
    for (size_t i = 0; i < p->n_in; i++) {
        if (!sm_path_exists(p->in_path[i])) continue;
        n++;
        if (!sm_inplace_begins_with(p->in_path[i], SM_PACK_FREED)) {
            st = SM_FAIL(err, IO, "%s exists already", out);
            goto out;
        }
    }
    if (n == p->n_in) SM_TRY_OUT(st, match_sources(p, err));
    if (n == 0 && !sm_path_exists(p->log_path) && !is_named(p->j.pack, in)) {
        st = SM_FAIL(err, IO, "%s: there is no such file", in);
        goto out;
    }
    p->left_alone = n == 0 && !sm_path_exists(p->log_path);
    sm_pack_files_close(&p->j.in);
    p->j.file_bytes = sm_gguf_file_bytes(g, 0);
    SM_TRY_OUT(st, sm_inplace_remove_sources(p, out, err));
out:
    if (p->j.pack) sm_mem_free(p->j.unit, p->j.pack->n_sums * sizeof *p->j.unit);
    p->j.unit = NULL;
    p->j.pack = NULL;
    sm_gguf_free(g);
    return st;
}
