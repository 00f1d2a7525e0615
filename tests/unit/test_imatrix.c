/* SPDX-License-Identifier: MIT */
/* Importance matrices: values, shapes held against a model, what is refused and how. */
#include "gguf/imatrix.h"
#include "gguf_bytes.h"
#include "quant/quant.h"
#include "tap.h"

static struct gguf_bytes file, model_file;
static struct sm_gguf *model;

/* A file of one entry: sums [n_in, n_mat] that are 1, 2, 3, ..., counts [1, n_mat] as given. */
static void make(const char *weight, uint64_t n_in, uint64_t n_mat, const float *counts)
{
    char name[64];
    gb_head(&file, 3, 2, 3);
    gb_kv_str(&file, "general.type", "imatrix");
    gb_kv_u32(&file, "imatrix.chunk_count", 12);
    gb_key(&file, "imatrix.datasets", SM_KV_ARRAY);
    gb_u32(&file, SM_KV_STRING);
    gb_u64(&file, 2);
    gb_str(&file, "book.txt");
    gb_str(&file, "code.txt");
    (void)snprintf(name, sizeof name, "%s.in_sum2", weight);
    gb_tensor(&file, name, 2, (uint64_t[]){n_in, n_mat}, SM_F32, 0);
    (void)snprintf(name, sizeof name, "%s.counts", weight);
    gb_tensor(&file, name, 2, (uint64_t[]){1, n_mat}, SM_F32, (n_in * n_mat * 4 + 31) / 32 * 32);
    gb_pad(&file, 32);
    for (uint64_t i = 0; i < n_in * n_mat; i++) gb_f32(&file, (float)(i + 1));
    gb_pad(&file, 32);
    for (uint64_t i = 0; i < n_mat; i++) gb_f32(&file, counts[i]);
    gb_pad(&file, 32);
}

static void make_model(void)
{
    gb_head(&model_file, 3, 3, 1);
    gb_kv_str(&model_file, "general.architecture", "llama");
    gb_tensor(&model_file, "blk.0.attn_q.weight", 2, (uint64_t[]){8, 4}, SM_F32, 0);
    gb_tensor(&model_file, "blk.0.ffn_up_exps.weight", 3, (uint64_t[]){8, 2, 3}, SM_F32, 128);
    gb_tensor(&model_file, "blk.0.attn_k_b.weight", 3, (uint64_t[]){8, 2, 3}, SM_F32, 320);
    gb_pad(&model_file, 32);
    gb_zeros(&model_file, 512);
    TAP_OK(!sm_gguf_parse(&model, model_file.p, model_file.n, model_file.n, NULL), "a model");
}

static void test_values(void)
{
    struct sm_imatrix *im;
    struct sm_imatrix_entry e;
    smol_error err = {0};
    uint32_t n_chunks = 0, n_other = 9;
    struct sm_str set = {0};
    float v[8];
    make("blk.0.ffn_up_exps.weight", 8, 3, (float[]){3, 0, 7});
    if (!TAP_OK(!sm_imatrix_parse(&im, file.p, file.n, &err), "read %s", err.msg)) return;
    TAP_OK(sm_imatrix_n_entries(im) == 1 && sm_imatrix_n_chunks(im, &n_chunks) && n_chunks == 12 &&
               sm_imatrix_dataset(im, &set) && set.n == 8 && !memcmp(set.p, "book.txt", 8),
           "entries, chunks, the first data set");
    TAP_OK(
        sm_imatrix_find(im, "blk.0.ffn_up_exps.weight", &e) && e.n_in == 8 && e.n_mat == 3 &&
            !sm_imatrix_find(im, "blk.0.ffn_up_exps", &e) && !sm_imatrix_find(im, "", &e) &&
            !sm_imatrix_find(im, "a name that is too long to be that of a tensor with a tail", &e),
        "found by its weight");
    (void)sm_imatrix_find(im, "blk.0.ffn_up_exps.weight", &e);
    unsigned n_wrong = 0;
    for (uint64_t m = 0; m < 3; m++) {
        n_wrong += sm_imatrix_row(im, &e, m, v, &err) != SMOL_OK;
        for (unsigned i = 0; i < 8; i++) {
            const float sum = (float)(8 * m + i + 1);
            n_wrong += v[i] != (m == 1 ? 1.0f : sum / (m ? 7.0f : 3.0f));
        }
    }
    TAP_IS_INT(n_wrong, 0, "sum by count, ones for an expert that was never used");
    TAP_OK(!sm_imatrix_check(im, model, &n_other, &err) && n_other == 0, "of the model %s",
           err.msg);
    sm_imatrix_free(im);
}

