/* SPDX-License-Identifier: MIT */
/* The x8 layout: 8 rows of a quantised matrix interleaved, so that a SIMD lane is an output row.
 *
 *   matrix  = groups of 8 rows, one after the other
 *   group   = x8 blocks, one for each block column
 *   x8 block = the fields of the block in the order of the traits table; field of n bytes with
 *             unit u: n / u times (u bytes of row 0, of row 1, ... of row 7)
 *
 * The same bytes as eight file-order blocks, permuted. Each field is cut by its own unit: codes and
 * packed scales in 4 bytes (one 32-bit lane of four codes), f16 scales in 2, single bytes in 1. */
#include "quant/quant.h"

#include <string.h>

#define LANES 8u

/* Bytes of row `row`, block column b start here; the rest of the position is in the field table. */
static size_t x8_block_offset(const struct sm_traits *t, size_t row, size_t b, size_t n_cols)
{
    const size_t n_blocks = n_cols / t->block;
    return ((row / LANES) * n_blocks + b) * LANES * t->block_bytes;
}

uint64_t sm_x8_bytes(uint32_t type, uint64_t n_rows, uint64_t n_cols)
{
    return (n_rows + LANES - 1) / LANES * LANES * sm_row_bytes(type, n_cols);
}

/* One field of one row into lane `lane` of the x8 field at dst. */
static void scatter(uint8_t *dst, const uint8_t *src, size_t bytes, size_t unit, size_t lane)
{
    dst += lane * unit;
    if (unit == 4) {
        for (size_t j = 0; j < bytes; j += 4) memcpy(dst + j * LANES, src + j, 4);
    } else if (unit == 2) {
        for (size_t j = 0; j < bytes; j += 2) memcpy(dst + j * LANES, src + j, 2);
    } else {
        for (size_t j = 0; j < bytes; j++) dst[j * LANES] = src[j];
    }
}

static void gather(uint8_t *dst, const uint8_t *src, size_t bytes, size_t unit, size_t lane)
{
    src += lane * unit;
    if (unit == 4) {
        for (size_t j = 0; j < bytes; j += 4) memcpy(dst + j, src + j * LANES, 4);
    } else if (unit == 2) {
        for (size_t j = 0; j < bytes; j += 2) memcpy(dst + j, src + j * LANES, 2);
    } else {
        for (size_t j = 0; j < bytes; j++) dst[j] = src[j * LANES];
    }
}

void sm_x8_pack(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes, size_t n_rows,
                size_t n_cols)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = n_cols / t->block, block_bytes = t->block_bytes;
    for (size_t row = 0; row < n_rows; row += LANES) {
        const size_t live = n_rows - row < LANES ? n_rows - row : LANES;
        for (size_t b = 0; b < n_blocks; b++, dst += LANES * block_bytes) {
            if (live < LANES) memset(dst, 0, LANES * block_bytes);
            for (size_t lane = 0; lane < live; lane++) {
                const uint8_t *src = rows + (row + lane) * row_bytes + b * block_bytes;
                uint8_t *field = dst;
                for (size_t f = 0; f < t->n_x8; f++) {
                    const struct sm_x8_field *x = &t->x8[f];
                    scatter(field, src + x->offset, x->bytes, x->unit, lane);
                    field += LANES * (size_t)x->bytes;
                }
            }
        }
    }
}

void sm_x8_unpack_block(uint32_t type, const uint8_t *x8, size_t row, size_t b, size_t n_cols,
                        uint8_t *out)
{
    const struct sm_traits *t = sm_traits_of(type);
    const uint8_t *field = x8 + x8_block_offset(t, row, b, n_cols);
    for (size_t f = 0; f < t->n_x8; f++) {
        const struct sm_x8_field *x = &t->x8[f];
        gather(out + x->offset, field, x->bytes, x->unit, row % LANES);
        field += LANES * (size_t)x->bytes;
    }
}

void sm_x8_unpack_row(uint32_t type, const uint8_t *x8, size_t row, size_t n_cols, uint8_t *out)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = n_cols / t->block;
    for (size_t b = 0; b < n_blocks; b++)
        sm_x8_unpack_block(type, x8, row, b, n_cols, out + b * t->block_bytes);
}

void sm_x8_decode_row(uint32_t type, const uint8_t *x8, size_t row, size_t n_cols, float *out)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = n_cols / t->block;
    uint8_t block[SM_BLOCK_BYTES_MAX];
    for (size_t b = 0; b < n_blocks; b++) {
        sm_x8_unpack_block(type, x8, row, b, n_cols, block);
        sm_decode_row(type, block, out + b * t->block, t->block);
    }
}
