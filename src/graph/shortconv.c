/* SPDX-License-Identifier: MIT */
#include "graph/shortconv.h"

#include <assert.h>
#include <string.h>

#define CONV_BLOCK 256u /* channels of an item */

uint32_t sm_shortconv_row(const struct sm_shortconv *c) { return sm_pad8(3 * c->n); }

void sm_shortconv_layout(const struct sm_shortconv *c, struct sm_arena *a,
                         struct sm_shortconv_state *st)
{
    *st = (struct sm_shortconv_state){.past = SM_ARENA_NEW(a, float, (size_t)(c->taps - 1) * c->n)};
}

void sm_shortconv_hold_layout(const struct sm_shortconv *c, struct sm_arena *a,
                              struct sm_shortconv_state *st, uint32_t cap)
{
    st->cap_held = cap;
    st->held = SM_ARENA_NEW(a, float, (size_t)cap * c->n);
}

struct conv_job {
    struct sm_graph *g;
    const struct sm_shortconv *c;
    uint32_t n_tok;
};

/* Row of token t in g->qkv; the inputs that are remembered stand in front of token 0. */
static float *row_of(const struct conv_job *j, uint32_t t)
{
    return j->g->qkv + (size_t)(j->c->taps - 1 + t) * sm_shortconv_row(j->c);
}

/* The input of the convolution, b * value, in the place of b. */
static void gate_in(void *arg, uint32_t t, unsigned worker)
{
    const struct conv_job *j = arg;
    const uint32_t n = j->c->n;
    float *b = row_of(j, t);
    (void)worker;
    for (uint32_t i = 0; i < n; i++) b[i] = b[i] * b[2 * n + i];
}

static void convolve(void *arg, uint32_t item, unsigned worker)
{
    const struct conv_job *j = arg;
    const uint32_t n = j->c->n, at = item * CONV_BLOCK;
    const float *kernel = sm_floats_of(j->c->kernel);
    const struct sm_conv c = {.y = j->g->attn.x + at, .ldy = sm_pad8(n), .x = j->g->qkv + at,
                              .ldx = sm_shortconv_row(j->c), .w = kernel + (size_t)at * j->c->taps,
                              .n_tok = j->n_tok, .taps = j->c->taps,
                              .n = n - at < CONV_BLOCK ? n - at : CONV_BLOCK};
    (void)worker;
    j->g->kern->conv(&c);
}

/* c * convolution, the input of the last matrix. */
static void gate_out(void *arg, uint32_t t, unsigned worker)
{
    const struct conv_job *j = arg;
    const uint32_t n = j->c->n;
    const float *c = row_of(j, t) + n;
    float *y = j->g->attn.x + (size_t)t * sm_pad8(n);
    (void)worker;
    for (uint32_t i = 0; i < n; i++) y[i] = c[i] * y[i];
}

/* What is remembered in front of the batch; what the next batch will need is put aside. */
static void shift_history(const struct conv_job *j, float *past, bool hold)
{
    const size_t n = j->c->n, ld = sm_shortconv_row(j->c), keep = j->c->taps - 1;
    for (size_t i = 0; i < keep; i++)
        memcpy(j->g->qkv + i * ld, past + i * n, n * sizeof(float));
    for (size_t i = 0; !hold && i < keep; i++)
        memcpy(past + i * n, j->g->qkv + (j->n_tok + i) * ld, n * sizeof(float));
}

/* Keep the inputs of a batch until it is known how many of them stay. */
static void hold_inputs(const struct conv_job *j, struct sm_shortconv_state *st)
{
    assert(j->n_tok <= st->cap_held);
    for (uint32_t t = 0; t < j->n_tok; t++)
        memcpy(st->held + (size_t)t * j->c->n, row_of(j, t), j->c->n * sizeof(float));
    st->n_held = j->n_tok;
}

void sm_shortconv_keep(const struct sm_shortconv *c, struct sm_shortconv_state *st, uint32_t n)
{
    const size_t keep = c->taps - 1, ld = c->n;
    assert(n <= st->n_held);
    for (size_t i = 0; i < keep; i++) { /* the last of those remembered and the n held */
        const float *from = n + i < keep ? st->past + (n + i) * ld : st->held + (n + i - keep) * ld;
        memmove(st->past + i * ld, from, ld * sizeof(float));
    }
    st->n_held = 0;
}

void sm_shortconv_run(struct sm_graph *g, const struct sm_shortconv *c,
                      struct sm_shortconv_state *st, struct sm_rows *in, bool hold, float *y)
{
    struct conv_job j = {g, c, in->n_tok};
    sm_graph_linear(g, c->wi, NULL, in, row_of(&j, 0), sm_shortconv_row(c));
    sm_graph_for(g, in->n_tok, gate_in, &j);
    if (hold) hold_inputs(&j, st);
    shift_history(&j, st->past, hold);
    sm_graph_for(g, (c->n + CONV_BLOCK - 1) / CONV_BLOCK, convolve, &j);
    sm_graph_for(g, in->n_tok, gate_out, &j);
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, c->n);
    sm_graph_linear(g, c->wo, NULL, &out, y, sm_pad8(c->wo->n_out));
}
