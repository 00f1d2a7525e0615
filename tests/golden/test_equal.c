/* SPDX-License-Identifier: MIT */
/* Law 1: the logits are the same bits whatever the kernel level, the threads, the cut of the prompt
 * and the number of experts in RAM. The first run is the plain one: reference kernels, one thread,
 * everything resident, the prompt at once; its hash is frozen here, so that compilers and machines
 * are compared too. Under emulation (QEMU_CPU is set) prompts are shorter and variations fewer.
 * Two models are read from the disk, the others from a copy in memory: every read that a disk makes
 * wait costs two switches of threads, more than the arithmetic of these small models. */
#include "base/hash.h"
#include "disk_log.h"
#include "graph/ffn.h"
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <stdlib.h>
#include <string.h>

#define N_TOKENS 24

struct equal_case {
    const char *path;
    unsigned floor, n_expert; /* 0: a dense model */
    bool cross;               /* natively: every combination; else each variation by itself */
    bool emulated;            /* also run under emulation */
    uint64_t hash;            /* of the first 16 rows */
};

static const struct equal_case cases[] = {
    {"tests/data/models/rand-bailingmoe2-k256-q2_k.gguf", 5, 16, true, true, 0x43521555d483cc1e},
    {"tests/data/models/rand-bailingmoe2.gguf", 5, 16, false, false, 0x0f41bef90d8ba3f3},
    {"tests/data/models/rand-qwen3moe.gguf", 5, 16, false, false, 0xa102881904893764},
    {"tests/data/models/rand-qwen3-k256.gguf", 0, 0, false, false, 0xc6e687bff6197260},
    {"tests/data/models/rand-qwen3-k256-q1_0.gguf", 0, 0, false, true, 0xfdc0bb986f72df9b},
    {"tests/data/models/rand-qwen3-k256-q2_k.gguf", 0, 0, false, false, 0xf076c38ae6f5ca9b},
    {"tests/data/models/rand-qwen3-k256-q4_k_m.gguf", 0, 0, false, true, 0x127fc5956609dba3},
    {"tests/data/models/rand-qwen3-k256-q8_0.gguf", 0, 0, false, true, 0x30325606dde9adb8},
    {"tests/data/models/rand-qwen3-k256-tq1_0.gguf", 0, 0, false, true, 0xc3173685e61e202e},
    {"tests/data/models/rand-qwen3-k256-tq2_0.gguf", 0, 0, false, false, 0xc3173685e61e202e},
    {"tests/data/models/rand-olmoe.gguf", 5, 16, false, true, 0x0377bd3fb99f4f07},
    {"tests/data/models/rand-gpt-oss.gguf", 5, 8, false, true, 0xe7c3f98cd627a12f},
    {"tests/data/models/rand-deepseek2.gguf", 5, 16, false, true, 0x63210af5c86078da},
    {"tests/data/models/rand-deepseek2-lite.gguf", 3, 4, false, true, 0x580fa1b46bbd2a74},
    {"tests/data/models/rand-deepseek2-ocr.gguf", 3, 6, false, true, 0x8925d651aedf1504},
    {"tests/data/models/rand-lfm2moe.gguf", 5, 16, false, true, 0xe68ce90921fdd2ae},
    {"tests/data/models/rand-bailingmoe3.gguf", 5, 16, false, false, 0x5a80302050eabdde},
    {"tests/data/models/rand-bailingmoe3-k256-q2_k.gguf", 5, 16, false, true, 0x43cd71748e3774fb},
    {"tests/data/models/rand-qwen35.gguf", 0, 0, false, true, 0x439be823a5728f57},
    {"tests/data/models/rand-qwen35moe.gguf", 5, 12, false, false, 0xbcc12abfe1afb599},
    {"tests/data/models/rand-shape-bailingmoe3.gguf", 2, 7, false, false, 0xb23902d22fd65e61},
    {"tests/data/models/rand-shape-qwen35moe.gguf", 2, 5, false, false, 0x7b2fde959fab6c3b},
    {"models/tiny-moe.gguf", 5, 32, false, true, 0x5275963f684ca522},
};

