/* SPDX-License-Identifier: MIT */
/* Levers on routing change the answer, and change it alike whatever the threads, the cut of the
 * prompt, the reads ahead and the kernels are, since they look at the logical pool only. */
#include "infer/engine.h"
#include "model_run.h"
#include "pack_files.h"
#include "tap.h"
#include "temp.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 40 };
static int32_t tokens[N];
static char model_path[512]; /* a copy in memory: reads that wait for a disk are most of the time */

struct way { unsigned threads, chunk, prefetch; const char *cpu; };

static float *run(const struct way *w, smol_params p, unsigned pool, size_t *n_vocab)
{
    smol_error err = {0};
    p.pool = pool;
    p.ctx = 64;
    p.threads = w->threads;
    p.chunk = w->chunk;
    p.prefetch = w->prefetch;
    p.cpu = w->cpu;
    float *l = model_logits(model_path, &p, tokens, N, n_vocab, &err);
    if (!l) printf("# %s\n", err.msg);
    return l;
}

static void check(const char *name, smol_params p)
{
    static const struct way ways[] = {
        {1, 64, 0, NULL}, {2, 1, 3, NULL}, {3, 7, SMOL_PREFETCH_AUTO, NULL}, {2, 64, 1, "ref"}};
    smol_params plain;
    size_t n_vocab = 0, n_equal = 0;
    smol_params_default(&plain);
    float *base = run(&ways[0], plain, 12, &n_vocab), *first = run(&ways[0], p, 12, &n_vocab);
    for (size_t i = 1; first && i < sizeof ways / sizeof *ways; i++) {
        float *l = run(&ways[i], p, 12, &n_vocab);
        n_equal += l && !memcmp(l, first, N * n_vocab * sizeof *l);
        free(l);
    }
    TAP_OK(n_equal == 3, "%s: the same bits in every way of running (%zu of 3)", name, n_equal);
    TAP_OK(base && first && memcmp(base, first, N * n_vocab * sizeof *base) != 0,
           "%s: the answer changes", name);
    free(base);
    free(first);
}

/* Nothing is dropped where all experts are in RAM, nor of those that are kept: lossless bits. */
static void check_off(void)
{
    static const struct way way = {2, 7, SMOL_PREFETCH_AUTO, NULL};
    static const struct { float bias, swap, drop; unsigned keep, pool; } cases[] = {
        {0, 0, 0.9f, 4, 8}, {0.3f, 0.5f, 0.9f, 0, 32}, {0, 0, 0, 0, 8}};
    smol_params p;
    size_t n_vocab = 0;
    smol_params_default(&p);
    float *base = run(&way, p, 12, &n_vocab);
    for (size_t i = 0; base && i < sizeof cases / sizeof *cases; i++) {
        p.route_bias = cases[i].bias;
        p.route_swap = cases[i].swap;
        p.route_drop = cases[i].drop;
        p.route_drop_keep = cases[i].keep;
        float *l = run(&way, p, cases[i].pool, &n_vocab);
        TAP_OK(l && !memcmp(l, base, N * n_vocab * sizeof *l),
               "drop %g, %u kept, %u slots: lossless", (double)p.route_drop, p.route_drop_keep,
               cases[i].pool);
        free(l);
    }
    free(base);
}

static void check_report(void)
{
    char path[512];
    smol_params p;
    smol_model *m = NULL;
    smol_error err = {0};
    smol_stats s = {0};
    smol_params_default(&p);
    p.pool = 12;
    p.ctx = 64;
    p.route_bias = 0.1f;
    p.route_swap = 0.8f;
    p.route_swap_keep = 2;
    p.route_drop = 0.1f;
    p.experts_used = 3;
    if (smol_model_open(&m, source_path(path, sizeof path, "models/tiny-moe.gguf"), &p, &err) ==
        SMOL_OK)
        smol_model_stats(m, &s);
    TAP_OK(s.n_loss_levers == 4, "four levers are reported (%u)", s.n_loss_levers);
    for (unsigned i = 0; i < s.n_loss_levers; i++) printf("# %s\n", s.loss_levers[i]);
    smol_model_free(m);
    p.experts_used = 5;
    m = NULL;
    TAP_OK(smol_model_open(&m, path, &p, &err) == SMOL_ARG, "more experts than the model uses: %s",
           err.msg);
    smol_model_free(m);
}

