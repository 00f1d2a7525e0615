/* SPDX-License-Identifier: MIT */
/* Models quantised again: every tensor that the stock quantiser gave the same format has the same
 * bytes; the file does not depend on threads or on how IN is split; importance is that of the
 * matrix's own row for each expert. */
#include "gguf/gguf_write.h"
#include "json_read.h"
#include "pack_files.h"
#include "quant/encode.h"
#include "store/requant.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

static char *model_path(const char *name)
{
    static char path[2][512];
    static unsigned turn;
    char rel[128];
    (void)snprintf(rel, sizeof rel, "tests/data/models/rand-%s.gguf", name);
    return (char *)(uintptr_t)tap_src(path[turn++ % 2], sizeof path[0], rel);
}

static bool quantise(const char *in, const char *out, uint32_t experts, uint32_t rest,
                     const char *imatrix, unsigned n_threads)
{
    const struct sm_requant_options o = {
        .experts = experts, .rest = rest, .imatrix_path = imatrix, .n_threads = n_threads};
    struct sm_requant *r;
    smol_error err = {0};
    (void)unlink(out);
    smol_status st = sm_requant_open(&r, in, &o, &err);
    if (st == SMOL_OK) st = sm_requant_write(r, out, &err);
    sm_requant_free(r);
    if (st != SMOL_OK) printf("# %s: %s\n", out, err.msg);
    return st == SMOL_OK;
}

static struct sm_gguf *open_gguf(const char *path)
{
    struct sm_gguf *g;
    smol_error err = {0};
    if (sm_gguf_open(&g, path, &err) != SMOL_OK) {
        printf("Bail out! %s\n", err.msg);
        exit(1);
    }
    return g;
}

/* ---- the stock quantiser's files ------------------------------------------------------------ */

static void against_stock(const char *source, const char *stock, uint32_t experts, uint32_t rest,
                          unsigned n_same_wanted)
{
    const char *out = temp_path("out.gguf");
    size_t n;
    unsigned n_same = 0, n_wrong = 0, n_other = 0;
    if (!TAP_OK(quantise(model_path(source), out, experts, rest, NULL, 2), "%s", source)) return;
    struct sm_gguf *a = open_gguf(model_path(stock)), *b = open_gguf(out);
    char *x = json_read_file(model_path(stock), &n), *y = json_read_file(out, &n);
    for (size_t i = 0; i < sm_gguf_n_tensors(b); i++) {
        const struct sm_tensor_info *u = sm_gguf_tensor(b, i);
        const struct sm_tensor_info *t = sm_gguf_find_tensor(a, u->name);
        if (!t || t->type != u->type) {
            n_other++; /* the stock mix gives it more bits, or fewer */
        } else if (t->bytes == u->bytes && !memcmp(x + t->at, y + u->at, (size_t)t->bytes)) {
            n_same++;
        } else {
            printf("# %s %s differs\n", u->name, sm_type_name(u->type));
            n_wrong++;
        }
    }
    TAP_OK(!n_wrong && n_same == n_same_wanted,
           "%s: %u tensors as in %s, %u differ, %u of another format", source, n_same, stock,
           n_wrong, n_other);
    free(x);
    free(y);
    sm_gguf_free(a);
    sm_gguf_free(b);
}

/* ---- the same bytes ------------------------------------------------------------------------- */

static void same_with_threads(const char *model, uint32_t experts, uint32_t rest)
{
    const char *one = temp_path("one.gguf"), *more = temp_path("more.gguf");
    if (!TAP_OK(quantise(model_path(model), one, experts, rest, NULL, 1), "%s, 1 thread", model))
        return;
    for (unsigned n = 2; n <= 3; n++)
        TAP_OK(quantise(model_path(model), more, experts, rest, NULL, n) && files_same(one, more),
               "%s: the same with %u threads", model, n);
    TAP_OK(access(temp_path("more.gguf.part"), F_OK) != 0, "no part is left");
}