static const char *const levels[] = {"ref", "avx2", "avxvnni", "avx512", "neon", "dotprod", "i8mm"};
static const unsigned thread_counts[] = {1, 2, 3, 4, 8};
static const unsigned chunks[] = {1, 5, 64};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static int32_t tokens[N_TOKENS];

static char model_path[512]; /* of the case */

static void place_model(const struct equal_case *c)
{
    const bool on_disk = c->cross || !strncmp(c->path, "models/", 7);
    char from[512];
    (void)source_path(from, sizeof from, c->path);
    (void)snprintf(model_path, sizeof model_path, "%s", on_disk ? from : temp_path("model.gguf"));
    if (!on_disk) file_copy(from, model_path);
}

static bool have_level(const char *level)
{
    smol_params p;
    smol_plan plan;
    smol_error err = {0};
    smol_params_default(&p);
    p.cpu = level;
    return smol_plan_file(model_path, &p, &plan, &err) == SMOL_OK;
}

static const char *packed_path; /* NULL: the plain file is run */
static uint64_t memory_bytes;   /* 0: enough */
/* Reading ahead only moves reads: runs take turns. */
static const unsigned prefetches[] = {SMOL_PREFETCH_AUTO, 0, 1, 3, 2};
static unsigned n_runs;

static float *run(const char *level, unsigned threads, unsigned pool, unsigned chunk, size_t n,
                  size_t *n_vocab, smol_error *err)
{
    smol_params p;
    smol_params_default(&p);
    p.cpu = level;
    p.threads = threads;
    p.pool = pool;
    p.chunk = chunk;
    p.prefetch = memory_bytes ? SMOL_PREFETCH_AUTO : prefetches[n_runs % COUNT(prefetches)];
    n_runs++;
    p.policy = n_runs % 2 ? "lfu" : "lru";
    p.ctx = 64;
    p.logit_rows = 3;
    p.memory_bytes = memory_bytes;
    return model_logits(packed_path ? packed_path : model_path, &p, tokens, n, n_vocab, err);
}

struct comparison {
    const struct equal_case *c;
    const float *want;
    size_t n, n_vocab, n_runs, n_wrong;
};

static void compare(struct comparison *k, const char *level, unsigned threads, unsigned pool,
                    unsigned chunk)
{
    smol_error err;
    size_t n_vocab = 0;
    float *have = run(level, threads, pool, chunk, k->n, &n_vocab, &err);
    k->n_runs++;
    if (!have || n_vocab != k->n_vocab || memcmp(have, k->want, k->n * n_vocab * sizeof *have)) {
        k->n_wrong++;
        printf("# differs: level %s, %u threads, pool %u, chunk %u %s\n", level, threads, pool,
               chunk, have ? "" : err.msg);
    }
    free(have);
}

/* Pool sizes: 0 (everything fits: resident), the floor, one more, half. */
static size_t pools_of(const struct equal_case *c, unsigned out[4])
{
    out[0] = 0;
    if (!c->floor) return 1;
    out[1] = c->floor;
    out[2] = c->floor + 1;
    out[3] = c->n_expert / 2 + 1;
    return 4;
}

static void vary_all(struct comparison *k, const char *const *on, size_t n_on)
{
    unsigned pools[4];
    const size_t n_pools = pools_of(k->c, pools);
    for (size_t l = 0; l < n_on; l++)
        for (size_t t = 0; t < COUNT(thread_counts); t++)
            for (size_t i = 0; i < n_pools; i++)
                for (size_t j = 0; j < COUNT(chunks); j++)
                    compare(k, on[l], thread_counts[t], pools[i], chunks[j]);
}

