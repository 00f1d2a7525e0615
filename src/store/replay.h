/* SPDX-License-Identifier: MIT */
/* Replays one layer of a routing trace against a policy, a pool size and levers, or against
 * Belady's bound. The words are those of docs/pager.md: a miss is a use whose expert was not in the
 * pool under the policy alone. With a lever the choice follows the pool, but the recorded scores
 * stay what they were: what a lever changes in later layers and tokens is not seen here. */
#ifndef SM_REPLAY_H
#define SM_REPLAY_H

#include "store/choice.h"
#include "store/policy.h"
#include "store/trace.h"

struct sm_replay {
    const struct sm_policy_ops *policy; /* NULL: Belady's bound (levers are ignored) */
    uint32_t n_slots;                   /* at least the experts one token uses */
    struct sm_lever lever;
};

/* Sums; sm_replay_run adds to them. */
struct sm_replay_result {
    uint64_t uses, misses;
    uint64_t dropped;                  /* choices that a lever left out; not among the uses */
    /* By routers, not by the embedding before the first layers: */
    /* missing experts that were expected from a + 1 layers before */
    uint64_t asked[SM_TRACE_AHEAD];
    uint64_t foreseen[SM_TRACE_AHEAD]; /* of those, really used: misses that were seen coming */
    uint64_t predictable[SM_TRACE_AHEAD]; /* misses of uses for which there was a prediction */
    /* By the token's memory (token_memory.h): missing experts that the token had when it was last
     * seen, not ([0]) and also ([1]) the time before; of those, really used. */
    uint64_t recalled[2], recalled_right[2];
};

SM_NODISCARD smol_status sm_replay_run(const struct sm_trace_data *d, uint32_t layer,
                                       const struct sm_replay *how, struct sm_replay_result *sum,
                                       smol_error *err);

#endif
