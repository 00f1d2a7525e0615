/* SPDX-License-Identifier: MIT */
#include "graph/delta.h"
#include "base/fmath.h"

#include <assert.h>
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Where the values of a token stand in its row of g->qkv: the convolved channels q, k, v from 0,
 * then decay, beta and the output gate. What a held token needs comes first. */
struct row_map { uint32_t channels, decay, beta, z, all, n_decay; };

static struct row_map map_row(const struct sm_delta *d)
{
    struct row_map m;
    m.channels = 2 * d->n_k * d->dk + d->n_v * d->dv;
    m.n_decay = d->kda ? d->n_v * d->dk : d->n_v;
    m.decay = sm_pad8(m.channels);
    m.beta = m.decay + sm_pad8(m.n_decay);
    m.z = m.beta + sm_pad8(d->n_v);
    m.all = m.z + sm_pad8(d->n_v * d->dv);
    return m;
}

uint32_t sm_delta_row(const struct sm_delta *d) { return map_row(d).all; }

static uint32_t tiles_of(const struct sm_delta *d)
{
    return (d->dv + SM_DELTA_ROWS - 1) / SM_DELTA_ROWS;
}

void sm_delta_layout(const struct sm_delta *d, struct sm_arena *a, struct sm_recur *st)
{
    *st = (struct sm_recur){0};
    st->conv_floats = (size_t)(d->taps - 1) * map_row(d).channels;
    st->s_floats = (size_t)d->n_v * tiles_of(d) * d->dk * SM_DELTA_ROWS;
    st->conv = SM_ARENA_NEW(a, float, st->conv_floats);
    st->s = SM_ARENA_NEW(a, float, st->s_floats);
}

void sm_delta_hold_layout(const struct sm_delta *d, struct sm_arena *a, struct sm_recur *st,
                          uint32_t cap)
{
    st->cap_held = cap;
    st->held = SM_ARENA_NEW(a, float, (size_t)cap * map_row(d).z);
}

/* One batch on its way through a layer. */
struct job {
    struct sm_graph *g;
    const struct sm_delta *d;
    struct sm_recur *st;
    struct row_map map;
    float *rows;    /* [taps - 1 + n_tok][map.all]: history, then the batch */
    uint32_t n_tok;
    bool hold, want_out;
    atomic_int bad;
};

static float *token_row(const struct job *j, uint32_t t)
{
    return j->rows + (size_t)(j->d->taps - 1 + t) * j->map.all;
}

/* ---- projections ----------------------------------------------------------------------------- */

static void project(struct job *j, struct sm_rows *in)
{
    const struct sm_delta *d = j->d;
    struct sm_product p[6];
    unsigned n = 0;
    float *row = token_row(j, 0);
    const struct { const struct sm_weight *w; uint32_t at; } parts[] = {
        {d->wqkv, 0}, {d->wq, 0}, {d->wk, d->n_k * d->dk}, {d->wv, 2 * d->n_k * d->dk},
        {d->wz, j->map.z}, {d->wdecay, j->map.decay}, {d->wbeta, j->map.beta}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (parts[i].w)
            p[n++] = sm_graph_weight(j->g, parts[i].w, in, row + parts[i].at, j->map.all);
    }
    sm_graph_products(j->g, p, n);
}

/* ---- convolution ----------------------------------------------------------------------------- */

#define CONV_BLOCK 256u

static void convolve(void *arg, uint32_t item, unsigned worker)
{
    const struct job *j = arg;
    const struct sm_delta *d = j->d;
    const uint32_t n_qk = d->n_k * d->dk;
    (void)worker;
    /* the parts that have kernels of their own; blocks do not cross them */
    uint32_t part = 0, first = 0, last = j->map.channels, at = item * CONV_BLOCK;
    if (d->conv[1]) {
        const uint32_t ends[3] = {n_qk, 2 * n_qk, j->map.channels};
        uint32_t blocks = 0;
        for (;; part++) {
            last = ends[part];
            const uint32_t n = (last - first + CONV_BLOCK - 1) / CONV_BLOCK;
            if (item < blocks + n) break;
            blocks += n;
            first = last;
        }
        at = first + (item - blocks) * CONV_BLOCK;
    }
    const struct sm_conv c = {.y = token_row(j, 0) + at, .ldy = j->map.all, .x = j->rows + at,
                              .ldx = j->map.all,
                              .w = sm_floats_of(d->conv[part]) + (size_t)(at - first) * d->taps,
                              .n_tok = j->n_tok, .taps = d->taps, .silu = true,
                              .n = last - at < CONV_BLOCK ? last - at : CONV_BLOCK};
    j->g->kern->conv(&c);
}

