/* SPDX-License-Identifier: MIT */
/* One timeline of tokens over an engine. The engine owns the memory; one session at a time. */
#ifndef SM_SESSION_H
#define SM_SESSION_H

#include "infer/engine.h"

struct sm_session {
    struct sm_engine *e;
    uint32_t n;       /* tokens read: e->tokens[0 .. n-1] */
    bool have_logits; /* e->graph.logits are those behind token n - 1 */
};

SM_NODISCARD smol_status sm_session_open(struct sm_session *s, struct sm_engine *e, smol_error *err);
void sm_session_close(struct sm_session *s);
/* See smol_session_sync, _append, _score in smol.h. */
SM_NODISCARD smol_status sm_session_sync(struct sm_session *s, const int32_t *tokens, size_t n,
                                         smol_error *err);
SM_NODISCARD smol_status sm_session_append(struct sm_session *s, int32_t token, smol_error *err);
SM_NODISCARD smol_status sm_session_score(struct sm_session *s, const int32_t *tokens, size_t n,
                                          smol_score_fn fn, void *arg, smol_error *err);

#endif