static void vary_each(struct comparison *k, const char *const *on, size_t n_on, bool short_run)
{
    unsigned pools[4];
    const size_t n_pools = pools_of(k->c, pools);
    const char *best = on[n_on - 1];
    for (size_t l = short_run ? 1 : 0; l < n_on; l++) compare(k, on[l], 2, pools[n_pools - 1], 64);
    if (short_run) {
        compare(k, best, 3, pools[n_pools > 1], 1);
        return;
    }
    for (size_t t = 0; t < COUNT(thread_counts); t++) compare(k, best, thread_counts[t], 0, 64);
    for (size_t i = 0; i < n_pools; i++) compare(k, best, 2, pools[i], 5);
    for (size_t j = 0; j < COUNT(chunks); j++) compare(k, best, 2, pools[n_pools > 1], chunks[j]);
    for (size_t i = 0; n_pools > 1 && i < COUNT(prefetches); i++) compare(k, best, 2, pools[2], 1);
}

/* The same model as a pack: the lowest and the highest kernel level, every pool. */
static void vary_packed(struct comparison *k, const char *const *on, size_t n_on, bool short_run)
{
    unsigned pools[4];
    smol_error err;
    const size_t n_pools = pools_of(k->c, pools);
    packed_path = temp_path("pack.gguf");
    (void)remove(packed_path);
    if (pack_file(model_path, packed_path, false, 0, &err) != SMOL_OK) {
        printf("# cannot be packed: %s\n", err.msg);
        k->n_wrong++;
    } else if (short_run) {
        compare(k, on[n_on - 1], 2, pools[n_pools > 1], 5);
    } else {
        compare(k, on[0], 1, pools[n_pools - 1], 64);
        for (size_t i = 0; i < n_pools; i++) compare(k, on[n_on - 1], 2, pools[i], i ? 5 : 64);
        compare(k, on[n_on - 1], 2, pools[n_pools > 1], 1);
    }
    packed_path = NULL;
}

/* With less memory than the dense weights need, down to the least that works: they are streamed. */
static void vary_streamed(struct comparison *k, const char *const *on, size_t n_on, bool short_run,
                          size_t *n_streamed)
{
    smol_params p;
    smol_plan plan;
    smol_error err = {0};
    smol_params_default(&p);
    p.ctx = 64;
    p.threads = 2;
    p.chunk = 5;
    p.logit_rows = 3;
    p.pool = k->c->floor;
    if (smol_plan_file(model_path, &p, &plan, &err) != SMOL_OK) return;
    const uint64_t full = plan.total_bytes;
    p.memory_bytes = 1;
    /* streams all it can, and says what that needs */
    (void)smol_plan_file(model_path, &p, &plan, &err);
    const uint64_t least = plan.needed_bytes;
    for (unsigned i = 0; i < (short_run ? 1 : 3) && least < full; i++) {
        memory_bytes = least + (full - 1 - least) * i / 2;
        compare(k, on[n_on - 1], 2, k->c->floor, 5);
        if (i == 0 && !short_run) compare(k, on[0], 1, k->c->floor, 5);
        ++*n_streamed;
    }
    memory_bytes = 0;
}

static size_t n_streamed; /* runs in which dense weights did not fit */

static void check(const struct equal_case *c, bool emulated, bool full)
{
    const char *on[COUNT(levels)];
    size_t n_on = 0, n_vocab = 0;
    smol_error err;
    const size_t n = full ? N_TOKENS : 16;
    place_model(c);
    for (size_t i = 0; i < COUNT(levels); i++)
        if (have_level(levels[i])) on[n_on++] = levels[i];
    float *want = run("ref", 1, 0, 64, n, &n_vocab, &err);
    if (!want) {
        TAP_OK(false, "%s runs: %s", c->path, err.msg);
        return;
    }
    const uint64_t hash = sm_hash64(want, 16 * n_vocab * sizeof *want, 0);
    TAP_OK(hash == c->hash, "%s: the frozen bits (hash 0x%016" PRIx64 ")", c->path, hash);
    struct comparison k = {c, want, n, n_vocab, 0, 0};
    if (full || (c->cross && !emulated)) vary_all(&k, on, n_on);
    else vary_each(&k, on, n_on, emulated);
    vary_packed(&k, on, n_on, emulated);
    vary_streamed(&k, on, n_on, emulated, &n_streamed);
    TAP_OK(k.n_wrong == 0, "%s: %zu variations up to level %s, %zu differ", c->path, k.n_runs,
           on[n_on - 1], k.n_wrong);
    free(want);
}