/* The next-token block routes with the same number of experts: all rows of scratch have that
 * many. */
static void check_next_block(void)
{
    char path[512];
    smol_params p;
    struct sm_engine e;
    smol_error err = {0};
    uint32_t n_moe = 0, n_right = 0;
    smol_params_default(&p);
    p.draft = SMOL_DRAFT_MTP;
    p.ctx = 64;
    p.experts_used = 3;
    const bool ok = sm_engine_open(&e, source_path(path, sizeof path, "models/tiny-moe.gguf"), &p,
                                   &err) == SMOL_OK;
    for (uint32_t i = 0; ok && i < sm_model_n_blocks(e.model); i++) {
        n_moe += e.model->layers[i].is_moe;
        n_right += e.model->layers[i].is_moe && e.model->layers[i].moe.router.n_used == 3;
    }
    TAP_OK(ok && e.model->layers[e.model->hp.n_layer].is_moe && n_right == n_moe,
           "fewer experts in %u of %u blocks, the next-token block is one %s", n_right, n_moe,
           err.msg);
    sm_engine_close(&e);
}

/* Levers that look at the pool, and drafts, which change it: never together. */
static void check_drafts(void)
{
    static const struct {
        float bias, swap, drop, oracle;
        smol_draft draft;
        smol_status st;
    } cases[] = {
        {0.2f, 0, 0, 0, SMOL_DRAFT_LOOKUP, SMOL_ARG}, {0, 0.8f, 0, 0, SMOL_DRAFT_MTP, SMOL_ARG},
        {0.2f, 0, 0, 0.5f, SMOL_DRAFT_OFF, SMOL_ARG}, {0.2f, 0, 0, 0, SMOL_DRAFT_AUTO, SMOL_OK},
        {0, 0, 0.2f, 0, SMOL_DRAFT_LOOKUP, SMOL_ARG}, {0, 0, 0, 0, SMOL_DRAFT_AUTO, SMOL_OK},
        {0, 0, 0, 0, SMOL_DRAFT_LOOKUP, SMOL_OK}};
    char path[512];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sm_engine e;
        smol_params p;
        smol_error err = {0};
        smol_params_default(&p);
        p.route_bias = cases[i].bias;
        p.route_swap = cases[i].swap;
        p.route_drop = cases[i].drop;
        p.draft = cases[i].draft;
        p.draft_oracle = cases[i].oracle;
        p.ctx = 64;
        const smol_status st =
            sm_engine_open(&e, source_path(path, sizeof path, "models/tiny-moe.gguf"), &p, &err);
        const bool drafts = cases[i].bias == 0 && cases[i].swap <= 0 && cases[i].drop <= 0;
        TAP_OK(st == cases[i].st && (st != SMOL_OK || (e.n_draft > 0) == drafts),
               "bias %g, swap %g, drop %g, drafts %d: %s", (double)cases[i].bias,
               (double)cases[i].swap, (double)cases[i].drop, (int)cases[i].draft,
               st ? err.msg : drafts ? "drafts" : "no drafts");
        sm_engine_close(&e);
    }
}

int main(int argc, char **argv)
{
    char path[512];
    smol_params p;
    tap_init(argc, argv);
    temp_prefer_memory(48);
    (void)snprintf(model_path, sizeof model_path, "%s", temp_path("model.gguf"));
    file_copy(source_path(path, sizeof path, "models/tiny-moe.gguf"), model_path);
    for (int i = 0; i < N; i++) tokens[i] = (int32_t)(tap_random_below(1900) + 10);
    smol_params_default(&p);
    p.route_bias = 0.2f;
    check("bias", p);
    p.route_bias_keep = 2;
    p.policy = "lru";
    check("bias, two kept, lru", p);
    p.route_bias_range = true;
    check("bias in ranges, two kept, lru", p);
    smol_params_default(&p);
    p.route_swap = 0.8f;
    p.route_swap_keep = 1;
    check("swap", p);
    smol_params_default(&p);
    p.route_drop = 0.25f;
    p.route_drop_keep = 1;
    check("drop", p);
    p.route_swap = 0.8f;
    p.route_bias = 0.1f;
    check("drop, swap and bias", p);
    smol_params_default(&p);
    p.experts_used = 3;
    check("fewer experts", p);
    check_off();
    check_report();
    check_next_block();
    check_drafts();
    return tap_done();
}
