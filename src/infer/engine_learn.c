/* SPDX-License-Identifier: MIT */
/* Pools filled from what earlier runs used, and what this run adds. */
#include "base/log.h"
#include "infer/engine_int.h"
#include "store/learn.h"

enum found {
    FOUND_NOTHING, /* that is worth keeping: a new list may be written */
    FOUND_LIST,
    FOUND_OTHER    /* a file that may be anything: it stays as it is */
};

/* Uses per 1000 tokens [the larger of n_layers and n_pools][n_expert], n_layers from the file. */
struct list {
    float *uses;
    size_t bytes;
    uint32_t n_layers;
    uint64_t tokens;
};

static void free_list(struct list *l)
{
    if (l->uses) sm_mem_free(l->uses, l->bytes);
    l->uses = NULL;
}

static enum found take_list(const struct sm_engine *e, const char *text, size_t n, struct list *l,
                            smol_error *err)
{
    const uint32_t n_pools = sm_store_n_pools(e->store);
    uint32_t n_expert = e->model->hp.n_expert;
    if (!sm_learn_is_list(text, n)) {
        (void)SM_FAIL(err, FORMAT, "not a list of learned experts");
        return FOUND_OTHER;
    }
    if (!sm_learn_shape(text, n, &l->n_layers, &n_expert)) {
        (void)SM_FAIL(err, FORMAT, "the list is broken");
        return FOUND_NOTHING;
    }
    if (n_expert != e->model->hp.n_expert || l->n_layers > 2 * n_pools)
        return FOUND_NOTHING; /* another model was here; no memory for more than two such lists */
    l->bytes = (size_t)(l->n_layers > n_pools ? l->n_layers : n_pools) * n_expert * sizeof(float);
    l->uses = sm_mem_new(l->bytes);
    if (!l->uses) return FOUND_OTHER;
    if (sm_learn_parse(text, n, l->n_layers, n_expert, l->uses, &l->tokens, err) == SMOL_OK)
        return FOUND_LIST;
    free_list(l);
    return FOUND_NOTHING;
}

/* What is at `path`. l: to be freed when it is a list. */
static enum found find_list(const struct sm_engine *e, const char *path, struct list *l,
                            smol_error *err)
{
    struct sm_file *f = NULL;
    enum found found = FOUND_OTHER;
    if (sm_file_open(&f, path, false, NULL) != SMOL_OK) return FOUND_NOTHING;
    const uint64_t all = sm_file_size(f);
    const size_t n = (size_t)(all <= SM_LEARN_BYTES_MAX ? all : 64);
    char *text = n ? sm_mem_new(n) : NULL;
    if (!n) found = FOUND_NOTHING;
    else if (text && sm_file_read(f, 0, text, n, err) == SMOL_OK)
        found = take_list(e, text, n, l, err);
    if (text) sm_mem_free(text, n);
    sm_file_close(f);
    return found;
}

/* Layers that the list does not have: all experts of them alike, as many uses as in the others. */
static void copy_uses(const struct list *l, float *to, uint32_t n_pools, uint32_t n_expert)
{
    const size_t all = (size_t)n_pools * n_expert, have = (size_t)l->n_layers * n_expert;
    double sum = 0;
    for (size_t i = 0; i < have; i++) sum += (double)l->uses[i];
    for (size_t i = 0; i < all; i++)
        to[i] = i < have ? l->uses[i] : (float)(have ? sum / (double)have : 0);
}

smol_status sm_engine_read_learned(struct sm_engine *e, const char *path, smol_error *err)
{
    const uint32_t n_pools = sm_store_n_pools(e->store), n_expert = e->model->hp.n_expert;
    const size_t n = (size_t)n_pools * n_expert;
    smol_error why = {0};
    struct list l = {0};
    if (!path || !n) return SMOL_OK;
    const enum found found = find_list(e, path, &l, &why);
    if (why.msg[0])
        sm_log_note("%s is ignored%s: %s", path,
                    found == FOUND_OTHER ? " and stays as it is" : "", why.msg);
    if (found != FOUND_LIST) return SMOL_OK;
    if (l.tokens) {
        e->learned = sm_mem_new(n * sizeof(float));
        if (e->learned) copy_uses(&l, e->learned, n_pools, n_expert);
    }
    const bool short_of_memory = l.tokens && !e->learned;
    free_list(&l);
    return short_of_memory ? SM_FAIL(err, NOMEM, "no memory for the list of experts") : SMOL_OK;
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

/* The list of earlier runs and this one, in l: new layers begin with this run. */
static smol_status add_uses(const struct sm_engine *e, struct list *l, smol_error *err)
{
    const uint32_t n_pools = sm_store_n_pools(e->store), n = e->model->hp.n_expert;
    const size_t count = (size_t)n_pools * n, known = (size_t)l->n_layers * n;
    uint64_t now = 0;
    float *uses = sm_mem_new(count * sizeof *uses);
    if (uses && !l->uses) {
        l->bytes = count * sizeof *l->uses;
        l->uses = sm_mem_new(l->bytes);
    }
    if (!uses || !l->uses) {
        if (uses) sm_mem_free(uses, count * sizeof *uses);
        return SM_FAIL(err, NOMEM, "no memory for the list of experts");
    }
    for (uint32_t i = 0; i < n_pools; i++) now = sm_store_usage(e->store, i, uses + (size_t)i * n);
    for (size_t i = known; i < count; i++) l->uses[i] = uses[i];
    sm_learn_merge(l->uses, &l->tokens, uses, now, count);
    if (l->n_layers < n_pools) l->n_layers = n_pools;
    sm_mem_free(uses, count * sizeof *uses);
    return SMOL_OK;
}

smol_status sm_engine_learn(const struct sm_engine *e, const char *path, smol_error *err)
{
    const uint32_t n = e->model->hp.n_expert;
    struct list l = {0};
    char *text = NULL;
    size_t bytes = 0;
    if (e->plan.experts_resident || !n || !sm_store_n_pools(e->store)) return SMOL_OK;
    const enum found found = find_list(e, path, &l, NULL);
    if (found == FOUND_OTHER) return SMOL_OK; /* said when it was to be read */
    if (found == FOUND_NOTHING) l = (struct list){0};
    smol_status st = add_uses(e, &l, err);
    if (st == SMOL_OK) {
        bytes = sm_learn_format(NULL, 0, l.n_layers, n, l.uses, l.tokens);
        text = sm_mem_new(bytes);
        if (text) (void)sm_learn_format(text, bytes, l.n_layers, n, l.uses, l.tokens);
        st = text ? sm_file_replace(path, text, bytes, err)
                  : SM_FAIL(err, NOMEM, "no memory for a list");
    }
    if (text) sm_mem_free(text, bytes);
    free_list(&l);
    return st;
}
