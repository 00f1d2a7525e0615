/* SPDX-License-Identifier: MIT */
#include "graph/ffn.h"

struct silu_job { const struct sm_kern *kern; float *h; const float *g, *u; uint32_t n; };

static void silu_row(void *arg, uint32_t t, unsigned worker)
{
    const struct silu_job *j = arg;
    const size_t at = (size_t)t * sm_pad8(j->n);
    (void)worker;
    j->kern->silu_mul(j->h + at, j->g + at, j->u + at, j->n);
}

void sm_ffn_run(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y)
{
    const uint32_t n = f->gate->n_out, ld = sm_pad8(n);
    const struct sm_product p[2] = {
        sm_graph_product(g, f->gate->type, f->gate->x8, f->gate->n_in, n, f->gate->data, in,
                         g->gate, ld),
        sm_graph_product(g, f->up->type, f->up->x8, f->up->n_in, n, f->up->data, in, g->up, ld)};
    sm_graph_products(g, p, 2);
    struct silu_job j = {g->kern, g->hidden.x, g->gate, g->up, n};
    sm_graph_for(g, in->n_tok, silu_row, &j);
    struct sm_rows h = sm_rows_of(&g->hidden, in->n_tok, n);
    sm_graph_linear(g, f->down, NULL, &h, y, sm_pad8(f->down->n_out));
}
