/* SPDX-License-Identifier: MIT */
#include "states.h"
#include "../lib/state_folder.h"
#include "infer/session.h"

#include <stdio.h>

/* A template may write the end of a prompt otherwise when an answer follows: that is no new
 * conversation. */
#define SLACK_TOKENS 16u

static void keep(struct sm_states *k, smol_session *session)
{
    smol_error err = {0};
    if (!k->folder || k->kept || !smol_session_length(session)) return;
    k->kept = true;
    if (smol_cache_save(session, k->folder, SM_STATES_BYTES, &err) == SMOL_OK) return;
    if (!k->quiet) fprintf(stderr, "smol: note: a conversation's state is not kept: %s\n", err.msg);
    if (err.code != SMOL_LIMIT) k->folder = NULL;
}

void sm_states_turn(struct sm_states *k, smol_session *session, const int32_t *ids, size_t n)
{
    smol_error err = {0};
    size_t n_have = 0;
    const int32_t *have = smol_session_tokens(session, &n_have);
    size_t same = sm_same_tokens(ids, n, have, n_have);
    const bool goes_on = k->n_turns && same + SLACK_TOKENS >= k->n_prompt;
    if (goes_on) {
        k->n_turns++;
    } else if (k->folder) {
        const size_t before = same;
        if (k->n_turns > 1) keep(k, session);
        if (smol_cache_restore(session, k->folder, ids, n, &same, &err) != SMOL_OK && !k->quiet)
            fprintf(stderr, "smol: note: a kept state is not used: %s\n", err.msg);
        k->n_turns = same > before ? 2 : 1;
    } else {
        k->n_turns = 1;
    }
    k->n_prompt = n;
    k->kept = false;
}

void sm_states_end(struct sm_states *k, smol_session *session) { keep(k, session); }
