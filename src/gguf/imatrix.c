/* SPDX-License-Identifier: MIT */
#include "gguf/imatrix.h"

#include "base/mem.h"
#include "gguf/gguf_int.h"
#include "plat/plat.h"
#include "quant/quant.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define SUMS ".in_sum2"
#define COUNTS ".counts"

struct sm_imatrix {
    struct sm_gguf *g;
    struct sm_file *file; /* NULL: */
    const uint8_t *bytes; /* in memory */
    uint32_t n_entries;
};

/* ---- entries ------------------------------------------------------------------------------- */

/* The weight's name when the tensor holds its sums. */
static bool weight_of(const struct sm_tensor_info *t, char *name)
{
    const size_t n = strlen(t->name), k = strlen(SUMS);
    if (n <= k || strcmp(t->name + n - k, SUMS) != 0) return false;
    memcpy(name, t->name, n - k);
    name[n - k] = 0;
    return true;
}

bool sm_imatrix_find(const struct sm_imatrix *im, const char *weight, struct sm_imatrix_entry *out)
{
    char name[SM_GGUF_NAME_MAX + 1];
    const size_t n = strlen(weight);
    if (n + strlen(SUMS) >= sizeof name) return false;
    memcpy(name, weight, n);
    memcpy(name + n, SUMS, sizeof SUMS);
    out->sums = sm_gguf_find_tensor(im->g, name);
    memcpy(name + n, COUNTS, sizeof COUNTS);
    out->counts = sm_gguf_find_tensor(im->g, name);
    if (!out->sums || !out->counts) return false;
    out->n_in = out->sums->dim[0];
    out->n_mat = out->sums->dim[1];
    return true;
}

static smol_status check_entry(const struct sm_tensor_info *s, const struct sm_tensor_info *c,
                               const char *weight, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    (void)sm_gguf_quote(q, weight, strlen(weight));
    if (!c) return SM_FAIL_AT(err, FORMAT, s->at, "%s has sums but no counts", q);
    if (s->type != SM_F32 || c->type != SM_F32)
        return SM_FAIL_AT(err, FORMAT, s->at,
                          "sums and counts of %s: expected F32, found %s and %s", q,
                          sm_type_name(s->type), sm_type_name(c->type));
    if (s->dim[2] != 1 || s->dim[3] != 1 || c->dim[2] != 1 || c->dim[3] != 1 || c->dim[0] != 1 ||
        c->dim[1] != s->dim[1] || s->dim[0] > UINT32_MAX || s->dim[1] > UINT32_MAX)
        return SM_FAIL_AT(err, FORMAT, c->at,
                          "counts of %s: expected 1 x %" PRIu64 " for sums of %" PRIu64
                          " x %" PRIu64 ", found %" PRIu64 " x %" PRIu64,
                          q, s->dim[1], s->dim[0], s->dim[1], c->dim[0], c->dim[1]);
    return SMOL_OK;
}

