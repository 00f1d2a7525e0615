/* SPDX-License-Identifier: MIT */
/* The shapes that have a name, and those given as numbers. */
#include "synth.h"

#include "lib/options.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define QWEN3(n, l, e, f, h, g, t, mix)                                                            \
    {                                                                                              \
        .name = (n), .arch = "qwen3", .pre = "qwen2", .types = (mix), .layers = (l), .embd = (e),  \
        .ff = (f), .heads = (h), .kv_heads = (g), .head_dim = 128, .rot = 128, .vocab = 151936,    \
        .ctx = 40960, .rope_base = 1e6, .eps = 1e-6, .tied = (t)                                   \
    }
#define QWEN35(n, l, e, f, h, g, t, v)                                                             \
    {                                                                                              \
        .name = (n), .arch = "qwen35", .pre = "qwen35", .types = "q4_k_m", .layers = (l),          \
        .next = 1, .embd = (e), .ff = (f), .heads = (h), .kv_heads = (g), .head_dim = 256,         \
        .rot = 64, .vocab = 248320, .ctx = 262144, .rope_base = 1e7, .eps = 1e-6, .tied = (t),     \
        .interval = 4, .conv = 4, .state = 128, .key_groups = 16, .value_heads = (v)               \
    }
#define LING2(n, v, mix)                                                                           \
    {                                                                                              \
        .name = (n), .arch = "bailingmoe2", .pre = "bailingmoe2", .types = (mix), .layers = 20,    \
        .embd = 2048, .ff = 5120, .heads = 16, .kv_heads = 4, .head_dim = 128, .rot = 64,          \
        .vocab = (v), .ctx = 32768, .rope_base = 6e5, .eps = 1e-6, .dense = 1, .experts = 256,     \
        .used = 8, .expert_ff = 512, .shared = 1, .groups = 8, .groups_used = 4, .gating = 2,      \
        .weights_norm = 1, .weights_scale = 2.5                                                    \
    }

