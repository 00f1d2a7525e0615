/* SPDX-License-Identifier: MIT */
/* Warm start: the pool is filled with what was used most in earlier runs, before the first
 * token. */
#include "store/store_int.h"

#include <assert.h>

/* A list stands for this many tokens of use when it meets what this run does. */
#define WARM_TOKENS 64.0f

uint64_t sm_store_usage(const struct sm_store *s, uint32_t pool, float *per_1000)
{
    assert(pool < s->n_pools);
    const struct sm_policy *p = &s->pool[pool]->policy;
    const double n = p->tokens ? (double)p->tokens : 1;
    for (uint32_t e = 0; e < p->n_expert; e++)
        per_1000[e] = (float)((double)p->count[e] * 1000 / n);
    return p->tokens;
}

/* The most used experts, as many as there are slots, in ascending order. */
static unsigned most_used(const struct sm_expert_pool *p, const float *per_1000, uint8_t *mark,
                          uint16_t *ids)
{
    unsigned n = 0;
    for (uint32_t i = 0; i < sm_pool_own(p); i++) {
        uint32_t best = p->info.n_expert;
        for (uint32_t e = 0; e < p->info.n_expert; e++)
            if (!mark[e] && per_1000[e] > 0 &&
                (best == p->info.n_expert || per_1000[e] > per_1000[best]))
                best = e;
        if (best == p->info.n_expert) break;
        mark[best] = 1;
    }
    for (uint32_t e = 0; e < p->info.n_expert; e++)
        if (mark[e]) ids[n++] = (uint16_t)e;
    return n;
}

static smol_status read_all(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                            smol_error *err)
{
    smol_status st = SMOL_OK;
    sm_pager_begin(s, pool, ids, n, SM_ORDER_ASCENDING);
    for (unsigned i = 0; st == SMOL_OK && i < n; i++) {
        struct sm_expert e;
        unsigned item;
        st = sm_pager_take(s, &item, &e, err);
        if (st == SMOL_OK) st = sm_pager_take_down(s, item, err);
        if (st == SMOL_OK) sm_pager_give(s, item);
    }
    sm_pager_end(s);
    return st;
}

smol_status sm_store_warm(struct sm_store *s, uint32_t pool, const float *per_1000, bool logical,
                          smol_error *err)
{
    assert(pool < s->n_pools);
    struct sm_expert_pool *p = s->pool[pool];
    const uint32_t n = p->info.n_expert;
    if (p->complete) return SMOL_OK;
    uint8_t *mark = sm_mem_new(n + n * sizeof(uint16_t) + n * sizeof(float) + 2 * SM_ALIGN);
    const size_t bytes = n + n * sizeof(uint16_t) + n * sizeof(float) + 2 * SM_ALIGN;
    if (!mark) return SM_FAIL(err, NOMEM, "no memory to fill a pool");
    uint16_t *ids = (uint16_t *)(void *)(mark + sm_round_up(n, SM_ALIGN));
    const unsigned n_ids = most_used(p, per_1000, mark, ids);
    if (logical) { /* before the reads, so that no read drives out what is worth more */
        float *uses = (float *)(void *)(mark + sm_round_up(n, SM_ALIGN) +
                                        sm_round_up(n * sizeof(uint16_t), sizeof(float)));
        for (uint32_t e = 0; e < n; e++) uses[e] = per_1000[e] * (WARM_TOKENS / 1000);
        sm_policy_warm(&p->policy, uses);
    }
    const smol_status st = n_ids ? read_all(s, pool, ids, n_ids, err) : SMOL_OK;
    sm_mem_free(mark, bytes);
    return st;
}
