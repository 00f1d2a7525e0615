/* SPDX-License-Identifier: MIT */
/* A pack instead of its source. Nothing of the source is freed before it is in OUT, on the disk,
 * was read back from there, agrees with what was read from the source, and a record on the disk
 * says so.
 *
 *   OUT without magic, the source's header inside   synced, read back
 *   journal                                         synced, folder synced
 *   magic of IN overwritten                         synced: from here on IN cannot be run
 *   for each group: copy, sync, read back and compare, record, sync, free
 *   OUT's header with the checksums                 synced
 *   OUT's magic                                     synced: from here on OUT can be run
 *   IN removed, journal removed, folders synced
 *
 * Whoever starts again trusts records alone and never reads a recorded part of the source. */
#include "base/bits.h"
#include "store/pack_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_BYTES ((uint64_t)32 << 20)
/* Above max(IN, OUT) the disk holds: a group, OUT's header twice (its own and the source's), the
 * journal, blocks at the borders of holes. Together at most 48 MiB. */
#define GROUP_ROOM ((uint64_t)40 << 20)

struct place {
    struct sm_pack_job j;
    struct sm_journal log;
    char *log_path;
    uint64_t group_bytes;
    char **in_path; /* [n_in], from sm_mem_new */
    size_t n_in;
    bool *done;     /* [n_sums] units that are recorded */
    size_t done_bytes;
    bool begun;     /* IN's magic may be gone: nothing is cleaned up any more */
};

static smol_status no_memory(smol_error *err)
{
    return SM_FAIL(err, NOMEM, "no memory to pack in place");
}

static smol_status copy_text(char **out, const char *text, smol_error *err)
{
    const size_t n = strlen(text) + 1;
    *out = sm_mem_new(n);
    if (!*out) return no_memory(err);
    memcpy(*out, text, n);
    return SMOL_OK;
}

/* ---- groups --------------------------------------------------------------------------------- */

static size_t group_end(const struct place *p, size_t first)
{
    uint64_t sum = 0;
    size_t i = first;
    for (; i < p->j.pack->n_sums; i++) {
        sum += sm_pack_span_of(&p->j, i).source_bytes;
        if (i > first && sum > p->group_bytes) break;
        if (p->done[i] != p->done[first]) break;
    }
    return i;
}

struct range { uint64_t file, at, bytes; };

