/* SPDX-License-Identifier: MIT */
/* Importance matrices: the file is the same whatever the threads, the waves, the pools, the kernels
 * and the memory, also when gate and up of experts are one tensor; what is written is read back,
 * and its parts fit each other. test_calibrate_sums.c has the values. */
#include "base/hash.h"
#include "gguf/gguf_write.h"
#include "model_run.h"
#include "tap.h"
#include "temp.h"
#include "util_calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHUNK 150 /* more than an ffn takes at once, and enough that workers share a sum */
#define N_CHUNKS 2
#define FEW 12 /* so that some experts see no token */

static int32_t tokens[N_CHUNKS * CHUNK];

/* ---- bits ------------------------------------------------------------------------------------ */

static uint64_t hash_of(const char *path)
{
    static uint8_t bytes[1 << 22];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f) (void)fclose(f);
    return n ? sm_hash64(bytes, n, 0) : 0;
}

struct way { const char *cpu; unsigned threads, chunk, pool; bool least_memory; };

static void check_bits(const char *relative, unsigned pool)
{
    const struct way ways[] = {{"ref", 1, 0, 0, false}, {NULL, 3, 0, 0, false},
                               {NULL, 2, 5, pool, false}, {NULL, 1, 1, pool, false},
                               {NULL, 2, 7, 0, true}};
    char model[512], path[512];
    uint64_t want = 0;
    (void)snprintf(path, sizeof path, "%s", temp_path("bits.gguf"));
    source_path(model, sizeof model, relative);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        smol_calibration info;
        smol_error err = {0};
        smol_params p;
        smol_params_default(&p);
        p.cpu = ways[i].cpu;
        p.threads = ways[i].threads;
        p.chunk = ways[i].chunk;
        p.pool = ways[i].pool;
        if (ways[i].least_memory) { /* dense weights are streamed, too */
            smol_plan plan;
            p.calibrate = true;
            p.ctx = 256;
            if (smol_plan_file(model, &p, &plan, &err) == SMOL_OK)
                p.memory_bytes = plan.needed_bytes;
        }
        const smol_status st =
            calibrate_model(model, &p, tokens, N_CHUNKS * CHUNK, CHUNK, path, &info, &err);
        const uint64_t have = hash_of(path);
        if (i == 0) want = have;
        TAP_OK(st == SMOL_OK && have && have == want,
               "%s: %s, %u threads, waves of %u, pools of %u%s: the same bits %s", relative,
               p.cpu ? p.cpu : "best", p.threads, p.chunk, p.pool,
               p.memory_bytes ? ", least memory" : "", err.msg);
    }
}

/* ---- gate and up in one tensor --------------------------------------------------------------- */

/* Declare (put false) or write every tensor of g, all F32, with gate and up of experts joined. */
static smol_status join_tensors(struct sm_gguf_writer *w, const struct sm_gguf *g, bool put,
                                smol_error *err)
{
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        const bool gate = strstr(t->name, "ffn_gate_exps") != NULL;
        uint64_t dim[4] = {t->dim[0], gate ? 2 * t->dim[1] : t->dim[1], t->dim[2], t->dim[3]};
        char name[64], up_name[64];
        size_t n;
        if (strstr(t->name, "ffn_up_exps")) continue;
        (void)snprintf(name, sizeof name, "%s", t->name);
        (void)snprintf(up_name, sizeof up_name, "%.6sffn_up_exps.weight", t->name);
        if (gate) (void)snprintf(name, sizeof name, "%.6sffn_gate_up_exps.weight", t->name);
        if (!put) {
            SM_TRY(sm_gguf_writer_add_tensor(w, name, t->type, t->n_dims, dim, err));
            continue;
        }
        float *v = floats_of(g, t->name, &n), *up = gate ? floats_of(g, up_name, &n) : NULL;
        const size_t n_mat = gate ? (size_t)t->dim[2] : 1, each = n / n_mat * sizeof *v;
        smol_status st = v && (up || !gate) ? SMOL_OK : SMOL_IO;
        for (size_t e = 0; st == SMOL_OK && e < n_mat; e++) {
            st = sm_gguf_writer_put(w, v + e * (n / n_mat), each, err);
            if (st == SMOL_OK && up) st = sm_gguf_writer_put(w, up + e * (n / n_mat), each, err);
        }
        free(v);
        free(up);
        SM_TRY(st);
    }
    return SMOL_OK;
}

static smol_status join(const char *from, const char *to, smol_error *err)
{
    struct sm_gguf_writer *w = NULL;
    struct sm_gguf *g = NULL;
    smol_status st;
    SM_TRY_OUT(st, sm_gguf_open(&g, from, err));
    SM_TRY_OUT(st, sm_gguf_writer_new(&w, err));
    SM_TRY_OUT(st, sm_gguf_writer_copy_kv(w, g, err));
    SM_TRY_OUT(st, join_tensors(w, g, false, err));
    SM_TRY_OUT(st, sm_gguf_writer_create(w, to, err));
    SM_TRY_OUT(st, join_tensors(w, g, true, err));
    st = sm_gguf_writer_end(w, err);
out:
    sm_gguf_writer_free(w);
    sm_gguf_free(g);
    return st;
}

