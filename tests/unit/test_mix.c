/* SPDX-License-Identifier: MIT */
/* Which format a tensor gets. */
#include "quant/encode.h"
#include "quant/mix.h"
#include "tap.h"

static const struct sm_mix q2q4 = {SM_Q2_K, SM_Q4_K, 20};

static const struct {
    const char *name;
    uint32_t type, n_dims, n_cols, want;
    enum sm_mix_why why;
} cases[] = {
    {"blk.3.ffn_up_exps.weight", SM_F16, 3, 2048, SM_Q2_K, SM_MIX_ASKED},
    {"blk.3.attn_q.weight", SM_F32, 2, 2048, SM_Q4_K, SM_MIX_ASKED},
    {"blk.3.ffn_up_shexp.weight", SM_BF16, 2, 512, SM_Q4_K, SM_MIX_ASKED},
    {"blk.3.attn_k_b.weight", SM_F32, 3, 512, SM_Q4_K, SM_MIX_ASKED},
    {"blk.3.ssm_beta.weight", SM_F32, 2, 2048, SM_Q4_K, SM_MIX_ASKED},
    {"output.weight", SM_F16, 2, 2048, SM_Q6_K, SM_MIX_HEAD},
    {"token_embd.weight", SM_Q8_0, 2, 2048, SM_Q6_K, SM_MIX_HEAD},
    {"blk.20.attn_q.weight", SM_F16, 2, 2048, SM_Q8_0, SM_MIX_DRAFT},
    {"blk.20.ffn_up_exps.weight", SM_F16, 3, 2048, SM_Q2_K, SM_MIX_ASKED},
    {"blk.7.nextn.eh_proj.weight", SM_F16, 2, 2048, SM_Q8_0, SM_MIX_DRAFT},
    {"mtp.fc.weight", SM_F16, 2, 2048, SM_Q8_0, SM_MIX_DRAFT},
    {"blk.19.attn_q.weight", SM_F16, 2, 2048, SM_Q4_K, SM_MIX_ASKED},
    /* rows that the block does not divide */
    {"blk.3.attn_q.weight", SM_F32, 2, 96, SM_Q5_0, SM_MIX_COLUMNS},
    {"blk.3.ffn_up_exps.weight", SM_F32, 3, 96, SM_Q4_0, SM_MIX_COLUMNS},
    {"token_embd.weight", SM_F32, 2, 96, SM_Q8_0, SM_MIX_COLUMNS},
    {"blk.3.attn_q.weight", SM_F32, 2, 48, SM_F16, SM_MIX_COLUMNS},
    {"blk.3.attn_q.weight", SM_BF16, 2, 48, SM_BF16, SM_MIX_LESS},
    {"blk.20.attn_q.weight", SM_F32, 2, 48, SM_F16, SM_MIX_COLUMNS},
    /* what stays */
    {"blk.3.attn_norm.weight", SM_F32, 1, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.odd_norm.weight", SM_F32, 2, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.ffn_gate_inp.weight", SM_F32, 2, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.ffn_gate_inp_shexp.weight", SM_F32, 2, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.ffn_down_exps.bias", SM_F32, 2, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.ssm_a", SM_F32, 2, 256, SM_F32, SM_MIX_SMALL},
    {"blk.3.ssm_conv1d.weight", SM_F32, 2, 256, SM_F32, SM_MIX_SMALL},
    {"blk.3.shortconv.conv.weight", SM_F32, 2, 256, SM_F32, SM_MIX_SMALL},
    {"blk.20.nextn.enorm.weight", SM_F32, 1, 2048, SM_F32, SM_MIX_SMALL},
    {"blk.3.ffn_gate_tid2eid.weight", SM_I32, 2, 2048, SM_I32, SM_MIX_SMALL},
    {"blk.3.attn_q.weight", SM_Q4_K, 2, 2048, SM_Q4_K, SM_MIX_SAME},
    {"blk.3.attn_q.weight", SM_IQ3_S, 2, 2048, SM_IQ3_S, SM_MIX_LESS},
    {"blk.3.attn_q.weight", SM_Q4_0, 2, 2048, SM_Q4_0, SM_MIX_LESS},
    {"output.weight", SM_Q4_K, 2, 2048, SM_Q4_K, SM_MIX_LESS},
    {"blk.20.attn_q.weight", SM_Q8_0, 2, 2048, SM_Q8_0, SM_MIX_SAME},
    {"blk.3.ffn_up_exps.weight", SM_IQ1_S, 3, 2048, SM_IQ1_S, SM_MIX_LESS},
};

static void test_cases(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct sm_mix_tensor t = {cases[i].name, cases[i].type, cases[i].n_dims,
                                        cases[i].n_cols};
        enum sm_mix_why why = SM_MIX_WHY_COUNT;
        const uint32_t got = sm_mix_choose(&q2q4, &t, &why);
        TAP_OK(got == cases[i].want && why == cases[i].why, "%s %s of %u columns: %s (%d)", t.name,
               sm_type_name(t.type), cases[i].n_cols, sm_type_name(got), (int)why);
    }
}

