/* SPDX-License-Identifier: MIT */
/* Blocks of any format and any content. Input: type id, number of columns in blocks (1–4), then
 * rows of blocks. Nothing may be read outside the rows; the x8 layout must give the rows back; what
 * is said to be finite must decode to numbers; products must be those of the decoded rows' order of
 * size (a sum of int32 that overflows is seen by the sanitizer). */
#include "require.h"

#include "base/bits.h"
#include "kern/kern.h"

#include <math.h>
#include <stdlib.h>

/* The reference product of the packed rows with activations taken from the same bytes. */
static void multiply(const struct sm_kern *k, uint32_t type, const uint8_t *x8, size_t n_rows,
                     size_t n_cols, const uint8_t *bytes, size_t n_bytes)
{
    const size_t n_groups = (n_rows + 7) / 8, block = sm_traits_of(type)->act_block;
    int8_t q[4 * SM_BLOCK_MAX];
    float d[4 * SM_BLOCK_MAX / 32];
    int16_t s[4 * SM_BLOCK_MAX / 16];
    float *y = calloc(8 * n_groups, sizeof *y);
    if (!y) return;
    for (size_t i = 0; i < n_cols; i++) {
        const int8_t v = (int8_t)bytes[i % n_bytes];
        q[i] = v == -128 ? 127 : v;
    }
    for (size_t g = 0; g < n_cols / 16; g++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += q[16 * g + i];
        s[g] = (int16_t)sum;
    }
    for (size_t b = 0; b < n_cols / block; b++) d[b] = 1;
    const struct sm_acts a = {q, d, s, 1, (uint32_t)n_cols, (uint32_t)block};
    k->mul_x8[type](y, 8 * n_groups, x8, n_groups, &a);
    free(y);
}

static void check_x8(uint32_t type, const uint8_t *rows, size_t n_rows, size_t n_cols)
{
    const size_t row_bytes = (size_t)sm_row_bytes(type, n_cols);
    struct sm_kern k;
    uint8_t *x8 = malloc((size_t)sm_x8_bytes(type, n_rows, n_cols));
    uint8_t *back = malloc(row_bytes);
    if (x8 && back) {
        sm_kern_init(&k, 1);
        k.pack_x8(type, x8, rows, row_bytes, n_rows, n_cols);
        for (size_t r = 0; r < n_rows; r++) {
            sm_x8_unpack_row(type, x8, r, n_cols, back);
            require(!memcmp(back, rows + r * row_bytes, row_bytes));
        }
        multiply(&k, type, x8, n_rows, n_cols, rows, row_bytes);
    }
    free(x8);
    free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3) return 0;
    const uint32_t type = data[0];
    const struct sm_traits *t = sm_traits_of(type);
    require(sm_type_name(type) != NULL);
    if (!t || !t->decodes) return 0;
    const size_t n_cols = t->block * (size_t)(1 + data[1] % 4);
    const size_t row_bytes = (size_t)sm_row_bytes(type, n_cols), n_rows = (size - 2) / row_bytes;
    if (!n_rows || n_rows > 64) return 0;
    uint8_t *rows = malloc(n_rows * row_bytes); /* its own block, so that an over-read is seen */
    float *out = malloc(n_cols * sizeof *out);
    if (rows && out) {
        memcpy(rows, data + 2, n_rows * row_bytes);
        for (size_t r = 0; r < n_rows; r++) {
            const uint8_t *row = rows + r * row_bytes;
            const bool finite = sm_blocks_finite(type, row, n_cols / t->block);
            sm_decode_row(type, row, out, n_cols);
            for (size_t i = 0; i < n_cols; i++)
                /* MXFP4 and Q8_K scales go up to where a product overflows */
                require(!finite || isfinite(out[i]) || (!isnan(out[i]) && type == SM_MXFP4) ||
                        (!isnan(out[i]) && type == SM_Q8_K));
        }
        if (t->x8) check_x8(type, rows, n_rows, n_cols);
    }
    free(rows);
    free(out);
    return 0;
}
