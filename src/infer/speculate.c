/* SPDX-License-Identifier: MIT */
#include "infer/speculate.h"

#include <string.h>

/* Hidden row r serves the token at position `first` + r: it is the main model's row of the position
 * before. The block has rows for the tokens below `done`; row of token p stands at p - shift of its
 * cache. Where plain steps left positions out, the cache just goes on: only differences of
 * positions matter, and a draft is a guess. */

static size_t row_floats(const struct sm_engine *e) { return sm_pad8(e->model->hp.n_embd); }

void sm_next_layout(struct sm_engine *e, struct sm_arena *a, uint32_t max_tok)
{
    if (!e->model->have_next) return;
    e->next.hidden = SM_ARENA_NEW(a, float, (max_tok + 1) * row_floats(e));
    e->next.own = SM_ARENA_NEW(a, float, row_floats(e));
}

void sm_next_cut(struct sm_engine *e, uint32_t n)
{
    struct sm_next_rows *x = &e->next;
    if (n == 0 && e->model->have_next) { /* before the first token stands a row of zeros */
        memset(x->hidden, 0, row_floats(e) * sizeof(float));
        x->first = 0;
        x->n = 1;
    }
    if (x->first > n) x->n = 0;
    else if (x->first + x->n > n + 1) x->n = n + 1 - x->first;
    if (n >= x->whole) {
        if (x->done > n) x->done = n;
    } else { /* cut inside what came before a gap: begin anew */
        x->done = x->shift = x->whole = n;
    }
}

void sm_next_note(struct sm_engine *e, uint32_t pos0, uint32_t n_tok)
{
    struct sm_next_rows *x = &e->next;
    const size_t ld = row_floats(e);
    if (!e->model->have_next) return;
    if (n_tok == 1 && sm_draft_resting(&e->draft)) { /* nobody will ask for it: a gap */
        x->first = pos0 + 1;
        x->n = 0;
        return;
    }
    if (pos0 > 0 && pos0 >= x->first && pos0 < x->first + x->n)
        memmove(x->hidden, x->hidden + (pos0 - x->first) * ld, ld * sizeof(float));
    else memset(x->hidden, 0, ld * sizeof(float));
    sm_model_hidden(e->model, &e->graph, 0, n_tok, x->hidden + ld);
    x->first = pos0;
    x->n = n_tok + 1;
}

/* The tokens below n that have no row yet get none. */
static void leave_out(struct sm_next_rows *x, uint32_t n)
{
    x->shift += n - x->done;
    x->done = x->whole = n;
}

/* Before the block gets rows up to token n - 1: those without a hidden row, and more than a
 * batch. */
static void leave_out_old(struct sm_engine *e, uint32_t n)
{
    struct sm_next_rows *x = &e->next;
    const uint32_t most = e->graph.dims.max_tok;
    if (x->done < x->first) leave_out(x, x->first);
    if (n > x->done && n - x->done > most) leave_out(x, n - most);
}

smol_status sm_next_catch_up(struct sm_engine *e, uint32_t n, uint32_t most, smol_error *err)
{
    struct sm_next_rows *x = &e->next;
    if (!e->model->have_next || n <= x->done) return SMOL_OK;
    if (n - x->done > most) leave_out(x, n - most);
    leave_out_old(e, n);
    const uint32_t at = x->done;
    if (n > x->first + x->n || n <= at) return SMOL_OK;
    SM_TRY(sm_model_next(e->model, &e->graph, e->state, e->tokens + at,
                         x->hidden + (at - x->first) * row_floats(e), n - at, at - x->shift, NULL,
                         err));
    x->done = n;
    return SMOL_OK;
}

static int32_t best_of(const float *logits, uint32_t n)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return (int32_t)best;
}

smol_status sm_next_draft(struct sm_engine *e, uint32_t pos, uint32_t n, int32_t *out,
                          uint32_t *n_out, smol_error *err)
{
    struct sm_next_rows *x = &e->next;
    const uint32_t V = e->model->hp.n_vocab;
    *n_out = 0;
    if (!e->model->have_next || !n) return SMOL_OK;
    leave_out_old(e, pos + 1);
    const uint32_t at = x->done;
    if (pos < at || pos >= x->first + x->n) return SMOL_OK; /* no hidden row for this token */
    SM_TRY(sm_model_next(e->model, &e->graph, e->state, e->tokens + at,
                         x->hidden + (at - x->first) * row_floats(e), pos + 1 - at, at - x->shift,
                         x->own, err));
    x->done = pos + 1;
    for (uint32_t i = 0;; i++) {
        out[i] = best_of(e->graph.logits, V);
        *n_out = i + 1;
        if (i + 1 == n) return SMOL_OK;
        SM_TRY(sm_model_next(e->model, &e->graph, e->state, &out[i], x->own, 1,
                             x->done + i - x->shift, x->own, err));
    }
}