/* The joint tensor has the sums of gate, to the bit, and everything else is as it was. */
static void check_joined(void)
{
    static const char *const names[] = {"ffn_gate_exps", "ffn_gate_up_exps", "ffn_down_exps",
                                        "ffn_down_exps"};
    char from[512], to[512], path[2][512];
    struct sm_gguf *made[2] = {NULL, NULL};
    smol_calibration info[2];
    smol_error err = {0};
    smol_params p;
    smol_params_default(&p);
    p.pool = 6;
    source_path(from, sizeof from, "tests/data/models/rand-qwen3moe.gguf");
    (void)snprintf(to, sizeof to, "%s", temp_path("joined.gguf"));
    smol_status st = join(from, to, &err);
    for (int i = 0; i < 2 && st == SMOL_OK; i++) {
        (void)snprintf(path[i], sizeof path[i], "%s", temp_path(i ? "j.gguf" : "s.gguf"));
        st = calibrate_model(i ? to : from, &p, tokens, 60, 60, path[i], &info[i], &err);
        if (st == SMOL_OK) st = sm_gguf_open(&made[i], path[i], &err);
    }
    TAP_OK(st == SMOL_OK && info[1].matrices == info[0].matrices - 3,
           "gate and up in one tensor: %s", err.msg);
    for (int i = 0; i < 4 && st == SMOL_OK; i += 2) {
        size_t n[2] = {0, 0};
        float *v[2];
        for (int k = 0; k < 2; k++) {
            char name[96];
            (void)snprintf(name, sizeof name, "blk.2.%s.weight.in_sum2", names[i + k]);
            v[k] = floats_of(made[k], name, &n[k]);
        }
        TAP_OK(v[0] && v[1] && n[0] == n[1] && !memcmp(v[0], v[1], n[0] * sizeof(float)),
               "%s as %s: the same bits", names[i + 1], names[i]);
        free(v[0]);
        free(v[1]);
    }
    for (int i = 0; i < 2; i++) sm_gguf_free(made[i]);
}

/* ---- the file -------------------------------------------------------------------------------- */

static bool key_is(const struct sm_gguf *g, const char *key, uint64_t want)
{
    uint64_t v = 0;
    smol_error err = {0};
    return sm_gguf_u64(g, key, 0, UINT32_MAX, &v, NULL, &err) == SMOL_OK && v == want;
}

/* Counts of one layer's experts add up to the uses, their sums to those of the router. */
static void check_layer(const struct sm_gguf *g, unsigned layer, unsigned n_used, size_t n_tok,
                        uint64_t *unseen)
{
    char name[96];
    size_t n = 0, n_counts = 0, n_all = 0, n_up = 0;
    double uses = 0, worst = 0;
    (void)snprintf(name, sizeof name, "blk.%u.ffn_gate_exps.weight.in_sum2", layer);
    float *x = floats_of(g, name, &n_all);
    (void)snprintf(name, sizeof name, "blk.%u.ffn_up_exps.weight.in_sum2", layer);
    float *up = floats_of(g, name, &n_up);
    (void)snprintf(name, sizeof name, "blk.%u.ffn_down_exps.weight.counts", layer);
    float *counts = floats_of(g, name, &n_counts);
    (void)snprintf(name, sizeof name, "blk.%u.ffn_gate_inp.weight.in_sum2", layer);
    float *router = floats_of(g, name, &n);
    const bool there = x && up && counts && router && n_all == n * n_counts && n_up == n_all;
    for (size_t e = 0; there && e < n_counts; e++) {
        uses += (double)counts[e];
        *unseen += counts[e] < 1;
    }
    for (size_t c = 0; there && c < n; c++) {
        double sum = 0;
        for (size_t e = 0; e < n_counts; e++) sum += (double)x[e * n + c];
        worst = tap_worse(worst, fabs(sum / ((double)router[c] * n_used) - 1));
    }
    TAP_OK(there && uses == (double)(n_used * n_tok) && worst < 1e-5 &&
               !memcmp(x, up, n_all * sizeof *x),
           "layer %u: %.0f uses by experts, their sums %.1e from the router's, gate as up", layer,
           uses, worst);
    free(x);
    free(up);
    free(counts);
    free(router);
}

