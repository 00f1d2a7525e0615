/* SPDX-License-Identifier: MIT */
/* The reference level of the kernel table: every entry. */
#include "kern/ref/ref.h"
#include "kern/x8_tile.h"

#define X(ID, name)                                                                                \
    static SM_MUL_X8_DECL(name) { sm_mul_x8_ref(SM_##ID, y, ldy, w, n_groups, x); }
SM_TILE_FORMATS(X, ref)
SM_GRID_FORMATS(X, ref)
#undef X

void sm_kern_fill_ref(struct sm_kern *k)
{
    SM_TILE_FORMATS(SM_NAME_FILL, ref)
    SM_GRID_FORMATS(SM_NAME_FILL, ref)
    k->pack_x8 = sm_x8_pack;
    k->mul_rows[SM_F32] = sm_mul_rows_f32_ref;
    k->mul_rows[SM_F16] = sm_mul_rows_f16_ref;
    k->mul_rows[SM_BF16] = sm_mul_rows_bf16_ref;
    k->quantize_32 = sm_quantize_32_ref;
    k->quantize_256 = sm_quantize_256_ref;
    k->dot = sm_dot_ref;
    k->rms_norm = sm_rms_norm_ref;
    k->silu_mul = sm_silu_mul_ref;
    k->sigmoid_mul = sm_sigmoid_mul_ref;
    k->conv = sm_conv_ref;
    k->delta_tile = sm_delta_tile_ref;
    k->axpy = sm_axpy_ref;
    k->add = sm_add_ref;
    k->join = sm_join_ref;
    k->exp = sm_exp_ref;
    k->rope_half = sm_rope_half_ref;
    k->rope_adjacent = sm_rope_adjacent_ref;
    k->attn_chunk[SM_KV_F32] = sm_attn_chunk_f32_ref;
    k->attn_chunk[SM_KV_F16] = sm_attn_chunk_f16_ref;
    k->attn_chunk[SM_KV_Q8_0] = sm_attn_chunk_q8_0_ref;
    k->kv_store[SM_KV_F32] = sm_kv_store_f32_ref;
    k->kv_store[SM_KV_F16] = sm_kv_store_f16_ref;
    k->kv_store[SM_KV_Q8_0] = sm_kv_store_q8_0_ref;
}