static smol_status check_header(struct sm_imatrix *im, smol_error *err)
{
    char name[SM_GGUF_NAME_MAX + 1];
    struct sm_imatrix_entry e;
    struct sm_str kind = {0};
    bool found = false;
    SM_TRY(sm_gguf_str(im->g, "general.type", &kind, &found, err));
    if (!found || kind.n != 7 || memcmp(kind.p, "imatrix", 7) != 0)
        return SM_FAIL(err, FORMAT, "%s is a GGUF file but no importance matrix",
                       sm_imatrix_path(im)[0] ? sm_imatrix_path(im) : "this");
    if (sm_gguf_n_files(im->g) > 1)
        return SM_FAIL(err, UNSUPPORTED, "the importance matrix is split into %zu files",
                       sm_gguf_n_files(im->g));
    for (size_t i = 0; i < sm_gguf_n_tensors(im->g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(im->g, i);
        if (!weight_of(t, name)) continue;
        (void)sm_imatrix_find(im, name, &e);
        SM_TRY(check_entry(t, e.counts, name, err));
        im->n_entries++;
    }
    if (!im->n_entries) return SM_FAIL(err, FORMAT, "the importance matrix is empty");
    return SMOL_OK;
}

/* ---- life ---------------------------------------------------------------------------------- */

void sm_imatrix_free(struct sm_imatrix *im)
{
    if (!im) return;
    sm_gguf_free(im->g);
    sm_file_close(im->file);
    sm_mem_free(im, sizeof *im);
}

static smol_status begin(struct sm_imatrix **out, smol_error *err)
{
    *out = sm_mem_new(sizeof **out);
    return *out ? SMOL_OK : SM_FAIL(err, NOMEM, "no memory for an importance matrix");
}

static smol_status end(struct sm_imatrix **out, smol_status st, smol_error *err)
{
    if (st == SMOL_OK) st = check_header(*out, err);
    if (st == SMOL_OK) return SMOL_OK;
    sm_imatrix_free(*out);
    *out = NULL;
    return st;
}

smol_status sm_imatrix_open(struct sm_imatrix **out, const char *path, smol_error *err)
{
    SM_TRY(begin(out, err));
    smol_status st = sm_gguf_open(&(*out)->g, path, err);
    if (st == SMOL_OK) st = sm_file_open(&(*out)->file, path, false, err);
    return end(out, st, err);
}

smol_status sm_imatrix_parse(struct sm_imatrix **out, const uint8_t *bytes, size_t n,
                             smol_error *err)
{
    SM_TRY(begin(out, err));
    (*out)->bytes = bytes;
    return end(out, sm_gguf_parse(&(*out)->g, bytes, n, n, err), err);
}

/* ---- what it says -------------------------------------------------------------------------- */

const char *sm_imatrix_path(const struct sm_imatrix *im)
{
    return im->file ? sm_file_path(im->file) : "";
}

uint32_t sm_imatrix_n_entries(const struct sm_imatrix *im) { return im->n_entries; }

bool sm_imatrix_n_chunks(const struct sm_imatrix *im, uint32_t *n)
{
    uint64_t v = 0;
    bool found = false;
    if (sm_gguf_u64(im->g, "imatrix.chunk_count", 0, UINT32_MAX, &v, &found, NULL) != SMOL_OK)
        return false;
    *n = (uint32_t)v;
    return found;
}

bool sm_imatrix_dataset(const struct sm_imatrix *im, struct sm_str *name)
{
    const struct sm_kv *kv = sm_gguf_find(im->g, "imatrix.datasets");
    uint64_t cursor = 0;
    return kv && kv->type == SM_KV_ARRAY && kv->elem_type == SM_KV_STRING &&
           sm_gguf_next_str(kv, &cursor, name);
}

/* ---- values -------------------------------------------------------------------------------- */

static smol_status read_floats(const struct sm_imatrix *im, uint64_t at, float *v, size_t n,
                               smol_error *err)
{
    if (im->file) return sm_file_read(im->file, at, v, n * sizeof *v, err);
    memcpy(v, im->bytes + at, n * sizeof *v);
    return SMOL_OK;
}

static bool is_weight(float v) { return isfinite(v) && v >= 0; }

smol_status sm_imatrix_row(const struct sm_imatrix *im, const struct sm_imatrix_entry *e,
                           uint64_t mat, float *v, smol_error *err)
{
    char q[SM_GGUF_QUOTE];
    const size_t n = (size_t)e->n_in;
    const uint64_t at = e->sums->at + mat * n * sizeof *v, count_at = e->counts->at + 4 * mat;
    float count = 0;
    SM_TRY(read_floats(im, count_at, &count, 1, err));
    (void)sm_gguf_quote(q, e->sums->name, strlen(e->sums->name));
    if (!is_weight(count))
        return SM_FAIL_AT(err, FORMAT, count_at, "%s: a count is %g", q, (double)count);
    if (count == 0) {
        for (size_t i = 0; i < n; i++) v[i] = 1;
        return SMOL_OK;
    }
    SM_TRY(read_floats(im, at, v, n, err));
    for (size_t i = 0; i < n; i++) {
        const float sum = v[i];
        v[i] = sum / count;
        if (!is_weight(sum) || !is_weight(v[i]))
            return SM_FAIL_AT(err, FORMAT, at + i * sizeof *v, "%s: a sum of squares is %g of %g",
                              q, (double)sum, (double)count);
    }
    return SMOL_OK;
}

/* Whether the entry is of a weight of this shape: a vector for each of its matrices, or for one
 * that is no stack of experts (heads side by side) one for all. */
static bool has_shape(const struct sm_imatrix_entry *e, const struct sm_tensor_info *t)
{
    const bool experts = strstr(t->name, "_exps.") != NULL;
    return e->n_in == t->dim[0] &&
           (e->n_mat == t->dim[2] * t->dim[3] || (e->n_mat == 1 && !experts));
}

static smol_status check_values(const struct sm_imatrix *im, const struct sm_imatrix_entry *e,
                                smol_error *err)
{
    void *v;
    smol_status st = SMOL_OK;
    SM_TRY(sm_gguf_alloc(&v, e->n_in * sizeof(float), err));
    for (uint64_t m = 0; st == SMOL_OK && m < e->n_mat; m++) st = sm_imatrix_row(im, e, m, v, err);
    sm_mem_free(v, (size_t)e->n_in * sizeof(float));
    return st;
}

smol_status sm_imatrix_check(const struct sm_imatrix *im, const struct sm_gguf *model,
                             uint32_t *n_other, smol_error *err)
{
    char name[SM_GGUF_NAME_MAX + 1], q[SM_GGUF_QUOTE];
    struct sm_imatrix_entry e;
    *n_other = 0;
    for (size_t i = 0; i < sm_gguf_n_tensors(im->g); i++) {
        if (!weight_of(sm_gguf_tensor(im->g, i), name) || !sm_imatrix_find(im, name, &e)) continue;
        const struct sm_tensor_info *t = sm_gguf_find_tensor(model, name);
        if (!t) {
            ++*n_other;
            continue;
        }
        if (!has_shape(&e, t))
            return SM_FAIL(err, FORMAT,
                           "the importance matrix is of another model: %s has %" PRIu64
                           " columns in each of %" PRIu64 ", its entry %" PRIu64
                           " in each of %" PRIu64,
                           sm_gguf_quote(q, name, strlen(name)), t->dim[0], t->dim[2] * t->dim[3],
                           e.n_in, e.n_mat);
        SM_TRY(check_values(im, &e, err));
    }
    if (*n_other == im->n_entries)
        return SM_FAIL(err, FORMAT,
                       "the importance matrix is of another model: none of its %" PRIu32
                       " entries is a weight of this one",
                       im->n_entries);
    return SMOL_OK;
}
