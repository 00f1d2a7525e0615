/* SPDX-License-Identifier: MIT */
/* The AVX2 level of the kernel table (AVX2, FMA, F16C). */
#include "kern/x86/util_avx2.h"

#ifdef SM_HAVE_AVX2

bool sm_kern_fill_avx2(struct sm_kern *k)
{
    k->mul_x8[SM_Q2_K] = sm_mul_q2k_q8k_avx2;
    k->mul_x8[SM_Q3_K] = sm_mul_q3k_q8k_avx2;
    k->mul_x8[SM_Q4_K] = sm_mul_q4k_q8k_avx2;
    k->mul_x8[SM_Q5_K] = sm_mul_q5k_q8k_avx2;
    k->mul_x8[SM_Q6_K] = sm_mul_q6k_q8k_avx2;
    k->mul_x8[SM_TQ1_0] = sm_mul_tq10_q8k_avx2;
    k->mul_x8[SM_TQ2_0] = sm_mul_tq20_q8k_avx2;
    k->mul_x8[SM_IQ4_XS] = sm_mul_iq4xs_q8k_avx2;
    k->mul_x8[SM_IQ2_XXS] = sm_mul_iq2xxs_q8k_avx2;
    k->mul_x8[SM_IQ2_XS] = sm_mul_iq2xs_q8k_avx2;
    k->mul_x8[SM_IQ2_S] = sm_mul_iq2s_q8k_avx2;
    k->mul_x8[SM_IQ3_XXS] = sm_mul_iq3xxs_q8k_avx2;
    k->mul_x8[SM_IQ3_S] = sm_mul_iq3s_q8k_avx2;
    k->mul_x8[SM_IQ1_S] = sm_mul_iq1s_q8k_avx2;
    k->mul_x8[SM_IQ1_M] = sm_mul_iq1m_q8k_avx2;
    k->mul_x8[SM_Q4_0] = sm_mul_q40_q8_avx2;
    k->mul_x8[SM_Q4_1] = sm_mul_q41_q8_avx2;
    k->mul_x8[SM_Q5_0] = sm_mul_q50_q8_avx2;
    k->mul_x8[SM_Q5_1] = sm_mul_q51_q8_avx2;
    k->mul_x8[SM_Q8_0] = sm_mul_q80_q8_avx2;
    k->mul_x8[SM_IQ4_NL] = sm_mul_iq4nl_q8_avx2;
    k->mul_x8[SM_MXFP4] = sm_mul_mxfp4_q8_avx2;
    k->mul_x8[SM_Q2_0] = sm_mul_q20_q8_avx2;
    k->mul_x8[SM_Q1_0] = sm_mul_q10_q8_avx2;
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
    sm_pack_fill_avx2(k);
    return true;
}

#else

bool sm_kern_fill_avx2(struct sm_kern *k)
{
    (void)k;
    return false;
}

#endif
