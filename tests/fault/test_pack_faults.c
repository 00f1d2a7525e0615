/* SPDX-License-Identifier: MIT */
/* Damage: a bit flipped anywhere in a pack is either harmless or named; every read that fails while
 * packing, unpacking, loading and using is a sentence. */
#include "inject.h"
#include "disk_log.h"
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

#define MODEL "tests/data/models/rand-bailingmoe2-k256-q2_k.gguf"

static smol_error err;
static char source[512], pack[600], back[600], bad[600];
static const int32_t tokens[] = {1, 17, 42, 99, 250, 3, 8, 120};
#define N_TOKENS (sizeof tokens / sizeof *tokens)

static float *logits(const char *path, unsigned pool, bool verify, size_t *n)
{
    smol_params p;
    smol_params_default(&p);
    p.ctx = 32;
    p.threads = 1;
    p.pool = pool;
    p.verify = verify;
    return model_logits(path, &p, tokens, N_TOKENS, n, &err);
}

static void flip(uint64_t at, unsigned bit)
{
    FILE *f = fopen(bad, "r+b");
    if (!f || fseek(f, (long)at, SEEK_SET)) abort();
    const int c = fgetc(f);
    if (fseek(f, (long)at, SEEK_SET) || fputc(c ^ (int)(1u << bit), f) == EOF || fclose(f)) abort();
}

/* Bytes that some unit covers, or the header. */
static uint8_t *covered_bytes(uint64_t n)
{
    struct sm_gguf *g;
    uint8_t *c = calloc(1, (size_t)n);
    if (!c || sm_gguf_open(&g, pack, &err) != SMOL_OK) abort();
    const struct sm_pack *p = sm_gguf_pack(g);
    memset(c, 1, (size_t)p->head_bytes);
    for (size_t i = 0; i < p->n_tensors; i++)
        for (uint32_t m = 0; m < p->place[i].n_mat; m++)
            memset(c + p->place[i].at + m * p->place[i].stride, 2,
                   (size_t)sm_place_bytes(&p->place[i], p->place[i].n_rows));
    for (size_t i = 0; i < p->n_raw; i++) memset(c + p->raw[i].at, 3, (size_t)p->raw[i].bytes);
    sm_gguf_free(g);
    return c;
}

static bool names_place(const char *msg, uint8_t kind)
{
    if (kind == 2) return strstr(msg, "tensor ") && strstr(msg, "checksum");
    return kind == 1 || strstr(msg, "beside tensors");
}

static void flips(unsigned n)
{
    const uint64_t bytes = file_bytes(pack);
    uint8_t *covered = covered_bytes(bytes);
    size_t n_want = 0, n_have = 0;
    unsigned wrong = 0, seen = 0, harmless = 0;
    float *want = logits(pack, 0, false, &n_want);
    for (unsigned i = 0; i < n; i++) {
        const uint64_t at = i < 100 ? i : tap_random_below(bytes);
        file_copy(pack, bad);
        flip(at, (unsigned)tap_random_below(8));
        (void)unlink(back);
        const smol_status st = unpack_file(bad, back, &err);
        if (covered[at]) {
            seen++;
            if (st == SMOL_OK || (st != SMOL_FORMAT && covered[at] != 1) ||
                !names_place(err.msg, covered[at])) {
                wrong++;
                printf("# byte %llu, kind %u: %s\n", (unsigned long long)at, covered[at], err.msg);
            }
        } else if (st != SMOL_OK || !files_same(back, source)) {
            wrong++;
        }
        if (i % 12) continue; /* opening a model measures the machine first */
        float *have = logits(bad, i / 12 % 2 ? 3 : 0, false, &n_have);
        if (have) harmless++;
        if (have && (n_have != n_want || memcmp(have, want, N_TOKENS * n_have * sizeof *have))) {
            wrong++;
            printf("# byte %llu changes the answer\n", (unsigned long long)at);
        }
        if (!have && (!err.msg[0] || !covered[at])) wrong++;
        free(have);
    }
    TAP_OK(wrong == 0,
           "%u bits flipped: %u of them in use, %u did not concern the run, %u went wrong", n, seen,
           harmless, wrong);
    free(want);
    free(covered);
}

