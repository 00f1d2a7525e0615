/* SPDX-License-Identifier: MIT */
/* <arch>.* keys into hyper-parameters, every one range-checked where it is read. */
#include "model/bind.h"

#include <stdio.h>
#include <string.h>

const char *sm_key_name(const struct sm_bind *b, const char *name, char buf[128])
{
    (void)snprintf(buf, 128, "%s.%s", b->m->arch->name, name);
    return buf;
}

smol_status sm_key_u32(struct sm_bind *b, const char *name, uint32_t lo, uint32_t hi,
                           uint32_t *out)
{
    char key[128];
    uint64_t v = 0;
    bool found = false;
    SM_TRY(sm_gguf_u64(b->g, sm_key_name(b, name, key), lo, hi, &v, &found, b->err));
    if (found) *out = (uint32_t)v;
    return SMOL_OK;
}

smol_status sm_key_need_u32(struct sm_bind *b, const char *name, uint32_t lo, uint32_t hi,
                            uint32_t *out)
{
    char key[128];
    uint64_t v = 0;
    SM_TRY(sm_gguf_u64(b->g, sm_key_name(b, name, key), lo, hi, &v, NULL, b->err));
    *out = (uint32_t)v;
    return SMOL_OK;
}

smol_status sm_key_f64(struct sm_bind *b, const char *name, double lo, double hi, double *out)
{
    char key[128];
    double v = 0;
    bool found = false;
    SM_TRY(sm_gguf_f64(b->g, sm_key_name(b, name, key), &v, &found, b->err));
    if (!found) return SMOL_OK;
    if (!(v >= lo && v <= hi))
        return SM_FAIL(b->err, FORMAT, "key %s is %g, expected %g to %g", key, v, lo, hi);
    *out = v;
    return SMOL_OK;
}

static smol_status read_rope(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    struct sm_rope_params *r = &hp->rope;
    char key[128];
    struct sm_str kind = {"none", 4};
    bool found = false;
    double factor = 0;
    r->n_rot = hp->dk;
    r->adjacent = b->m->arch->rope_adjacent;
    r->base = 10000;
    r->linear_factor = 1;
    r->yarn_ctx = hp->n_ctx_train;
    r->yarn_beta_fast = 32;
    r->yarn_beta_slow = 1;
    SM_TRY(sm_key_u32(b, "rope.dimension_count", 2, 2 * SM_ROPE_MAX_PAIRS, &r->n_rot));
    if (r->n_rot % 2 || r->n_rot > hp->dk || r->n_rot > 2 * SM_ROPE_MAX_PAIRS)
        return SM_FAIL(b->err, FORMAT,
                       "rope.dimension_count is %u, expected an even number up to %u", r->n_rot,
                       hp->dk);
    SM_TRY(sm_key_f64(b, "rope.freq_base", 1, 1e12, &r->base));
    SM_TRY(sm_gguf_str(b->g, sm_key_name(b, "rope.scaling.type", key), &kind, &found, b->err));
    SM_TRY(sm_key_f64(b, "rope.scaling.factor", 0, 1e6, &factor));
    SM_TRY(sm_key_f64(b, "rope.scaling.original_context_length", 1, 1e9, &r->yarn_ctx));
    SM_TRY(sm_key_f64(b, "rope.scaling.yarn_beta_fast", 1e-6, 1e6, &r->yarn_beta_fast));
    SM_TRY(sm_key_f64(b, "rope.scaling.yarn_beta_slow", 1e-6, 1e6, &r->yarn_beta_slow));
    if (kind.n == 4 && !memcmp(kind.p, "none", 4)) return SMOL_OK;
    if (kind.n == 6 && !memcmp(kind.p, "linear", 6)) {
        if (factor > 0) r->linear_factor = factor;
    } else if (kind.n == 4 && !memcmp(kind.p, "yarn", 4)) {
        if (factor < 1)
            return SM_FAIL(b->err, FORMAT, "rope.scaling.factor is %g, expected 1 or more for yarn",
                           factor);
        r->yarn = true;
        r->yarn_factor = factor;
    } else {
        return SM_FAIL(b->err, UNSUPPORTED, "rope.scaling.type \"%.*s\" is not supported",
                       kind.n > 40 ? 40 : (int)kind.n, kind.p);
    }
    return SMOL_OK;
}

