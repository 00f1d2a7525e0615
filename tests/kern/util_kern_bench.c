/* SPDX-License-Identifier: MIT */
/* Speeds of the products, one thread: pieces of a matrix larger than the caches, one after the
 * other; the best piece counts, in processor time, which is steady on a busy machine. The levels
 * take turns, each on the next piece, so that a change of the clock meets all of them. */
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

/* One line for each level; the last column says `slower` where a lower level is faster by more than
 * 5 %: --cpu auto would then be the wrong choice. */
static void print_speeds(const struct sm_kern *k, size_t n_levels, const char *op,
                         const char *tokens, double weights, double bytes, const uint64_t *best)
{
    uint64_t least = UINT64_MAX;
    for (size_t i = 0; i < n_levels; i++) {
        const double seconds = (double)best[i] * 1e-9;
        printf("%s\t%s\t%s\t%.2f\t%.2f\t%s\n", k[i].level, op, tokens, weights / seconds * 1e-9,
               bytes / seconds * 1e-9, best[i] > least + least / 20 ? "slower" : "");
        least = best[i] < least ? best[i] : least;
    }
}

static void bench_one(const struct sm_kern *k, size_t n_levels, uint32_t type, const char *op,
                      size_t n_tok, const uint8_t *w, size_t n_groups, struct sm_acts *x, float *y)
{
    const size_t group_bytes = 8 * (size_t)sm_row_bytes(type, N_COLS);
    const size_t piece = PIECE_BYTES / group_bytes + 1, n_pieces = n_groups / piece;
    const double weights = (double)piece * 8 * N_COLS;
    const uint64_t start = now_ns();
    uint64_t best[SM_LEVEL_COUNT], t0 = start;
    char tokens[8];
    for (size_t i = 0; i < n_levels; i++) best[i] = UINT64_MAX;
    x->n_tok = (uint32_t)n_tok;
    for (size_t i = 0; t0 - start < TIME_NS * n_levels; i++) {
        const size_t level = i % n_levels; /* on pieces of its own: none finds one in the cache */
        k[level].mul_x8[type](y, 8 * piece, w + i % n_pieces * piece * group_bytes, piece, x);
        const uint64_t t1 = now_ns();
        best[level] = t1 - t0 < best[level] ? t1 - t0 : best[level];
        t0 = t1;
    }
    (void)snprintf(tokens, sizeof tokens, "%zu", n_tok);
    print_speeds(k, n_levels, op, tokens, weights * (double)n_tok, (double)(piece * group_bytes),
                 best);
}

/* Repacking: bytes read a second. Pieces of 64 rows that stay in the caches, as those of a read
 * do. */
static void bench_pack(const struct sm_kern *k, size_t n_levels, uint32_t type, const char *op,
                       uint8_t *w)
{
    enum { ROWS = 64 };
    const size_t row_bytes = (size_t)sm_row_bytes(type, N_COLS);
    const uint64_t start = now_ns();
    uint64_t best[SM_LEVEL_COUNT], t0 = start;
    for (size_t i = 0; i < n_levels; i++) best[i] = UINT64_MAX;
    for (size_t i = 0; t0 - start < TIME_NS / 4 * n_levels; i = (i + 1) % n_levels) {
        k[i].pack_x8(type, w + (MATRIX_BYTES >> 1), w, row_bytes, ROWS, N_COLS);
        const uint64_t t1 = now_ns();
        best[i] = t1 - t0 < best[i] ? t1 - t0 : best[i];
        t0 = t1;
    }
    print_speeds(k, n_levels, op, "-", (double)ROWS * N_COLS, (double)(ROWS * row_bytes), best);
}

void bench_mul_x8(const struct sm_kern *k, size_t n_levels, const char *op)
{
    enum { MAX_TOK = 128, Y_BYTES = MAX_TOK * PIECE_BYTES / 16 };
    uint8_t *w = sm_mem_new(MATRIX_BYTES);
    struct sm_acts x = {.q = sm_mem_new(MAX_TOK * N_COLS),
                        .d = sm_mem_new(MAX_TOK * N_COLS / 32 * 4),
                        .s = sm_mem_new(MAX_TOK * N_COLS / 16 * 2),
                        .n_cols = N_COLS};
    float *y = sm_mem_new(Y_BYTES);
    for (uint32_t type = 0; w && y && type < SM_TYPE_COUNT; type++) {
        char name[40], pack[40];
        if (!sm_type_is_x8(type)) continue;
        (void)snprintf(name, sizeof name, "mul_x8 %s", sm_type_name(type));
        (void)snprintf(pack, sizeof pack, "pack_x8 %s", sm_type_name(type));
        const bool products = !op || strstr(name, op), packs = !op || strstr(pack, op);
        if (!products && !packs) continue;
        const size_t group_bytes = 8 * (size_t)sm_row_bytes(type, N_COLS);
        const size_t n_groups = MATRIX_BYTES / group_bytes;
        x.block = sm_traits_of(type)->act_block;
        x.n_tok = MAX_TOK;
        fill_acts(&x, 0);
        for (size_t i = 0; i < n_groups * group_bytes; i += 8) {
            const uint64_t r = tap_random() & 0x3f3f3f3f3f3f3f3fu; /* finite scales */
            memcpy(w + i, &r, 8);
        }
        static const size_t n_tok[] = {1, 2, 8, MAX_TOK};
        for (size_t i = 0; products && i < sizeof n_tok / sizeof n_tok[0]; i++)
            bench_one(k, n_levels, type, name, n_tok[i], w, n_groups, &x, y);
        if (packs) bench_pack(k, n_levels, type, pack, w);
    }
    sm_mem_free(w, MATRIX_BYTES);
    sm_mem_free(y, Y_BYTES);
    sm_mem_free(x.q, MAX_TOK * N_COLS);
    sm_mem_free(x.d, MAX_TOK * N_COLS / 32 * 4);
    sm_mem_free(x.s, MAX_TOK * N_COLS / 16 * 2);
}
