/* SPDX-License-Identifier: MIT */
/* Drafts never touch the text: for each prompt, temperature and seed the answer and the bits of the
 * logits behind it are those of a run without drafts, whatever the source, on a model with keys and
 * values only and on one with recurrent states. */
#include "base/hash.h"
#include "json_read.h"
#include "model_run.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct variant { const char *name; smol_draft draft; float oracle; };

static const struct variant variants[] = {
    {"none", SMOL_DRAFT_OFF, 0},       {"lookup", SMOL_DRAFT_LOOKUP, 0},
    {"mtp", SMOL_DRAFT_MTP, 0},        {"auto", SMOL_DRAFT_AUTO, 0},
    {"oracle", SMOL_DRAFT_OFF, 0.7f},
};
#define N_VARIANTS (sizeof variants / sizeof *variants)

struct answer { uint64_t text, logits; size_t n, n_bytes; };

static bool collect(void *arg, const char *bytes, size_t n)
{
    struct answer *a = arg;
    a->text = sm_hash64(bytes, n, a->text + a->n_bytes);
    a->n_bytes += n;
    return true;
}

struct setting { float temp; int64_t seed; };

static smol_status write_one(smol_model *m, smol_session *s, const int32_t *ids, size_t n_ids,
                             struct setting set, int64_t n_tokens, struct answer *out,
                             smol_error *err)
{
    smol_sampling sp;
    smol_sampler *sampler = NULL;
    smol_outcome outcome;
    *out = (struct answer){0};
    const smol_generation g = {
        .max_tokens = n_tokens, .special = true, .text = collect, .arg = out};
    smol_sampling_default(&sp);
    sp.temp = set.temp;
    sp.seed = set.seed;
    sp.repeat_penalty = 1.1f;
    smol_status st = smol_session_sync(s, ids, n_ids, err);
    if (st == SMOL_OK) st = smol_sampler_new(&sampler, m, &sp, err);
    for (size_t i = 0; st == SMOL_OK && i < n_ids; i++) smol_sampler_accept(sampler, ids[i]);
    if (st == SMOL_OK) st = smol_generate(s, sampler, &g, &outcome, err);
    if (st == SMOL_OK) {
        const float *logits = smol_session_logits(s);
        out->n = outcome.n_tokens;
        if (logits) out->logits = sm_hash64(logits, smol_model_n_vocab(m) * sizeof *logits, 0);
    }
    smol_sampler_free(sampler);
    return st;
}

struct test_case {
    const char *path;
    const char *prompts; /* text file that the prompts are cut from */
    size_t n_prompts, prompt_bytes, n_seeds;
    int64_t n_tokens;
    unsigned chunk, pool;
    bool no_block;
};

/* All answers of one variant; [prompt][setting]. */
static bool run_variant(const struct test_case *c, const struct variant *v, const char *text,
                        struct answer *out, smol_stats *stats, smol_error *err)
{
    char path[512];
    smol_params p;
    smol_model *m = NULL;
    smol_session *s = NULL;
    smol_params_default(&p);
    p.draft = v->draft;
    p.draft_oracle = v->oracle;
    p.ctx = 256;
    p.chunk = c->chunk;
    p.pool = c->pool;
    p.threads = 1;
    smol_status st = smol_model_open(&m, source_path(path, sizeof path, c->path), &p, err);
    if (st == SMOL_OK) st = smol_session_new(&s, m, err);
    for (size_t i = 0; st == SMOL_OK && i < c->n_prompts; i++) {
        int32_t *ids = NULL;
        size_t n_ids = 0;
        st = smol_tokenize(smol_model_vocab(m), text + i * c->prompt_bytes, c->prompt_bytes,
                           SMOL_ADD_SPECIAL, &ids, &n_ids, err);
        for (size_t k = 0; st == SMOL_OK && k < 1 + c->n_seeds; k++) {
            const struct setting set = {k ? 0.8f : 0, (int64_t)(1000 * i + k)};
            st = write_one(m, s, ids, n_ids, set, c->n_tokens, &out[i * (1 + c->n_seeds) + k], err);
        }
        smol_free(ids);
    }
    if (st == SMOL_OK) smol_model_stats(m, stats);
    smol_session_free(s);
    smol_model_free(m);
    return st == SMOL_OK;
}

static void check_case(const struct test_case *c)
{
    char path[512];
    const size_t n = c->n_prompts * (1 + c->n_seeds);
    struct answer *all = calloc(N_VARIANTS * n, sizeof *all);
    char *text = calloc(1, 1 << 16);
    FILE *f = fopen(source_path(path, sizeof path, c->prompts), "rb");
    const size_t got = f && text ? fread(text, 1, (1 << 16) - 1, f) : 0;
    if (f) (void)fclose(f);
    if (!all || got < c->n_prompts * c->prompt_bytes) {
        TAP_OK(false, "%s is there", c->prompts);
        free(all);
        free(text);
        return;
    }
    for (size_t v = 0; v < N_VARIANTS; v++) {
        smol_stats stats = {0};
        smol_error err = {0};
        size_t wrong = 0, n_tokens = 0;
        if (variants[v].draft == SMOL_DRAFT_MTP && c->no_block) {
            TAP_SKIP(1, "no next-token block");
            continue;
        }
        const bool ok = run_variant(c, &variants[v], text, all + v * n, &stats, &err);
        for (size_t i = 0; i < n; i++) {
            wrong += memcmp(&all[v * n + i], &all[i], sizeof *all) != 0;
            n_tokens += all[v * n + i].n;
        }
        TAP_OK(ok && wrong == 0 && n_tokens > n,
               "%s, drafts %s: %zu answers of %zu tokens, %zu differ; %llu drafted, %llu right %s",
               c->path, variants[v].name, n, n_tokens, wrong,
               (unsigned long long)stats.draft_proposed, (unsigned long long)stats.draft_accepted,
               err.msg);
        if (variants[v].oracle > 0)
            TAP_OK(stats.draft_accepted > 0 && stats.draft_proposed > stats.draft_accepted,
                   "%s: the oracle is right and wrong", c->path);
    }
    free(all);
    free(text);
}

int main(int argc, char **argv)
{
    const bool full = tap_effort() == 2;
    const struct test_case cases[] = {
        {"tests/data/models/rand-qwen35.gguf", "tests/data/text/eval-en.txt", 5, 60, 2, 48, 0, 0,
         false},
        {"tests/data/models/rand-qwen35moe.gguf", "tests/data/text/eval-en.txt", 5, 60, 1, 32, 7, 6,
         false},
        {"tests/data/models/rand-lfm2moe.gguf", "tests/data/text/eval-en.txt", 5, 60, 1, 32, 7, 6,
         true},
        {"tests/data/models/rand-gpt-oss.gguf", "tests/data/text/eval-en.txt", 5, 60, 1, 32, 7, 6,
         true},
        {"tests/data/models/rand-bailingmoe3.gguf", "tests/data/text/eval-en.txt", 5, 60, 1, 32, 7,
         6, false},
        {"models/tiny-moe.gguf", "tests/data/text/eval-en.txt", 20, 40, 5, full ? 64 : 12, 0, 0,
         false},
        {"models/tiny-moe.gguf", "tests/data/text/eval-en.txt", 3, 300, 1, 24, 5, 8, false},
    };
    tap_init(argc, argv);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
    return tap_done();
}
