/* SPDX-License-Identifier: MIT */
#include "infer/calibrate.h"

#include "gguf/gguf_write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Sums of one tensor; up has those of gate. */
struct sums {
    double *sum;     /* [n_mat][n_in]; NULL: not a matrix of a block, or by row */
    uint64_t *count; /* [n_mat] rows that were added */
    uint32_t n_in, n_mat;
};

struct sm_calibration {
    struct sm_observer observer; /* first: the graph gives it back */
    const struct sm_gguf *gguf;
    struct sm_store *store;
    struct sm_graph *graph;
    struct sums *of; /* [tensors of the file] */
    uint64_t bytes, n_chunks, n_tok;
};

/* ---- memory ---------------------------------------------------------------------------------- */

/* Vectors and convolutions multiply no rows; the head of a tied embedding is not of a block. */
static bool is_summed(const struct sm_weight *w)
{
    const struct sm_tensor_info *t = w->info;
    return w->home != SM_HOME_BY_ROW && !strncmp(t->name, "blk.", 4) && t->n_dims > 1 &&
           t->dim[0] >= 8 && t->dim[1] > 1;
}

static struct sums take_sums(struct sm_arena *a, uint64_t n_in, uint64_t n_mat)
{
    return (struct sums){.sum = SM_ARENA_NEW(a, double, n_in * n_mat),
                         .count = SM_ARENA_NEW(a, uint64_t, n_mat), .n_in = (uint32_t)n_in,
                         .n_mat = (uint32_t)n_mat};
}

/* Lay out everything; returns NULL while `a` only counts. */
static struct sm_calibration *lay_out(const struct sm_engine *e, struct sm_arena *a)
{
    struct sm_calibration *c = SM_ARENA_NEW(a, struct sm_calibration, 1);
    struct sums *of = SM_ARENA_NEW(a, struct sums, sm_gguf_n_tensors(e->gguf)), unused;
    for (const struct sm_weight *w = NULL; (w = sm_store_next(e->store, w)) != NULL;)
        if (is_summed(w))
            *(of ? &of[sm_gguf_tensor_index(e->gguf, w->info)] : &unused) =
                take_sums(a, w->n_in, w->info->dim[2]);
    for (uint32_t i = 0; i < sm_store_n_pools(e->store); i++) {
        const struct sm_expert_tensors t = sm_store_pool_tensors(e->store, i);
        const struct sums in = take_sums(a, t.gate->dim[0], t.gate->dim[2]),
                          hidden = take_sums(a, t.down->dim[0], t.down->dim[2]);
        if (!of) continue;
        of[sm_gguf_tensor_index(e->gguf, t.gate)] = in;
        if (t.up) of[sm_gguf_tensor_index(e->gguf, t.up)] = in;
        of[sm_gguf_tensor_index(e->gguf, t.down)] = hidden;
    }
    if (c) c->of = of;
    return c;
}

uint64_t sm_calibration_bytes(const struct sm_engine *e, bool wanted)
{
    struct sm_arena a = {0};
    if (wanted) (void)lay_out(e, &a);
    return a.used;
}

/* ---- adding up ------------------------------------------------------------------------------- */

#define COLUMNS 16u            /* a cache line of each row */
#define WORTH_SHARING (1u << 15) /* values, below which waking the workers costs more */

struct add_job {
    double *sum;
    const float *x;
    size_t ld;
    uint32_t n_tok, n, part; /* columns; columns of an item, a multiple of COLUMNS */
};

static void add_columns(double *sum, const float *x, size_t ld, uint32_t n_tok, uint32_t n)
{
    double s[COLUMNS] = {0};
    memcpy(s, sum, n * sizeof *s);
    if (n == COLUMNS) {
        for (uint32_t t = 0; t < n_tok; t++)
            for (uint32_t i = 0; i < COLUMNS; i++)
                s[i] += (double)x[t * ld + i] * (double)x[t * ld + i]; /* the product is exact */
    } else {
        for (uint32_t t = 0; t < n_tok; t++)
            for (uint32_t i = 0; i < n; i++) s[i] += (double)x[t * ld + i] * (double)x[t * ld + i];
    }
    memcpy(sum, s, n * sizeof *s);
}

