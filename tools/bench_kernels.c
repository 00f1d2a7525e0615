/* SPDX-License-Identifier: MIT */
/* Speed of the product of a matrix and one vector, for every format and kernel level, beside the
 * speed at which the same threads just read memory. The matrix is larger than the caches; all
 * figures of one format come from the same run of a few tenths of a second. */
#include "bench.h"
#include "synth.h"

#include "lib/json.h"
#include "lib/model_args.h"
#include "lib/progress.h"

#include "base/bits.h"
#include "base/mem.h"
#include "kern/kern.h"
#include "plat/plat.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define MATRIX_BYTES ((size_t)192 << 20)
#define N_COLS 4096u
#define SAMPLE_GROUPS 16u /* x8 groups made and then repeated */
#define SLICES 64u        /* of the matrix, taken by whichever thread is free */

struct kernels {
    struct sm_pool *pool;
    uint8_t *matrix;
    float *y;
    int8_t *q;
    float *d, *x;
    int16_t *s;
    const struct sm_kern *k;
    uint32_t type;
    struct sm_acts acts;
    size_t group_bytes, n_groups; /* of the matrix: groups of 8 rows */
    unsigned n_slices;            /* of a pass: fewer where a kernel is slow */
    atomic_uint next;
    atomic_uint_fast64_t sum;
};

/* ---- what is timed ------------------------------------------------------------------------- */

static void read_memory(void *arg, unsigned worker, unsigned n_workers)
{
    struct kernels *b = arg;
    uint64_t s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    (void)worker;
    (void)n_workers;
    for (unsigned i; (i = atomic_fetch_add(&b->next, 1)) < b->n_slices;) {
        const uint8_t *p = b->matrix + MATRIX_BYTES / SLICES * i;
        for (size_t at = 0; at < MATRIX_BYTES / SLICES; at += 64, p += 64) {
            s0 += sm_ld64(p) ^ sm_ld64(p + 8);
            s1 += sm_ld64(p + 16) ^ sm_ld64(p + 24);
            s2 += sm_ld64(p + 32) ^ sm_ld64(p + 40);
            s3 += sm_ld64(p + 48) ^ sm_ld64(p + 56);
        }
    }
    atomic_fetch_add(&b->sum, s0 + s1 + s2 + s3);
}

static void multiply(void *arg, unsigned worker, unsigned n_workers)
{
    struct kernels *b = arg;
    (void)worker;
    (void)n_workers;
    for (unsigned i; (i = atomic_fetch_add(&b->next, 1)) < b->n_slices;) {
        const size_t first = b->n_groups * i / SLICES, n = b->n_groups * (i + 1) / SLICES - first;
        float *y = b->y + 8 * first;
        const uint8_t *w = b->matrix + first * b->group_bytes;
        if (b->k->mul_x8[b->type]) b->k->mul_x8[b->type](y, 8 * b->n_groups, w, n, &b->acts);
        else b->k->mul_rows[b->type](y, 8 * b->n_groups, w, 8 * n, N_COLS, b->x, N_COLS, 1);
    }
}

static double pass(struct kernels *b, sm_job_fn fn, unsigned n_slices)
{
    const uint64_t start = sm_now_ns();
    b->n_slices = n_slices;
    atomic_store(&b->next, 0);
    sm_pool_run(b->pool, fn, b);
    const double s = (double)(sm_now_ns() - start) * 1e-9;
    return s > 1e-9 ? s : 1e-9;
}

/* Seconds for the whole matrix: the fastest of several passes over it, or over the part of it that
 * a slow kernel manages in the time. */
static double best_of(struct kernels *b, sm_job_fn fn, uint64_t total_ns)
{
    const unsigned least = sm_pool_size(b->pool);
    const double part = pass(b, fn, least), room = (double)total_ns * 1e-9 / 2;
    double best = 1e9, slices = least * room / part;
    const unsigned n = slices < least ? least : slices > SLICES ? SLICES : (unsigned)slices;
    const uint64_t stop = sm_now_ns() + total_ns;
    for (unsigned i = 0; i < 2 || sm_now_ns() < stop; i++) {
        const double s = pass(b, fn, n);
        if (s < best) best = s;
    }
    return best * SLICES / n;
}

