#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random models of unusual shapes for tests/data/models: gen_shape_models.py OUT_FOLDER [NAME ...]

Needs numpy and the shared fixtures (SMOL_SHARED, default ../shared), whose make_models.py writes
the tensors. The recorded outputs in tests/data/golden/shape-*.json come from llama.cpp 0.7.0 with an
F32 cache and without flash attention; the tokens stand in those files."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SHARED = os.environ.get("SMOL_SHARED", os.path.join(ROOT, "..", "shared"))
sys.path.insert(0, os.path.join(SHARED, "models"))
import make_models as mm  # noqa: E402


def attention(m, b, H, G, D, Dv=None, norms=True):
    E, Dv = m.E, Dv or D
    m.norm(b + "attn_norm", E)
    m.mat(b + "attn_q", H * D, E)
    m.mat(b + "attn_k", G * D, E)
    m.mat(b + "attn_v", G * Dv, E)
    if norms:
        m.norm(b + "attn_q_norm", D)
        m.norm(b + "attn_k_norm", D)
    m.mat(b + "attn_output", E, H * Dv)


def qwen3moe():
    """tied head, 1 key/value head, head width 24 where hidden/heads is 16, 7 experts, k = 1"""
    m = mm.Maker("qwen3moe", "shape-qwen3moe", 101, "qwen2")
    E, FE, H, D, n = 48, 32, 3, 24, 7
    mm.common_keys(m, 2, E, 64, H, 1, base=1e6)
    m.keys(attention__key_length=D, attention__value_length=D, expert_count=n, expert_used_count=1,
           expert_feed_forward_length=FE)
    m.ends(tied=True)
    for i in range(2):
        b = "blk.%d." % i
        attention(m, b, H, 1, D)
        m.norm(b + "ffn_norm", E)
        m.experts(b, n, FE, bias=False)
    m.save()


def olmoe():
    """5 experts of which all are used, 1 head"""
    m = mm.Maker("olmoe", "shape-olmoe", 102, "olmo")
    E, FE, n = 32, 24, 5
    mm.common_keys(m, 2, E, FE, 1, 1, eps=1e-5)
    m.keys(expert_count=n, expert_used_count=n)
    m.ends()
    for i in range(2):
        b = "blk.%d." % i
        m.norm(b + "attn_norm", E)
        for x in "qkv":
            m.mat(b + "attn_" + x, E, E)
        m.norm(b + "attn_q_norm", E)
        m.norm(b + "attn_k_norm", E)
        m.mat(b + "attn_output", E, E)
        m.norm(b + "ffn_norm", E)
        m.experts(b, n, FE, bias=False)
    m.save()


def bailingmoe2(name="shape-bailingmoe2", groups=0):
    """no groups, 1 key/value head, 9 experts, k = 1; llama.cpp wants a shared expert here"""
    m = mm.Maker("bailingmoe2", name, 103, "bailingmoe2")
    E, FE, H, D, n = 64, 24, 4, 16, 9
    mm.common_keys(m, 3, E, 48, H, 1, base=600000.0)
    m.keys(attention__key_length=D, attention__value_length=D, rope__dimension_count=D // 2,
           leading_dense_block_count=1, expert_feed_forward_length=FE, expert_count=n,
           expert_used_count=1 if not groups else 3, expert_shared_count=1,
           expert_shared_feed_forward_length=FE,
           expert_weights_scale=2.5, expert_weights_norm=True, expert_gating_func=2)
    if groups:
        m.keys(expert_group_count=groups, expert_group_used_count=groups)
    m.ends()
    for i in range(3):
        b = "blk.%d." % i
        m.norm(b + "attn_norm", E)
        m.mat(b + "attn_qkv", (H + 2) * D, E)
        m.norm(b + "attn_q_norm", D)
        m.norm(b + "attn_k_norm", D)
        m.mat(b + "attn_output", E, H * D)
        m.norm(b + "ffn_norm", E)
        if i < 1:
            m.dense_ffn(b, 48)
        else:
            m.experts(b, n, FE)
            m.dense_ffn(b, FE, "_shexp")
    m.save()


def bailingmoe2_group():
    """one group of which one is used"""
    bailingmoe2("shape-bailingmoe2-group", groups=1)


