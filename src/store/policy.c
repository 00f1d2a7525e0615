/* SPDX-License-Identifier: MIT */
#include "store/policy.h"

#include "base/mem.h"

#include <string.h>

static void lru_use(struct sm_policy *p, uint16_t expert) { p->stamp[expert] = ++p->clock; }
static uint64_t lru_heat(const struct sm_policy *p, uint16_t expert) { return p->stamp[expert]; }

const struct sm_policy_ops sm_policy_lru = {"lru", lru_use, lru_heat};

const struct sm_policy_ops *sm_policy_find(const char *name)
{
    static const struct sm_policy_ops *const all[] = {&sm_policy_lru};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->name, name)) return all[i];
    return NULL;
}

static size_t stamp_bytes(uint32_t n) { return sm_round_up(sizeof(uint64_t) * n, SM_ALIGN); }
static size_t flag_bytes(uint32_t n) { return sm_round_up(n, SM_ALIGN); }

size_t sm_policy_bytes(uint32_t n_expert) { return stamp_bytes(n_expert) + 2 * flag_bytes(n_expert); }

void sm_policy_init(struct sm_policy *p, const struct sm_policy_ops *ops, uint32_t n_expert,
                    uint32_t n_slots, void *tables)
{
    uint8_t *at = tables;
    memset(p, 0, sizeof *p);
    p->ops = ops;
    p->n_expert = n_expert;
    p->n_slots = n_slots;
    p->stamp = (uint64_t *)tables;
    p->held = at + stamp_bytes(n_expert);
    p->chosen = p->held + flag_bytes(n_expert);
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

unsigned sm_policy_touch(struct sm_policy *p, const uint16_t *ids, unsigned k)
{
    unsigned misses = 0;
    for (unsigned i = 0; i < k; i++) p->chosen[ids[i]] = 1;
    for (unsigned i = 0; i < k; i++) {
        p->ops->use(p, ids[i]);
        if (p->held[ids[i]]) continue;
        misses++;
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
