/* SPDX-License-Identifier: MIT */
/* Quantising on a disk that fails: reads (the first 40, then every 61st), writes that find the disk
 * full at any point, being stopped at any batch, weights that are no numbers. A sentence each time,
 * and nothing is left. */
#include "base/mem.h"
#include "gguf_bytes.h"
#include "inject.h"
#include "json_read.h"
#include "pack_files.h"
#include "store/requant.h"
#include "tap.h"
#include "temp.h"

#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#define MODEL "tests/data/models/rand-bailingmoe2-k256.gguf"

static char source[512], matrix[512], small[512];

static smol_status quantise(const char *in, const char *imatrix, const struct sm_requant_options *o,
                            smol_error *err)
{
    struct sm_requant_options all = o ? *o : (struct sm_requant_options){.n_threads = 1};
    struct sm_requant *r;
    all.experts = SM_Q4_0;
    all.rest = SM_Q5_0;
    all.imatrix_path = imatrix;
    (void)unlink(temp_path("out.gguf"));
    smol_status st = sm_requant_open(&r, in, &all, err);
    if (st == SMOL_OK) st = sm_requant_write(r, temp_path("out.gguf"), err);
    sm_requant_free(r);
    return st;
}

static bool nothing_is_left(void)
{
    return access(temp_path("out.gguf"), F_OK) != 0 &&
           access(temp_path("out.gguf.part"), F_OK) != 0;
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void test_reads(const char *in, const char *imatrix, unsigned n_at_least)
{
    static const struct {
        enum inject_kind kind;
        bool harmless;
        const char *name;
    } faults[] = {{INJECT_EIO, false, "EIO"},
                  {INJECT_END, false, "end"},
                  {INJECT_SHORT, true, "short"},
                  {INJECT_EINTR, true, "EINTR"}};
    for (size_t k = 0; k < sizeof faults / sizeof *faults; k++) {
        unsigned n_wrong = 0, n = 1;
        const size_t held = sm_mem_held();
        for (; n < 5000; n += n < 40 ? 1 : 61) {
            smol_error err = {0};
            inject_start();
            const unsigned rule = inject_add(&(struct inject_rule){
                .kind = faults[k].kind, .on = INJECT_READ, .first = n, .amount = 7});
            const smol_status st = quantise(in, imatrix, NULL, &err);
            const bool fired = inject_fired(rule) > 0;
            inject_stop();
            const bool good =
                st == SMOL_OK ? faults[k].harmless || !fired
                              : !faults[k].harmless && gb_is_sentence(&err) && nothing_is_left();
            n_wrong += !good;
            if (!good) printf("# read %u: status %d %s\n", n, (int)st, err.msg);
            if (!fired) break;
        }
        TAP_OK(n >= n_at_least && n_wrong == 0, "%s at one of %u reads", faults[k].name, n - 1);
        TAP_IS_INT(sm_mem_held(), held, "nothing held");
    }
}

/* ---- writes ---------------------------------------------------------------------------------- */

static void test_full_disk(void)
{
    struct rlimit before, limit;
    smol_error err = {0};
    unsigned n = 0, n_wrong = 0;
    (void)signal(SIGXFSZ, SIG_IGN);
    TAP_OK(quantise(source, NULL, NULL, &err) == SMOL_OK, "without a limit %s", err.msg);
    const uint64_t size = file_bytes(temp_path("out.gguf"));
    (void)getrlimit(RLIMIT_FSIZE, &before);
    limit = before;
    for (uint64_t at = 0; at < size; at += size / 23 + 1, n++) {
        smol_error full = {0};
        limit.rlim_cur = at;
        (void)setrlimit(RLIMIT_FSIZE, &limit);
        const smol_status st = quantise(source, NULL, NULL, &full);
        (void)setrlimit(RLIMIT_FSIZE, &before);
        const bool good = st == SMOL_IO && gb_is_sentence(&full) && strstr(full.msg, "write") &&
                          nothing_is_left();
        n_wrong += !good;
        if (!good) printf("# full at %u: %d %s\n", (unsigned)at, (int)st, full.msg);
    }
    TAP_OK(n > 15 && !n_wrong, "full at %u points", n);
    limit.rlim_cur = size;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
    TAP_OK(quantise(source, NULL, NULL, &err) == SMOL_OK, "with just enough room %s", err.msg);
    (void)setrlimit(RLIMIT_FSIZE, &before);
}

/* ---- being stopped --------------------------------------------------------------------------- */

static volatile bool stop;
static unsigned n_calls, stop_at;

static void count_calls(void *arg, const char *what, uint64_t done, uint64_t total)
{
    (void)arg;
    if (!what[0] || done > total) abort();
    if (++n_calls == stop_at) stop = true;
}

static void test_cancel(void)
{
    struct sm_requant_options o = {.n_threads = 2, .progress = count_calls, .cancel = &stop};
    unsigned n_wrong = 0, n = 1;
    for (;; n++) {
        smol_error err = {0};
        stop = false;
        n_calls = 0;
        stop_at = n;
        const smol_status st = quantise(source, NULL, &o, &err);
        if (n_calls < n) {
            TAP_OK(st == SMOL_OK, "not stopped %s", err.msg);
            break;
        }
        n_wrong += st != SMOL_CANCELLED || !nothing_is_left();
    }
    TAP_OK(n > 2 && !n_wrong, "stopped after each of %u batches", n - 1);
}

/* ---- weights that are none ------------------------------------------------------------------- */

/* Two rows of one tensor, the second with x in it. */
static const char *odd_model(float x)
{
    struct gguf_bytes b = {0};
    gb_head(&b, 3, 1, 1);
    gb_kv_str(&b, "general.architecture", "llama");
    gb_tensor(&b, "blk.0.attn_q.weight", 2, (uint64_t[]){32, 2}, SM_F32, 0);
    gb_pad(&b, 32);
    for (unsigned i = 0; i < 64; i++) gb_f32(&b, i == 40 ? x : 1);
    const char *path = temp_write("odd.gguf", b.p, b.n);
    gb_free(&b);
    return path;
}

/* NVFP4 has a known size, but nobody here knows what its bits mean. */
static void test_no_decoder(void)
{
    struct gguf_bytes b = {0};
    smol_error err = {0};
    gb_head(&b, 3, 1, 1);
    gb_kv_str(&b, "general.architecture", "llama");
    gb_tensor(&b, "blk.0.attn_q.weight", 2, (uint64_t[]){64, 2}, SM_NVFP4, 0);
    gb_pad(&b, 32);
    gb_zeros(&b, 72);
    const char *path = temp_write("odd.gguf", b.p, b.n);
    gb_free(&b);
    const struct sm_requant_options o = {.experts = SM_Q2_K, .rest = SM_F16, .n_threads = 1};
    struct sm_requant *r;
    TAP_OK(sm_requant_open(&r, path, &o, &err) == SMOL_UNSUPPORTED && !r &&
               strstr(err.msg, "is NVFP4, which cannot be decoded"),
           "%s", err.msg);
}

static void test_weights(void)
{
    smol_error good = {0}, nan = {0}, inf = {0}, large = {0};
    TAP_OK(quantise(odd_model(2), NULL, NULL, &good) == SMOL_OK, "a small model %s", good.msg);
    TAP_OK(quantise(odd_model(NAN), NULL, NULL, &nan) == SMOL_FORMAT && nothing_is_left() &&
               strstr(nan.msg, "attn_q.weight: row 1"),
           "%s", nan.msg);
    TAP_OK(quantise(odd_model(INFINITY), NULL, NULL, &inf) == SMOL_FORMAT && nothing_is_left(),
           "%s", inf.msg);
    TAP_OK(quantise(odd_model(1e30f), NULL, NULL, &large) == SMOL_UNSUPPORTED &&
               nothing_is_left() && strstr(large.msg, "too large for Q5_0"),
           "%s", large.msg);
}

int main(int argc, char **argv)
{
    char in[512], part[600];
    tap_init(argc, argv);
    temp_prefer_memory(16);
    (void)tap_src(source, sizeof source, MODEL);
    (void)tap_src(small, sizeof small, "tests/data/models/rand-qwen3moe.gguf");
    (void)tap_src(matrix, sizeof matrix, "tests/data/imatrix/good.gguf");
    file_split(tap_src(in, sizeof in, "tests/data/models/rand-llama3.gguf"), temp_path("s"), 2);
    (void)snprintf(part, sizeof part, "%s", temp_path("s-00001-of-00002.gguf"));
    test_reads(part, NULL, 12);
    test_reads(small, matrix, 200);
    test_full_disk();
    test_cancel();
    test_weights();
    test_no_decoder();
    return tap_done();
}
