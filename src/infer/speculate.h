/* SPDX-License-Identifier: MIT */
/* The next-token block at work beside a session: it keeps the hidden rows of the last batch, gives
 * the block a row for every position that became text, and drafts. */
#ifndef SM_SPECULATE_H
#define SM_SPECULATE_H

#include "infer/engine.h"

/* Floats of the hidden rows for batches of max_tok tokens, from `a` (only counts while base is
 * NULL). Nothing without a next-token block. */
void sm_next_layout(struct sm_engine *e, struct sm_arena *a, uint32_t max_tok);
/* Forget rows of tokens from position n on; n == 0: everything. */
void sm_next_cut(struct sm_engine *e, uint32_t n);
/* After the main stack ran n_tok tokens at pos0: keep their hidden rows. */
void sm_next_note(struct sm_engine *e, uint32_t pos0, uint32_t n_tok);
/* Give the block rows for the positions below n, whose tokens are in e->tokens; when more than
 * `most` are missing, only for the last of them. */
SM_NODISCARD smol_status sm_next_catch_up(struct sm_engine *e, uint32_t n, uint32_t most,
                                          smol_error *err);
/* Draft up to n tokens behind the token at position pos, which is in e->tokens: *n_out may be 0. */
SM_NODISCARD smol_status sm_next_draft(struct sm_engine *e, uint32_t pos, uint32_t n, int32_t *out,
                                       uint32_t *n_out, smol_error *err);

#endif
