/* SPDX-License-Identifier: MIT */
#include "quant/mix.h"

#include "quant/encode.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- names of formats ---------------------------------------------------------------------- */

double sm_type_bits(uint32_t type)
{
    const struct sm_traits *t = sm_traits_of(type);
    return t ? 8.0 * t->block_bytes / t->block : 0;
}

bool sm_type_is_trained(uint32_t type)
{
    return type == SM_TQ1_0 || type == SM_TQ2_0 || type == SM_Q1_0 || type == SM_Q2_0;
}

bool sm_type_uses_importance(uint32_t type)
{
    return sm_type_encodes(type) && sm_traits_of(type)->block > 1 && type != SM_Q8_0 &&
           !sm_type_is_trained(type);
}

bool sm_mix_type_read(const char *text, uint32_t *type)
{
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++) {
        if (!sm_type_encodes(i) || strcasecmp(text, sm_type_name(i)) != 0) continue;
        *type = i;
        return true;
    }
    return false;
}

void sm_mix_type_names(char *buf, size_t n)
{
    size_t at = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < SM_TYPE_COUNT && at < n; i++)
        if (sm_type_encodes(i))
            at += (size_t)snprintf(buf + at, n - at, "%s%s", at ? ", " : "", sm_type_name(i));
}

/* The numbers of the stock tools; of K formats those of the plain mixes. */
uint32_t sm_mix_file_type(uint32_t type)
{
    static const uint8_t number[SM_TYPE_COUNT] = {
        [SM_F32] = 0,    [SM_F16] = 1,     [SM_Q4_0] = 2,     [SM_Q4_1] = 3,    [SM_Q8_0] = 7,
        [SM_Q5_0] = 8,   [SM_Q5_1] = 9,    [SM_Q2_K] = 10,    [SM_Q3_K] = 11,   [SM_Q4_K] = 14,
        [SM_Q5_K] = 16,  [SM_Q6_K] = 18,   [SM_IQ2_XXS] = 19, [SM_IQ2_XS] = 20, [SM_IQ3_XXS] = 23,
        [SM_IQ1_S] = 24, [SM_IQ4_NL] = 25, [SM_IQ3_S] = 26,   [SM_IQ2_S] = 28,  [SM_IQ4_XS] = 30,
        [SM_IQ1_M] = 31, [SM_BF16] = 32,   [SM_TQ1_0] = 36,   [SM_TQ2_0] = 37,  [SM_MXFP4] = 38,
        [SM_NVFP4] = 39, [SM_Q1_0] = 40,   [SM_Q2_0] = 41};
    return type < SM_TYPE_COUNT ? number[type] : 0;
}

/* ---- kinds of tensors ---------------------------------------------------------------------- */

static bool ends_with(const char *s, const char *tail)
{
    const size_t n = strlen(s), k = strlen(tail);
    return n >= k && !strcmp(s + n - k, tail);
}

/* Those that the stock tools never quantise: they are small and what they do cannot bear it. */
static bool is_small(const struct sm_mix_tensor *t)
{
    static const char *const kept[] = {"_norm.weight",   "ffn_gate_inp",  "ssm_conv1d",
                                       "shortconv.conv", "position_embd", "token_types"};
    if (t->n_dims < 2 || !ends_with(t->name, ".weight")) return true;
    if (t->type >= SM_I8 && t->type <= SM_F64) return true; /* tables, no weights */
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        if (strstr(t->name, kept[i])) return true;
    return false;
}

bool sm_mix_is_experts(const struct sm_mix_tensor *t)
{
    return t->n_dims >= 3 && strstr(t->name, "_exps.") != NULL;
}

static bool is_head(const char *name)
{
    return !strcmp(name, "output.weight") || !strcmp(name, "token_embd.weight");
}

/* The draft head and what is dense of its block; experts are many, and drafts gain nothing by
 * theirs (docs/experiments.md, 2026-12-01). */
static bool is_draft(const struct sm_mix *mix, const struct sm_mix_tensor *t)
{
    const char *name = t->name;
    if (sm_mix_is_experts(t)) return false;
    if (strstr(name, "nextn.") || !strncmp(name, "mtp.", 4)) return true;
    return !strncmp(name, "blk.", 4) && strtoul(name + 4, NULL, 10) >= mix->first_next;
}

/* ---- the choice ---------------------------------------------------------------------------- */

/* The nearest format with at least as many bits whose block divides rows of n columns: that of the
 * stock tools where it can be encoded (theirs for two and three bits, IQ4_NL, cannot). */
static uint32_t fitting(uint32_t type, uint64_t n_cols)
{
    if (n_cols % sm_traits_of(type)->block == 0) return type;
    if (n_cols % 32) return SM_F16;
    switch (type) {
    case SM_Q4_K: return SM_Q5_0;
    case SM_Q5_K: return SM_Q5_1;
    case SM_Q6_K: return SM_Q8_0;
    default: return SM_Q4_0; /* Q2_K Q3_K TQ1_0 TQ2_0 Q1_0 Q2_0 */
    }
}

/* Whether writing `type` would only lose bytes, or bits, of what has the type `own`. */
static bool gains_nothing(uint32_t own, uint32_t type, bool fell_back)
{
    if (sm_traits_of(own)->block == 1) return fell_back && type == SM_F16 && own != SM_F32;
    return sm_traits_of(type)->block > 1 && sm_type_bits(own) <= sm_type_bits(type);
}

static uint32_t keep(const struct sm_mix_tensor *t, enum sm_mix_why reason, enum sm_mix_why *why)
{
    if (why) *why = reason;
    return t->type;
}

uint32_t sm_mix_choose(const struct sm_mix *mix, const struct sm_mix_tensor *t,
                       enum sm_mix_why *why)
{
    enum sm_mix_why reason = SM_MIX_ASKED;
    uint32_t type = sm_mix_is_experts(t) ? mix->experts : mix->rest;
    if (is_small(t)) return keep(t, SM_MIX_SMALL, why);
    if (type == SM_MIX_KEEP) return keep(t, SM_MIX_UNASKED, why);
    if (is_head(t->name) && sm_type_bits(type) < sm_type_bits(SM_Q6_K)) {
        type = SM_Q6_K;
        reason = SM_MIX_HEAD;
    }
    if (is_draft(mix, t) && sm_type_bits(type) < sm_type_bits(SM_Q8_0)) {
        type = SM_Q8_0;
        reason = SM_MIX_DRAFT;
    }
    const uint32_t fits = fitting(type, t->n_cols);
    if (fits != type) reason = SM_MIX_COLUMNS;
    if (fits == t->type) return keep(t, SM_MIX_SAME, why);
    if (gains_nothing(t->type, fits, fits != type)) return keep(t, SM_MIX_LESS, why);
    if (why) *why = reason;
    return fits;
}