static void same_when_split(const char *model)
{
    const char *a = temp_path("s-00001-of-00002.gguf"), *b = temp_path("s-00002-of-00002.gguf");
    const char *whole = temp_path("whole.gguf"), *split = temp_path("split.gguf");
    smol_error err = {0};
    file_split(model_path(model), temp_path("s"), 2);
    TAP_OK(quantise(model_path(model), whole, SM_Q3_K, SM_Q5_K, NULL, 2) &&
               quantise(b, split, SM_Q3_K, SM_Q5_K, NULL, 2) && files_same(whole, split),
           "%s: the same from two parts", model);
    const struct sm_requant_options o = {SM_Q3_K, SM_Q5_K, NULL, 1, NULL, NULL, NULL};
    struct sm_requant *r;
    TAP_OK(sm_requant_open(&r, a, &o, &err) == SMOL_OK && sm_requant_write(r, b, &err) == SMOL_ARG,
           "a part is not written over: %s", err.msg);
    sm_requant_free(r);
}

/* ---- importance ----------------------------------------------------------------------------- */

struct vectors {
    float sum[6 * 256], count[6];
};

static smol_status write_imatrix(const char *path, const char *const *name, const struct vectors *v,
                                 size_t n, smol_error *err)
{
    struct sm_gguf_writer *w;
    smol_status st;
    char full[64];
    static const struct sm_str set = {"book.txt", 8};
    SM_TRY(sm_gguf_writer_new(&w, err));
    SM_TRY_OUT(st, sm_gguf_writer_set_str(w, "general.type", "imatrix", err));
    SM_TRY_OUT(st, sm_gguf_writer_set_strings(w, "imatrix.datasets", &set, 1, err));
    SM_TRY_OUT(st, sm_gguf_writer_set_u32(w, "imatrix.chunk_count", 9, err));
    for (size_t i = 0; i < n; i++) {
        const uint64_t n_mat = strstr(name[i], "_exps") ? 6 : 1;
        (void)snprintf(full, sizeof full, "%s.in_sum2", name[i]);
        SM_TRY_OUT(st,
                   sm_gguf_writer_add_tensor(w, full, SM_F32, 2, (uint64_t[]){256, n_mat}, err));
        (void)snprintf(full, sizeof full, "%s.counts", name[i]);
        SM_TRY_OUT(st, sm_gguf_writer_add_tensor(w, full, SM_F32, 2, (uint64_t[]){1, n_mat}, err));
    }
    SM_TRY_OUT(st, sm_gguf_writer_create(w, path, err));
    for (size_t i = 0; i < n; i++) {
        const size_t n_mat = strstr(name[i], "_exps") ? 6 : 1;
        SM_TRY_OUT(st, sm_gguf_writer_put(w, v[i].sum, n_mat * 256 * sizeof(float), err));
        SM_TRY_OUT(st, sm_gguf_writer_put(w, v[i].count, n_mat * sizeof(float), err));
    }
    st = sm_gguf_writer_end(w, err);
out:
    sm_gguf_writer_free(w);
    return st;
}

/* Rows of the source encoded one by one, with the vector of their matrix or none. */
static bool tensor_is(const struct sm_tensor_info *t, const char *source,
                      const struct sm_tensor_info *u, const char *out, const struct vectors *v)
{
    const size_t row_bytes = (size_t)sm_row_bytes(u->type, t->dim[0]);
    uint8_t row[256 * 4];
    const size_t in_row = (size_t)sm_row_bytes(t->type, t->dim[0]);
    bool same = t->dim[0] == 256 && sm_traits_of(t->type)->block == 1;
    for (uint64_t m = 0; same && m < t->dim[2]; m++) {
        float importance[256];
        for (size_t i = 0; v && i < 256; i++)
            importance[i] = v->count[m] > 0 ? v->sum[256 * m + i] / v->count[m] : 1;
        for (uint64_t r = m * t->dim[1]; same && r < (m + 1) * t->dim[1]; r++) {
            float x[256];
            sm_decode_row(t->type, source + t->at + r * in_row, x, 256);
            sm_encode_row(u->type, x, 256, v ? importance : NULL, row);
            same = !memcmp(row, out + u->at + r * row_bytes, row_bytes);
        }
    }
    return same;
}