static uint32_t choose(uint32_t experts, uint32_t rest, const char *name, uint32_t type,
                       enum sm_mix_why *why)
{
    const struct sm_mix mix = {experts, rest, UINT32_MAX};
    return sm_mix_choose(&mix, &(struct sm_mix_tensor){name, type, 3, 512}, why);
}

static void test_left_out(void)
{
    enum sm_mix_why why;
    TAP_OK(choose(SM_MIX_KEEP, SM_Q4_K, "blk.0.ffn_up_exps.weight", SM_F16, &why) == SM_F16 &&
               why == SM_MIX_UNASKED,
           "experts stay when only the rest is asked for");
    TAP_OK(choose(SM_Q2_K, SM_MIX_KEEP, "output.weight", SM_F16, &why) == SM_F16 &&
               why == SM_MIX_UNASKED,
           "and the other way round");
    TAP_OK(choose(SM_Q2_K, SM_Q8_0, "output.weight", SM_F16, &why) == SM_Q8_0 &&
               why == SM_MIX_ASKED,
           "a head is not lowered to Q6_K");
    TAP_OK(choose(SM_F32, SM_F32, "output.weight", SM_Q2_K, &why) == SM_F32 && why == SM_MIX_ASKED,
           "floats are made of anything that is asked for");
    TAP_OK(choose(SM_Q2_K, SM_Q4_K, "blk.9.attn_q.weight", SM_F16, NULL) == SM_Q4_K,
           "no block drafts");
}

/* Every format fits rows of any length, or another one does that has no fewer bits. */
static void test_fits(void)
{
    static const uint32_t n_cols[] = {1, 31, 32, 48, 64, 96, 128, 192, 256, 320, 512};
    unsigned n_wrong = 0;
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++)
        for (size_t i = 0; sm_type_encodes(type) && i < sizeof n_cols / sizeof *n_cols; i++) {
            const struct sm_mix mix = {type, type, UINT32_MAX};
            const struct sm_mix_tensor t = {"blk.0.attn_q.weight", SM_F32, 2, n_cols[i]};
            const uint32_t got = sm_mix_choose(&mix, &t, NULL);
            n_wrong += !sm_type_encodes(got) || n_cols[i] % sm_traits_of(got)->block != 0 ||
                       sm_type_bits(got) < sm_type_bits(type);
        }
    TAP_IS_INT(n_wrong, 0, "formats that do not fit their rows");
}

static void test_names(void)
{
    char names[256], few[12];
    uint32_t type = 99;
    TAP_OK(sm_mix_type_read("q4_k", &type) && type == SM_Q4_K, "q4_k");
    TAP_OK(sm_mix_type_read("Bf16", &type) && type == SM_BF16, "Bf16");
    TAP_OK(!sm_mix_type_read("iq2_xs", &type) && !sm_mix_type_read("q4_k_m", &type) &&
               !sm_mix_type_read("", &type) && type == SM_BF16,
           "what cannot be encoded");
    sm_mix_type_names(names, sizeof names);
    TAP_IS_STR(names,
               "F32, F16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, BF16, "
               "TQ1_0, TQ2_0, Q1_0, Q2_0",
               "the list");
    sm_mix_type_names(few, sizeof few);
    TAP_IS_STR(few, "F32, F16, Q", "cut to its room");
    TAP_OK(sm_mix_file_type(SM_Q2_K) == 10 && sm_mix_file_type(SM_Q4_K) == 14 &&
               sm_mix_file_type(SM_BF16) == 32,
           "numbers of general.file_type");
    TAP_OK(sm_type_uses_importance(SM_Q6_K) && sm_type_uses_importance(SM_Q4_0) &&
               !sm_type_uses_importance(SM_Q8_0) && !sm_type_uses_importance(SM_F16) &&
               !sm_type_uses_importance(SM_TQ1_0) && !sm_type_uses_importance(SM_IQ2_XS),
           "formats with a search");
    TAP_OK(sm_type_bits(SM_Q2_K) == 2.625 && sm_type_bits(77) == 0, "bits");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_cases();
    test_left_out();
    test_fits();
    test_names();
    return tap_done();
}