static const struct { const char *path; unsigned floor; } long_waves[] = {
    {"tests/data/models/rand-bailingmoe2-k256-q2_k.gguf", 5},
    {"tests/data/models/rand-qwen3-k256-q4_k_m.gguf", 0},
    {"tests/data/models/rand-gpt-oss.gguf", 5},
    {"tests/data/models/rand-deepseek2.gguf", 5},
};

/* A wave longer than what goes through an ffn at once (SM_FFN_TOKENS), everything in RAM, experts
 * paged, and with dense weights streamed, which the ffn then needs at once. */
static void long_wave(const char *path, unsigned floor, bool emulated)
{
    enum { N = SM_FFN_TOKENS + 13 };
    const struct equal_case c = {.path = path};
    const struct { unsigned pool, chunk; bool streamed; } runs[] = {
        {0, N, false}, {floor, N, false}, {floor, 5, false}, {floor, N, true}};
    int32_t ids[N];
    size_t n_vocab, n_wrong = 0, n_have;
    smol_error err = {0};
    smol_plan plan;
    smol_params p;
    /* mostly one token, so that some expert has more tokens than go through it at once */
    for (int i = 0; i < N; i++) ids[i] = i % 24 ? 13 : i * 7919 % 300;
    place_model(&c);
    smol_params_default(&p);
    p.ctx = 256;
    p.threads = 2;
    p.chunk = 64;
    float *want = model_logits(model_path, &p, ids, N, &n_vocab, &err);
    for (size_t i = 0; want && i < (emulated ? 2 : COUNT(runs)); i++) {
        p.pool = runs[i].pool;
        p.chunk = runs[i].chunk;
        p.memory_bytes = runs[i].streamed ? 1 : 0;
        if (runs[i].streamed && smol_plan_file(model_path, &p, &plan, &err) != SMOL_OK)
            p.memory_bytes = plan.needed_bytes;
        float *have = model_logits(model_path, &p, ids, N, &n_have, &err);
        if (!have || n_have != n_vocab || memcmp(have, want, N * n_vocab * sizeof *want)) {
            n_wrong++;
            printf("# differs: run %zu %s\n", i, have ? "" : err.msg);
        }
        free(have);
    }
    TAP_OK(want && !n_wrong, "%s: a wave of %d tokens, %zu runs differ", path, N, n_wrong);
    free(want);
}

int main(int argc, char **argv)
{
    const bool emulated = tap_effort() == 0, full = tap_effort() == 2;
    tap_init(argc, argv);
    temp_prefer_memory(48);
    disk_skip_syncs(); /* of packs that live as long as this test */
    for (int i = 0; i < N_TOKENS; i++) tokens[i] = (i * 7919 + 13) % 300;
    for (size_t i = 0; i < COUNT(cases); i++)
        if ((!emulated || cases[i].emulated) && (argc != 2 || strstr(cases[i].path, argv[1])))
            check(&cases[i], emulated, full);
    for (size_t i = 0; i < COUNT(long_waves); i++)
        if (argc != 2 || strstr(long_waves[i].path, argv[1]))
            long_wave(long_waves[i].path, long_waves[i].floor, emulated);
    if (argc != 2)
        TAP_OK(n_streamed > (emulated ? 5 : 10), "in %zu runs dense weights were streamed",
               n_streamed);
    return tap_done();
}
