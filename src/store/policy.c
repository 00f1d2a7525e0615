/* SPDX-License-Identifier: MIT */
#include "store/policy.h"

#include "base/mem.h"

#include <string.h>

static void lru_use(struct sm_policy *p, uint16_t expert) { p->stamp[expert] = ++p->clock; }
static uint64_t lru_heat(const struct sm_policy *p, uint16_t expert) { return p->stamp[expert]; }

const struct sm_policy_ops sm_policy_lru = {"lru", lru_use, lru_heat};

/* Of the half-lives 8, 32, 128, 512 and 4096 tokens, 128 missed least at every pool size on the
 * trained tiny-moe (docs/experiments.md). */
#define GROWTH 0x1.0163da9fb3335p0 /* 2^(1/128), a token */

/* Positive doubles order as their bits do. */
static uint64_t order_of(double heat)
{
    uint64_t bits;
    memcpy(&bits, &heat, sizeof bits);
    return bits;
}

static uint64_t lfu_heat(const struct sm_policy *p, uint16_t expert)
{
    return order_of(p->sum[expert]);
}

const struct sm_policy_ops sm_policy_lfu = {"lfu", lru_use, lfu_heat};

static uint64_t lfru_heat(const struct sm_policy *p, uint16_t expert)
{
    if (!p->stamp[expert]) return order_of(p->sum[expert]);
    const double age = (double)(p->tokens - p->last[expert]);
    return order_of(p->sum[expert] + p->weight * (SM_LFRU_BONUS / (1 + age / 8)));
}

const struct sm_policy_ops sm_policy_lfru = {"lfru", lru_use, lfru_heat};

const struct sm_policy_ops *sm_policy_find(const char *name)
{
    static const struct sm_policy_ops *const all[] = {&sm_policy_lru, &sm_policy_lfu,
                                                      &sm_policy_lfru};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

static size_t stamp_bytes(uint32_t n) { return sm_round_up(sizeof(uint64_t) * n, SM_ALIGN); }
static size_t missed_bytes(uint32_t n) { return sm_round_up(sizeof(uint32_t) * n, SM_ALIGN); }
static size_t flag_bytes(uint32_t n) { return sm_round_up(n, SM_ALIGN); }

size_t sm_policy_bytes(uint32_t n_expert)
{
    return 4 * stamp_bytes(n_expert) + 2 * flag_bytes(n_expert) + missed_bytes(n_expert);
}

void sm_policy_init(struct sm_policy *p, const struct sm_policy_ops *ops, uint32_t n_expert,
                    uint32_t n_slots, void *tables)
{
    uint8_t *at = tables;
    memset(p, 0, sizeof *p);
    p->ops = ops;
    p->n_expert = n_expert;
    p->n_slots = n_slots;
    p->weight = 1;
    p->stamp = (uint64_t *)tables;
    p->last = (uint64_t *)(void *)(at + stamp_bytes(n_expert));
    p->sum = (double *)(void *)(at + 2 * stamp_bytes(n_expert));
    p->count = (uint64_t *)(void *)(at + 3 * stamp_bytes(n_expert));
    p->held = at + 4 * stamp_bytes(n_expert);
    p->chosen = p->held + flag_bytes(n_expert);
    p->missed = (uint32_t *)(void *)(p->chosen + flag_bytes(n_expert));
}

/* The coldest held expert; one that this token chose only when there is no other (a pool smaller
 * than the token's choice, which the plan never makes). A scan: 256 experts take 0.1 us, and only
 * misses pay for it, which read a megabyte each. */
static uint16_t coldest(const struct sm_policy *p)
{
    uint32_t best = 0;
    uint64_t best_heat = UINT64_MAX;
    for (uint32_t e = 0; e < p->n_expert; e++) {
        if (!p->held[e]) continue;
        const uint64_t heat = ((uint64_t)p->chosen[e] << 63) | p->ops->heat(p, (uint16_t)e);
        if (heat < best_heat) {
            best_heat = heat;
            best = e;
        }
    }
    return (uint16_t)best;
}

static void next_token(struct sm_policy *p)
{
    p->tokens++;
    p->weight = p->weight * GROWTH;
    if (p->weight < 0x1p256) return;
    p->weight = p->weight * 0x1p-256; /* exact, until something was not used for 30,000 tokens */
    for (uint32_t e = 0; e < p->n_expert; e++) p->sum[e] = p->sum[e] * 0x1p-256;
}

unsigned sm_policy_touch(struct sm_policy *p, const uint16_t *ids, unsigned k)
{
    unsigned misses = 0;
    next_token(p);
    for (unsigned i = 0; i < k; i++) p->chosen[ids[i]] = 1;
    for (unsigned i = 0; i < k; i++) {
        p->ops->use(p, ids[i]);
        p->last[ids[i]] = p->tokens;
        p->count[ids[i]]++;
        p->sum[ids[i]] = p->sum[ids[i]] + p->weight;
        if (p->held[ids[i]]) continue;
        misses++;
        p->missed[ids[i]]++;
        if (p->n_held == p->n_slots) {
            p->held[coldest(p)] = 0;
            p->n_held--;
        }
        p->held[ids[i]] = 1;
        p->n_held++;
    }
    for (unsigned i = 0; i < k; i++) p->chosen[ids[i]] = 0;
    return misses;
}

void sm_policy_add_range(struct sm_policy *p, float range)
{
    p->range = p->range + (double)range;
    p->n_range++;
}

float sm_policy_range(const struct sm_policy *p)
{
    return p->n_range ? (float)(p->range / (double)p->n_range) : 0;
}

void sm_policy_shrink(struct sm_policy *p, uint32_t n_slots)
{
    if (n_slots < 1) n_slots = 1;
    if (n_slots < p->n_slots) p->n_slots = n_slots;
    for (; p->n_held > p->n_slots; p->n_held--) p->held[coldest(p)] = 0;
}

void sm_policy_warm(struct sm_policy *p, const float *uses)
{
    for (uint32_t e = 0; e < p->n_expert; e++) p->sum[e] = p->weight * (double)uses[e];
    while (p->n_held < p->n_slots) {
        uint32_t best = p->n_expert;
        for (uint32_t e = 0; e < p->n_expert; e++)
            if (!p->held[e] && uses[e] > 0 && (best == p->n_expert || uses[e] > uses[best]))
                best = e;
        if (best == p->n_expert) return;
        p->held[best] = 1;
        p->n_held++;
    }
}

double sm_policy_uses(const struct sm_policy *p, uint16_t expert)
{
    return p->sum[expert] / p->weight;
}