static uint32_t conv_items(const struct job *j)
{
    const uint32_t n_qk = j->d->n_k * j->d->dk, n_v = j->d->n_v * j->d->dv;
    if (!j->d->conv[1]) return (j->map.channels + CONV_BLOCK - 1) / CONV_BLOCK;
    return 2 * ((n_qk + CONV_BLOCK - 1) / CONV_BLOCK) + (n_v + CONV_BLOCK - 1) / CONV_BLOCK;
}

/* History in front of the batch; the inputs that the next batch will need are put aside. */
static void shift_history(struct job *j)
{
    const size_t n = j->map.channels, keep = j->d->taps - 1;
    for (size_t i = 0; i < keep; i++)
        memcpy(j->rows + i * j->map.all, j->st->conv + i * n, n * sizeof(float));
    for (size_t i = 0; !j->hold && i < keep; i++)
        memcpy(j->st->conv + i * n, j->rows + (j->n_tok + i) * j->map.all, n * sizeof(float));
}

/* ---- gates and norms of a token -------------------------------------------------------------- */

/* x = x / sqrt(sum of squares + eps) (times scale); returns the sum. */
static float l2_norm(const struct sm_kern *k, float *x, uint32_t n, float eps, float scale)
{
    const float sum = k->dot(x, x, n), r = 1.0f / sqrtf(sum + eps);
    for (uint32_t i = 0; i < n; i++) x[i] = scale == 1 ? x[i] * r : (x[i] * r) * scale;
    return sum;
}

/* f = exp(bound / (1 + exp(-(a * (f + dt))))) for the key channels of one head. */
static void kda_factors(const struct job *j, float *f, uint32_t head)
{
    const struct sm_delta *d = j->d;
    const float a = sm_floats_of(d->a)[head], *dt = sm_floats_of(d->dt) + (size_t)head * d->dk;
    for (uint32_t i = 0; i < d->dk; i++) f[i] = -(a * (f[i] + dt[i]));
    j->g->kern->exp(f, f, d->dk);
    for (uint32_t i = 0; i < d->dk; i++) f[i] = d->bound / (1.0f + f[i]);
    j->g->kern->exp(f, f, d->dk);
}

static void prepare_token(void *arg, uint32_t t, unsigned worker)
{
    struct job *j = arg;
    const struct sm_delta *d = j->d;
    const struct sm_kern *k = j->g->kern;
    const float scale = (float)(1 / sqrt((double)d->dk));
    float *row = token_row(j, t), *decay = row + j->map.decay, *beta = row + j->map.beta;
    const float *dt = sm_floats_of(d->dt), *a = sm_floats_of(d->a);
    (void)worker;
    for (uint32_t h = 0; h < 2 * d->n_k; h++)
        if (!isfinite(l2_norm(k, row + (size_t)h * d->dk, d->dk, d->eps, h < d->n_k ? scale : 1)))
            atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
    for (uint32_t h = 0; h < d->n_v; h++) {
        beta[h] = sm_sigmoid_f32(beta[h]);
        if (d->kda) kda_factors(j, decay + (size_t)h * d->dk, h);
        else decay[h] = sm_exp_f32(sm_softplus_f32(decay[h] + dt[h]) * a[h]);
    }
}

/* ---- the delta rule: one item is one tile of one head ---------------------------------------- */

