/* SPDX-License-Identifier: MIT */
/* A pack instead of its source. Nothing of the source is freed before it is in OUT, on the disk,
 * was read back from there, agrees with what was read from the source, and a record on the disk
 * says so.
 *
 *   room for all that follows is looked for
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

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define GROUP_BYTES ((uint64_t)32 << 20)
/* Above max(IN, OUT) the disk holds: a group, OUT's header twice (its own and the source's), the
 * journal, blocks at the borders of holes. Together at most 48 MiB. */
#define GROUP_ROOM ((uint64_t)40 << 20)
/* On a disk with less room than such groups need they are smaller, down to this. */
#define GROUP_LEAST ((uint64_t)1 << 20)
/* What the file system keeps beside the bytes of files. */
#define ROOM_SPARE ((uint64_t)512 << 10)

/* ---- groups --------------------------------------------------------------------------------- */

static size_t group_end(const struct sm_inplace *p, size_t first)
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

/* What units [first, end) came from, neighbours joined: only whole blocks can be freed. r has room
 * for end - first; returns how many there are. */
static size_t source_ranges(const struct sm_inplace *p, size_t first, size_t end, struct range *r)
{
    const size_t n = end - first;
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const struct sm_pack_span s = sm_pack_span_of(&p->j, first + i);
        r[i] = (struct range){s.file, s.source_at, s.source_bytes};
    }
    qsort(r, n, sizeof *r, by_place);
    for (size_t i = 0; i < n;) {
        struct range all = r[i++];
        while (i < n && r[i].file == all.file && r[i].at == all.at + all.bytes)
            all.bytes += r[i++].bytes;
        r[used++] = all;
    }
    return used;
}

static smol_status free_source(struct sm_inplace *p, size_t first, size_t end, smol_error *err)
{
    const size_t n = end - first;
    struct range *r = sm_mem_new(n * sizeof *r);
    smol_status st = SMOL_OK;
    if (!r) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    const size_t used = source_ranges(p, first, end, r);
    for (size_t i = 0; i < used && st == SMOL_OK; i++)
        st = sm_out_punch(p->j.in.out[r[i].file], r[i].at, r[i].bytes, err);
    sm_mem_free(r, n * sizeof *r);
    return st;
}

/* Into OUT, to the disk, back from the disk, and compared. */
static smol_status move_group(struct sm_inplace *p, size_t first, size_t end, smol_error *err)
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

static smol_status move_all(struct sm_inplace *p, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    for (size_t i = j->n_raw_units, end; i < j->pack->n_sums; i = end) {
        end = group_end(p, i);
        if (p->done[i]) { /* freed before the interruption, or not: freeing twice does no harm */
            for (size_t k = i; k < end; k++) j->done_bytes += sm_pack_span_of(j, k).source_bytes;
        } else {
            SM_TRY(move_group(p, i, end, err));
            p->untouched = false; /* what is recorded may be freed */
            SM_TRY(sm_journal_add(&p->log, i, end, j->pack->sums, err));
        }
        SM_TRY(free_source(p, i, end, err));
    }
    return SMOL_OK;
}

/* ---- room ----------------------------------------------------------------------------------- */

static uint64_t freed_by(const struct sm_inplace *p, size_t first, size_t end, struct range *r)
{
    const size_t n = source_ranges(p, first, end, r);
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t from = sm_round_up64(r[i].at, SM_IO_ALIGN);
        const uint64_t to = (r[i].at + r[i].bytes) / SM_IO_ALIGN * SM_IO_ALIGN;
        if (to > from) sum += to - from;
    }
    return sum;
}

/* The most that the files take beyond what IN takes now, with groups of p->group_bytes. frees: what
 * IN gives back is room for OUT. r: as many as there are units. */
static uint64_t room_needed(const struct sm_inplace *p, bool frees, struct range *r)
{
    const struct sm_pack_job *j = &p->j;
    const uint64_t n = j->pack->n_sums;
    uint64_t end_at = sm_round_up64(j->head_bytes, SM_IO_ALIGN);
    uint64_t used = end_at + n * sizeof *j->pack->sums, freed = 0, most = 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = i < j->n_raw_units ? j->n_raw_units : group_end(p, i);
        for (size_t k = i; k < end; k++) {
            const struct sm_pack_span s = sm_pack_span_of(j, k);
            const uint64_t to = sm_round_up64(s.at + s.bytes, SM_IO_ALIGN);
            const uint64_t at = s.at / SM_IO_ALIGN * SM_IO_ALIGN, from = at > end_at ? at : end_at;
            if (to <= from) continue;
            used += to - from;
            end_at = to;
        }
        used += 3 * sizeof(uint64_t); /* of the record */
        if (used > freed && used - freed > most) most = used - freed;
        if (frees && i >= j->n_raw_units) freed += freed_by(p, i, end, r);
    }
    return most + ROOM_SPARE;
}

