/* SPDX-License-Identifier: MIT */
/* The AVX2 level of the kernel table (AVX2, FMA, F16C). */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

bool sm_kern_fill_avx2(struct sm_kern *k)
{
    SM_TILE_FORMATS(SM_NAME_FILL, avx2)
    SM_GRID_FORMATS(SM_NAME_FILL, avx2)
    k->mul_rows[SM_F32] = sm_mul_rows_f32_avx2;
    k->mul_rows[SM_F16] = sm_mul_rows_f16_avx2;
    k->mul_rows[SM_BF16] = sm_mul_rows_bf16_avx2;
    k->quantize_32 = sm_quantize_32_avx2;
    k->quantize_256 = sm_quantize_256_avx2;
    k->dot = sm_dot_avx2;
    k->rms_norm = sm_rms_norm_avx2;
    k->silu_mul = sm_silu_mul_avx2;
    k->sigmoid_mul = sm_sigmoid_mul_avx2;
    k->conv = sm_conv_avx2;
    k->delta_tile = sm_delta_tile_avx2;
    k->axpy = sm_axpy_avx2;
    k->add = sm_add_avx2;
    k->join = sm_join_avx2;
    k->exp = sm_exp_avx2;
    k->rope_half = sm_rope_half_avx2;
    k->rope_adjacent = sm_rope_adjacent_avx2;
    k->attn_chunk[SM_KV_F32] = sm_attn_chunk_f32_avx2;
    k->attn_chunk[SM_KV_F16] = sm_attn_chunk_f16_avx2;
    k->attn_chunk[SM_KV_Q8_0] = sm_attn_chunk_q8_0_avx2;
    k->kv_store[SM_KV_F16] = sm_kv_store_f16_avx2;
    k->kv_store[SM_KV_Q8_0] = sm_kv_store_q8_0_avx2;
    k->pack_x8 = sm_pack_x8_avx2;
    return true;
}

#else

bool sm_kern_fill_avx2(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