static void run_tile(void *arg, uint32_t item, unsigned worker)
{
    const struct job *j = arg;
    const struct sm_delta *d = j->d;
    const uint32_t n_tiles = tiles_of(d), h = item / n_tiles,
                   first = item % n_tiles * SM_DELTA_ROWS;
    const size_t n = (size_t)d->dk * SM_DELTA_ROWS;
    const float *row = token_row(j, 0);
    float *s = j->st->s + item * n;
    if (j->hold) s = memcpy(j->g->delta_scratch[worker], s, n * sizeof *s);
    const struct sm_delta_tile tile = {
        .s = s, .q = row + (size_t)(h % d->n_k) * d->dk,
        .k = row + (size_t)(d->n_k + h % d->n_k) * d->dk,
        .v = row + (size_t)2 * d->n_k * d->dk + (size_t)h * d->dv + first,
        .g = row + j->map.decay + (d->kda ? (size_t)h * d->dk : h),
        .beta = row + j->map.beta + h, .ld = j->map.all,
        .o = j->want_out ? j->g->attn.x + (size_t)h * d->dv + first : NULL,
        .ld_o = sm_pad8(d->n_v * d->dv), .n_tok = j->n_tok, .dk = d->dk,
        .n_rows = d->dv - first < SM_DELTA_ROWS ? d->dv - first : SM_DELTA_ROWS,
        .per_key = d->kda};
    j->g->kern->delta_tile(&tile);
}

/* From the projected rows to the heads' outputs in g->attn (when wanted) and the new state. */
static void advance(struct job *j)
{
    shift_history(j);
    sm_graph_for(j->g, conv_items(j), convolve, j);
    sm_graph_for(j->g, j->n_tok, prepare_token, j);
    sm_graph_for(j->g, j->d->n_v * tiles_of(j->d), run_tile, j);
}

static void finish_token(void *arg, uint32_t t, unsigned worker)
{
    struct job *j = arg;
    const struct sm_delta *d = j->d;
    const struct sm_kern *k = j->g->kern;
    const uint32_t n = d->n_v * d->dv;
    const float *z = token_row(j, t) + j->map.z;
    float *y = j->g->attn.x + (size_t)t * sm_pad8(n);
    (void)worker;
    for (uint32_t h = 0; h < d->n_v; h++) {
        float *head = y + (size_t)h * d->dv;
        if (!isfinite(k->rms_norm(head, head, sm_floats_of(d->norm), d->dv, d->eps)))
            atomic_store_explicit(&j->bad, 1, memory_order_relaxed);
    }
    if (d->kda) k->sigmoid_mul(y, z, y, n);
    else k->silu_mul(y, z, y, n);
}

void sm_delta_run(struct sm_graph *g, const struct sm_delta *d, struct sm_recur *st,
                  struct sm_rows *in, bool hold, float *y)
{
    struct job j = {.g = g, .d = d, .st = st, .map = map_row(d), .rows = g->qkv,
                    .n_tok = in->n_tok, .hold = hold, .want_out = true};
    project(&j, in);
    if (hold) {
        assert(in->n_tok <= st->cap_held);
        for (uint32_t t = 0; t < in->n_tok; t++)
            memcpy(st->held + (size_t)t * j.map.z, token_row(&j, t), j.map.z * sizeof(float));
        st->n_held = in->n_tok;
    }
    advance(&j);
    sm_graph_for(g, in->n_tok, finish_token, &j);
    if (j.bad && g->bad_layer < 0) g->bad_layer = g->layer;
    struct sm_rows out = sm_rows_of(&g->attn, in->n_tok, d->n_v * d->dv);
    sm_graph_linear(g, d->wo, NULL, &out, y, sm_pad8(d->wo->n_out));
}

void sm_delta_keep(struct sm_graph *g, const struct sm_delta *d, struct sm_recur *st, uint32_t n)
{
    struct job j = {.g = g, .d = d, .st = st, .map = map_row(d), .rows = g->qkv, .n_tok = n};
    assert(n <= st->n_held);
    for (uint32_t t = 0; t < n; t++)
        memcpy(token_row(&j, t), st->held + (size_t)t * j.map.z, j.map.z * sizeof(float));
    if (n) advance(&j);
    st->n_held = 0;
}
