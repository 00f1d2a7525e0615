/* SPDX-License-Identifier: MIT */
/* Floats to weight formats, byte for byte as the stock tools do it, with and without an importance
 * vector. Used by commands that write models, never while decoding. Pure functions, any thread. */
#ifndef SM_QUANT_ENCODE_H
#define SM_QUANT_ENCODE_H

#include "quant/quant.h"

/* F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K TQ1_0 TQ2_0 Q1_0 Q2_0. */
bool sm_type_encodes(uint32_t type);

/* One row of n_cols finite weights (a multiple of the format's block) to sm_row_bytes() bytes at
 * out. importance: n_cols weights >= 0 of the squared errors, or NULL; formats without a search
 * (Q8_0, TQ, Q1_0, Q2_0, floats) ignore it. Weights too large for half-precision scales give blocks
 * that sm_blocks_finite refuses. x must not overlap out. */
void sm_encode_row(uint32_t type, const float *x, size_t n_cols, const float *importance,
                   void *out);

#endif