/* Numbers of spec: published configurations. */
static const struct synth_shape shapes[] = {
    LING2("ling-mini-2.0", 157184, "experts=q2_k,rest=q4_k,head=q6_k"),
    LING2("ling-mini-2.0-60k", 61440, "experts=q2_k,rest=q4_k"),
    QWEN3("qwen3-0.6b", 28, 1024, 3072, 16, 8, 1, "q4_k_m"),
    QWEN3("qwen3-1.7b", 28, 2048, 6144, 16, 8, 1, "q4_k_m"),
    QWEN3("qwen3-4b", 36, 2560, 9728, 32, 8, 1, "q4_k_m"),
    QWEN3("qwen3-8b", 36, 4096, 12288, 32, 8, 0, "q4_k_m"),
    {.name = "bonsai-8b", .arch = "qwen3", .pre = "qwen2", .types = "q1_0", .layers = 36,
     .embd = 4096, .ff = 12288, .heads = 32, .kv_heads = 8, .head_dim = 128, .rot = 128,
     .vocab = 151936, .ctx = 65536, .rope_base = 1e6, .eps = 1e-6, .yarn_factor = 4,
     .yarn_ctx = 16384},
    {.name = "olmoe-7b", .arch = "olmoe", .pre = "olmo", .types = "q4_k_m", .layers = 16,
     .embd = 2048, .ff = 1024, .heads = 16, .kv_heads = 16, .head_dim = 128, .rot = 128,
     .vocab = 50304, .ctx = 4096, .rope_base = 1e4, .eps = 1e-5, .experts = 64, .used = 8,
     .expert_ff = 1024},
    {.name = "qwen3-30b-a3b", .arch = "qwen3moe", .pre = "qwen2", .types = "q4_k_m", .layers = 48,
     .embd = 2048, .ff = 6144, .heads = 32, .kv_heads = 4, .head_dim = 128, .rot = 128,
     .vocab = 151936, .ctx = 40960, .rope_base = 1e6, .eps = 1e-6, .experts = 128, .used = 8,
     .expert_ff = 768, .weights_norm = 1},
    QWEN35("qwen3.5-0.8b", 24, 1024, 3584, 8, 2, 1, 16),
    QWEN35("qwen3.5-2b", 24, 2048, 6144, 8, 2, 1, 16),
    QWEN35("qwen3.5-9b", 32, 4096, 12288, 16, 4, 0, 32),
    {.name = "ling-3.0-tiny", .arch = "bailingmoe3", .pre = "bailingmoe2",
     .types = "experts=q2_k,rest=q4_k,head=q6_k", .layers = 24, .embd = 1536, .ff = 4608,
     .heads = 16, .kv_heads = 1, .head_dim = 128, .rot = 64, .vocab = 157184, .ctx = 131072,
     .rope_base = 6e6, .eps = 1e-6, .dense = 1, .experts = 128, .used = 8, .expert_ff = 512,
     .shared = 1, .groups = 8, .groups_used = 4, .gating = 2, .weights_norm = 1,
     .weights_scale = 2.5, .interval = 4, .conv = 4, .state = 128, .q_rank = 256, .kv_rank = 512,
     .value_dim = 128},
    {.name = "gpt-oss-20b", .arch = "gpt-oss", .pre = "gpt-4o", .types = "experts=mxfp4,rest=q8_0",
     .layers = 24, .embd = 2880, .ff = 2880, .heads = 64, .kv_heads = 8, .head_dim = 64, .rot = 64,
     .vocab = 201088, .ctx = 131072, .rope_base = 150000, .eps = 1e-5, .experts = 32, .used = 4,
     .expert_ff = 2880, .window = 128, .yarn_factor = 32, .yarn_ctx = 4096},
    {.name = "deepseek-v2-lite", .arch = "deepseek2", .pre = "deepseek-llm", .types = "q4_k_m",
     .layers = 27, .embd = 2048, .ff = 10944, .heads = 16, .kv_heads = 1, .head_dim = 128,
     .rot = 64, .vocab = 102400, .ctx = 163840, .rope_base = 1e4, .eps = 1e-6, .dense = 1,
     .experts = 64, .used = 6, .expert_ff = 1408, .shared = 2, .gating = 1, .weights_scale = 1,
     .kv_rank = 512, .value_dim = 128, .yarn_factor = 40, .yarn_ctx = 4096, .yarn_log = 0.0707},
    {.name = "lfm2-8b-a1b", .arch = "lfm2moe", .pre = "lfm2", .types = "q4_k_m", .layers = 24,
     .embd = 2048, .ff = 7168, .heads = 32, .kv_heads = 8, .head_dim = 64, .rot = 64,
     .vocab = 65536, .ctx = 128000, .rope_base = 1e6, .eps = 1e-5, .tied = 1, .dense = 2,
     .experts = 32, .used = 4, .expert_ff = 1792, .gating = 2, .weights_norm = 1, .conv = 3,
     .attends = 1u << 2 | 1u << 6 | 1u << 10 | 1u << 14 | 1u << 18 | 1u << 21},
    {.name = "llama-3.2-1b", .arch = "llama", .pre = "llama-bpe", .types = "q4_k_m", .layers = 16,
     .embd = 2048, .ff = 8192, .heads = 32, .kv_heads = 8, .head_dim = 64, .rot = 64,
     .vocab = 128256, .ctx = 131072, .rope_base = 5e5, .eps = 1e-5, .tied = 1},
};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

#define KEY(field, low, high) {#field, offsetof(struct synth_shape, field), low, high}
static const struct {
    const char *name;
    size_t at;
    uint32_t lo, hi;
} keys[] = {
    KEY(layers, 1, 512), KEY(next, 0, 8), KEY(embd, 32, 65536), KEY(ff, 32, 1u << 20),
    KEY(heads, 1, 1024), KEY(kv_heads, 1, 1024), KEY(head_dim, 8, 1024), KEY(rot, 2, 512),
    KEY(vocab, 512, 1u << 20), KEY(ctx, 128, 1u << 24), KEY(tied, 0, 1), KEY(dense, 0, 512),
    KEY(experts, 0, 1024), KEY(used, 0, 64), KEY(expert_ff, 0, 1u << 20), KEY(shared, 0, 16),
    KEY(groups, 0, 64), KEY(groups_used, 0, 64), KEY(window, 1, 1u << 20),
};
enum { N_KEYS = sizeof keys / sizeof *keys };

