/* SPDX-License-Identifier: MIT */
/* The neon level of the kernel table (AArch64, ARMv8.0). */
#include "kern/arm/util_neon.h"

#ifdef SM_HAVE_NEON

bool sm_kern_fill_neon(struct sm_kern *k)
{
    SM_COMMON_FORMATS(SM_NAME_FILL, neon) SM_BIT_FORMATS(SM_NAME_FILL, neon)
    k->mul_rows[SM_F32] = sm_mul_rows_f32_neon;
    k->mul_rows[SM_F16] = sm_mul_rows_f16_neon;
    k->mul_rows[SM_BF16] = sm_mul_rows_bf16_neon;
    k->quantize_32 = sm_quantize_32_neon;
    k->quantize_256 = sm_quantize_256_neon;
    k->dot = sm_dot_neon;
    k->rms_norm = sm_rms_norm_neon;
    k->silu_mul = sm_silu_mul_neon;
    k->join = sm_join_neon;
    k->sigmoid_mul = sm_sigmoid_mul_neon;
    k->conv = sm_conv_neon;
    k->delta_tile = sm_delta_tile_neon;
    k->axpy = sm_axpy_neon;
    k->add = sm_add_neon;
    k->exp = sm_exp_neon;
    k->rope_half = sm_rope_half_neon;
    k->rope_adjacent = sm_rope_adjacent_neon;
    k->attn_chunk[SM_KV_F32] = sm_attn_chunk_f32_neon;
    k->attn_chunk[SM_KV_F16] = sm_attn_chunk_f16_neon;
    k->attn_chunk[SM_KV_Q8_0] = sm_attn_chunk_q8_0_neon;
    k->kv_store[SM_KV_F16] = sm_kv_store_f16_neon;
    k->kv_store[SM_KV_Q8_0] = sm_kv_store_q8_0_neon;
    k->pack_x8 = sm_pack_x8_neon;
    return true;
}

#else

bool sm_kern_fill_neon(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
