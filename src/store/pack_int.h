/* SPDX-License-Identifier: MIT */
/* Inside packing. Files:
 *   pack_layout.c   from the tensors of a source to the header of its pack
 *   pack_copy.c     units: read, permute, write, read back, undo
 *   pack.c          a pack beside its source
 *   pack_inplace.c  a pack instead of its source
 *   pack_resume.c   the same, after an interruption
 *   pack_journal.c  what the latter has done
 *   unpack.c        the source again */
#ifndef SM_STORE_PACK_INT_H
#define SM_STORE_PACK_INT_H

#include "base/hash.h"
#include "plat/out.h"
#include "store/pack.h"

#define SM_PACK_UNIT_MAX ((uint64_t)64 << 20) /* bytes of a unit that this machine must hold */
#define SM_PACK_RAW UINT32_MAX

struct sm_pack_unit { uint32_t tensor, mat, unit; }; /* tensor SM_PACK_RAW: unit of raw[mat] */

/* A unit as bytes of the source and bytes of the pack. */
struct sm_pack_span {
    uint32_t file;           /* of the source */
    uint64_t source_at, at;
    size_t source_bytes, bytes;
    uint32_t type, n_rows;   /* of what is permuted */
    size_t row_bytes, n_cols;
    bool x8;
};

/* Source files: sm_file where they are only read, sm_out where they are freed. */
struct sm_pack_files {
    size_t n;
    struct sm_file **file;
    struct sm_out **out;
};

struct sm_pack_job {
    const struct sm_pack_options *opt;
    struct sm_gguf *g;          /* the pack, parsed from head */
    struct sm_pack *pack;       /* of g; its sums are filled in */
    uint8_t *head;
    size_t head_bytes;
    uint64_t file_bytes;
    struct sm_pack_unit *unit;  /* [pack->n_sums], in the order of the pack */
    size_t n_raw_units;         /* they come first */
    struct sm_pack_files in;
    struct sm_out *out;
    /* buffers */
    size_t unit_bytes, stage_bytes;
    uint8_t *block, *stage, *packed, *rows;
    size_t block_bytes;
    uint64_t done_bytes, total_bytes;
};

/* The header of the pack of g, checksums zero. raw: what the sources hold beside tensors. */
SM_NODISCARD smol_status sm_pack_layout(const struct sm_gguf *g, const struct sm_pack_files *in,
                                        uint8_t **head, size_t *head_bytes, uint64_t *file_bytes,
                                        smol_error *err);
/* Take over a header (also on failure): parse it, list the units, make the buffers. */
SM_NODISCARD smol_status sm_pack_job_begin(struct sm_pack_job *j, uint8_t *head, size_t head_bytes,
                                           uint64_t file_bytes, smol_error *err);
/* The same for a finished pack that was opened (g is not taken over): for undoing it. */
SM_NODISCARD smol_status sm_pack_job_undo(struct sm_pack_job *j, struct sm_gguf *g,
                                          smol_error *err);
void sm_pack_job_end(struct sm_pack_job *j);
void sm_pack_files_close(struct sm_pack_files *f);
SM_NODISCARD smol_status sm_pack_files_open(struct sm_pack_files *f, const struct sm_gguf *g,
                                            bool exclusive, smol_error *err);

/* PATH and a tail, strlen(path) + strlen(tail) + 1 bytes from sm_mem_new; NULL: no memory. */
char *sm_pack_path(const char *path, const char *tail);
/* Bytes of a source file; stage as for sm_out_read. */
SM_NODISCARD smol_status sm_pack_files_read(const struct sm_pack_files *f, size_t file, uint64_t at,
                                            size_t n, uint8_t *stage, const uint8_t **data,
                                            smol_error *err);

/* Where unit i is. */
struct sm_pack_span sm_pack_span_of(const struct sm_pack_job *j, size_t i);
/* "tensor T, expert E, rows R" or "bytes of the source file" of unit i, for sentences. */
#define SM_PACK_UNIT_NAME 112
const char *sm_pack_unit_name(const struct sm_pack_job *j, size_t i, char buf[SM_PACK_UNIT_NAME]);

/* Read, permute and write units [first, end): their sums are set. h: also takes in the source bytes
 * in this order; NULL: not wanted. */
SM_NODISCARD smol_status sm_pack_copy(struct sm_pack_job *j, size_t first, size_t end,
                                      struct sm_hash *h, smol_error *err);
/* Read units back from OUT, undo the permutation, compare the sums; h as above. */
SM_NODISCARD smol_status sm_pack_check(struct sm_pack_job *j, size_t first, size_t end,
                                       struct sm_hash *h, smol_error *err);
