/* SPDX-License-Identifier: MIT */
/* One timeline of tokens over an engine. The engine owns the memory; one session at a time. */
#ifndef SM_SESSION_H
#define SM_SESSION_H

#include "infer/engine.h"

struct sm_session {
    struct sm_engine *e;
    uint32_t n;       /* tokens read: e->tokens[0 .. n-1] */
    bool have_logits; /* row `row` of e->graph.logits is the one behind token n - 1 */
    uint32_t row;
    /* The batch of the last sm_session_feed: tried[0] was given, the others are drafts, of which
     * the first n_right - 1 turned out right and became part of the text. */
    int32_t tried[SM_DRAFT_MAX + 1];
    uint32_t n_tried, n_right;
    struct sm_draft_choice choice;
    const int32_t *oracle; /* tests: the tokens that will be given, from tried[0] on */
    uint32_t n_oracle;
    bool have_copy;   /* e->snapshot holds the recurrent states behind token n_copy - 1 */
    uint32_t n_copy;
    uint32_t n_pure;  /* tokens whose keys are as reading them gives; UINT32_MAX: all (shift.h) */
};

/* How many tokens two lists have in common from their start. */
static inline uint32_t sm_same_tokens(const int32_t *a, size_t n_a, const int32_t *b, size_t n_b)
{
    uint32_t n = 0;
    while (n < n_a && n < n_b && a[n] == b[n]) n++;
    return n;
}

SM_NODISCARD smol_status sm_session_open(struct sm_session *s, struct sm_engine *e,
                                         smol_error *err);
void sm_session_close(struct sm_session *s);
/* No tokens, no drafts, and the states of an empty context. */
void sm_session_clear(struct sm_session *s);
/* n tokens fit the context and are tokens of the model: else LIMIT, ARG. */
SM_NODISCARD smol_status sm_session_check(const struct sm_session *s, const int32_t *tokens,
                                          size_t n, smol_error *err);
/* See smol_session_sync, _append, _score in smol.h. */
SM_NODISCARD smol_status sm_session_sync(struct sm_session *s, const int32_t *tokens, size_t n,
                                         smol_error *err);
SM_NODISCARD smol_status sm_session_append(struct sm_session *s, int32_t token, smol_error *err);
/* As append, with drafts behind the token: up to `room` of them, checked in one pass. When the
 * token is the draft that follows, its logits are there already. Token by token the logits are the
 * same bits as with append. */
SM_NODISCARD smol_status sm_session_feed(struct sm_session *s, int32_t token, uint32_t room,
                                         smol_error *err);
/* Logits behind the last token, NULL when there are none. */
const float *sm_session_logits(const struct sm_session *s);
/* The drafts that were not confirmed so far are taken back. All other calls begin with it. */
void sm_session_settle(struct sm_session *s);
SM_NODISCARD smol_status sm_session_score(struct sm_session *s, const int32_t *tokens, size_t n,
                                          smol_score_fn fn, void *arg, smol_error *err);

#endif
