/* SPDX-License-Identifier: MIT */
/* Routing traces of any content: read whole or refused with a sentence; what was read is
 * replayed. */
#include "store/replay.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sm_trace_data d;
    smol_error err = {0};
    if (sm_trace_read(&d, data, size, &err) != SMOL_OK) {
        if (!err.msg[0]) abort();
        return 0;
    }
    for (uint32_t l = 0; l < d.shape.n_layers && l < 4; l++) {
        const struct sm_replay how[] = {
            {.n_slots = d.shape.n_used},
            {sm_policy_find("lfu"),
             d.shape.n_used,
             {.bias = 0.1f, .bias_keep = 1, .bias_range = true}},
            {sm_policy_find("lfu"), d.shape.n_used, {.swap = 0.8f, .swap_keep = 1, .drop = 0.2f}},
            {sm_policy_find("lfru"), d.shape.n_expert, {.swap = 0.8f, .swap_keep = 1}},
        };
        for (size_t i = 0; i < sizeof how / sizeof *how; i++) {
            struct sm_replay_result r = {0};
            if (sm_replay_run(&d, l, &how[i], &r, &err) == SMOL_OK && r.misses > r.uses) abort();
        }
    }
    sm_trace_free(&d);
    return 0;
}
