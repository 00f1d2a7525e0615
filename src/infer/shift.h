/* SPDX-License-Identifier: MIT */
/* A context that is full goes on without its oldest part: keys and values of what stays move up,
 * the keys turned to their new positions. A lossy lever: what stays had seen what is gone. */
#ifndef SM_SHIFT_H
#define SM_SHIFT_H

#include "infer/session.h"

/* See smol_session_shift in smol.h. */
SM_NODISCARD smol_status sm_session_shift(struct sm_session *s, const int32_t *tokens, size_t n,
                                          size_t *n_held, smol_error *err);

#endif