static void check_file(void)
{
    char model[512], path[512];
    struct sm_gguf *g = NULL;
    struct sm_str type = {0};
    smol_calibration info;
    smol_error err;
    smol_params p;
    uint64_t unseen = 0;
    smol_params_default(&p);
    source_path(model, sizeof model, "models/tiny-moe.gguf");
    (void)snprintf(path, sizeof path, "%s", temp_path("file.gguf"));
    if (calibrate_model(model, &p, tokens, N_CHUNKS * FEW, FEW, path, &info, &err) != SMOL_OK ||
        sm_gguf_open(&g, path, &err) != SMOL_OK) {
        TAP_OK(false, "written and read back: %s", err.msg);
        return;
    }
    TAP_OK(sm_gguf_str(g, "general.type", &type, NULL, &err) == SMOL_OK && type.n == 7 &&
               !memcmp(type.p, "imatrix", 7) && key_is(g, "imatrix.chunk_count", N_CHUNKS) &&
               key_is(g, "imatrix.chunk_size", FEW) && sm_gguf_find(g, "imatrix.datasets"),
           "the keys say what was read");
    TAP_OK(sm_gguf_n_tensors(g) == 2u * info.matrices && info.tokens == N_CHUNKS * FEW,
           "%u matrices, two tensors each: %zu", info.matrices, sm_gguf_n_tensors(g));
    for (unsigned layer = 1; layer < 6; layer++)
        check_layer(g, layer, 4, N_CHUNKS * FEW, &unseen);
    TAP_OK(info.experts == 160 && unseen && unseen == info.unseen,
           "%llu of %llu experts saw no token", (unsigned long long)info.unseen,
           (unsigned long long)info.experts);
    TAP_OK(!sm_gguf_find_tensor(g, "output.weight.counts") &&
               !sm_gguf_find_tensor(g, "token_embd.weight.counts"),
           "head and embedding are left out");
    sm_gguf_free(g);
}

/* ---- wrong use ------------------------------------------------------------------------------- */

static void check_wrong_use(void)
{
    char model[512];
    smol_model *m = NULL;
    smol_session *s = NULL;
    smol_error err = {0};
    smol_params p;
    volatile bool stop = false;
    const int32_t bad[1] = {1 << 24};
    const char *path = temp_path("never.gguf");
    smol_params_default(&p);
    source_path(model, sizeof model, "tests/data/models/rand-qwen3.gguf");
    p.ctx = CHUNK;
    if (smol_model_open(&m, model, &p, &err) == SMOL_OK &&
        smol_session_new(&s, m, &err) == SMOL_OK)
        TAP_OK(smol_calibrate(s, tokens, 8, &err) == SMOL_ARG, "not opened for it: %s", err.msg);
    else TAP_OK(false, "opens: %s", err.msg);
    smol_session_free(s);
    smol_model_free(m);
    s = NULL;
    p.calibrate = true;
    p.cancel = &stop;
    err = (smol_error){0};
    if (smol_model_open(&m, model, &p, &err) != SMOL_OK ||
        smol_session_new(&s, m, &err) != SMOL_OK) {
        TAP_OK(false, "opens: %s", err.msg);
        return;
    }
    TAP_OK(smol_calibration_write(m, path, "x", 1, NULL) == SMOL_ARG && access(path, F_OK) != 0,
           "nothing read, nothing written");
    TAP_OK(smol_calibrate(s, bad, 1, NULL) == SMOL_ARG, "a token that is none");
    TAP_OK(smol_calibrate(s, tokens, CHUNK + 1, NULL) == SMOL_LIMIT, "more than the context");
    stop = true;
    TAP_OK(smol_calibrate(s, tokens, CHUNK, NULL) == SMOL_CANCELLED, "stopped");
    stop = false;
    TAP_OK(smol_calibrate(s, tokens, CHUNK, NULL) == SMOL_OK && smol_session_length(s) == 0,
           "the session is empty afterwards");
    TAP_OK(smol_calibration_write(m, "/nowhere/x", "x", 1, NULL) == SMOL_IO, "no such folder");
    smol_session_free(s);
    smol_model_free(m);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    temp_prefer_memory(8);
    for (size_t i = 0; i < N_CHUNKS * CHUNK; i++)
        tokens[i] = (int32_t)(tap_random_below(200) + 20);
    check_bits("tests/data/models/rand-qwen3-k256-q4_k_m.gguf", 0);
    check_bits("tests/data/models/rand-bailingmoe2-k256-q2_k.gguf", 5);
    check_bits("tests/data/models/rand-bailingmoe3.gguf", 5);
    check_bits("tests/data/models/rand-deepseek2.gguf", 5);
    check_bits("tests/data/models/rand-deepseek2-lite.gguf", 3);
    check_bits("tests/data/models/rand-gpt-oss.gguf", 5);
    check_bits("tests/data/models/rand-lfm2moe.gguf", 5);
    check_bits("tests/data/models/rand-qwen35moe.gguf", 5);
    check_joined();
    check_file();
    check_wrong_use();
    return tap_done();
}
