/* SPDX-License-Identifier: MIT */
/* Saved states: going on behind a restored one gives the same bits and reads nothing twice, also in
 * another process's model; damaged and foreign files change nothing; the folder of states keeps to
 * its cap and finds the longest beginning. */
#include "json_read.h"
#include "model_run.h"
#include "tap.h"
#include "temp.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct run {
    smol_model *m;
    smol_session *s;
    smol_error err;
};

static bool open_run(struct run *r, const char *model, smol_kv kv, unsigned ctx)
{
    char path[4096], name[128];
    smol_params p;
    (void)snprintf(name, sizeof name, "tests/data/models/%s.gguf", model);
    smol_params_default(&p);
    p.memory_bytes = (uint64_t)256 << 20;
    p.threads = 2;
    p.ctx = ctx;
    p.kv = kv;
    *r = (struct run){0};
    const bool good =
        smol_model_open(&r->m, source_path(path, sizeof path, name), &p, &r->err) == SMOL_OK &&
        smol_session_new(&r->s, r->m, &r->err) == SMOL_OK;
    if (!good) TAP_OK(0, "%s opens: %s", model, r->err.msg);
    return good;
}

static void close_run(struct run *r)
{
    smol_session_free(r->s);
    smol_model_free(r->m);
    *r = (struct run){0};
}

static uint64_t n_read(const struct run *r)
{
    smol_stats st;
    smol_model_stats(r->m, &st);
    return st.tokens_prompt;
}

enum { N = 90, MORE = 7 };

static void make_tokens(int32_t *t, size_t n)
{
    for (size_t i = 0; i < n; i++) t[i] = (int32_t)(i * 37 % 200 + 3);
}

static bool same_logits(const struct run *r, const float *want)
{
    const float *found = smol_session_logits(r->s);
    return found && !memcmp(found, want, smol_model_n_vocab(r->m) * sizeof *want);
}

static void test_go_on(const char *model, smol_kv kv)
{
    struct run r;
    int32_t t[N + MORE];
    smol_error err = {0};
    const char *path = temp_path("a.state");
    make_tokens(t, N + MORE);
    if (!open_run(&r, model, kv, 128)) return;
    const size_t bytes = smol_model_n_vocab(r.m) * sizeof(float);
    float *at_n = malloc(bytes), *at_end = malloc(bytes);
    bool good = smol_session_sync(r.s, t, N, &err) == SMOL_OK;
    if (good) memcpy(at_n, smol_session_logits(r.s), bytes);
    good = good && smol_session_save(r.s, path, &err) == SMOL_OK &&
           smol_session_sync(r.s, t, N + MORE, &err) == SMOL_OK;
    if (good) memcpy(at_end, smol_session_logits(r.s), bytes);
    TAP_OK(good && n_read(&r) == N + MORE, "%s: a second turn reads its new tokens only %s", model,
           err.msg);
    close_run(&r);
    if (!open_run(&r, model, kv, 128)) return;
    good = smol_session_load(r.s, path, &err) == SMOL_OK && smol_session_length(r.s) == N;
    TAP_OK(good && same_logits(&r, at_n), "%s: the logits are there again %s", model, err.msg);
    good = smol_session_sync(r.s, t, N, &err) == SMOL_OK && n_read(&r) == 0;
    TAP_OK(good, "%s: after a restart the same prompt reads nothing %s", model, err.msg);
    good = smol_session_sync(r.s, t, N + MORE, &err) == SMOL_OK;
    TAP_OK(good && n_read(&r) == MORE && same_logits(&r, at_end),
           "%s: what follows has the same bits %s", model, err.msg);
    close_run(&r);
    free(at_n);
    free(at_end);
}

/* ---- refusals ---- */