static void add_part(void *arg, uint32_t i, unsigned worker)
{
    const struct add_job *j = arg;
    const uint32_t first = i * j->part, end = j->n - first < j->part ? j->n : first + j->part;
    (void)worker;
    for (uint32_t c = first; c < end; c += COLUMNS)
        add_columns(j->sum + c, j->x + c, j->ld, j->n_tok, end - c < COLUMNS ? end - c : COLUMNS);
}

static void add_rows(struct sm_calibration *c, const struct sums *to, uint32_t mat, const float *x,
                     size_t ld, uint32_t n_tok)
{
    const uint32_t n = to->n_in;
    struct add_job j = {to->sum + (size_t)mat * n, x, ld, n_tok, n, n};
    if ((uint64_t)n * n_tok >= WORTH_SHARING) {
        const uint32_t share = n / (2 * sm_pool_size(c->graph->pool)) / COLUMNS * COLUMNS;
        j.part = share < COLUMNS ? COLUMNS : share;
    }
    sm_graph_for(c->graph, (n + j.part - 1) / j.part, add_part, &j);
    to->count[mat] += n_tok;
}

static void see_weight(struct sm_observer *o, const struct sm_weight *w, uint32_t mat,
                       const float *x, size_t ld, uint32_t n_tok)
{
    struct sm_calibration *c = (struct sm_calibration *)(void *)o;
    const struct sums *to = &c->of[sm_gguf_tensor_index(c->gguf, w->info)];
    if (to->sum) add_rows(c, to, mat, x, ld, n_tok);
}

static void see_expert(struct sm_observer *o, uint32_t pool, uint32_t expert, bool hidden,
                       const float *x, size_t ld, uint32_t n_tok)
{
    struct sm_calibration *c = (struct sm_calibration *)(void *)o;
    const struct sm_expert_tensors t = sm_store_pool_tensors(c->store, pool);
    const size_t i = sm_gguf_tensor_index(c->gguf, hidden ? t.down : t.gate);
    add_rows(c, &c->of[i], expert, x, ld, n_tok);
}

/* ---- use ------------------------------------------------------------------------------------- */

smol_status sm_calibration_begin(struct sm_engine *e, smol_error *err)
{
    const uint64_t bytes = sm_calibration_bytes(e, true);
    uint8_t *mem = bytes < SIZE_MAX ? sm_mem_new((size_t)bytes) : NULL;
    if (!mem)
        return SM_FAIL(err, NOMEM, "the system refused %llu bytes for sums",
                       (unsigned long long)bytes);
    struct sm_arena a = {.base = mem, .capacity = (size_t)bytes};
    struct sm_calibration *c = lay_out(e, &a);
    c->observer = (struct sm_observer){see_weight, see_expert};
    c->gguf = e->gguf;
    c->store = e->store;
    c->graph = &e->graph;
    c->bytes = bytes;
    e->calibration = c;
    return SMOL_OK;
}

void sm_calibration_end(struct sm_engine *e)
{
    if (e->calibration) sm_mem_free(e->calibration, (size_t)e->calibration->bytes);
    e->calibration = NULL;
}

smol_status sm_calibration_read(struct sm_session *s, const int32_t *tokens, size_t n,
                                smol_error *err)
{
    struct sm_engine *e = s->e;
    struct sm_calibration *c = e->calibration;
    const uint64_t start = sm_now_ns();
    smol_status st = SMOL_OK;
    if (!c) return SM_FAIL(err, ARG, "the model was not opened for calibration");
    SM_TRY(sm_session_check(s, tokens, n, err));
    sm_session_clear(s);
    e->graph.observer = &c->observer;
    for (uint32_t at = 0, step; st == SMOL_OK && at < n; at += step) {
        step = (uint32_t)n - at < e->plan.chunk ? (uint32_t)n - at : e->plan.chunk;
        st = sm_engine_run(e, tokens + at, step, at, false, err);
        if (e->progress) e->progress(e->progress_arg, "prompt", at + step, n);
    }
    e->graph.observer = NULL;
    sm_session_clear(s);
    SM_TRY(st);
    c->n_chunks++;
    c->n_tok += n;
    e->n_prompt += n;
    e->ns_prompt += sm_now_ns() - start;
    return SMOL_OK;
}

static bool is_seen(const struct sums *s)
{
    for (uint32_t i = 0; s->sum && i < s->n_mat; i++)
        if (s->count[i]) return true;
    return false;
}