const char *synth_shape_name(unsigned i) { return i < N_SHAPES ? shapes[i].name : NULL; }
const char *synth_shape_key(unsigned i) { return i < N_KEYS ? keys[i].name : NULL; }

/* The first shape whose name, or architecture after "arch=", is the word. */
static const struct synth_shape *find(const char *word, size_t n)
{
    const bool arch = n > 5 && !strncmp(word, "arch=", 5);
    for (int i = 0; i < N_SHAPES; i++) {
        const char *name = arch ? shapes[i].arch : shapes[i].name;
        const char *wanted = arch ? word + 5 : word;
        const size_t len = arch ? n - 5 : n;
        if (strlen(name) == len && !strncmp(name, wanted, len)) return &shapes[i];
    }
    return NULL;
}

static smol_status set_key(struct synth_shape *s, const char *word, size_t n, smol_error *err)
{
    char name[32], value[32];
    const char *equals = memchr(word, '=', n);
    const size_t len = equals ? (size_t)(equals - word) : n;
    if (!equals || len >= sizeof name || n - len - 1 >= sizeof value)
        return SM_FAIL(err, ARG, "\"%.*s\" is not key=value", (int)(n < 60 ? n : 60), word);
    memcpy(name, word, len);
    name[len] = 0;
    memcpy(value, equals + 1, n - len - 1);
    value[n - len - 1] = 0;
    for (int i = 0; i < N_KEYS; i++) {
        int64_t v;
        if (strcmp(keys[i].name, name)) continue;
        if (!sm_parse_int(value, keys[i].lo, keys[i].hi, &v))
            return SM_FAIL(err, ARG, "%s is \"%s\", expected %" PRIu32 " to %" PRIu32, name, value,
                           keys[i].lo, keys[i].hi);
        const uint32_t v32 = (uint32_t)v;
        memcpy((char *)s + keys[i].at, &v32, sizeof v32);
        return SMOL_OK;
    }
    return SM_FAIL(err, ARG, "a shape has no \"%s\"; smol help synth lists what it has", name);
}

/* What would make no model at all. */
static smol_status check(const struct synth_shape *s, smol_error *err)
{
    if (s->vocab < 256 + SYNTH_CONTROLS)
        return SM_FAIL(err, ARG, "vocab is %u, expected %u or more", s->vocab,
                       256 + SYNTH_CONTROLS);
    if (s->heads % s->kv_heads)
        return SM_FAIL(err, ARG, "%u heads do not share %u kv_heads evenly", s->heads, s->kv_heads);
    if (s->rot % 2 || (!s->kv_rank && s->rot > s->head_dim))
        return SM_FAIL(err, ARG, "rot is %u, expected an even number up to head_dim, %u", s->rot,
                       s->head_dim);
    if (s->experts && (s->used < 1 || s->used > s->experts || s->expert_ff < 32))
        return SM_FAIL(err, ARG, "%u experts of width %u, %u of them used, make no layer",
                       s->experts, s->expert_ff, s->used);
    if (s->groups > 1 && (s->experts % s->groups || s->groups_used < 1 ||
                          s->groups_used > s->groups ||
                          s->experts / s->groups * s->groups_used < s->used))
        return SM_FAIL(err, ARG, "%u of %u groups of experts cannot hold the %u used ones",
                       s->groups_used, s->groups, s->used);
    if (s->embd % 32 || s->ff % 32 || s->expert_ff % 32)
        return SM_FAIL(err, ARG, "embd, ff and expert_ff must be multiples of 32");
    return SMOL_OK;
}

smol_status synth_shape_read(struct synth_shape *out, const char *text, smol_error *err)
{
    size_t n = strcspn(text, ",");
    const struct synth_shape *known = find(text, n);
    if (!known) {
        return SM_FAIL(err, ARG, "no shape \"%.*s\"; smol help synth lists them",
                       (int)(n < 40 ? n : 40), text);
    }
    *out = *known;
    while (text[n]) {
        text += n + 1;
        n = strcspn(text, ",");
        SM_TRY(set_key(out, text, n, err));
    }
    if (out->dense > out->layers) out->dense = out->layers;
    return check(out, err);
}
