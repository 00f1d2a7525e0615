/* SPDX-License-Identifier: MIT */
/* The x8 layout is a permutation: random blocks of every format come back byte for byte, padding
 * rows are zero, and every byte of the x8 matrix is accounted for. */
#include "quant/x8_finite.h"
#include "tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t state = 1;

static uint8_t random_byte(void)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint8_t)(state >> 56);
}

/* The table covers every byte of the block exactly once, in units that divide its fields. */
static bool table_is_partition(const struct sm_traits *t)
{
    uint8_t seen[SM_BLOCK_BYTES_MAX] = { 0 };
    for (size_t f = 0; f < t->n_x8; f++) {
        const struct sm_x8_field *x = &t->x8[f];
        if (x->unit != 1 && x->unit != 2 && x->unit != 4) return false;
        if (x->bytes % x->unit || x->offset + x->bytes > t->block_bytes) return false;
        for (size_t i = 0; i < x->bytes; i++) seen[x->offset + i]++;
    }
    for (size_t i = 0; i < t->block_bytes; i++)
        if (seen[i] != 1) return false;
    return true;
}

static bool round_trip(uint32_t type, size_t n_rows, size_t n_blocks)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_cols = n_blocks * t->block, row_bytes = (size_t)sm_row_bytes(type, n_cols);
    const size_t x8_bytes = (size_t)sm_x8_bytes(type, n_rows, n_cols);
    uint8_t *rows = malloc(n_rows * row_bytes), *back = malloc(row_bytes), *x8 = malloc(x8_bytes);
    size_t sum = 0, sum_x8 = 0;
    bool good = rows && back && x8 && x8_bytes == (n_rows + 7) / 8 * 8 * row_bytes;
    for (size_t i = 0; good && i < n_rows * row_bytes; i++) sum += rows[i] = random_byte();
    if (good) {
        memset(x8, 0xa5, x8_bytes);
        sm_x8_pack(type, x8, rows, row_bytes, n_rows, n_cols);
    }
    for (size_t i = 0; good && i < x8_bytes; i++) sum_x8 += x8[i];
    good = good && sum == sum_x8;
    for (size_t r = 0; good && r < n_rows; r++) {
        memset(back, 0x5a, row_bytes);
        sm_x8_unpack_row(type, x8, r, n_cols, back);
        good = memcmp(back, rows + r * row_bytes, row_bytes) == 0;
    }
    for (size_t r = n_rows; good && r % 8; r++) { /* padding rows are zero blocks */
        sm_x8_unpack_row(type, x8, r, n_cols, back);
        for (size_t i = 0; i < row_bytes; i++) good = good && back[i] == 0;
    }
    free(rows);
    free(back);
    free(x8);
    return good;
}

/* Row r of the x8 matrix decodes to the same floats as row r of the file. */
static bool decodes_alike(uint32_t type)
{
    enum { N_ROWS = 11, N_BLOCKS = 3 };
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_cols = (size_t)N_BLOCKS * t->block;
    const size_t row_bytes = (size_t)sm_row_bytes(type, n_cols);
    static uint8_t rows[N_ROWS * N_BLOCKS * SM_BLOCK_BYTES_MAX];
    static uint8_t x8[16 * N_BLOCKS * SM_BLOCK_BYTES_MAX];
    static float a[N_BLOCKS * SM_BLOCK_MAX], b[N_BLOCKS * SM_BLOCK_MAX];
    for (size_t i = 0; i < N_ROWS * row_bytes; i++) rows[i] = random_byte();
    sm_x8_pack(type, x8, rows, row_bytes, N_ROWS, n_cols);
    for (size_t r = 0; r < N_ROWS; r++) {
        sm_decode_row(type, rows + r * row_bytes, a, n_cols);
        sm_x8_decode_row(type, x8, r, n_cols, b);
        if (memcmp(a, b, n_cols * sizeof a[0])) return false;
    }
    return true;
}

/* The check on x8 blocks says the same as the one on file blocks, also when the bits that make a
 * scale infinite are spread over every byte of one row's block. */
static bool finite_alike(uint32_t type)
{
    enum { N_ROWS = 8, N_TRIES = 4000 };
    const struct sm_traits *t = sm_traits_of(type);
    static uint8_t rows[N_ROWS * SM_BLOCK_BYTES_MAX], x8[N_ROWS * SM_BLOCK_BYTES_MAX];
    unsigned n_bad = 0;
    for (unsigned i = 0; i < N_TRIES; i++) {
        for (size_t b = 0; b < N_ROWS * (size_t)t->block_bytes; b++) rows[b] = random_byte() & 0x3b;
        uint8_t *row = rows + i % N_ROWS * t->block_bytes;
        for (size_t b = 0; i % 3 && b < t->block_bytes; b++)
            if (i % 3 == 1 || b == i / 24 % t->block_bytes) row[b] |= 0xfc;
        sm_x8_pack(type, x8, rows, t->block_bytes, N_ROWS, t->block);
        const bool want = sm_blocks_finite(type, rows, N_ROWS);
        if (sm_x8_finite(type, x8, 1) != want) return false;
        n_bad += !want;
    }
    return !t->finite || (n_bad > N_TRIES / 4 && n_bad < N_TRIES);
}

int main(void)
{
    size_t n_types = 0;
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        const struct sm_traits *t = sm_traits_of(type);
        if (!t || !t->x8) continue;
        n_types++;
        TAP_OK(table_is_partition(t), "%s: the fields cover the block", t->name);
        bool good = true;
        for (size_t n_rows = 1; n_rows <= 17; n_rows++)
            good = good && round_trip(type, n_rows, 1 + n_rows % 4);
        TAP_OK(good, "%s: random blocks come back byte for byte", t->name);
        TAP_OK(finite_alike(type), "%s: infinite scales are seen in x8 blocks", t->name);
        TAP_OK(decodes_alike(type), "%s: x8 rows decode as file rows", t->name);
    }
    TAP_OK(n_types == 24, "24 formats are held as x8 (%zu)", n_types);
    return tap_done();
}
