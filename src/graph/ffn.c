/* SPDX-License-Identifier: MIT */
#include "graph/ffn.h"

/* A NaN passes every clamp, so that it is found at the next norm. */
static float clamp(float x, float limit) { return x > limit ? limit : x < -limit ? -limit : x; }

void sm_gate_apply(const struct sm_kern *k, const struct sm_gate *f, float *h, const float *g,
                   const float *u, size_t n)
{
    const float limit = f->limit;
    if (f->form == SM_GATE_SILU && !(limit > 0)) {
        k->silu_mul(h, g, u, n);
        return;
    }
    float part[64]; /* exponentials of a run, so that h may be g */
    for (size_t at = 0; at < n; at += 64) {
        const size_t m = n - at < 64 ? n - at : 64;
        if (f->form == SM_GATE_SILU) {
            for (size_t i = 0; i < m; i++) part[i] = -g[at + i];
            k->exp(part, part, m);
            for (size_t i = 0; i < m; i++) {
                const float a = g[at + i] / (1 + part[i]);
                h[at + i] = (a > limit ? limit : a) * clamp(u[at + i], limit);
            }
            continue;
        }
        for (size_t i = 0; i < m; i++)
            part[i] = -(1.702f * (g[at + i] > limit ? limit : g[at + i]));
        k->exp(part, part, m);
        for (size_t i = 0; i < m; i++) {
            const float a = g[at + i] > limit ? limit : g[at + i];
            h[at + i] = (a / (1 + part[i])) * (clamp(u[at + i], limit) + 1);
        }
    }
}

struct gate_job {
    const struct sm_kern *kern;
    const struct sm_gate *form;
    float *h;
    const float *g, *u;
    uint32_t n;
};

static void gate_row(void *arg, uint32_t t, unsigned worker)
{
    const struct gate_job *j = arg;
    const size_t at = (size_t)t * sm_pad8(j->n);
    (void)worker;
    sm_gate_apply(j->kern, j->form, j->h + at, j->g + at, j->u + at, j->n);
}

static void run_block(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y)
{
    const uint32_t n = f->gate->n_out, ld = sm_pad8(n);
    const struct sm_product p[2] = {
        sm_graph_weight(g, f->gate, in, g->gate, ld), sm_graph_weight(g, f->up, in, g->up, ld)};
    sm_graph_products(g, p, 2);
    struct gate_job j = {g->kern, &f->form, g->hidden.x, g->gate, g->up, n};
    sm_graph_for(g, in->n_tok, gate_row, &j);
    struct sm_rows h = sm_rows_of(&g->hidden, in->n_tok, n);
    sm_graph_linear(g, f->down, NULL, &h, y, sm_pad8(f->down->n_out));
}

void sm_ffn_run(struct sm_graph *g, const struct sm_ffn *f, struct sm_rows *in, float *y)
{
    struct sm_rows part = *in;
    for (uint32_t first = 0; first < in->n_tok; first += part.n_tok) {
        part = sm_rows_part(in, first, sm_graph_block(g, in->n_tok - first));
        run_block(g, f, &part, y + (size_t)first * sm_pad8(f->down->n_out));
    }
    in->made[0] = part.made[0]; /* of all blocks by now */
    in->made[1] = part.made[1];
}