/* Groups as large as there is room for; IO: there is none even for small ones. */
static smol_status fit_groups(struct sm_inplace *p, const char *out, smol_error *err)
{
    const size_t n = p->j.pack->n_sums;
    const uint64_t room = sm_path_room(out);
    const bool frees = sm_path_same_disk(p->in_path[0], out);
    struct range *r = sm_mem_new(n * sizeof *r);
    if (!r) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    uint64_t need = room_needed(p, frees, r), best = p->group_bytes, least = need;
    while (need > room && p->group_bytes / 2 >= GROUP_LEAST) {
        p->group_bytes /= 2;
        need = room_needed(p, frees, r); /* more groups leave more blocks at their borders */
        if (need < least) least = need, best = p->group_bytes;
    }
    if (need > room) need = least, p->group_bytes = best;
    sm_mem_free(r, n * sizeof *r);
    if (need <= room) return SMOL_OK;
    return SM_FAIL(err, IO, "%s needs room for %.1f MiB and the folder of the pack has %.1f MiB: "
                   "nothing was changed", frees ? "packing in place" : "a pack on another disk",
                   (double)(need + (1 << 20) / 10) / (1 << 20), (double)room / (1 << 20));
}

/* ---- beginning and end ---------------------------------------------------------------------- */

smol_status sm_inplace_new_done(struct sm_inplace *p, smol_error *err)
{
    p->done_bytes = p->j.pack->n_sums;
    p->done = sm_mem_new(p->done_bytes * sizeof *p->done);
    return p->done ? SMOL_OK : SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
}

static smol_status take_paths(struct sm_inplace *p, const struct sm_gguf *g, smol_error *err)
{
    p->n_in = sm_gguf_n_files(g);
    p->in_path = sm_mem_new(p->n_in * sizeof *p->in_path);
    if (!p->in_path) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    for (size_t i = 0; i < p->n_in; i++) {
        p->in_path[i] = sm_pack_path(sm_gguf_file_path(g, i), "");
        if (!p->in_path[i]) return SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
    }
    return SMOL_OK;
}

static smol_status check_links(struct sm_inplace *p, smol_error *err)
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