static void check_keys(const struct sm_gguf *g, const char *imatrix)
{
    struct sm_str file = {0}, set = {0};
    uint64_t n_entries = 0, n_chunks = 0, version = 0, type = 0;
    const bool read =
        !sm_gguf_str(g, "quantize.imatrix.file", &file, NULL, NULL) &&
        !sm_gguf_str(g, "quantize.imatrix.dataset", &set, NULL, NULL) &&
        !sm_gguf_u64(g, "quantize.imatrix.entries_count", 0, 99, &n_entries, NULL, NULL) &&
        !sm_gguf_u64(g, "quantize.imatrix.chunks_count", 0, 99, &n_chunks, NULL, NULL) &&
        !sm_gguf_u64(g, "general.quantization_version", 0, 99, &version, NULL, NULL) &&
        !sm_gguf_u64(g, "general.file_type", 0, 99, &type, NULL, NULL);
    TAP_OK(read && file.n == strlen(imatrix) && !memcmp(file.p, imatrix, file.n) && set.n == 8 &&
               !memcmp(set.p, "book.txt", 8) && n_entries == 2 && n_chunks == 9 && version == 2 &&
               type == 10,
           "keys of the importance matrix and of the formats");
}

static void test_importance(void)
{
    static const char *const names[] = {"blk.1.ffn_up_exps.weight", "blk.0.attn_qkv.weight"};
    static struct vectors v[2];
    const char *imatrix = temp_path("imatrix.gguf"), *out = temp_path("imp.gguf");
    const char *plain = temp_path("plain.gguf"), *in = model_path("bailingmoe2-k256");
    size_t n;
    smol_error err = {0};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < 6 * 256; i++) v[k].sum[i] = tap_random_float(0, 9);
        for (size_t m = 0; m < 6; m++) v[k].count[m] = m == 2 ? 0 : 3 + (float)m;
    }
    if (!TAP_OK(write_imatrix(imatrix, names, v, 2, &err) == SMOL_OK, "a matrix %s", err.msg) ||
        !TAP_OK(quantise(in, out, SM_Q2_K, SM_Q4_K, imatrix, 2) &&
                    quantise(in, plain, SM_Q2_K, SM_Q4_K, NULL, 2),
                "with it and without"))
        return;
    struct sm_gguf *g = open_gguf(in), *h = open_gguf(out);
    char *a = json_read_file(in, &n), *b = json_read_file(out, &n);
    static const char *const looked_at[] = {"blk.1.ffn_up_exps.weight", "blk.0.attn_qkv.weight",
                                            "blk.1.ffn_gate_exps.weight", "output.weight"};
    for (size_t i = 0; i < 4; i++) {
        const struct sm_tensor_info *t = sm_gguf_find_tensor(g, looked_at[i]);
        const struct sm_tensor_info *u = sm_gguf_find_tensor(h, looked_at[i]);
        TAP_OK(t && u && tensor_is(t, a, u, b, i < 2 ? &v[i] : NULL) &&
                   (i > 1 || !tensor_is(t, a, u, b, NULL)),
               "%s %s importance", looked_at[i], i < 2 ? "with its own" : "without");
    }
    check_keys(h, imatrix);
    sm_gguf_free(g);
    sm_gguf_free(h);
    free(a);
    free(b);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    against_stock("bailingmoe2-k256", "bailingmoe2-k256-q2_k", SM_Q2_K, SM_Q4_K, 23);
    against_stock("bailingmoe3-k256", "bailingmoe3-k256-q2_k", SM_Q2_K, SM_Q4_K, 35);
    against_stock("qwen3-k256", "qwen3-k256-q4_k_m", SM_MIX_KEEP, SM_Q4_K, 22);
    against_stock("qwen3-k256", "qwen3-k256-q8_0", SM_MIX_KEEP, SM_Q8_0, 24);
    same_with_threads("bailingmoe2-k256", SM_Q2_K, SM_Q4_K);
    same_with_threads("qwen35moe", SM_Q4_0, SM_F16);
    same_when_split("bailingmoe2-k256");
    test_importance();
    return tap_done();
}
