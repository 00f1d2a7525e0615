/* SPDX-License-Identifier: MIT */
/* The journal of an in-place pack: which units are safely in OUT, so that their source may be
 * freed. A record counts when it is whole: everything ends with a checksum over itself, and a torn
 * tail is what a power cut leaves of a record whose units were not freed yet. */
#include "base/bits.h"
#include "store/pack_int.h"

#include <string.h>

#define HEAD_BYTES 72u /* magic, 7 numbers, checksum */
static const char magic[8] = {'s', 'm', 'o', 'l', 'J', 'R', 'N', '1'};

smol_status sm_journal_new(struct sm_journal *l, const char *path, const struct sm_journal_head *h,
                           smol_error *err)
{
    uint8_t b[HEAD_BYTES];
    const uint64_t v[7] = {h->head_bytes, h->file_bytes, h->checksum_at, h->sums_at,
                           h->n_sums,     h->identity,   h->group_bytes};
    memcpy(b, magic, 8);
    for (unsigned i = 0; i < 7; i++) sm_st64(b + 8 + 8 * i, v[i]);
    sm_st64(b + 64, sm_hash64(b, 64, 0));
    SM_TRY(sm_out_open(&l->out, path, SM_OUT_NEW, false, err));
    l->end = HEAD_BYTES;
    SM_TRY(sm_out_write(l->out, 0, b, sizeof b, err));
    return sm_out_sync(l->out, err);
}

/* n bytes at l->end + `into`; *ok false: the file ends before. */
static smol_status read_at(struct sm_journal *l, uint64_t into, void *to, size_t n, bool *ok,
                           smol_error *err)
{
    uint8_t room[3 * SM_IO_ALIGN];
    uint8_t *stage = room + (SM_IO_ALIGN - (uintptr_t)room % SM_IO_ALIGN) % SM_IO_ALIGN;
    uint64_t size = 0, at = l->end + into;
    unsigned links = 0;
    uint8_t *p = to;
    SM_TRY(sm_out_stat(l->out, &size, &links, err));
    *ok = at <= size && n <= size - at;
    while (*ok && n) {
        const size_t k = n < SM_IO_ALIGN ? n : SM_IO_ALIGN;
        const uint8_t *data;
        SM_TRY(sm_out_read(l->out, at, k, stage, &data, err));
        memcpy(p, data, k);
        p += k;
        at += k;
        n -= k;
    }
    return SMOL_OK;
}

smol_status sm_journal_open(struct sm_journal *l, const char *path, struct sm_journal_head *h,
                            bool *ok, smol_error *err)
{
    uint8_t b[HEAD_BYTES];
    *ok = false;
    memset(l, 0, sizeof *l);
    if (!sm_path_exists(path)) return SMOL_OK;
    SM_TRY(sm_out_open(&l->out, path, SM_OUT_KEPT, false, err));
    SM_TRY(read_at(l, 0, b, sizeof b, ok, err));
    *ok = *ok && !memcmp(b, magic, 8) && sm_ld64(b + 64) == sm_hash64(b, 64, 0);
    if (!*ok) return SMOL_OK;
    *h = (struct sm_journal_head){
        .head_bytes = sm_ld64(b + 8), .file_bytes = sm_ld64(b + 16), .checksum_at = sm_ld64(b + 24),
        .sums_at = sm_ld64(b + 32), .n_sums = sm_ld64(b + 40), .identity = sm_ld64(b + 48),
        .group_bytes = sm_ld64(b + 56)};
    l->end = HEAD_BYTES;
    return SMOL_OK;
}

static uint64_t record_hash(const struct sm_journal *l, uint64_t first, uint64_t end,
                            const uint64_t *sums)
{
    const uint64_t v[2] = {first, end};
    struct sm_hash h;
    sm_hash_begin(&h, l->end); /* a record counts at its own place only */
    sm_hash_put(&h, v, sizeof v);
    sm_hash_put(&h, sums + first, (size_t)(end - first) * sizeof *sums);
    return sm_hash_end(&h);
}

smol_status sm_journal_next(struct sm_journal *l, uint64_t n_sums, uint64_t *first, uint64_t *end,
                            uint64_t *sums, bool *ok, smol_error *err)
{
    uint64_t v[2], hash;
    SM_TRY(read_at(l, 0, v, sizeof v, ok, err));
    if (!*ok) return SMOL_OK;
    *first = v[0];
    *end = v[1];
    *ok = *first < *end && *end <= n_sums;
    if (!*ok) return SMOL_OK;
    const size_t bytes = (size_t)(*end - *first) * sizeof *sums;
    SM_TRY(read_at(l, sizeof v, sums + *first, bytes, ok, err));
    if (*ok) SM_TRY(read_at(l, sizeof v + bytes, &hash, sizeof hash, ok, err));
    if (!*ok) return SMOL_OK;
    *ok = hash == record_hash(l, *first, *end, sums);
    if (*ok) l->end += sizeof v + bytes + sizeof hash;
    return SMOL_OK;
}

smol_status sm_journal_count(struct sm_journal *l, const struct sm_journal_head *h, uint64_t *n,
                             smol_error *err)
{
    uint64_t first, end;
    bool ok = true;
    *n = 0;
    uint64_t *sums =
        h->n_sums < SIZE_MAX / 16 ? sm_mem_new((size_t)h->n_sums * sizeof *sums) : NULL;
    if (!sums) return SM_FAIL(err, NOMEM, "no memory to read a journal");
    smol_status st = SMOL_OK;
    while (st == SMOL_OK && ok) {
        st = sm_journal_next(l, h->n_sums, &first, &end, sums, &ok, err);
        *n += st == SMOL_OK && ok;
    }
    sm_mem_free(sums, (size_t)h->n_sums * sizeof *sums);
    return st;
}

smol_status sm_journal_add(struct sm_journal *l, uint64_t first, uint64_t end, const uint64_t *sums,
                           smol_error *err)
{
    const uint64_t v[2] = {first, end}, hash = record_hash(l, first, end, sums);
    const size_t bytes = (size_t)(end - first) * sizeof *sums;
    SM_TRY(sm_out_write(l->out, l->end, v, sizeof v, err));
    SM_TRY(sm_out_write(l->out, l->end + sizeof v, sums + first, bytes, err));
    SM_TRY(sm_out_write(l->out, l->end + sizeof v + bytes, &hash, sizeof hash, err));
    SM_TRY(sm_out_sync(l->out, err));
    l->end += sizeof v + bytes + sizeof hash;
    return SMOL_OK;
}

void sm_journal_close(struct sm_journal *l)
{
    sm_out_close(l->out);
    memset(l, 0, sizeof *l);
}
