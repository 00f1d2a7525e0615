/* SPDX-License-Identifier: MIT */
/* The logical pool of one layer: which experts token-by-token decoding would hold in n_slots slots,
 * whatever was prefetched, read in waves or left over physically. It counts hits and misses, says
 * which slots are worth keeping, and is the fixed point that lossy levers look at.
 *
 * A policy is two functions: `use` notes a use, `heat` orders experts (the coldest leaves first).
 * Everything else is common. One thread; no allocation after sm_policy_init. */
#ifndef SM_POLICY_H
#define SM_POLICY_H

#include "base/status.h"
#include <stdbool.h>

struct sm_policy;
struct sm_policy_ops {
    const char *name;
    void (*use)(struct sm_policy *p, uint16_t expert);
    /* Below 2^63; two experts never have the same heat unless neither was ever used. */
    uint64_t (*heat)(const struct sm_policy *p, uint16_t expert);
};
extern const struct sm_policy_ops sm_policy_lru;
/* NULL when the name is unknown. */
const struct sm_policy_ops *sm_policy_find(const char *name);

struct sm_policy {
    const struct sm_policy_ops *ops;
    uint32_t n_expert, n_slots, n_held;
    uint64_t clock;   /* uses so far */
    uint64_t *stamp;  /* [n_expert] clock of the last use, 0 = never */
    uint8_t *held;    /* [n_expert] 1: in the logical pool */
    uint8_t *chosen;  /* [n_expert] scratch of sm_policy_touch, all zero between calls */
};

/* Bytes of tables for n experts, to be handed to sm_policy_init (zeroed, 64-byte aligned). */
size_t sm_policy_bytes(uint32_t n_expert);
void sm_policy_init(struct sm_policy *p, const struct sm_policy_ops *ops, uint32_t n_expert,
                    uint32_t n_slots, void *tables);
/* One token uses k distinct experts, in this order: those held are hits; then each missing one
 * enters, the coldest not chosen by this token leaving when the pool is full. Returns misses. */
unsigned sm_policy_touch(struct sm_policy *p, const uint16_t *ids, unsigned k);

/* What to keep: greater is worth more. Experts outside the logical pool are below all inside. */
static inline uint64_t sm_policy_worth(const struct sm_policy *p, uint16_t expert)
{
    return ((uint64_t)p->held[expert] << 63) | p->ops->heat(p, expert);
}

#endif