/* The bytes of unit i as the source has them, into j->rows, from the bytes of the pack. */
void sm_pack_unit_undo(const struct sm_pack_job *j, const struct sm_pack_span *s,
                       const uint8_t *packed);
/* The header with the sums of j and its checksum into j->head. */
void sm_pack_head_finish(struct sm_pack_job *j);
/* Write j->head with the given first four bytes. */
SM_NODISCARD smol_status sm_pack_head_write(struct sm_pack_job *j, const char magic[4],
                                            smol_error *err);
/* Behind the last unit: the file gets its full size. */
SM_NODISCARD smol_status sm_pack_tail_write(struct sm_pack_job *j, smol_error *err);
void sm_pack_progress(const struct sm_pack_job *j, const char *what);
void sm_pack_fill_report(const struct sm_pack_job *j, struct sm_pack_report *r);

/* ---- journal -------------------------------------------------------------------------------- */

struct sm_journal_head {
    uint64_t head_bytes, file_bytes; /* of the pack */
    uint64_t checksum_at, sums_at, n_sums;
    uint64_t identity;               /* checksum of the pack's header with all sums zero */
    uint64_t group_bytes;
};
struct sm_journal {
    struct sm_out *out;
    uint64_t end; /* byte after the last valid record */
};
SM_NODISCARD smol_status sm_journal_new(struct sm_journal *l, const char *path,
                                        const struct sm_journal_head *h, smol_error *err);
/* *ok: there is one with a whole head. */
SM_NODISCARD smol_status sm_journal_open(struct sm_journal *l, const char *path,
                                         struct sm_journal_head *h, bool *ok, smol_error *err);
/* The next record: units [*first, *end) and their sums at sums[*first]. *ok false: no more. */
SM_NODISCARD smol_status sm_journal_next(struct sm_journal *l, uint64_t n_sums, uint64_t *first,
                                         uint64_t *end, uint64_t *sums, bool *ok, smol_error *err);
/* How many records follow the head of a journal that was just opened. */
SM_NODISCARD smol_status sm_journal_count(struct sm_journal *l, const struct sm_journal_head *h,
                                          uint64_t *n, smol_error *err);
/* Append and sync. */
SM_NODISCARD smol_status sm_journal_add(struct sm_journal *l, uint64_t first, uint64_t end,
                                        const uint64_t *sums, smol_error *err);
void sm_journal_close(struct sm_journal *l);

/* ---- in place -------------------------------------------------------------------------------- */

#define SM_INPLACE_NO_MEMORY "no memory to pack in place"

/* One pack in place of its source. */
struct sm_inplace {
    struct sm_pack_job j;
    struct sm_journal log;
    char *log_path;
    uint64_t group_bytes;
    char **in_path; /* [n_in], from sm_mem_new */
    size_t n_in;
    bool *done;     /* [n_sums] units that are recorded */
    size_t done_bytes;
    bool begun;     /* IN's magic may be gone: nothing is cleaned up any more */
    bool left_alone; /* see sm_pack_report */
    bool untouched; /* all of IN but its magic is there, and no record says otherwise */
};

SM_NODISCARD smol_status sm_pack_in_place(const char *in, const char *out,
                                          const struct sm_pack_options *o,
                                          struct sm_pack_report *report, smol_error *err);

/* pack_inplace.c: steps that both ways share. Allocate p->done; make IN impossible to run; remove
 * IN, then the journal. */
SM_NODISCARD smol_status sm_inplace_new_done(struct sm_inplace *p, smol_error *err);
SM_NODISCARD smol_status sm_inplace_mark_sources(struct sm_inplace *p, smol_error *err);
SM_NODISCARD smol_status sm_inplace_remove_sources(struct sm_inplace *p, const char *out,
                                                   smol_error *err);

/* pack_resume.c. IN is whole: remove what an earlier attempt of its own left at OUT, refuse (IO)
 * what is another's. */
SM_NODISCARD smol_status sm_inplace_clear_old(struct sm_inplace *p, const char *out,
                                              smol_error *err);
/* Take up where the journal (head h) ends. IO: these files do not belong together. */
SM_NODISCARD smol_status sm_inplace_resume(struct sm_inplace *p, const char *in, const char *out,
                                           const struct sm_journal_head *h, smol_error *err);
/* OUT is complete: remove what is left of the source. */
SM_NODISCARD smol_status sm_inplace_clean_up(struct sm_inplace *p, const char *in, const char *out,
                                             smol_error *err);
/* What the first bytes of a file say; false: it cannot be read, too. */
bool sm_inplace_begins_with(const char *path, const char magic[4]);

#endif
