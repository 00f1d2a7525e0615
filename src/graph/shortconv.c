/* SPDX-License-Identifier: MIT */
#include "graph/shortconv.h"

#include <assert.h>
#include <math.h>
#include <string.h>

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
    float *past;
};

static float *row_of(const struct conv_job *j, uint32_t t)
{
    return j->g->qkv + (size_t)t * sm_shortconv_row(j->c);
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

/* c * convolution, the input of the last matrix. */
static void convolve(void *arg, uint32_t t, unsigned worker)
{
    const struct conv_job *j = arg;
    const uint32_t n = j->c->n, taps = j->c->taps;
    const float *k = (const float *)(const void *)j->c->kernel->data, *c = row_of(j, t) + n;
    float *y = j->g->attn.x + (size_t)t * sm_pad8(n);
    (void)worker;
    memset(y, 0, n * sizeof *y);
    for (uint32_t tap = 0; tap < taps; tap++) {
        const uint32_t back = taps - 1 - tap;
        const float *u = back <= t ? row_of(j, t - back) : j->past + (size_t)(t + tap) * n;
        for (uint32_t i = 0; i < n; i++) y[i] = fmaf(k[(size_t)i * taps + tap], u[i], y[i]);
    }
    for (uint32_t i = 0; i < n; i++) y[i] = c[i] * y[i];
}

/* The last taps - 1 inputs of past and of the n_tok rows at x, ld floats apart, together. */
static void remember(const struct sm_shortconv *c, float *past, const float *x, size_t ld,
                     uint32_t n_tok)
{
    const uint32_t keep = c->taps - 1, n = c->n;
    const uint32_t old = n_tok < keep ? keep - n_tok : 0; /* of those that were kept */
    memmove(past, past + (size_t)(keep - old) * n, (size_t)old * n * sizeof(float));
    for (uint32_t i = old; i < keep; i++)
        memcpy(past + (size_t)i * n, x + (n_tok - (keep - i)) * ld, n * sizeof(float));
}

/* Keep the inputs of a batch until it is known how many of them stay. */
static void hold_inputs(const struct conv_job *j, struct sm_shortconv_state *st, uint32_t n_tok)
{
    assert(n_tok <= st->cap_held);
    for (uint32_t t = 0; t < n_tok; t++)
        memcpy(st->held + (size_t)t * j->c->n, row_of(j, t), j->c->n * sizeof(float));
    st->n_held = n_tok;
}

void sm_shortconv_keep(const struct sm_shortconv *c, struct sm_shortconv_state *st, uint32_t n)
{
    assert(n <= st->n_held);
    remember(c, st->past, st->held, c->n, n);
    st->n_held = 0;
}

void sm_shortconv_run(struct sm_graph *g, const struct sm_shortconv *c,
                      struct sm_shortconv_state *st, struct sm_rows *in, uint32_t pos0, bool hold,
                      float *y)
{
    struct conv_job j = {g, c, st->past};
    sm_graph_linear(g, c->wi, NULL, in, g->qkv, sm_shortconv_row(c));
    if (pos0 == 0) memset(st->past, 0, (size_t)(c->taps - 1) * c->n * sizeof *st->past);
    sm_graph_for(g, in->n_tok, gate_in, &j);
    sm_graph_for(g, in->n_tok, convolve, &j);
    if (hold) hold_inputs(&j, st, in->n_tok);
    else remember(c, st->past, g->qkv, sm_shortconv_row(c), in->n_tok);
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, c->n);
    sm_graph_linear(g, c->wo, NULL, &out, y, sm_pad8(c->wo->n_out));
}