static int by_place(const void *x, const void *y)
{
    const struct range *a = x, *b = y;
    if (a->file != b->file) return a->file < b->file ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Give back what the units came from, neighbours together: only whole blocks can be freed. */
static smol_status free_source(struct place *p, size_t first, size_t end, smol_error *err)
{
    const size_t n = end - first;
    struct range *r = sm_mem_new(n * sizeof *r);
    smol_status st = SMOL_OK;
    if (!r) return no_memory(err);
    for (size_t i = 0; i < n; i++) {
        const struct sm_pack_span s = sm_pack_span_of(&p->j, first + i);
        r[i] = (struct range){s.file, s.source_at, s.source_bytes};
    }
    qsort(r, n, sizeof *r, by_place);
    for (size_t i = 0; i < n && st == SMOL_OK;) {
        struct range all = r[i++];
        while (i < n && r[i].file == all.file && r[i].at == all.at + all.bytes)
            all.bytes += r[i++].bytes;
        st = sm_out_punch(p->j.in.out[all.file], all.at, all.bytes, err);
    }
    sm_mem_free(r, n * sizeof *r);
    return st;
}

/* Into OUT, to the disk, back from the disk, and compared. */
static smol_status move_group(struct place *p, size_t first, size_t end, smol_error *err)
{
    struct sm_hash source, back;
    sm_hash_begin(&source, 0);
    sm_hash_begin(&back, 0);
    SM_TRY(sm_pack_copy(&p->j, first, end, &source, err));
    SM_TRY(sm_out_sync(p->j.out, err));
    SM_TRY(sm_pack_check(&p->j, first, end, &back, err));
    if (sm_hash_end(&source) == sm_hash_end(&back)) return SMOL_OK;
    return SM_FAIL(err, IO,
                   "the pack does not agree with the source: nothing of this group was freed");
}

static smol_status move_all(struct place *p, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    for (size_t i = j->n_raw_units, end; i < j->pack->n_sums; i = end) {
        end = group_end(p, i);
        if (p->done[i]) { /* freed before the interruption, or not: freeing twice does no harm */
            for (size_t k = i; k < end; k++) j->done_bytes += sm_pack_span_of(j, k).source_bytes;
        } else {
            SM_TRY(move_group(p, i, end, err));
            SM_TRY(sm_journal_add(&p->log, i, end, j->pack->sums, err));
        }
        SM_TRY(free_source(p, i, end, err));
    }
    return SMOL_OK;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

static smol_status make_done(struct place *p, smol_error *err)
{
    p->done_bytes = p->j.pack->n_sums;
    p->done = sm_mem_new(p->done_bytes * sizeof *p->done);
    return p->done ? SMOL_OK : no_memory(err);
}

static smol_status take_paths(struct place *p, const struct sm_gguf *g, smol_error *err)
{
    p->n_in = sm_gguf_n_files(g);
    p->in_path = sm_mem_new(p->n_in * sizeof *p->in_path);
    if (!p->in_path) return no_memory(err);
    for (size_t i = 0; i < p->n_in; i++)
        SM_TRY(copy_text(&p->in_path[i], sm_gguf_file_path(g, i), err));
    return SMOL_OK;
}

static smol_status check_links(struct place *p, smol_error *err)
{
    for (size_t i = 0; i < p->j.in.n; i++) {
        uint64_t size;
        unsigned links;
        SM_TRY(sm_out_stat(p->j.in.out[i], &size, &links, err));
        if (links != 1)
            return SM_FAIL(err, IO,
                           "%s has %u names (hard links): freeing it would empty the others too",
                           p->in_path[i], links);
    }
    return SMOL_OK;
}

/* What the first bytes of a file say; false: it cannot be read. */
static bool begins_with(const char *path, const char magic[4])
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
static smol_status check_owner(struct place *p, const char *out, smol_error *err)
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
static smol_status clear_old(struct place *p, const char *out, smol_error *err)
{
    struct sm_out *old = NULL;
    if (sm_path_exists(out)) {
        if (!begins_with(out, SM_PACK_UNFINISHED) && !is_empty(out))
            return SM_FAIL(err, IO, "%s exists already", out);
        SM_TRY(sm_out_open(&old, out, SM_OUT_KEPT, true, err)); /* nobody is writing it */
    }
    smol_status st = old ? check_owner(p, out, err) : SMOL_OK;
    if (st == SMOL_OK) st = sm_path_remove(out, err);
    if (st == SMOL_OK) st = sm_path_remove(p->log_path, err);
    sm_out_close(old);
    return st;
}

/* OUT with the headers of the source, and the journal: all on the disk before IN is touched. */
static smol_status begin_files(struct place *p, const char *out, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    bool can = false;
    SM_TRY(clear_old(p, out, err));
    SM_TRY(sm_out_open(&j->out, out, SM_OUT_NEW, true, err));
    SM_TRY(sm_out_write(j->out, 0, SM_PACK_UNFINISHED, 4, err));
    SM_TRY(sm_out_sync(j->out, err)); /* what is there is ours from its first byte on */
    SM_TRY(sm_out_can_punch(j->out, j->head_bytes, &can, err));
    if (!can)
        return SM_FAIL(err, UNSUPPORTED, "the file system of %s cannot free parts of a file: pack "
                       "without --in-place", out);
    SM_TRY(sm_pack_head_write(j, SM_PACK_UNFINISHED, err));
    SM_TRY(move_group(p, 0, j->n_raw_units, err));
    const struct sm_journal_head h = {
        .head_bytes = j->head_bytes, .file_bytes = j->file_bytes,
        .checksum_at = j->pack->checksum_at, .sums_at = j->pack->sums_at, .n_sums = j->pack->n_sums,
        .identity = sm_ld64(j->head + j->pack->checksum_at), .group_bytes = p->group_bytes};
    SM_TRY(sm_journal_new(&p->log, p->log_path, &h, err));
    SM_TRY(sm_journal_add(&p->log, 0, j->n_raw_units, j->pack->sums, err));
    return sm_path_sync_folder(out, err);
}

static smol_status mark_sources(struct place *p, smol_error *err)
{
    p->begun = true;
    for (size_t i = 0; i < p->j.in.n; i++) {
        SM_TRY(sm_out_write(p->j.in.out[i], 0, SM_PACK_FREED, 4, err));
        SM_TRY(sm_out_sync(p->j.in.out[i], err));
    }
    return SMOL_OK;
}

static smol_status begin(struct place *p, const char *in, const char *out, smol_error *err)
{
    struct sm_gguf *g = NULL;
    uint8_t *head = NULL;
    size_t head_bytes = 0;
    uint64_t file_bytes = 0;
    smol_status st = SMOL_OK;
    SM_TRY_OUT(st, sm_gguf_open(&g, in, err));
    if (sm_gguf_pack(g)) {
        st = SM_FAIL(err, ARG, "%s is a pack already", in);
        goto out;
    }
    SM_TRY_OUT(st, take_paths(p, g, err));
    SM_TRY_OUT(st, sm_pack_files_open(&p->j.in, g, true, err));
    SM_TRY_OUT(st, check_links(p, err));
    SM_TRY_OUT(st, sm_pack_layout(g, &p->j.in, &head, &head_bytes, &file_bytes, err));
    SM_TRY_OUT(st, sm_pack_job_begin(&p->j, head, head_bytes, file_bytes, err));
    SM_TRY_OUT(st, make_done(p, err));
    p->group_bytes = p->j.opt->group_bytes ? p->j.opt->group_bytes : GROUP_BYTES;
    const uint64_t room = 2 * head_bytes < GROUP_ROOM ? GROUP_ROOM - 2 * head_bytes : 1;
    if (p->group_bytes > room) p->group_bytes = room;
    SM_TRY_OUT(st, begin_files(p, out, err));
    SM_TRY_OUT(st, mark_sources(p, err));
out:
    sm_gguf_free(g);
    return st;
}

static smol_status remove_sources(struct place *p, const char *out, smol_error *err)
{
    for (size_t i = 0; i < p->n_in; i++) SM_TRY(sm_path_remove(p->in_path[i], err));
    for (size_t i = 0; i < p->n_in; i++) SM_TRY(sm_path_sync_folder(p->in_path[i], err));
    SM_TRY(sm_path_remove(p->log_path, err));
    return sm_path_sync_folder(out, err);
}

static smol_status finish(struct place *p, const char *out, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    SM_TRY(sm_pack_tail_write(j, err));
    sm_pack_head_finish(j);
    SM_TRY(sm_pack_head_write(j, SM_PACK_UNFINISHED, err));
    SM_TRY(sm_out_sync(j->out, err));
    SM_TRY(sm_out_write(j->out, 0, "GGUF", 4, err));
    SM_TRY(sm_out_sync(j->out, err));
    return remove_sources(p, out, err);
}

/* ---- going on ------------------------------------------------------------------------------- */

/* The header of the unfinished OUT, its checksums taken as zero, if it is the one of the
 * journal. */
static smol_status take_head(struct place *p, const struct sm_journal_head *h, uint8_t **head,
                             smol_error *err)
{
    uint8_t stage_room[3 * SM_IO_ALIGN];
    uint8_t *stage = stage_room + (SM_IO_ALIGN - (uintptr_t)stage_room % SM_IO_ALIGN) % SM_IO_ALIGN;
    *head = h->head_bytes <= SIZE_MAX / 2 ? sm_mem_new((size_t)h->head_bytes) : NULL;
    if (!*head) return no_memory(err);
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
static smol_status find_sources(struct place *p, const char *in, smol_error *err)
{
    const struct sm_pack *pack = p->j.pack;
    const char *slash = strrchr(in, '/');
    const size_t folder = slash ? (size_t)(slash - in) + 1 : 0;
    p->n_in = pack->n_sources;
    p->in_path = sm_mem_new(p->n_in * sizeof *p->in_path);
    if (!p->in_path) return no_memory(err);
    for (size_t i = 0; i < p->n_in; i++) {
        if (p->n_in == 1) {
            SM_TRY(copy_text(&p->in_path[i], in, err));
            break;
        }
        const size_t bytes = folder + strlen(pack->source[i].name) + 1;
        char *path = sm_mem_new(bytes);
        if (!path) return no_memory(err);
        memcpy(path, in, folder);
        memcpy(path + folder, pack->source[i].name, bytes - folder);
        p->in_path[i] = path;
    }
    return SMOL_OK;
}

/* Open IN and see by its size and header (which is never freed) that it is the source of OUT. */
static smol_status match_sources(struct place *p, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    j->in.n = p->n_in;
    j->in.out = sm_mem_new(p->n_in * sizeof *j->in.out);
    if (!j->in.out) return no_memory(err);
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

static smol_status read_records(struct place *p, smol_error *err)
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

static smol_status resume(struct place *p, const char *in, const char *out,
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
    SM_TRY(make_done(p, err));
    SM_TRY(find_sources(p, in, err));
    SM_TRY(read_records(p, err));
    SM_TRY(match_sources(p, err));
    return mark_sources(p, err);
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
static smol_status clean_up(struct place *p, const char *in, const char *out, smol_error *err)
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
        if (!begins_with(p->in_path[i], SM_PACK_FREED)) {
            st = SM_FAIL(err, IO, "%s exists already", out);
            goto out;
        }
    }
    if (n == p->n_in) SM_TRY_OUT(st, match_sources(p, err));
    if (n == 0 && !sm_path_exists(p->log_path) && !is_named(p->j.pack, in)) {
        st = SM_FAIL(err, IO, "%s: there is no such file", in);
        goto out;
    }
    sm_pack_files_close(&p->j.in);
    p->j.file_bytes = sm_gguf_file_bytes(g, 0);
    SM_TRY_OUT(st, remove_sources(p, out, err));
out:
    if (p->j.pack) sm_mem_free(p->j.unit, p->j.pack->n_sums * sizeof *p->j.unit);
    p->j.unit = NULL;
    p->j.pack = NULL;
    sm_gguf_free(g);
    return st;
}

static void free_place(struct place *p)
{
    sm_mem_free(p->done, p->done_bytes * sizeof *p->done);
    for (size_t i = 0; p->in_path && i < p->n_in; i++)
        if (p->in_path[i]) sm_mem_free(p->in_path[i], strlen(p->in_path[i]) + 1);
    sm_mem_free(p->in_path, p->n_in * sizeof *p->in_path);
    sm_journal_close(&p->log);
    if (p->log_path) sm_mem_free(p->log_path, strlen(p->log_path) + 1);
    sm_pack_job_end(&p->j);
}

/* All of IN can be read as a model: nothing of it was freed. */
static bool is_whole(const char *in)
{
    struct sm_gguf *g;
    if (sm_gguf_open(&g, in, NULL) != SMOL_OK) return false;
    sm_gguf_free(g);
    return true;
}

/* What is there decides. Once IN is no longer whole, OUT and the journal are on the disk. */
static smol_status decide(struct place *p, const char *in, const char *out, bool *finished,
                          bool *resumed, smol_error *err)
{
    struct sm_journal_head h = {0};
    bool has_journal = false;
    *finished = false;
    if (sm_path_same(in, out)) return SM_FAIL(err, ARG, "IN and OUT are the same file");
    if (sm_path_exists(out) && begins_with(out, "GGUF")) {
        const bool log = sm_path_exists(p->log_path);
        if (!log && sm_path_exists(in) && !begins_with(in, SM_PACK_FREED))
            return SM_FAIL(err, IO, "%s exists already", out);
        *finished = *resumed = true;
        return clean_up(p, in, out, err);
    }
    if (is_whole(in)) return begin(p, in, out, err);
    SM_TRY(sm_journal_open(&p->log, p->log_path, &h, &has_journal, err));
    if (has_journal && sm_path_exists(out)) {
        *resumed = true;
        return resume(p, in, out, &h, err);
    }
    if (begins_with(in, SM_PACK_FREED))
        return SM_FAIL(err, IO,
                       "%s was partly freed by smol pack --in-place into another file than %s: "
                       "give the same OUT as then",
                       in, out);
    sm_journal_close(&p->log);
    return begin(p, in, out, err); /* says what is wrong with IN */
}

smol_status sm_pack_in_place(const char *in, const char *out, const struct sm_pack_options *o,
                             struct sm_pack_report *report, smol_error *err)
{
    struct place p = {.j = {.opt = o}};
    smol_status st = SMOL_OK;
    bool finished = false;
    p.log_path = sm_pack_path(out, ".journal");
    if (!p.log_path) {
        st = no_memory(err);
        goto out;
    }
    SM_TRY_OUT(st, decide(&p, in, out, &finished, &report->resumed, err));
    if (finished) goto out;
    SM_TRY_OUT(st, move_all(&p, err));
    SM_TRY_OUT(st, finish(&p, out, err));
    sm_pack_fill_report(&p.j, report);
out:
    if (st != SMOL_OK && !p.begun && p.j.out) { /* IN is whole: leave nothing behind */
        sm_path_drop(out);
        if (p.log.out) sm_path_drop(p.log_path);
    }
    free_place(&p);
    return st;
}