void sm_calibration_info(const struct sm_engine *e, smol_calibration *out)
{
    const struct sm_calibration *c = e->calibration;
    *out = (smol_calibration){0};
    if (!c) return;
    out->chunks = c->n_chunks;
    out->tokens = c->n_tok;
    out->bytes = c->bytes;
    for (size_t i = 0; i < sm_gguf_n_tensors(c->gguf); i++) out->matrices += is_seen(&c->of[i]);
    for (uint32_t p = 0; p < sm_store_n_pools(c->store); p++) {
        const struct sm_expert_tensors t = sm_store_pool_tensors(c->store, p);
        const struct sums *s = &c->of[sm_gguf_tensor_index(c->gguf, t.gate)];
        out->experts += s->n_mat;
        for (uint32_t i = 0; i < s->n_mat; i++) out->unseen += !s->count[i];
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

#define PIECE 1024u /* floats written at once */

static smol_status declare(struct sm_gguf_writer *w, const struct sm_calibration *c,
                           smol_error *err)
{
    char name[96];
    for (size_t i = 0; i < sm_gguf_n_tensors(c->gguf); i++) {
        const struct sums *s = &c->of[i];
        const char *weight = sm_gguf_tensor(c->gguf, i)->name;
        if (!is_seen(s)) continue;
        (void)snprintf(name, sizeof name, "%s.in_sum2", weight);
        SM_TRY(sm_gguf_writer_add_tensor(w, name, SM_F32, 2, (uint64_t[]){s->n_in, s->n_mat}, err));
        (void)snprintf(name, sizeof name, "%s.counts", weight);
        SM_TRY(sm_gguf_writer_add_tensor(w, name, SM_F32, 2, (uint64_t[]){1, s->n_mat}, err));
    }
    return SMOL_OK;
}

static smol_status put_sums(struct sm_gguf_writer *w, const struct sums *s, const char *name,
                            smol_error *err)
{
    const size_t n = (size_t)s->n_in * s->n_mat;
    float part[PIECE];
    for (size_t at = 0, k; at < n; at += k) {
        k = n - at < PIECE ? n - at : PIECE;
        for (size_t i = 0; i < k; i++) {
            part[i] = (float)s->sum[at + i];
            if (!isfinite(part[i]))
                return SM_FAIL(err, FORMAT, "the squares of what goes into %s do not fit a float",
                               name);
        }
        SM_TRY(sm_gguf_writer_put(w, part, k * sizeof *part, err));
    }
    for (uint32_t i = 0; i < s->n_mat; i++) {
        const float count = (float)s->count[i];
        SM_TRY(sm_gguf_writer_put(w, &count, sizeof count, err));
    }
    return SMOL_OK;
}

static smol_status write_file(struct sm_gguf_writer *w, const struct sm_calibration *c,
                              const char *path, const char *text, unsigned chunk, smol_error *err)
{
    const struct sm_str sets = {text, strlen(text)};
    SM_TRY(sm_gguf_writer_set_str(w, "general.type", "imatrix", err));
    SM_TRY(sm_gguf_writer_set_strings(w, "imatrix.datasets", &sets, 1, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "imatrix.chunk_count", (uint32_t)c->n_chunks, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "imatrix.chunk_size", chunk, err));
    SM_TRY(declare(w, c, err));
    SM_TRY(sm_gguf_writer_create(w, path, err));
    for (size_t i = 0; i < sm_gguf_n_tensors(c->gguf); i++)
        if (is_seen(&c->of[i]))
            SM_TRY(put_sums(w, &c->of[i], sm_gguf_tensor(c->gguf, i)->name, err));
    return sm_gguf_writer_end(w, err);
}

smol_status sm_calibration_write(const struct sm_engine *e, const char *path, const char *text,
                                 unsigned chunk, smol_error *err)
{
    struct sm_gguf_writer *w = NULL;
    if (!e->calibration || !e->calibration->n_chunks)
        return SM_FAIL(err, ARG, "nothing was read that could be written");
    SM_TRY(sm_gguf_writer_new(&w, err));
    const smol_status st = write_file(w, e->calibration, path, text, chunk, err);
    sm_gguf_writer_free(w);
    return st;
}
