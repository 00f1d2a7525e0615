/* SPDX-License-Identifier: MIT */
/* Experts on demand: the slots of the pools as the layers see them, and everything that moves their
 * reads. Models never see this; graph/moe.c uses experts, graph/prefetch.c asks for them early.
 *
 * Threads: the one thread that decodes. Only take and take_down can fail: IO or FORMAT when a read
 * did, LIMIT when the caller holds every slot. Nothing allocates. */
#ifndef SM_PAGER_H
#define SM_PAGER_H

#include "store/store.h"

/* ---- one use (pager.c) ----------------------------------------------------------------------- */

/* One use of a layer's experts: begin, take each once, give each back, end.
 *
 *   sm_pager_begin(s, pool, ids, n, SM_ORDER_ARRIVAL);
 *   for (k = 0; k < n; k++) {
 *       sm_pager_take(s, &i, &e, err);          which of ids, pointers; gate and up are there
 *       ... gate, up ...
 *       sm_pager_take_down(s, i, err);          down is there
 *       ... down ...
 *       sm_pager_give(s, i);
 *   }
 *   sm_pager_end(s);
 *
 * ids are distinct and ascending. ARRIVAL: whatever is in RAM first, then as reads land (decode,
 * small batches). ASCENDING: in the order of ids, with read-ahead (prompt waves). Experts in RAM
 * at begin are pinned so that each is read at most once per begin/end, however small the pool; what
 * is missing goes through the other slots. n may exceed the number of slots. After an error the
 * caller calls sm_pager_end and gives up. */
enum sm_order { SM_ORDER_ARRIVAL, SM_ORDER_ASCENDING };
struct sm_expert {
    const uint8_t *gate, *up, *down; /* fused: up points into gate's matrix */
    const float *gate_bias, *up_bias, *down_bias; /* NULL: none */
};

void sm_pager_begin(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                    enum sm_order order);
/* True when at least one expert that was not taken yet can be taken without waiting. */
bool sm_pager_has_ready(struct sm_store *s);
SM_NODISCARD smol_status sm_pager_take(struct sm_store *s, unsigned *i, struct sm_expert *e,
                                       smol_error *err);
SM_NODISCARD smol_status sm_pager_take_down(struct sm_store *s, unsigned i, smol_error *err);
void sm_pager_give(struct sm_store *s, unsigned i);
void sm_pager_end(struct sm_store *s);

/* ---- the logical pool (pager.c) -------------------------------------------------------------- */

/* Tell the policy what one token chose in this pool (k ids), in token order: the logical pool, from
 * which uses and misses are counted as token-by-token decoding would have them and by which slots
 * are kept. Called once per token and layer, before sm_pager_begin of that token's batch. */
void sm_pager_note(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned k);
/* The logical pool: [n_expert], 1 for those in it; NULL when all are in RAM for good. Changed by
 * sm_pager_note only. */
const uint8_t *sm_pager_held(const struct sm_store *s, uint32_t pool);
/* What levers may look at besides: ranges of the scores in token order, and their running mean. */
void sm_pager_note_range(struct sm_store *s, uint32_t pool, float range);
float sm_pager_range(const struct sm_store *s, uint32_t pool);
/* True when all experts of a pool are in RAM for good. */
bool sm_pager_complete(const struct sm_store *s, uint32_t pool);

/* ---- ahead of their use (pager_prefetch.c) --------------------------------------------------- */

/* Ask for experts before they are needed. Speculative reads yield to demanded ones and together
 * hold at most (slots - experts one token uses) slots; what does not fit is left out. A later
 * sm_pager_begin joins reads that are under way. Returns how many of ids are in the pool or being
 * read. Allowed between begin and end of this or another pool. */
enum sm_prefetch_class { SM_PREFETCH_NEXT, SM_PREFETCH_WARM };
unsigned sm_pager_prefetch(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                           enum sm_prefetch_class how);
/* Those of ids that are neither in the pool nor being read, in their order, into out (room for n);
 * returns how many. */
unsigned sm_pager_missing(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n,
                          uint16_t *out);
/* The use that NEXT reads were made for has begun: those that it did not join were wrong. Reads
 * that nobody uses stop (those under way land unused), and nothing is kept for them. */
void sm_pager_settle(struct sm_store *s, uint32_t pool);
/* How many reads of speculation are under way at once: one, or all but one reader (at first). */
void sm_pager_narrow(struct sm_store *s, bool narrow);
/* Proved wrong: reads of these experts that nobody uses stop (those under way land unused). */
void sm_pager_drop(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n);

#endif
