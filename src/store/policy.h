/* SPDX-License-Identifier: MIT */
/* The logical pool of one layer: which experts token-by-token decoding would hold in n_slots slots,
 * whatever was prefetched, read in waves or left over physically. It counts hits and misses, says
 * which slots are worth keeping, and is the fixed point that lossy levers look at.
 *
 * A policy is two functions: `use` notes a use, `heat` orders experts (the coldest leaves first).
 * Everything else is common. One thread; no allocation after sm_policy_init.
 *
 *   lru   the expert unused for longest leaves
 *   lfu   decayed use: every use counts 1, and half as much 128 tokens later
 *   lfru  decayed use, plus a bonus for the last few tokens: SM_LFRU_BONUS / (1 + age / 8)
 *
 * Heat is made of +, x and / on doubles, so that a lever that looks at the pool repeats bit for
 * bit. */
#ifndef SM_POLICY_H
#define SM_POLICY_H

#include "base/status.h"
#include <stdbool.h>

struct sm_policy;
struct sm_policy_ops {
    const char *name;
    void (*use)(struct sm_policy *p, uint16_t expert);
    /* Below 2^63. Of equally cold ones the lower index leaves. */
    uint64_t (*heat)(const struct sm_policy *p, uint16_t expert);
};
extern const struct sm_policy_ops sm_policy_lru, sm_policy_lfu, sm_policy_lfru;
#define SM_LFRU_BONUS 1.0 /* uses */
/* NULL when the name is unknown. */
const struct sm_policy_ops *sm_policy_find(const char *name);

struct sm_policy {
    const struct sm_policy_ops *ops;
    uint32_t n_expert, n_slots, n_held;
    uint64_t clock;   /* uses so far */
    uint64_t tokens;  /* tokens so far */
    double weight;    /* of a use at present: it grows instead of letting the sums decay */
    double range;     /* sum of the ranges of the scores so far (sm_policy_range) */
    uint64_t n_range; /* how many they are */
    uint64_t *stamp;  /* [n_expert] clock of the last use, 0 = never */
    uint64_t *last;   /* [n_expert] token of the last use */
    double *sum;      /* [n_expert] weights of its uses */
    uint64_t *count;  /* [n_expert] uses */
    uint8_t *held;    /* [n_expert] 1: in the logical pool */
    uint8_t *chosen;  /* [n_expert] scratch of sm_policy_touch, all zero between calls */
    uint32_t *missed; /* [n_expert] misses that the owner has not looked at yet: it empties them */
};

/* Bytes of tables for n experts, to be handed to sm_policy_init (zeroed, 64-byte aligned). */
size_t sm_policy_bytes(uint32_t n_expert);
void sm_policy_init(struct sm_policy *p, const struct sm_policy_ops *ops, uint32_t n_expert,
                    uint32_t n_slots, void *tables);
/* One token uses k distinct experts, in this order: those held are hits; then each missing one
 * enters, the coldest not chosen by this token leaving when the pool is full. Returns misses. */
unsigned sm_policy_touch(struct sm_policy *p, const uint16_t *ids, unsigned k);
/* Ranges of the scores, for levers that count in their running mean: one more; the mean, 0:
 * none. */
void sm_policy_add_range(struct sm_policy *p, float range);
float sm_policy_range(const struct sm_policy *p);
/* Fewer slots: the coldest leave. At least 1. */
void sm_policy_shrink(struct sm_policy *p, uint32_t n_slots);
/* Begin with what was learned before: an expert's uses per token as of now, warmest held. */
void sm_policy_warm(struct sm_policy *p, const float *uses);
/* What was learned so far: decayed uses of an expert, in units of one use now. */
double sm_policy_uses(const struct sm_policy *p, uint16_t expert);

/* What to keep: greater is worth more. Experts outside the logical pool are below all inside. */
static inline uint64_t sm_policy_worth(const struct sm_policy *p, uint16_t expert)
{
    return ((uint64_t)p->held[expert] << 63) | p->ops->heat(p, expert);
}

#endif
