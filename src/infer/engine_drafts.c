/* SPDX-License-Identifier: MIT */
/* What drafts cost in memory: of the plan, what would not be there without them. */
#include "infer/engine_int.h"

#include <stdio.h>
#include <string.h>

/* Scratch, context and fixed parts, for the model as it is now. */
static uint64_t session_bytes(struct sm_engine *e)
{
    const struct sm_model *m = e->model;
    return sm_engine_hold_bytes(e) + sm_engine_scratch_bytes(e, e->plan.chunk) +
           sm_model_window_bytes(m, e->kv_type, e->plan.ctx) +
           (uint64_t)e->plan.ctx * sm_model_kv_bytes(m, e->kv_type) +
           2 * (uint64_t)sm_model_recur_bytes(m);
}

/* The next-token block's own: what stays of its weights, and its experts. */
static uint64_t block_bytes(const struct sm_engine *e)
{
    const struct sm_model *m = e->model;
    const struct sm_layer *block = &m->layers[m->hp.n_layer];
    const struct sm_weight *w = NULL;
    char begins[32];
    uint64_t sum = 0;
    (void)snprintf(begins, sizeof begins, "blk.%u.", m->hp.n_layer);
    while ((w = sm_store_next(e->store, w)) != NULL)
        if (w->home == SM_HOME_RESIDENT && !strncmp(w->info->name, begins, strlen(begins)))
            sum += w->x8 ? sm_x8_bytes(w->type, w->n_out, w->n_in)
                         : w->n_out * sm_row_bytes(w->type, w->n_in);
    if (block->is_moe) {
        const struct sm_pool_info *pool = sm_store_pool(e->store, block->moe.pool);
        sum += (uint64_t)sm_plan_slots(&e->plan, pool->n_expert) * pool->slot_bytes;
    }
    return sum;
}

uint64_t sm_engine_draft_bytes(struct sm_engine *e, uint32_t logit_rows)
{
    struct sm_model *m = e->model;
    const bool have_next = m->have_next;
    const uint32_t n_draft = e->n_draft, rows = e->logit_rows, slack = m->ring_slack;
    if (!n_draft) return 0;
    uint64_t bytes = session_bytes(e) + (have_next ? block_bytes(e) : 0);
    m->have_next = false;
    m->ring_slack = 1;
    e->n_draft = 0;
    e->logit_rows = logit_rows;
    bytes -= session_bytes(e);
    m->have_next = have_next;
    m->ring_slack = slack;
    e->n_draft = n_draft;
    e->logit_rows = rows;
    return bytes;
}