/* OUT with the headers of the source, and the journal: all on the disk before IN is touched. */
static smol_status begin_files(struct sm_inplace *p, const char *out, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    bool can = false;
    SM_TRY(sm_inplace_clear_old(p, out, err));
    SM_TRY(fit_groups(p, out, err));
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

smol_status sm_inplace_mark_sources(struct sm_inplace *p, smol_error *err)
{
    p->begun = true;
    for (size_t i = 0; i < p->j.in.n; i++) {
        SM_TRY(sm_out_write(p->j.in.out[i], 0, SM_PACK_FREED, 4, err));
        SM_TRY(sm_out_sync(p->j.in.out[i], err));
    }
    return SMOL_OK;
}

/* Nothing was freed: IN is a model again, and what there is of OUT is worth nothing. A cut on the
 * way leaves a source that is marked, whose pack goes on, or one that is whole. */
static void unmark_sources(struct sm_inplace *p)
{
    for (size_t i = 0; i < p->j.in.n; i++)
        if (sm_out_write(p->j.in.out[i], 0, "GGUF", 4, NULL) != SMOL_OK ||
            sm_out_sync(p->j.in.out[i], NULL) != SMOL_OK)
            return;
    p->begun = false;
}

static smol_status begin(struct sm_inplace *p, const char *in, const char *out, smol_error *err)
{
    struct sm_gguf *g = NULL;
    uint8_t *head = NULL;
    size_t head_bytes = 0;
    uint64_t file_bytes = 0;
    smol_status st = SMOL_OK;
    SM_TRY_OUT(st, sm_gguf_open(&g, in, err));
    if (sm_gguf_pack(g)) {
        st = SM_FAIL(err, UNSUPPORTED, "%s is a pack already", in);
        goto out;
    }
    SM_TRY_OUT(st, take_paths(p, g, err));
    SM_TRY_OUT(st, sm_pack_files_open(&p->j.in, g, true, err));
    SM_TRY_OUT(st, check_links(p, err));
    SM_TRY_OUT(st, sm_pack_layout(g, &p->j.in, &head, &head_bytes, &file_bytes, err));
    SM_TRY_OUT(st, sm_pack_job_begin(&p->j, head, head_bytes, file_bytes, err));
    SM_TRY_OUT(st, sm_inplace_new_done(p, err));
    p->group_bytes = p->j.opt->group_bytes ? p->j.opt->group_bytes : GROUP_BYTES;
    const uint64_t room = 2 * head_bytes < GROUP_ROOM ? GROUP_ROOM - 2 * head_bytes : 1;
    if (p->group_bytes > room) p->group_bytes = room;
    SM_TRY_OUT(st, begin_files(p, out, err));
    p->untouched = true;
    SM_TRY_OUT(st, sm_inplace_mark_sources(p, err));
out:
    sm_gguf_free(g);
    return st;
}

smol_status sm_inplace_remove_sources(struct sm_inplace *p, const char *out, smol_error *err)
{
    for (size_t i = 0; i < p->n_in; i++) SM_TRY(sm_path_remove(p->in_path[i], err));
    for (size_t i = 0; i < p->n_in; i++) SM_TRY(sm_path_sync_folder(p->in_path[i], err));
    SM_TRY(sm_path_remove(p->log_path, err));
    return sm_path_sync_folder(out, err);
}

static smol_status finish(struct sm_inplace *p, const char *out, smol_error *err)
{
    struct sm_pack_job *j = &p->j;
    SM_TRY(sm_pack_tail_write(j, err));
    sm_pack_head_finish(j);
    SM_TRY(sm_pack_head_write(j, SM_PACK_UNFINISHED, err));
    SM_TRY(sm_out_sync(j->out, err));
    SM_TRY(sm_out_write(j->out, 0, "GGUF", 4, err));
    SM_TRY(sm_out_sync(j->out, err));
    return sm_inplace_remove_sources(p, out, err);
}

static void free_place(struct sm_inplace *p)
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
static smol_status decide(struct sm_inplace *p, const char *in, const char *out, bool *finished,
                          bool *resumed, smol_error *err)
{
    struct sm_journal_head h = {0};
    bool has_journal = false;
    *finished = false;
    if (sm_path_same(in, out)) return SM_FAIL(err, ARG, "IN and OUT are the same file");
    if (sm_path_exists(out) && sm_inplace_begins_with(out, "GGUF")) {
        const bool log = sm_path_exists(p->log_path);
        if (!log && sm_path_exists(in) && !sm_inplace_begins_with(in, SM_PACK_FREED))
            return SM_FAIL(err, IO, "%s exists already", out);
        *finished = *resumed = true;
        return sm_inplace_clean_up(p, in, out, err);
    }
    if (is_whole(in)) return begin(p, in, out, err);
    SM_TRY(sm_journal_open(&p->log, p->log_path, &h, &has_journal, err));
    if (has_journal && sm_path_exists(out)) {
        *resumed = true;
        return sm_inplace_resume(p, in, out, &h, err);
    }
    if (sm_inplace_begins_with(in, SM_PACK_FREED))
        return SM_FAIL(err, IO,
                       "%s was partly freed by smol pack --in-place into another file than %s: "
                       "give the same OUT as then",
                       in, out);
    sm_journal_close(&p->log);
    return begin(p, in, out, err); /* says what is wrong with IN */
}

/* Another sentence for a disk that became full on the way. */
static void say_full(const char *out, smol_error *err)
{
    *err = (smol_error){0};
    (void)SM_FAIL(err, IO, "%s: %s; nothing is lost, and the same command goes on when there is "
                  "room", out, strerror(ENOSPC));
    err->sys = ENOSPC;
}

smol_status sm_pack_in_place(const char *in, const char *out, const struct sm_pack_options *o,
                             struct sm_pack_report *report, smol_error *err)
{
    struct sm_inplace p = {.j = {.opt = o}};
    smol_status st = SMOL_OK;
    bool finished = false;
    p.log_path = sm_pack_path(out, ".journal");
    if (!p.log_path) {
        st = SM_FAIL(err, NOMEM, SM_INPLACE_NO_MEMORY);
        goto out;
    }
    SM_TRY_OUT(st, decide(&p, in, out, &finished, &report->resumed, err));
    report->left_alone = p.left_alone;
    if (finished) goto out;
    SM_TRY_OUT(st, move_all(&p, err));
    SM_TRY_OUT(st, finish(&p, out, err));
    sm_pack_fill_report(&p.j, report);
out:
    if (st == SMOL_IO && p.untouched) unmark_sources(&p);
    if (st == SMOL_IO && p.begun && err && err->sys == ENOSPC) say_full(out, err);
    if (st != SMOL_OK && !p.begun && p.j.out) { /* IN is whole: leave nothing behind */
        sm_path_drop(out);
        if (p.log.out) sm_path_drop(p.log_path);
    }
    free_place(&p);
    return st;
}
