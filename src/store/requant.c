/* SPDX-License-Identifier: MIT */
#include "store/requant_int.h"

#include "gguf/gguf_pack.h"
#include "plat/out.h"
#include "quant/encode.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PART ".part" /* what the writer adds to the name while it writes */

/* ---- what each tensor gets ------------------------------------------------------------------ */

/* The first block that only drafts: such blocks are the last of block_count. */
static uint32_t first_next_block(const struct sm_gguf *g)
{
    struct sm_str arch = {0};
    uint64_t n_block = 0, n_next = 0;
    char key[160];
    bool found = false;
    if (sm_gguf_str(g, "general.architecture", &arch, &found, NULL) != SMOL_OK || !found ||
        arch.n > 64)
        return UINT32_MAX;
    (void)snprintf(key, sizeof key, "%.*s.nextn_predict_layers", (int)arch.n, arch.p);
    if (sm_gguf_u64(g, key, 0, UINT32_MAX, &n_next, &found, NULL) != SMOL_OK || !found || !n_next)
        return UINT32_MAX;
    (void)snprintf(key, sizeof key, "%.*s.block_count", (int)arch.n, arch.p);
    if (sm_gguf_u64(g, key, 0, UINT32_MAX, &n_block, &found, NULL) != SMOL_OK || !found ||
        n_block < n_next)
        return UINT32_MAX;
    return (uint32_t)(n_block - n_next);
}

static void tally(struct sm_requant_tally *t, uint64_t n_weights, uint64_t bytes)
{
    t->n_tensors++;
    t->n_weights += n_weights;
    t->bytes += bytes;
}

static void report_tensor(struct sm_requant *r, const struct sm_requant_tensor *t,
                          enum sm_mix_why why)
{
    struct sm_requant_report *rep = &r->report;
    const struct sm_tensor_info *i = t->info;
    const uint64_t rows = i->dim[1] * i->dim[2] * i->dim[3], n = i->dim[0] * rows;
    const uint64_t bytes = sm_row_bytes(t->type, i->dim[0]) * rows;
    const bool again = sm_traits_of(i->type)->block > 1 && sm_type_bits(i->type) < 8;
    rep->n_weights += n;
    rep->in_bytes += i->bytes;
    rep->out_bytes += bytes;
    tally(&rep->type[t->type], n, bytes);
    tally(&rep->why[why], n, bytes);
    if (!rep->example[why]) {
        rep->example[why] = i->name;
        rep->example_type[why] = t->type;
    }
    if (t->copied) return;
    rep->n_encoded++;
    rep->encodes[t->type] = true;
    if (again) {
        rep->n_again++;
        rep->again_type = i->type;
    }
    if (r->imatrix && !t->has_entry && sm_type_uses_importance(t->type)) {
        rep->n_without++;
        if (!rep->without) rep->without = i->name;
    }
}

static smol_status choose(struct sm_requant *r, smol_error *err)
{
    const struct sm_mix mix = {r->opt.experts, r->opt.rest, first_next_block(r->g)};
    for (size_t i = 0; i < r->n_tensors; i++) {
        struct sm_requant_tensor *t = &r->tensor[i];
        const struct sm_tensor_info *info = t->info = sm_gguf_tensor(r->g, i);
        const struct sm_mix_tensor mt = {info->name, info->type, info->n_dims, info->dim[0]};
        enum sm_mix_why why;
        t->type = sm_mix_choose(&mix, &mt, &why);
        t->copied = t->type == info->type;
        if (!t->copied && (!sm_traits_of(info->type)->decodes || info->type == SM_Q8_K))
            return SM_FAIL(err, UNSUPPORTED, "%s is %s, which cannot be decoded", info->name,
                           sm_type_name(info->type));
        if (r->imatrix) t->has_entry = sm_imatrix_find(r->imatrix, info->name, &t->entry);
        report_tensor(r, t, why);
    }
    return SMOL_OK;
}

/* ---- life ---------------------------------------------------------------------------------- */

static smol_status open_files(struct sm_requant *r, const char *in, smol_error *err)
{
    void *p;
    SM_TRY(sm_gguf_open(&r->g, in, err));
    if (sm_gguf_pack(r->g))
        return SM_FAIL(err, UNSUPPORTED,
                       "%s is a pack: smol unpack gives back the model that can be quantised", in);
    if (!sm_gguf_n_tensors(r->g)) return SM_FAIL(err, UNSUPPORTED, "%s has no tensors", in);
    r->n_tensors = sm_gguf_n_tensors(r->g);
    p = sm_mem_new(r->n_tensors * sizeof *r->tensor);
    if (!p) return SM_FAIL(err, NOMEM, "no memory for %zu tensors", r->n_tensors);
    r->tensor = p;
    p = sm_mem_new(sm_gguf_n_files(r->g) * sizeof *r->file);
    if (!p) return SM_FAIL(err, NOMEM, "no memory for %zu files", sm_gguf_n_files(r->g));
    r->file = p;
    r->n_files = sm_gguf_n_files(r->g);
    for (size_t i = 0; i < r->n_files; i++) {
        SM_TRY(sm_file_open(&r->file[i], sm_gguf_file_path(r->g, i), false, err));
        r->report.in_file_bytes += sm_gguf_file_bytes(r->g, i);
    }
    return SMOL_OK;
}

static smol_status prepare(struct sm_requant *r, const char *in, smol_error *err)
{
    SM_TRY(open_files(r, in, err));
    if (r->opt.imatrix_path) {
        SM_TRY(sm_imatrix_open(&r->imatrix, r->opt.imatrix_path, err));
        SM_TRY(sm_imatrix_check(r->imatrix, r->g, &r->report.n_other, err));
    }
    return choose(r, err);
}