/* ---- the matrix ---------------------------------------------------------------------------- */

static smol_status fill_matrix(struct kernels *b, smol_error *err)
{
    struct synth_tensor t = {.name = "matrix", .type = b->type, .n_dims = 2,
                             .dim = {N_COLS, 8 * SAMPLE_GROUPS, 1, 1}, .std = 1.0f / 64};
    struct synth_maker m;
    SM_TRY(synth_maker_init(&m, &t, NULL, b->type, err));
    const size_t row = (size_t)sm_row_bytes(b->type, N_COLS),
                 sample = SAMPLE_GROUPS * b->group_bytes;
    uint8_t *rows = malloc(row * 8 * SAMPLE_GROUPS);
    if (!rows) return SM_FAIL(err, NOMEM, "no memory for a matrix");
    synth_maker_fill(&m, 0, m.n_blocks, rows);
    if (sm_type_is_x8(b->type))
        sm_x8_pack(b->type, b->matrix, rows, row, 8 * SAMPLE_GROUPS, N_COLS);
    else memcpy(b->matrix, rows, sample);
    for (size_t at = sample; at < b->n_groups * b->group_bytes; at += sample) {
        const size_t left = b->n_groups * b->group_bytes - at;
        memcpy(b->matrix + at, b->matrix, left < sample ? left : sample);
    }
    free(rows);
    synth_maker_free(&m);
    return SMOL_OK;
}

static void quantize_input(struct kernels *b)
{
    const struct sm_traits *t = sm_traits_of(b->type);
    b->acts = (struct sm_acts){.q = b->q, .d = b->d, .s = b->s, .n_tok = 1, .n_cols = N_COLS,
                               .block = t->act_block};
    if (t->act_block == 256) b->k->quantize_256(b->x, N_COLS, b->q, b->d, b->s);
    else if (t->act_block == 32) b->k->quantize_32(b->x, N_COLS, b->q, b->d, b->s);
}

/* ---- all formats and levels ---------------------------------------------------------------- */

struct line {
    const char *format, *level;
    double weights_s, bytes_s, read_s;
};

static void print_line(const struct line *l)
{
    printf("%-8s %-8s %10.3f %10.3f %10.3f %7.1f %%\n", l->format, l->level, l->weights_s * 1e-9,
           l->bytes_s * 1e-9, l->read_s * 1e-9, 100 * l->bytes_s / l->read_s);
    fflush(stdout);
}

static void json_line(struct sm_json *j, const struct line *l)
{
    sm_json_open(j, NULL, '{');
    sm_json_str(j, "format", l->format);
    sm_json_str(j, "level", l->level);
    sm_json_num(j, "weights_s", l->weights_s);
    sm_json_num(j, "bytes_s", l->bytes_s);
    sm_json_num(j, "memory_bytes_s", l->read_s);
    sm_json_num(j, "share", l->bytes_s / l->read_s);
    sm_json_close(j);
}