def gpt_oss(name="shape-gpt-oss", window=1, H=3, G=1, D=24, n=5, used=1, E=32, FE=32):
    """window 1, 1 key/value head, head width 24, 5 experts, k = 1"""
    m = mm.Maker("gpt-oss", name, 104, "gpt-4o")
    mm.common_keys(m, 4, E, FE, H, G, base=150000.0, eps=1e-5)
    m.keys(attention__key_length=D, attention__value_length=D, attention__sliding_window=window,
           expert_count=n, expert_used_count=used, expert_feed_forward_length=FE)
    m.w.akey("rope.scaling.type", "yarn")
    m.keys(rope__scaling__factor=32.0, rope__scaling__original_context_length=64)
    m.ends()
    for i in range(4):
        b = "blk.%d." % i
        m.norm(b + "attn_norm", E)
        for x, heads in (("q", H), ("k", G), ("v", G)):
            m.mat(b + "attn_" + x, heads * D, E, gain=1.5)
            m.vec(b + "attn_%s.bias" % x, heads * D)
        m.vec(b + "attn_sinks.weight", H, 0.5, 1.0)
        m.mat(b + "attn_output", E, H * D)
        m.vec(b + "attn_output.bias", E)
        m.norm(b + "post_attention_norm", E)
        m.experts(b, n, FE, bias=False)
        m.vec(b + "ffn_gate_inp.bias", n)
        for x, width in (("gate", FE), ("up", FE), ("down", E)):
            m.w.tensor(b + "ffn_%s_exps.bias" % x, 0.3 * m.rng.standard_normal((n, width)))
    m.save()


def gpt_oss_window():
    """a window longer than a chunk of the prompt and shorter than it, no power of two"""
    gpt_oss("shape-gpt-oss-window", window=37, H=4, G=2, D=16, n=4, used=2)


def deepseek2():
    """latent attention without groups, 7 experts, k = 1, 1 head, wide values, no scaling"""
    m = mm.Maker("deepseek2", "shape-deepseek2", 105, "deepseek-llm")
    E, F, FE, H, n, P, rot, Dv, R, Rq = 32, 48, 16, 1, 7, 24, 8, 40, 16, 12
    mm.common_keys(m, 3, E, F, H, 1)
    m.keys(attention__key_length=R + rot, attention__value_length=R, attention__kv_lora_rank=R,
           attention__key_length_mla=P + rot, attention__value_length_mla=Dv,
           attention__q_lora_rank=Rq, rope__dimension_count=rot, leading_dense_block_count=1,
           expert_feed_forward_length=FE, expert_count=n, expert_used_count=1,
           expert_shared_count=1, expert_gating_func=2, expert_weights_scale=1.5,
           expert_weights_norm=True)
    m.ends()
    for i in range(3):
        b = "blk.%d." % i
        m.norm(b + "attn_norm", E)
        m.mat(b + "attn_q_a", Rq, E)
        m.norm(b + "attn_q_a_norm", Rq)
        m.mat(b + "attn_q_b", H * (P + rot), Rq, gain=2)
        m.mat(b + "attn_kv_a_mqa", R + rot, E)
        m.norm(b + "attn_kv_a_norm", R)
        m.mat(b + "attn_k_b", H, R, P)
        m.mat(b + "attn_v_b", H, Dv, R)
        m.mat(b + "attn_output", E, H * Dv)
        m.norm(b + "ffn_norm", E)
        if i < 1:
            m.dense_ffn(b, F)
        else:
            m.experts(b, n, FE, bias=True)
            m.dense_ffn(b, FE, "_shexp")
    m.save()


