/* SPDX-License-Identifier: MIT */
/* Weight formats: the traits table, decoding as the specification of each format, and the x8
 * layout. docs/arithmetic.md section 4 is the source of every rule here. Everything is read-only
 * after start and may be called from any thread. */
#ifndef SM_QUANT_H
#define SM_QUANT_H

#include "base/status.h"
#include <stdbool.h>

/* GGUF type ids; gaps are retired or unknown ids. */
enum sm_type {
    SM_F32 = 0, SM_F16 = 1, SM_Q4_0 = 2, SM_Q4_1 = 3, SM_Q5_0 = 6, SM_Q5_1 = 7, SM_Q8_0 = 8,
    SM_Q8_1 = 9, SM_Q2_K = 10, SM_Q3_K = 11, SM_Q4_K = 12, SM_Q5_K = 13, SM_Q6_K = 14,
    SM_Q8_K = 15, SM_IQ2_XXS = 16, SM_IQ2_XS = 17, SM_IQ3_XXS = 18, SM_IQ1_S = 19, SM_IQ4_NL = 20,
    SM_IQ3_S = 21, SM_IQ2_S = 22, SM_IQ4_XS = 23, SM_I8 = 24, SM_I16 = 25, SM_I32 = 26,
    SM_I64 = 27, SM_F64 = 28, SM_IQ1_M = 29, SM_BF16 = 30, SM_TQ1_0 = 34, SM_TQ2_0 = 35,
    SM_MXFP4 = 39, SM_NVFP4 = 40, SM_Q1_0 = 41, SM_Q2_0 = 42,
    SM_TYPE_COUNT = 43
};

#define SM_BLOCK_MAX 256u       /* weights in the longest block */
#define SM_BLOCK_BYTES_MAX 292u /* bytes of the largest block */

/* One block as integers (docs/arithmetic.md section 4): weight i of run g = i / 16 is
 * (d * sub[g]) * q[i] + (m * min[g]). Formats without minima leave m and min zero. */
struct sm_codes {
    float d, m;
    int16_t sub[16], min[16];
    int8_t q[SM_BLOCK_MAX];
};

/* A field of a block in the x8 layout: bytes [offset, offset + bytes) of each row's block, cut in
 * units of `unit` bytes; unit j of rows 0..7 stand side by side. Fields in table order. */
struct sm_x8_field {
    uint16_t offset, bytes;
    uint8_t unit; /* 1, 2 or 4 */
};

struct sm_traits {
    const char *name;     /* "Q2_K" */
    uint16_t block;       /* weights per block, 1 for plain types */
    uint16_t block_bytes; /* bytes per block */
    uint16_t act_block;   /* 32 or 256: activation block of the x8 product; 0: no x8 format */
    bool has_min;
    bool decodes;         /* sm_decode_row works (all weight formats and Q8_K) */
    void (*codes)(const uint8_t *block, struct sm_codes *out); /* NULL for plain types */
    bool (*finite)(const uint8_t *block);                      /* all scales finite; NULL: always */
    const struct sm_x8_field *x8; /* NULL: not held as x8 */
    uint8_t n_x8;
};

/* NULL for ids that are retired or unknown. */
const struct sm_traits *sm_traits_of(uint32_t type);
/* "Q2_K", or "type 77" style text for unknown ids in a static per-id buffer; never NULL. */
const char *sm_type_name(uint32_t type);
/* True for the formats a weight matrix may have here: F32 F16 BF16 (rows) and all x8 formats. */
bool sm_type_is_matrix(uint32_t type);
static inline bool sm_type_is_x8(uint32_t type)
{
    const struct sm_traits *t = sm_traits_of(type);
    return t && t->x8;
}

/* Bytes of a row of n_cols weights in file order. n_cols must be a multiple of the block. */
uint64_t sm_row_bytes(uint32_t type, uint64_t n_cols);

/* Decode n_cols weights in file order to f32; bit-exact with the published formats. */
void sm_decode_row(uint32_t type, const void *row, float *out, size_t n_cols);
/* True when every scale of n_blocks consecutive file-order blocks is finite. */
bool sm_blocks_finite(uint32_t type, const void *blocks, size_t n_blocks);
/* True when none of n 16-bit floats has all bits of `exponent` set (0x7c00: f16, 0x7f80: bf16). */
bool sm_halves_finite(const uint8_t *p, size_t n, unsigned exponent);

/* ---- x8 layout ---------------------------------------------------------------------------- */

/* Bytes of a matrix held as x8: rows padded to a multiple of 8. */
uint64_t sm_x8_bytes(uint32_t type, uint64_t n_rows, uint64_t n_cols);
/* Rows in file order (n_rows of them, 1..any, row_bytes apart) to x8 groups of 8 at dst; missing
 * rows of the last group become zero bytes. dst holds sm_x8_bytes(). Scalar reference. */
void sm_x8_pack(uint32_t type, uint8_t *dst, const uint8_t *rows, size_t row_bytes, size_t n_rows,
                size_t n_cols);
/* Row `row` of an x8 matrix back to file order (sm_row_bytes() bytes at out). */
void sm_x8_unpack_row(uint32_t type, const uint8_t *x8, size_t row, size_t n_cols, uint8_t *out);
/* Row `row` of an x8 matrix decoded to f32. */
void sm_x8_decode_row(uint32_t type, const uint8_t *x8, size_t row, size_t n_cols, float *out);
/* Block column `b` of row `row` of an x8 matrix back to one file-order block at out. */
void sm_x8_unpack_block(uint32_t type, const uint8_t *x8, size_t row, size_t b, size_t n_cols,
                        uint8_t *out);

#endif