/* One format at every level whose kernel is another one than the level below has. */
static smol_status run_format(struct kernels *b, uint32_t type, uint64_t ns, struct sm_json *json,
                              smol_error *err)
{
    const uint32_t levels = sm_cpu_levels();
    const void *before = NULL;
    b->type = type;
    b->group_bytes = (size_t)sm_row_bytes(type, N_COLS) * 8;
    b->n_groups = MATRIX_BYTES / b->group_bytes;
    SM_TRY(fill_matrix(b, err));
    for (uint32_t bit = 0; bit < 32; bit++) {
        struct sm_kern k;
        void *fn = NULL;
        if (!(levels >> bit & 1u)) continue;
        if (sm_interrupted) return SM_FAIL(err, CANCELLED, "stopped");
        sm_kern_init(&k, levels & (uint32_t)((2ull << bit) - 1));
        if (k.mul_x8[type]) memcpy(&fn, &k.mul_x8[type], sizeof fn);
        else memcpy(&fn, &k.mul_rows[type], sizeof fn);
        if (fn == before) continue;
        before = fn;
        b->k = &k;
        quantize_input(b);
        struct line l = {.format = sm_type_name(type), .level = sm_cpu_level_name(bit)};
        l.read_s = (double)MATRIX_BYTES / best_of(b, read_memory, ns / 2);
        const double s = best_of(b, multiply, ns);
        l.bytes_s = (double)(b->n_groups * b->group_bytes) / s;
        l.weights_s = (double)b->n_groups * 8 * N_COLS / s;
        if (json) json_line(json, &l);
        else print_line(&l);
    }
    return SMOL_OK;
}

static smol_status run_all(struct kernels *b, const struct sm_options *o, struct sm_json *json,
                           smol_error *err)
{
    const unsigned n_threads = sm_threads_of(o);
    SM_TRY(sm_pool_new(&b->pool, n_threads ? n_threads : sm_cores_fast(), err));
    void *p;
    SM_TRY(sm_pages_new(&p, MATRIX_BYTES, err));
    b->matrix = p;
    b->y = sm_mem_new(MATRIX_BYTES / (N_COLS / 128 * 18) * sizeof *b->y + 4096);
    b->q = sm_mem_new(N_COLS);
    b->d = sm_mem_new(N_COLS / 32 * sizeof *b->d);
    b->s = sm_mem_new(N_COLS / 16 * sizeof *b->s);
    b->x = sm_mem_new(N_COLS * sizeof *b->x);
    if (!b->y || !b->q || !b->d || !b->s || !b->x) return SM_FAIL(err, NOMEM, "out of memory");
    struct synth_rng r;
    synth_rng_seed(&r, 1, 0);
    for (unsigned i = 0; i < N_COLS; i++) b->x[i] = synth_rng_normal(&r);
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        if (!sm_type_is_matrix(type)) continue;
        sm_progress_show(NULL, "measuring", type, SM_TYPE_COUNT);
        if (!json) sm_progress_clear();
        SM_TRY(run_format(b, type, (uint64_t)o->bench_ms * 1000000u, json, err));
    }
    sm_progress_clear();
    return SMOL_OK;
}

int bench_kernels(const struct sm_options *o)
{
    struct kernels *b = calloc(1, sizeof *b);
    struct sm_json j;
    smol_error err = {0};
    if (!b) return sm_complain(SM_EXIT_FAILED, "out of memory");
    sm_progress_init(o->quiet);
    sm_catch_interrupt();
    if (o->json) {
        sm_json_begin(&j, stdout, true);
        sm_json_open(&j, NULL, '[');
    } else {
        printf("format   level      G weights/s    GB/s  memory GB/s   share\n");
    }
    const smol_status st = run_all(b, o, o->json ? &j : NULL, &err);
    if (o->json) {
        sm_json_close(&j);
        (void)sm_json_end(&j); /* main looks at standard output */
    }
    sm_mem_free(b->y, MATRIX_BYTES / (N_COLS / 128 * 18) * sizeof *b->y + 4096);
    sm_mem_free(b->q, N_COLS);
    sm_mem_free(b->d, N_COLS / 32 * sizeof *b->d);
    sm_mem_free(b->s, N_COLS / 16 * sizeof *b->s);
    sm_mem_free(b->x, N_COLS * sizeof *b->x);
    if (b->matrix) sm_pages_free(b->matrix, MATRIX_BYTES);
    sm_pool_free(b->pool);
    free(b);
    sm_progress_clear();
    return st == SMOL_OK ? SM_EXIT_DONE : sm_report(&err);
}
