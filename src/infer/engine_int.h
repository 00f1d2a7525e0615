/* SPDX-License-Identifier: MIT */
/* Inside the engine: what its files share while a model is opened. One thread.
 *   engine.c         header, memory, weights; steps
 *   engine_plan.c    what everything needs, the plan, the prediction
 *   engine_drafts.c  what drafts cost
 *   engine_learn.c   experts that earlier runs used
 *   engine_levers.c  levers that change the answer, and the trace of routing */
#ifndef SM_ENGINE_INT_H
#define SM_ENGINE_INT_H

#include "infer/engine.h"

/* ---- engine.c -------------------------------------------------------------------------------- */

/* Store and model, made anew: once more without the next-token block when it does not pay. */
SM_NODISCARD smol_status sm_engine_declare(struct sm_engine *e, const smol_params *p,
                                           bool want_next, smol_error *err);

/* ---- engine_plan.c --------------------------------------------------------------------------- */

/* The budget in bytes: what was asked for, else what the system concedes less a reserve. */
uint64_t sm_engine_budget(const smol_params *p);
/* The context of the plan, while memory is not short. */
uint32_t sm_engine_ctx_most(const struct sm_engine *e, const smol_params *p);
/* After the header: fill e->plan and e->plan_info (also on NOMEM) and start e->pool. ARG, NOMEM. */
SM_NODISCARD smol_status sm_engine_make_plan(struct sm_engine *e, const smol_params *p,
                                             smol_error *err);
/* Lay out what a batch of `chunk` tokens needs, into g and e->next; only counts while a->base is
 * NULL. */
void sm_engine_scratch_layout(struct sm_engine *e, struct sm_graph *g, struct sm_arena *a,
                              uint32_t chunk);
/* Bytes of that; arg: the engine. */
uint64_t sm_engine_scratch_bytes(void *arg, uint32_t chunk);
/* Lay out what belongs to the session: states and caches of all layers, and ctx tokens; only counts
 * while a->base is NULL. */
void sm_engine_session_layout(struct sm_engine *e, struct sm_arena *a, uint32_t ctx);

/* Bytes for taking back the batches of drafts; 0 without them. */
uint64_t sm_engine_hold_bytes(const struct sm_engine *e);

/* ---- engine_drafts.c ------------------------------------------------------------------------- */

/* Bytes of e->plan that it would not have without drafts; logit_rows: rows of logits without
 * them. */
uint64_t sm_engine_draft_bytes(struct sm_engine *e, uint32_t logit_rows);

/* ---- engine_learn.c -------------------------------------------------------------------------- */

/* Read the list at `path` (NULL: none) into e->learned when it is a good one, and give it back. */
SM_NODISCARD smol_status sm_engine_read_learned(struct sm_engine *e, const char *path,
                                                smol_error *err);
void sm_engine_drop_learned(struct sm_engine *e);
/* Share of uses that miss with n_slots by that list, < 0: there is none; arg: the engine. */
double sm_engine_miss_learned(void *arg, uint32_t n_slots);
/* Fill the pools from it, before the first token. IO, FORMAT, CANCELLED. */
SM_NODISCARD smol_status sm_engine_warm(struct sm_engine *e, const smol_params *p, smol_error *err);

/* ---- engine_levers.c ------------------------------------------------------------------------- */

/* Give the levers to the layers of a new model, and their names to e->lever_text. ARG. */
SM_NODISCARD smol_status sm_engine_set_levers(struct sm_engine *e, const smol_params *p,
                                              smol_error *err);
/* True when one of them looks at the pool. */
bool sm_engine_pool_lever(const smol_params *p);
/* All levers that are on, into out->loss_levers. */
void sm_engine_list_levers(const struct sm_engine *e, smol_stats *out);
/* Begin the trace, when one is wanted. */
void sm_engine_begin_trace(struct sm_engine *e, const smol_params *p);

#endif