smol_status sm_requant_open(struct sm_requant **out, const char *in,
                            const struct sm_requant_options *o, smol_error *err)
{
    *out = NULL;
    struct sm_requant *r = sm_mem_new(sizeof *r);
    if (!r) return SM_FAIL(err, NOMEM, "no memory for a quantiser");
    r->opt = *o;
    const smol_status st = prepare(r, in, err);
    if (st != SMOL_OK) {
        sm_requant_free(r);
        return st;
    }
    *out = r;
    return SMOL_OK;
}

void sm_requant_free(struct sm_requant *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->n_files; i++) sm_file_close(r->file[i]);
    sm_mem_free(r->file, r->n_files * sizeof *r->file);
    sm_mem_free(r->tensor, r->n_tensors * sizeof *r->tensor);
    sm_imatrix_free(r->imatrix);
    sm_gguf_free(r->g);
    sm_mem_free(r, sizeof *r);
}

const struct sm_requant_report *sm_requant_report(const struct sm_requant *r) { return &r->report; }

const struct sm_gguf *sm_requant_gguf(const struct sm_requant *r) { return r->g; }

/* ---- the new file --------------------------------------------------------------------------- */

static bool is_input(const struct sm_requant *r, const char *path)
{
    for (size_t i = 0; i < r->n_files; i++)
        if (sm_path_same(sm_gguf_file_path(r->g, i), path)) return true;
    return r->imatrix && sm_path_same(sm_imatrix_path(r->imatrix), path);
}

/* The writer makes OUT.part, whatever is there: that may be no file that is read either. */
static smol_status refuse_inputs(const struct sm_requant *r, const char *out, smol_error *err)
{
    const size_t n = strlen(out) + sizeof PART;
    if (is_input(r, out)) return SM_FAIL(err, ARG, "%s is what this command reads", out);
    if (sm_path_exists(out)) return SM_FAIL(err, IO, "%s exists already", out);
    char *part = sm_mem_new(n);
    if (!part) return SM_FAIL(err, NOMEM, "no memory for a path");
    (void)snprintf(part, n, "%s" PART, out);
    const smol_status st =
        is_input(r, part)
            ? SM_FAIL(err, ARG, "%s is what this command reads, and would be written first", part)
            : SMOL_OK;
    sm_mem_free(part, n);
    return st;
}

/* The format of most weights that are in matrices. */
static uint32_t main_type(const struct sm_requant *r)
{
    uint32_t best = SM_F32;
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++)
        if (r->report.type[i].n_weights > r->report.type[best].n_weights) best = i;
    return best;
}

static smol_status put_imatrix_keys(const struct sm_imatrix *im, struct sm_gguf_writer *w,
                                    smol_error *err)
{
    static const char *const keys[] = {"quantize.imatrix.file", "quantize.imatrix.dataset",
                                       "quantize.imatrix.entries_count",
                                       "quantize.imatrix.chunks_count"};
    struct sm_str dataset;
    uint32_t n_chunks = 0;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        (void)sm_gguf_writer_remove(w, keys[i]); /* of the file that IN was made with */
    SM_TRY(sm_gguf_writer_set_str(w, keys[0], sm_imatrix_path(im), err));
    if (sm_imatrix_dataset(im, &dataset))
        SM_TRY(sm_gguf_writer_set(w, keys[1], SM_KV_STRING, 0, 1, dataset.p, dataset.n, err));
    SM_TRY(sm_gguf_writer_set_u32(w, keys[2], sm_imatrix_n_entries(im), err));
    if (!sm_imatrix_n_chunks(im, &n_chunks)) return SMOL_OK;
    return sm_gguf_writer_set_u32(w, keys[3], n_chunks, err);
}

static smol_status declare(const struct sm_requant *r, struct sm_gguf_writer *w, smol_error *err)
{
    SM_TRY(sm_gguf_writer_copy_kv(w, r->g, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "general.quantization_version", 2, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "general.file_type", sm_mix_file_type(main_type(r)), err));
    if (r->imatrix) SM_TRY(put_imatrix_keys(r->imatrix, w, err));
    for (size_t i = 0; i < r->n_tensors; i++) {
        const struct sm_tensor_info *t = r->tensor[i].info;
        SM_TRY(sm_gguf_writer_add_tensor(w, t->name, r->tensor[i].type, t->n_dims, t->dim, err));
    }
    return sm_gguf_writer_seal(w, err);
}

static smol_status write_file(struct sm_requant *r, struct sm_gguf_writer *w, const char *out,
                              smol_error *err)
{
    SM_TRY(declare(r, w, err));
    r->report.out_file_bytes = sm_gguf_writer_file_bytes(w);
    const uint64_t need = sm_gguf_writer_file_bytes(w), room = sm_path_room(out);
    if (room < need)
        return SM_FAIL(err, IO,
                       "%s needs %" PRIu64 " MiB and its folder has room for %" PRIu64 " MiB", out,
                       (need >> 20) + 1, room >> 20);
    SM_TRY(sm_gguf_writer_create(w, out, err));
    SM_TRY(sm_requant_stream(r, w, err));
    SM_TRY(sm_gguf_writer_end(w, err));
    const smol_status st = sm_path_sync_folder(out, err);
    if (st != SMOL_OK) sm_path_drop(out); /* a name that may not last: IN must be kept */
    return st;
}

smol_status sm_requant_write(struct sm_requant *r, const char *out, smol_error *err)
{
    struct sm_gguf_writer *w;
    SM_TRY(refuse_inputs(r, out, err));
    SM_TRY(sm_gguf_writer_new(&w, err));
    const smol_status st = write_file(r, w, out, err);
    sm_gguf_writer_free(w);
    return st;
}