/* A state of another model, KV format or context is refused. */
static void check_foreign(const char *path)
{
    static const struct {
        const char *model;
        smol_kv kv;
        unsigned ctx;
        const char *says;
    } other[] = {
        {"rand-qwen3moe", SMOL_KV_F16, 128, "another model"},
        {"rand-qwen3", SMOL_KV_F32, 128, "KV format"},
        {"rand-qwen3", SMOL_KV_F16, 64, "the context 64"},
    };
    struct run r;
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        if (!open_run(&r, other[i].model, other[i].kv, other[i].ctx)) return;
        smol_error err = {0};
        TAP_OK(smol_session_load(r.s, path, &err) != SMOL_OK && strstr(err.msg, other[i].says) &&
                   smol_session_length(r.s) == 0,
               "foreign: %s", err.msg);
        close_run(&r);
    }
}

static void test_damage(void)
{
    struct run r;
    int32_t t[N];
    size_t n = 0;
    smol_error err = {0};
    make_tokens(t, N);
    if (!open_run(&r, "rand-qwen3", SMOL_KV_F16, 128)) return;
    const char *path = temp_path("whole.state");
    TAP_OK(smol_session_save(r.s, path, &err) == SMOL_ARG, "an empty session is not saved: %s",
           err.msg);
    err = (smol_error){0};
    TAP_OK(smol_session_sync(r.s, t, N, &err) == SMOL_OK &&
               smol_session_save(r.s, path, &err) == SMOL_OK,
           "saved %s", err.msg);
    char *data = json_read_file(path, &n);
    const size_t bytes = smol_model_n_vocab(r.m) * sizeof(float);
    float *before = malloc(bytes);
    memcpy(before, smol_session_logits(r.s), bytes);
    bool refused = true, kept = true, says = true;
    unsigned tried = 0;
    for (size_t at = 0; at < n; at += at < 160 ? 1 : n / 40) { /* every byte of the header counts */
        const char old = data[at];
        data[at] ^= 0x10;
        err = (smol_error){0};
        refused =
            refused && smol_session_load(r.s, temp_write("bad.state", data, n), &err) != SMOL_OK;
        says = says && err.msg[0];
        kept = kept && smol_session_length(r.s) == N && same_logits(&r, before);
        data[at] = old;
        tried++;
    }
    TAP_OK(refused && says, "%u changed bytes are noticed, the last: %s", tried, err.msg);
    TAP_OK(kept, "and the session stays as it was");
    refused = true;
    for (size_t len = 0; len < n; len += len < 140 ? 7 : n / 9) {
        err = (smol_error){0};
        refused =
            refused && smol_session_load(r.s, temp_write("cut.state", data, len), &err) != SMOL_OK;
    }
    TAP_OK(refused && smol_session_length(r.s) == N, "cut files are refused: %s", err.msg);
    free(data);
    free(before);
    close_run(&r);
    check_foreign(path);
}

/* ---- the folder ---- */

static unsigned count_files(const char *folder)
{
    char command[4200], line[32] = "0";
    (void)snprintf(command, sizeof command, "ls '%s' | grep -c state", folder);
    FILE *f = popen(command, "r");
    if (f) {
        if (!fgets(line, sizeof line, f)) line[0] = '0';
        (void)pclose(f);
    }
    return (unsigned)strtoul(line, NULL, 10);
}

