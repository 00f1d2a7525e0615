/* SPDX-License-Identifier: MIT */
/* Pools filled from what earlier runs used, and what this run adds. */
#include "base/log.h"
#include "infer/engine_int.h"
#include "store/learn.h"

/* The list at `path` into per_1000 [n_pool * n_expert]; false: none, or not for this model. */
static bool read_learned(const struct sm_engine *e, const char *path, float *per_1000,
                         uint64_t *tokens, smol_error *err)
{
    struct sm_file *f = NULL;
    char *text = NULL;
    bool good = false;
    if (sm_file_open(&f, path, false, NULL) != SMOL_OK) return false;
    const uint64_t n = sm_file_size(f);
    if (n > 0 && n <= SM_LEARN_BYTES_MAX) text = sm_mem_new((size_t)n);
    if (text && sm_file_read(f, 0, text, (size_t)n, err) == SMOL_OK)
        good = sm_learn_parse(text, (size_t)n, sm_store_n_pools(e->store), e->model->hp.n_expert,
                              per_1000, tokens, err) == SMOL_OK;
    sm_mem_free(text, (size_t)n);
    sm_file_close(f);
    return good;
}

smol_status sm_engine_read_learned(struct sm_engine *e, const char *path, smol_error *err)
{
    const size_t n = (size_t)sm_store_n_pools(e->store) * e->model->hp.n_expert;
    smol_error why = {0};
    uint64_t tokens = 0;
    if (!path || !n) return SMOL_OK;
    e->learned = sm_mem_new(n * sizeof(float));
    if (!e->learned) return SM_FAIL(err, NOMEM, "no memory for the list of experts");
    if (read_learned(e, path, e->learned, &tokens, &why) && tokens) return SMOL_OK;
    if (why.msg[0]) sm_log_note("%s is ignored: %s", path, why.msg);
    sm_engine_drop_learned(e);
    return SMOL_OK;
}

void sm_engine_drop_learned(struct sm_engine *e)
{
    if (!e->learned) return;
    sm_mem_free(e->learned,
                (size_t)sm_store_n_pools(e->store) * e->model->hp.n_expert * sizeof(float));
    e->learned = NULL;
}

/* The use of all experts beyond the n_slots most used of each layer. What a policy keeps is not
 * quite what a long view would keep: one miss in seven more was counted on the trained tiny-moe. */
double sm_engine_miss_learned(void *arg, uint32_t n_slots)
{
    const struct sm_engine *e = arg;
    const uint32_t n = e->model->hp.n_expert, n_pools = sm_store_n_pools(e->store);
    double all = 0, kept = 0;
    if (!e->learned) return -1;
    for (uint32_t l = 0; l < n_pools; l++) {
        const float *uses = e->learned + (size_t)l * n;
        for (uint32_t i = 0; i < n; i++) {
            uint32_t warmer = 0; /* experts before this one in the order of use */
            for (uint32_t j = 0; j < n; j++)
                warmer += uses[j] > uses[i] || (uses[j] == uses[i] && j < i);
            all += (double)uses[i];
            if (warmer < n_slots) kept += (double)uses[i];
        }
    }
    return all > 0 ? (1 - kept / all) * 8 / 7 : -1;
}

smol_status sm_engine_warm(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const uint32_t n_pools = sm_store_n_pools(e->store), n = e->model->hp.n_expert;
    const bool levers = sm_engine_pool_lever(p);
    smol_status st = SMOL_OK;
    if (e->plan.experts_resident || !e->learned) return SMOL_OK;
    for (uint32_t i = 0; st == SMOL_OK && i < n_pools; i++) {
        st = sm_store_warm(e->store, i, e->learned + (size_t)i * n, !levers, err);
        if (e->progress) e->progress(e->progress_arg, "filling pools", i + 1, n_pools);
        if (st == SMOL_OK && e->cancel && *e->cancel) st = SM_FAIL(err, CANCELLED, "stopped");
    }
    sm_store_reset_stats(e->store);
    return st;
}

smol_status sm_engine_learn(const struct sm_engine *e, const char *path, smol_error *err)
{
    const uint32_t n_pools = sm_store_n_pools(e->store), n = e->model->hp.n_expert;
    const size_t count = (size_t)n_pools * n;
    uint64_t tokens = 0, now = 0;
    smol_status st = SMOL_OK;
    if (e->plan.experts_resident || !count) return SMOL_OK;
    float *old = sm_mem_new(2 * count * sizeof *old), *uses = old ? old + count : NULL;
    if (!old) return SM_FAIL(err, NOMEM, "no memory for the list of experts");
    if (!read_learned(e, path, old, &tokens, NULL)) tokens = 0;
    for (uint32_t i = 0; i < n_pools; i++) now = sm_store_usage(e->store, i, uses + (size_t)i * n);
    sm_learn_merge(old, &tokens, uses, now, count);
    const size_t bytes = sm_learn_format(NULL, 0, n_pools, n, old, tokens);
    char *text = sm_mem_new(bytes);
    if (text) (void)sm_learn_format(text, bytes, n_pools, n, old, tokens);
    st = text ? sm_file_replace(path, text, bytes, err)
              : SM_FAIL(err, NOMEM, "no memory for a list");
    sm_mem_free(text, bytes);
    sm_mem_free(old, 2 * count * sizeof *old);
    return st;
}