/* OK, or the sentence that says why not. */
static const char *against_model(const char *weight, uint64_t n_in, uint64_t n_mat, float count)
{
    static smol_error err;
    struct sm_imatrix *im;
    uint32_t n_other = 0;
    err = (smol_error){0};
    make(weight, n_in, n_mat, (float[]){count, count, count, count});
    smol_status st = sm_imatrix_parse(&im, file.p, file.n, &err);
    if (st == SMOL_OK) st = sm_imatrix_check(im, model, &n_other, &err);
    sm_imatrix_free(im);
    if (st != SMOL_OK && (st != SMOL_FORMAT || !gb_is_sentence(&err))) return "no sentence";
    return st == SMOL_OK ? "OK" : err.msg;
}

static void test_shapes(void)
{
    static const struct {
        const char *weight;
        unsigned n_in, n_mat;
        bool good;
    } shapes[] = {
        {"blk.0.attn_q.weight", 8, 1, true},        {"blk.0.attn_q.weight", 4, 1, false},
        {"blk.0.attn_q.weight", 8, 2, false},       {"blk.0.ffn_up_exps.weight", 8, 1, false},
        {"blk.0.ffn_up_exps.weight", 8, 3, true},   {"blk.0.ffn_up_exps.weight", 8, 4, false},
        {"blk.0.ffn_up_exps.weight", 16, 3, false}, {"blk.0.attn_k_b.weight", 8, 1, true},
        {"blk.0.attn_k_b.weight", 8, 3, true},      {"blk.0.attn_k_b.weight", 8, 2, false},
        {"blk.1.attn_q.weight", 8, 1, false}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const char *said = against_model(shapes[i].weight, shapes[i].n_in, shapes[i].n_mat, 2);
        TAP_OK(shapes[i].good ? !strcmp(said, "OK") : !!strstr(said, "another model"),
               "%s %u x %u: %s", shapes[i].weight, shapes[i].n_in, shapes[i].n_mat, said);
    }
}

static void test_numbers(void)
{
    static const float bad[] = {-1, NAN, INFINITY, 1e-44f};
    TAP_IS_STR(against_model("blk.0.attn_q.weight", 8, 1, 0), "OK", "a count of 0");
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *said = against_model("blk.0.attn_q.weight", 8, 1, bad[i]);
        TAP_OK(strstr(said, "blk.0.attn_q.weight"), "a count of %g: %s", (double)bad[i], said);
    }
}

static void refused(const char *part)
{
    struct sm_imatrix *im;
    smol_error err = {0};
    const smol_status st = sm_imatrix_parse(&im, file.p, file.n, &err);
    TAP_OK(st == SMOL_FORMAT && !im && gb_is_sentence(&err) && strstr(err.msg, part), "%s",
           err.msg);
}

static void test_files(void)
{
    smol_error err = {0};
    struct sm_imatrix *im;
    gb_head(&file, 3, 0, 0);
    refused("no importance matrix");
    gb_head(&file, 3, 0, 1);
    gb_kv_str(&file, "general.type", "model");
    refused("no importance matrix");
    gb_head(&file, 3, 0, 1);
    gb_kv_str(&file, "general.type", "imatrix");
    refused("is empty");
    gb_head(&file, 3, 1, 1);
    gb_kv_str(&file, "general.type", "imatrix");
    gb_tensor1(&file, "a.weight.in_sum2", 4, SM_F32, 0);
    gb_pad(&file, 32);
    gb_zeros(&file, 32);
    refused("a.weight has sums but no counts");
    TAP_OK(sm_imatrix_open(&im, "/nowhere/imatrix.gguf", &err) == SMOL_IO && !im, "%s", err.msg);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    make_model();
    test_values();
    test_shapes();
    test_numbers();
    test_files();
    sm_gguf_free(model);
    gb_free(&file);
    gb_free(&model_file);
    return tap_done();
}
