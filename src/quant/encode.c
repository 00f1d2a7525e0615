/* SPDX-License-Identifier: MIT */
#include "quant/encode.h"

#include "base/bits.h"
#include "quant/encode_search.h"

#include <assert.h>

typedef void (*encode_fn)(const float *x, size_t n, const float *v, uint8_t *out);

static void encode_f32(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    memcpy(out, x, n * sizeof *x);
}

static void encode_f16(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i++) sm_st16(out + 2 * i, sm_f16_of_f32(x[i]));
}

/* Round to nearest even; a NaN stays one. */
static void encode_bf16(const float *x, size_t n, const float *v, uint8_t *out)
{
    (void)v;
    for (size_t i = 0; i < n; i++) {
        const uint32_t b = sm_bits_of_f32(x[i]);
        const uint32_t nan = (b & 0x7fffffffu) > 0x7f800000u ? (b >> 16) | 64 : 0;
        sm_st16(out + 2 * i, (uint16_t)(nan ? nan : (b + 0x7fff + ((b >> 16) & 1)) >> 16));
    }
}

static encode_fn encoder_of(uint32_t type)
{
    static const encode_fn table[SM_TYPE_COUNT] = {
        [SM_F32] = encode_f32,        [SM_F16] = encode_f16,        [SM_BF16] = encode_bf16,
        [SM_Q4_0] = sm_encode_q4_0,   [SM_Q4_1] = sm_encode_q4_1,   [SM_Q5_0] = sm_encode_q5_0,
        [SM_Q5_1] = sm_encode_q5_1,   [SM_Q8_0] = sm_encode_q8_0,   [SM_Q2_K] = sm_encode_q2_k,
        [SM_Q3_K] = sm_encode_q3_k,   [SM_Q4_K] = sm_encode_q4_k,   [SM_Q5_K] = sm_encode_q5_k,
        [SM_Q6_K] = sm_encode_q6_k,   [SM_TQ1_0] = sm_encode_tq1_0, [SM_TQ2_0] = sm_encode_tq2_0,
        [SM_Q1_0] = sm_encode_q1_0,   [SM_Q2_0] = sm_encode_q2_0};
    return type < SM_TYPE_COUNT ? table[type] : NULL;
}

bool sm_type_encodes(uint32_t type)
{
    return encoder_of(type) != NULL;
}

void sm_encode_row(uint32_t type, const float *x, size_t n_cols, const float *importance,
                   void *out)
{
    const encode_fn encode = encoder_of(type);
    assert(encode && n_cols % sm_traits_of(type)->block == 0);
    encode(x, n_cols, importance, out);
}