def deepseek2_ocr():
    """deepseek2 without latent attention: one dense block, 6 experts, k = 2, two shared ones"""
    m = mm.Maker("deepseek2-ocr", "deepseek2-ocr", 107, "deepseek-llm")
    E, F, FE, H, n = 48, 64, 24, 4, 6
    mm.common_keys(m, 3, E, F, H, H)
    m.keys(rope__dimension_count=E // H, leading_dense_block_count=1, expert_feed_forward_length=FE,
           expert_count=n, expert_used_count=2, expert_shared_count=2, expert_weights_scale=1.25)
    m.ends()
    for i in range(3):
        b = "blk.%d." % i
        attention(m, b, H, H, E // H, norms=False)
        m.norm(b + "ffn_norm", E)
        if i < 1:
            m.dense_ffn(b, F)
        else:
            m.experts(b, n, FE, bias=False)
            m.dense_ffn(b, 2 * FE, "_shexp")
    m.save()


def bailingmoe3():
    """3 heads of 40 in recurrent blocks, queries without a low rank, no groups, 7 experts, k = 1"""
    mm.bailingmoe3("shape-bailingmoe3", E=48, F=64, FE=24, n_exp=7, used=1, seed=108, H=3, Dk=40,
                   plain=24, rot=8, Dv=40, R=16, main=3, q_rank=0, nextn=0, groups=1, gused=1)


def qwen35moe():
    """one key head for three value heads of 24, 3 taps, every second block attends with 1 key/value
    head, 5 experts, k = 1, tied head"""
    m = mm.Maker("qwen35moe", "shape-qwen35moe", 109, "qwen35")
    E, FE, H, D, Hk, Hv, Ds, taps, n = 48, 24, 3, 24, 1, 3, 24, 3, 5
    mm.common_keys(m, 3, E, 64, H, 1, base=1e7)
    m.keys(attention__key_length=D, attention__value_length=D, rope__dimension_count=8,
           rope__dimension_sections=[2, 1, 1, 0], full_attention_interval=2,
           ssm__conv_kernel=taps, ssm__state_size=Ds, ssm__group_count=Hk, ssm__time_step_rank=Hv,
           ssm__inner_size=Hv * Ds, expert_count=n, expert_used_count=1,
           expert_feed_forward_length=FE, expert_shared_feed_forward_length=40)
    m.ends(tied=True)
    for i in range(3):
        b = "blk.%d." % i
        m.norm(b + "post_attention_norm", E)
        if i % 2 == 0:
            C = 2 * Hk * Ds + Hv * Ds
            m.norm(b + "attn_norm", E)
            m.mat(b + "attn_qkv", C, E)
            m.mat(b + "attn_gate", Hv * Ds, E)
            m.mat(b + "ssm_conv1d", C, taps, kind=mm.F32)
            m.vec(b + "ssm_dt.bias", Hv, -1.0, 0.5)
            m.vec(b + "ssm_a", Hv, -1.0, 0.3)
            m.mat(b + "ssm_beta", Hv, E)
            m.mat(b + "ssm_alpha", Hv, E)
            m.norm(b + "ssm_norm", Ds)
            m.mat(b + "ssm_out", E, Hv * Ds)
        else:
            m.norm(b + "attn_norm", E)
            m.mat(b + "attn_q", 2 * H * D, E)
            m.mat(b + "attn_k", D, E)
            m.mat(b + "attn_v", D, E)
            m.norm(b + "attn_q_norm", D)
            m.norm(b + "attn_k_norm", D)
            m.mat(b + "attn_output", E, H * D)
        m.experts(b, n, FE, bias=False)
        m.vec(b + "ffn_gate_inp_shexp.weight", E, 0.0, 0.3)
        m.dense_ffn(b, 40, "_shexp")
    m.save()


def lfm2moe():
    """4 taps, 1 key/value head, no dense blocks, 11 experts, k = 1, attention first"""
    m = mm.Maker("lfm2moe", "shape-lfm2moe", 106, "lfm2")
    E, FE, H, n, kv = 48, 24, 3, 11, [1, 0, 0, 1]
    mm.common_keys(m, len(kv), E, 64, H, kv, base=1e6, eps=1e-5)
    m.keys(shortconv__l_cache=4, leading_dense_block_count=0, expert_feed_forward_length=FE,
           expert_count=n, expert_used_count=1, expert_gating_func=2)
    m.ends(tied=True, norm="token_embd_norm")
    for i, g in enumerate(kv):
        b = "blk.%d." % i
        if g:
            attention(m, b, H, g, E // H)
        else:
            m.norm(b + "attn_norm", E)
            m.mat(b + "shortconv.conv", E, 4, gain=1.5, kind=mm.F32)
            m.mat(b + "shortconv.in_proj", 3 * E, E, gain=1.3)
            m.mat(b + "shortconv.out_proj", E, E)
        m.norm(b + "ffn_norm", E)
        m.experts(b, n, FE)
    m.save()


MODELS = {f.__name__: f for f in (qwen3moe, olmoe, bailingmoe2, bailingmoe2_group, gpt_oss,
                                  gpt_oss_window, deepseek2, deepseek2_ocr, bailingmoe3,
                                  qwen35moe, lfm2moe)}

if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    mm.HERE = sys.argv[1]
    for name in sys.argv[2:] or MODELS:
        MODELS[name]()
