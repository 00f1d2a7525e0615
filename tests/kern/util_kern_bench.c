/* SPDX-License-Identifier: MIT */
/* Speeds of the products, one thread: pieces of a matrix larger than the caches, one after the
 * other; the best piece counts, in processor time, which is steady on a busy machine. */
#include "util_kern.h"
#include "base/mem.h"
#include "tap.h"

#include <time.h>

enum { N_COLS = 2048, MATRIX_BYTES = 48 << 20, PIECE_BYTES = 256 << 10, TIME_NS = 100000000 };

static uint64_t now_ns(void)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void bench_one(const struct sm_kern *k, uint32_t type, size_t n_tok, const uint8_t *w,
                      size_t n_groups, struct sm_acts *x, float *y)
{
    const size_t group_bytes = 8 * (size_t)sm_row_bytes(type, N_COLS);
    const size_t piece = PIECE_BYTES / group_bytes + 1, n_pieces = n_groups / piece;
    const uint64_t start = now_ns();
    uint64_t best = UINT64_MAX, t0 = start;
    x->n_tok = (uint32_t)n_tok;
    for (size_t i = 0; t0 - start < TIME_NS; i = (i + 1) % n_pieces) {
        k->mul_x8[type](y, 8 * piece, w + i * piece * group_bytes, piece, x);
        const uint64_t t1 = now_ns();
        best = t1 - t0 < best ? t1 - t0 : best;
        t0 = t1;
    }
    const double weights = (double)piece * 8 * N_COLS, seconds = (double)best * 1e-9;
    printf("%s\tmul_x8 %s\t%zu\t%.2f\t%.2f\n", k->level, sm_type_name(type), n_tok,
           weights * (double)n_tok / seconds * 1e-9,
           (double)(piece * group_bytes) / seconds * 1e-9);
}

/* Repacking: bytes read a second. Pieces of 64 rows that stay in the caches, as those of a read do. */
static void bench_pack(const struct sm_kern *k, uint32_t type, uint8_t *w)
{
    enum { ROWS = 64 };
    const size_t row_bytes = (size_t)sm_row_bytes(type, N_COLS);
    const uint64_t start = now_ns();
    uint64_t best = UINT64_MAX, t0 = start;
    while (t0 - start < TIME_NS / 4) {
        k->pack_x8[type](w + (MATRIX_BYTES >> 1), w, row_bytes, ROWS, N_COLS);
        const uint64_t t1 = now_ns();
        best = t1 - t0 < best ? t1 - t0 : best;
        t0 = t1;
    }
    const double seconds = (double)best * 1e-9;
    printf("%s\tpack_x8 %s\t-\t%.2f\t%.2f\n", k->level, sm_type_name(type),
           (double)ROWS * N_COLS / seconds * 1e-9, (double)(ROWS * row_bytes) / seconds * 1e-9);
}

void bench_mul_x8(const struct sm_kern *k, const char *op)
{
    enum { MAX_TOK = 128, Y_BYTES = MAX_TOK * PIECE_BYTES / 16 };
    uint8_t *w = sm_mem_new(MATRIX_BYTES);
    struct sm_acts x = {.q = sm_mem_new(MAX_TOK * N_COLS),
                        .d = sm_mem_new(MAX_TOK * N_COLS / 32 * 4),
                        .s = sm_mem_new(MAX_TOK * N_COLS / 16 * 2),
                        .n_cols = N_COLS};
    float *y = sm_mem_new(Y_BYTES);
    for (uint32_t type = 0; w && y && type < SM_TYPE_COUNT; type++) {
        char name[40];
        (void)snprintf(name, sizeof name, "mul_x8 %s", sm_type_name(type));
        if (!sm_type_is_x8(type) || (op && !strstr(name, op))) continue;
        const size_t group_bytes = 8 * (size_t)sm_row_bytes(type, N_COLS);
        const size_t n_groups = MATRIX_BYTES / group_bytes;
        x.block = sm_traits_of(type)->act_block;
        x.n_tok = MAX_TOK;
        fill_acts(&x, 0);
        for (size_t i = 0; i < n_groups * group_bytes; i += 8) {
            const uint64_t r = tap_random() & 0x3f3f3f3f3f3f3f3fu; /* finite scales */
            memcpy(w + i, &r, 8);
        }
        bench_one(k, type, 1, w, n_groups, &x, y);
        bench_one(k, type, 8, w, n_groups, &x, y);
        bench_one(k, type, MAX_TOK, w, n_groups, &x, y);
        bench_pack(k, type, w);
    }
    sm_mem_free(w, MATRIX_BYTES);
    sm_mem_free(y, Y_BYTES);
    sm_mem_free(x.q, MAX_TOK * N_COLS);
    sm_mem_free(x.d, MAX_TOK * N_COLS / 32 * 4);
    sm_mem_free(x.s, MAX_TOK * N_COLS / 16 * 2);
}
