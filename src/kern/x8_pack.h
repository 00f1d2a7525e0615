/* SPDX-License-Identifier: MIT */
/* File-order rows to x8 groups with a vector transposition of units of 4 bytes: the loops that the
 * instruction sets share. */
#ifndef SM_X8_PACK_H
#define SM_X8_PACK_H

#include "kern/x8_tile.h"

#include <string.h>

/* Units 0..3 of 8 rows, row_bytes apart, to the 128 bytes at dst. */
typedef void (*x8_transpose_fn)(uint8_t *dst, const uint8_t *row, size_t row_bytes);

SM_INLINE void x8_pack_field(uint8_t *dst, const uint8_t *row, size_t row_bytes, size_t bytes,
                             size_t unit, x8_transpose_fn transpose)
{
    size_t i = 0;
    if (unit == 4)
        for (; i + 16 <= bytes; i += 16) transpose(dst + 8 * i, row + i, row_bytes);
    for (; i < bytes; i += unit) {
        for (size_t lane = 0; lane < 8; lane++) {
            const uint8_t *src = row + lane * row_bytes + i;
            uint8_t *to = dst + 8 * i + lane * unit;
            if (unit == 4) memcpy(to, src, 4);
            else if (unit == 2) memcpy(to, src, 2);
            else *to = *src;
        }
    }
}

SM_INLINE void x8_pack(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes,
                       size_t n_rows, size_t n_cols, x8_transpose_fn transpose)
{
    const struct sm_traits *t = sm_traits_of(type);
    const size_t n_blocks = n_cols / t->block;
    for (; n_rows >= 8; n_rows -= 8, rows += 8 * row_bytes) {
        for (size_t b = 0; b < n_blocks; b++) {
            const uint8_t *block = rows + b * t->block_bytes;
            for (size_t f = 0; f < t->n_x8; f++) {
                const struct sm_x8_field *x = &t->x8[f];
                x8_pack_field(dst, block + x->offset, row_bytes, x->bytes, x->unit, transpose);
                dst += 8 * (size_t)x->bytes;
            }
        }
    }
    if (n_rows) sm_x8_pack(type, dst, rows, row_bytes, n_rows, n_cols);
}

#endif
