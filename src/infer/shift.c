/* SPDX-License-Identifier: MIT */
#include "infer/shift.h"

#include <string.h>

#define LEAST 16u /* tokens worth being moved */

static void shift_layer(struct sm_engine *e, uint32_t i, uint32_t from, uint32_t end, uint32_t by)
{
    const struct sm_layer *l = &e->model->layers[i];
    const uint32_t first = l->mixer == SM_MIXER_MLA ? l->mla.n_latent : 0;
    /* between batches the rows of queries, keys and values are free */
    sm_kv_shift(&e->kern, &e->state[i].kv, &e->model->rope, first, from, end, by, e->graph.qkv);
}

smol_status sm_session_shift(struct sm_session *s, const int32_t *tokens, size_t n, size_t *n_held,
                             smol_error *err)
{
    struct sm_engine *e = s->e;
    sm_session_settle(s);
    const uint32_t same = sm_same_tokens(tokens, n, e->tokens, s->n);
    uint32_t at = 0, longest = 0;
    *n_held = same;
    if (!e->ctx_shift) return SM_FAIL(err, ARG, "the model was opened without ctx_shift");
    for (uint32_t i = same + 1; i < s->n && longest < n - same; i++) {
        const uint32_t len = sm_same_tokens(tokens + same, n - same, e->tokens + i, s->n - i);
        if (len <= longest) continue;
        longest = len;
        at = i;
    }
    if (longest < LEAST) return SMOL_OK;
    for (uint32_t i = 0; i < e->model->hp.n_layer; i++)
        shift_layer(e, i, at, at + longest, at - same);
    memmove(e->tokens + same, e->tokens + at, longest * sizeof *tokens);
    s->n = same + longest;
    s->have_logits = false;
    s->row = 0;
    if (same < s->n_pure) s->n_pure = same;
    *n_held = s->n;
    return SMOL_OK;
}