static smol_status read_experts(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    double scale = 0;
    char key[128];
    bool found = false;
    hp->gating = b->m->arch->gating;
    hp->n_group = hp->n_group_used = 1;
    SM_TRY(sm_key_need_u32(b, "expert_count", 1, SM_MAX_EXPERTS, &hp->n_expert));
    SM_TRY(sm_key_need_u32(b, "expert_used_count", 1,
                    hp->n_expert < SM_MAX_USED ? hp->n_expert : SM_MAX_USED, &hp->n_used));
    SM_TRY(sm_key_u32(b, "leading_dense_block_count", 0, hp->n_layer, &hp->n_dense));
    SM_TRY(sm_key_u32(b, "expert_gating_func", 0, 3, &hp->gating));
    if (hp->gating == 0) hp->gating = b->m->arch->gating;
    SM_TRY(sm_key_u32(b, "expert_group_count", 0, SM_MAX_GROUPS, &hp->n_group));
    SM_TRY(sm_key_u32(b, "expert_group_used_count", 0, SM_MAX_GROUPS, &hp->n_group_used));
    if (hp->n_group > 1) {
        if (hp->n_expert % hp->n_group)
            return SM_FAIL(b->err, FORMAT, "%u experts cannot be cut into %u equal groups",
                           hp->n_expert, hp->n_group);
        if (hp->n_group_used < 1 || hp->n_group_used > hp->n_group)
            return SM_FAIL(b->err, FORMAT, "expert_group_used_count is %u, expected 1 to %u",
                           hp->n_group_used, hp->n_group);
        if (hp->n_expert / hp->n_group * hp->n_group_used < hp->n_used)
            return SM_FAIL(b->err, FORMAT, "%u groups of %u experts hold fewer than %u experts",
                           hp->n_group_used, hp->n_expert / hp->n_group, hp->n_used);
    }
    SM_TRY(sm_gguf_bool(b->g, sm_key_name(b, "expert_weights_norm", key), &hp->expert_norm, &found,
                        b->err));
    hp->expert_norm |= b->m->arch->always_norm;
    SM_TRY(sm_key_f64(b, "expert_weights_scale", -1e6, 1e6, &scale));
    hp->expert_scale = (float)scale;
    return SMOL_OK;
}

/* Next-token blocks stand behind the main stack; some converters keep the key after dropping the
 * block, so the tensor decides. */
static smol_status split_blocks(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    uint32_t n_next = 0;
    char name[64];
    SM_TRY(sm_key_u32(b, "nextn_predict_layers", 0, hp->n_block - 1, &n_next));
    hp->n_layer = hp->n_block;
    for (; n_next; n_next--) {
        (void)snprintf(name, sizeof name, "blk.%u.nextn.eh_proj.weight", hp->n_block - n_next);
        if (!sm_gguf_find_tensor(b->g, name)) continue;
        hp->n_layer = hp->n_block - n_next;
        break;
    }
    return SMOL_OK;
}

smol_status sm_hparams_read(struct sm_bind *b)
{
    struct sm_hparams *hp = &b->m->hp;
    double eps = 0;
    SM_TRY(sm_key_need_u32(b, "block_count", 1, SM_MODEL_MAX_BLOCKS, &hp->n_block));
    SM_TRY(sm_key_need_u32(b, "embedding_length", 1, 1u << 17, &hp->n_embd));
    SM_TRY(sm_key_need_u32(b, "context_length", 1, 1u << 30, &hp->n_ctx_train));
    SM_TRY(sm_key_need_u32(b, "attention.head_count", 1, 4096, &hp->n_head));
    hp->dk = hp->n_embd / hp->n_head;
    SM_TRY(sm_key_u32(b, "attention.key_length", 2, 4096, &hp->dk));
    hp->dv = hp->dk;
    SM_TRY(sm_key_u32(b, "attention.value_length", 1, 4096, &hp->dv));
    SM_TRY(sm_key_f64(b, "attention.layer_norm_rms_epsilon", 0, 1, &eps));
    hp->eps = (float)eps;
    SM_TRY(split_blocks(b));
    if (b->m->arch->moe) SM_TRY(read_experts(b));
    SM_TRY(read_rope(b));
    return b->m->arch->read_keys ? b->m->arch->read_keys(b) : SMOL_OK;
}