static void test_folder(void)
{
    struct run r;
    int32_t a[N + MORE], b[N];
    size_t n = 0;
    smol_error err = {0};
    struct stat st;
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%s/states", temp_dir());
    (void)mkdir(folder, 0700);
    make_tokens(a, N + MORE);
    make_tokens(b, N);
    b[40] = 1;
    if (!open_run(&r, "rand-qwen3", SMOL_KV_F16, 128)) return;
    const uint64_t cap = (uint64_t)64 << 20;
    bool good = smol_session_sync(r.s, a, N, &err) == SMOL_OK &&
                smol_cache_save(r.s, folder, cap, &err) == SMOL_OK &&
                smol_session_sync(r.s, a, N + MORE, &err) == SMOL_OK &&
                smol_cache_save(r.s, folder, cap, &err) == SMOL_OK;
    TAP_OK(good && count_files(folder) == 1, "a longer state replaces the one it goes on from %s",
           err.msg);
    good = smol_session_sync(r.s, b, N, &err) == SMOL_OK &&
           smol_cache_save(r.s, folder, cap, &err) == SMOL_OK;
    TAP_OK(good && count_files(folder) == 2, "another conversation has its own %s", err.msg);
    close_run(&r);
    if (!open_run(&r, "rand-qwen3", SMOL_KV_F16, 128)) return;
    good = smol_cache_restore(r.s, folder, a, N + MORE, &n, &err) == SMOL_OK;
    TAP_OK(good && n == N + MORE, "the longest beginning is found: %zu %s", n, err.msg);
    good = smol_session_sync(r.s, a, N + MORE, &err) == SMOL_OK && n_read(&r) == 0;
    TAP_OK(good, "and nothing is read %s", err.msg);
    good = smol_cache_restore(r.s, folder, b, N, &n, &err) == SMOL_OK && n == N &&
           smol_session_sync(r.s, b, N, &err) == SMOL_OK && n_read(&r) == 0;
    TAP_OK(good, "a change of conversation reads nothing either %s", err.msg);
    /* a cap with room for one and a half */
    good = smol_session_save(r.s, temp_path("size.state"), &err) == SMOL_OK &&
           stat(temp_path("size.state"), &st) == 0;
    const uint64_t one = good ? (uint64_t)st.st_size : 1;
    b[60] = 2;
    good = good && smol_session_sync(r.s, b, N, &err) == SMOL_OK &&
           smol_cache_save(r.s, folder, one + one / 2, &err) == SMOL_OK;
    TAP_OK(good && count_files(folder) == 1, "over the cap the oldest go %s", err.msg);
    TAP_OK(smol_cache_save(r.s, folder, one / 2, &err) == SMOL_LIMIT && err.msg[0],
           "larger than the cap: %s", err.msg);
    err = (smol_error){0};
    TAP_OK(smol_cache_restore(r.s, "/nonexistent", a, N, &n, &err) == SMOL_OK,
           "no folder: nothing restored");
    close_run(&r);
}

/* A few tokens are not worth a file, and a recurrent state of more is worth nothing. */
static void test_folder_least(const char *model, bool recurrent)
{
    struct run r;
    int32_t a[N], b[N];
    size_t n = 0, half = 0;
    smol_error err = {0};
    char folder[4096];
    (void)snprintf(folder, sizeof folder, "%s/least-%s", temp_dir(), model);
    (void)mkdir(folder, 0700);
    make_tokens(a, N);
    make_tokens(b, N);
    b[40] = 1;
    if (!open_run(&r, model, SMOL_KV_F16, 128)) return;
    bool good = smol_session_sync(r.s, a, N, &err) == SMOL_OK &&
                smol_cache_save(r.s, folder, (uint64_t)64 << 20, &err) == SMOL_OK &&
                smol_session_sync(r.s, b, 30, &err) == SMOL_OK &&
                smol_cache_restore(r.s, folder, b, N, &n, &err) == SMOL_OK;
    TAP_OK(good && n == 30 && smol_session_length(r.s) == 30,
           "%s: 10 tokens more, not loaded (%zu) %s", model, n, err.msg);
    close_run(&r);
    if (!open_run(&r, model, SMOL_KV_F16, 128)) return;
    good = smol_cache_restore(r.s, folder, b, N, &half, &err) == SMOL_OK;
    TAP_OK(good && half == (recurrent ? 0 : 40),
           "%s: %zu tokens of a state that goes on otherwise %s", model, half, err.msg);
    good = smol_cache_restore(r.s, folder, a, N, &n, &err) == SMOL_OK;
    TAP_OK(good && n == N, "%s: %zu tokens of the same text %s", model, n, err.msg);
    close_run(&r);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_go_on("rand-qwen3", SMOL_KV_F16);
    test_go_on("rand-qwen3moe", SMOL_KV_F32);
    test_go_on("rand-gpt-oss", SMOL_KV_F16);
    test_go_on("rand-bailingmoe2-k256", SMOL_KV_Q8_0);
    test_go_on("rand-deepseek2", SMOL_KV_F16);
    test_go_on("rand-lfm2moe", SMOL_KV_F16);
    test_damage();
    test_folder();
    test_folder_least("rand-qwen3", false);
    test_folder_least("rand-qwen35", true);
    test_folder_least("rand-lfm2moe", true);
    return tap_done();
}