static void failing_reads(void)
{
    unsigned n = 0, wrong = 0;
    for (uint64_t k = 1; k < 400; k += 1 + k / 4) {
        for (int what = 0; what < 4; what++) {
            char copy[600], out[600];
            (void)snprintf(copy, sizeof copy, "%s/copy.gguf", temp_dir());
            (void)snprintf(out, sizeof out, "%s/out.gguf", temp_dir());
            file_copy(source, copy);
            inject_start();
            const struct inject_rule rule = {.kind = k % 2 ? INJECT_EIO : INJECT_SHORT,
                                             .on = INJECT_READ,
                                             .first = k,
                                             .count = UINT64_MAX,
                                             .amount = 3000};
            (void)inject_add(&rule);
            smol_status st = SMOL_OK;
            size_t n_vocab;
            err = (smol_error){0};
            if (what == 0) st = pack_file(copy, out, false, 0, &err);
            else if (what == 1) st = pack_file(copy, out, true, 60000, &err);
            else if (what == 2) st = unpack_file(pack, out, &err);
            else free(logits(pack, 3, k % 3 == 0, &n_vocab)), st = err.code;
            inject_stop();
            n++;
            if ((st == SMOL_OK) != (err.code == SMOL_OK) || (st != SMOL_OK && strlen(err.msg) < 20))
                wrong++;
            if (st == SMOL_OK && k == 1 && rule.kind == INJECT_EIO) wrong++;
            if (what == 1 && st != SMOL_OK && pack_file(copy, out, true, 60000, &err) != SMOL_OK)
                wrong++;
            if (what == 1 && (unpack_file(out, back, &err) != SMOL_OK || !files_same(back, source)))
                wrong++;
            (void)unlink(copy);
            (void)unlink(out);
            (void)unlink(back);
        }
    }
    TAP_OK(wrong == 0, "%u times reads fail or are short: %u went wrong", n, wrong);
}

/* --verify looks at the source when it lies beside the pack. */
static void verify_with_source(void)
{
    char beside[600];
    size_t n;
    (void)snprintf(beside, sizeof beside, "%s/rand-bailingmoe2-k256-q2_k.gguf", temp_dir());
    float *alone = logits(pack, 3, true, &n);
    TAP_OK(alone != NULL, "verify without the source: a second read %s", err.msg);
    file_copy(source, beside);
    float *with = logits(pack, 3, true, &n);
    TAP_OK(with != NULL, "verify with the source %s", err.msg);
    struct sm_gguf *g;
    if (sm_gguf_open(&g, beside, &err) != SMOL_OK) abort();
    const uint64_t at = sm_gguf_find_tensor(g, "output.weight")->at + 100;
    sm_gguf_free(g);
    (void)snprintf(bad, sizeof bad, "%s", beside);
    flip(at, 3);
    float *other = logits(pack, 3, true, &n);
    TAP_OK(!other && strstr(err.msg, "verification failed"), "verify with another source: %s",
           err.msg);
    free(alone);
    free(with);
    free(other);
    (void)unlink(beside);
}

/* Rows of the embedding table, which are read one by one, are verified and waited for as well. */
static void rows(void)
{
    char beside[600];
    size_t n;
    (void)snprintf(beside, sizeof beside, "%s/rand-bailingmoe2-k256-q2_k.gguf", temp_dir());
    file_copy(source, beside);
    struct sm_gguf *g;
    if (sm_gguf_open(&g, beside, &err) != SMOL_OK) abort();
    const struct sm_tensor_info *t = sm_gguf_find_tensor(g, "token_embd.weight");
    const uint64_t at = t->at + 42 * sm_row_bytes(t->type, t->dim[0]) + 5; /* token 42 is used */
    sm_gguf_free(g);
    (void)snprintf(bad, sizeof bad, "%s", beside);
    flip(at, 3);
    float *other = logits(pack, 3, true, &n);
    TAP_OK(!other && strstr(err.msg, "verification failed") && strstr(err.msg, "token_embd"),
           "verify a row of the table: %s", err.msg);
    free(other);
    (void)unlink(beside);

    const struct sm_store_options so = {.flash_mb_s = 1000, .flash_latency_us = 2000};
    const struct sm_weight *w;
    struct sm_store_stats stats;
    struct sm_store *s = NULL;
    float row[4096];
    err = (smol_error){0};
    if (sm_gguf_open(&g, pack, &err) != SMOL_OK || sm_store_new(&s, g, &so, &err) != SMOL_OK ||
        sm_store_add(s, sm_gguf_find_tensor(g, "token_embd.weight"), SM_HOME_BY_ROW, &w, &err) !=
            SMOL_OK ||
        sm_store_load(s, &(struct sm_store_plan){.n_readers = 1}, &err) != SMOL_OK ||
        w->n_in > 4096)
        abort();
    const smol_status st = sm_store_row(s, w, 42, row, &err);
    sm_store_stats(s, &stats);
    TAP_OK(st == SMOL_OK && stats.demand_wait_ns >= 2000000,
           "a row of a pack was waited for, %.1f ms", (double)stats.demand_wait_ns * 1e-6);
    sm_store_free(s);
    sm_gguf_free(g);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    temp_prefer_memory(256);
    (void)source_path(source, sizeof source, MODEL);
    (void)snprintf(pack, sizeof pack, "%s/pack.gguf", temp_dir());
    (void)snprintf(back, sizeof back, "%s/back.gguf", temp_dir());
    (void)snprintf(bad, sizeof bad, "%s/bad.gguf", temp_dir());
    disk_skip_syncs();
    const smol_status st = pack_file(source, pack, false, 0, &err);
    if (!TAP_OK(st == SMOL_OK, "packs %s", err.msg)) return tap_done();
    flips(tap_effort() == 2 ? 3000 : 120);
    failing_reads();
    verify_with_source();
    rows();
    return tap_done();
}
