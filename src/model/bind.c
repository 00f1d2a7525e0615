/* SPDX-License-Identifier: MIT */
#include "model/bind.h"

#include <stdio.h>
#include <string.h>

#define NAME_MAX_BYTES 96

static void name_of(const struct sm_bind *b, const char *base, const char *suffix,
                    char buf[NAME_MAX_BYTES])
{
    if (suffix) (void)snprintf(buf, NAME_MAX_BYTES, "blk.%u.%s.%s", b->layer, base, suffix);
    else (void)snprintf(buf, NAME_MAX_BYTES, "blk.%u.%s", b->layer, base);
}

static smol_status check_shape(struct sm_bind *b, const struct sm_tensor_info *t, uint64_t n_in,
                               uint64_t n_out, uint64_t n_mat)
{
    if (t->dim[0] == n_in && t->dim[1] == n_out && t->dim[2] == n_mat && t->dim[3] == 1)
        return SMOL_OK;
    return SM_FAIL_AT(b->err, FORMAT, t->at,
                      "tensor %s has shape {%llu, %llu, %llu}, expected {%llu, %llu, %llu}",
                      t->name, (unsigned long long)t->dim[0], (unsigned long long)t->dim[1],
                      (unsigned long long)t->dim[2], (unsigned long long)n_in,
                      (unsigned long long)n_out, (unsigned long long)n_mat);
}

static smol_status missing(struct sm_bind *b, const char *name, uint64_t n_in, uint64_t n_out)
{
    return SM_FAIL(b->err, FORMAT, "tensor %s {%llu, %llu} is missing", name,
                   (unsigned long long)n_in, (unsigned long long)n_out);
}

/* A resident matrix or vector of the whole model. n_out 0: any number of rows. */
smol_status sm_bind_named(struct sm_bind *b, const char *name, uint32_t n_in, uint32_t n_out,
                          bool optional, const struct sm_weight **out)
{
    const struct sm_tensor_info *t = sm_gguf_find_tensor(b->g, name);
    *out = NULL;
    if (!t) return optional ? SMOL_OK : missing(b, name, n_in, n_out);
    if (n_out == 0) {
        if (t->dim[1] < 1 || t->dim[1] > 1u << 20)
            return SM_FAIL_AT(b->err, FORMAT, t->at, "tensor %s has %llu rows", t->name,
                              (unsigned long long)t->dim[1]);
        n_out = (uint32_t)t->dim[1];
    }
    SM_TRY(check_shape(b, t, n_in, n_out, 1));
    return sm_store_add(b->store, t, SM_HOME_RESIDENT, out, b->err);
}

smol_status sm_bind_by_row(struct sm_bind *b, const char *name, uint32_t n_in, uint32_t n_out,
                           const struct sm_weight **out)
{
    const struct sm_tensor_info *t = sm_gguf_find_tensor(b->g, name);
    *out = NULL;
    if (!t) return missing(b, name, n_in, n_out);
    SM_TRY(check_shape(b, t, n_in, n_out, 1));
    return sm_store_add(b->store, t, SM_HOME_BY_ROW, out, b->err);
}

smol_status sm_bind_matrix(struct sm_bind *b, const char *base, uint32_t n_in, uint32_t n_out,
                               const struct sm_weight **out)
{
    char name[NAME_MAX_BYTES];
    name_of(b, base, "weight", name);
    return sm_bind_named(b, name, n_in, n_out, false, out);
}

/* A vector of n values; kept in F32 by every converter. */
smol_status sm_bind_vector(struct sm_bind *b, const char *base, const char *suffix, uint32_t n,
                               bool optional, const struct sm_weight **out)
{
    char name[NAME_MAX_BYTES];
    *out = NULL;
    if (!base) return SMOL_OK;
    name_of(b, base, suffix, name);
    SM_TRY(sm_bind_named(b, name, n, 1, optional, out));
    if (*out && (*out)->type != SM_F32)
        return SM_FAIL_AT(b->err, UNSUPPORTED, (*out)->info->at,
                          "tensor %s has type %s, only F32 is supported here", name,
                          sm_type_name((*out)->type));
    return SMOL_OK;
}

smol_status sm_bind_taps(struct sm_bind *b, const char *base, uint32_t taps, uint32_t n,
                         const struct sm_weight **out)
{
    char name[NAME_MAX_BYTES];
    name_of(b, base, "weight", name);
    const struct sm_tensor_info *t = sm_gguf_find_tensor(b->g, name);
    *out = NULL;
    if (!t) return missing(b, name, taps, n);
    const bool flat = t->dim[1] == n && t->dim[2] == 1, deep = t->dim[1] == 1 && t->dim[2] == n;
    if (t->dim[0] != taps || !(flat || deep) || t->dim[3] != 1)
        return SM_FAIL_AT(b->err, FORMAT, t->at, "tensor %s is not a convolution of %u taps and %u "
                          "channels", t->name, taps, n);
    if (t->type != SM_F32)
        return SM_FAIL_AT(b->err, UNSUPPORTED, t->at,
                          "tensor %s has type %s, only F32 is supported here", name,
                          sm_type_name(t->type));
    return sm_store_add(b->store, t, SM_HOME_RESIDENT, out, b->err);
}

bool sm_bind_has(const struct sm_bind *b, const char *base)
{
    char name[NAME_MAX_BYTES];
    if (!base) return false;
    name_of(b, base, "weight", name);
    return sm_gguf_find_tensor(b->g, name) != NULL;
}

smol_status sm_bind_gqa(struct sm_bind *b, const struct sm_gqa_names *n, struct sm_gqa *a)
{
    const struct sm_hparams *hp = &b->m->hp;
    const uint32_t E = hp->n_embd;
    uint64_t n_kv = hp->n_head;
    char key[128];
    bool found = false;
    (void)snprintf(key, sizeof key, "%s.attention.head_count_kv", b->m->arch->name);
    SM_TRY(sm_gguf_u64_at(b->g, key, b->layer, 1, hp->n_head, &n_kv, &found, b->err));
    if (hp->n_head % n_kv)
        return SM_FAIL(b->err, FORMAT, "%u heads cannot share %u key/value heads", hp->n_head,
                       (unsigned)n_kv);
    *a = (struct sm_gqa){.n_head = hp->n_head, .n_kv = (uint32_t)n_kv, .dk = hp->dk, .dv = hp->dv,
                         .eps = hp->eps, .rope = &b->m->rope, .gated = n->gated};
    if (sm_bind_has(b, n->qkv) || !n->q) {
        SM_TRY(
            sm_bind_matrix(b, n->qkv, E, a->n_head * a->dk + a->n_kv * (a->dk + a->dv), &a->wqkv));
    } else {
        SM_TRY(sm_bind_matrix(b, n->q, E, a->n_head * (a->dk + (n->gated ? a->dv : 0)), &a->wq));
        SM_TRY(sm_bind_matrix(b, n->k, E, a->n_kv * a->dk, &a->wk));
        SM_TRY(sm_bind_matrix(b, n->v, E, a->n_kv * a->dv, &a->wv));
    }
    SM_TRY(sm_bind_matrix(b, n->o, a->n_head * a->dv, E, &a->wo));
    if (n->biases) {
        SM_TRY(sm_bind_vector(b, n->q, "bias", a->n_head * a->dk, true, &a->bq));
        SM_TRY(sm_bind_vector(b, n->k, "bias", a->n_kv * a->dk, true, &a->bk));
        SM_TRY(sm_bind_vector(b, n->v, "bias", a->n_kv * a->dv, true, &a->bv));
        SM_TRY(sm_bind_vector(b, n->o, "bias", E, true, &a->bo));
    }
    SM_TRY(sm_bind_vector(b, n->sinks, "weight", a->n_head, false, &a->sinks));
    a->norm_rows = n->norm_rows;
    SM_TRY(sm_bind_vector(b, n->q_norm, "weight", (a->norm_rows ? a->n_head : 1) * a->dk, false,
                          &a->q_norm));
    return sm_bind_vector(b, n->k_norm, "weight", (a->norm_rows ? a->n_kv : 1) * a->dk, false,
                          &a->k_norm);
}

/* SwiGLU matrices; the width is what the gate has. */
smol_status sm_bind_ffn(struct sm_bind *b, const char *gate, const char *up, const char *down,
                            struct sm_ffn *f)
{
    const uint32_t E = b->m->hp.n_embd;
    SM_TRY(sm_bind_matrix(b, gate, E, 0, &f->gate));
    SM_TRY(sm_bind_matrix(b, up, E, f->gate->n_out, &f->up));
    return sm_bind_matrix(b, down, f->gate->n_out, E, &f->down);
}

smol_status sm_bind_stack(struct sm_bind *b, const char *base, uint32_t n_in, uint32_t n_out,
                          uint32_t n_mat, const struct sm_weight **out)
{
    char name[NAME_MAX_BYTES];
    name_of(b, base, "weight", name);
    const struct sm_tensor_info *t = sm_gguf_find_tensor(b->g, name);
    *out = NULL;
    if (!t) return missing(b, name, n_in, n_out);
    SM_TRY(check_shape(b, t, n_in, n_out, n_mat));
    return sm_store_add(b->store, t, SM_HOME_RESIDENT, out, b->err);
}

static smol_status expert_tensor(struct sm_bind *b, const char *base, uint64_t n_in, uint64_t n_out,
                                 const struct sm_tensor_info **out)
{
    char name[NAME_MAX_BYTES];
    name_of(b, base, "weight", name);
    *out = sm_gguf_find_tensor(b->g, name);
    if (!*out) return missing(b, name, n_in, n_out);
    if (n_out == 0) n_out = (*out)->dim[1];
    if (n_out < 1 || n_out > 1u << 20)
        return SM_FAIL_AT(b->err, FORMAT, (*out)->at, "tensor %s has %llu rows", name,
                          (unsigned long long)n_out);
    return check_shape(b, *out, n_in, n_out, b->m->hp.n_expert);
}

/* The biases of a stacked matrix, {n_out, n_expert}; *out NULL: the file has none. */
static smol_status expert_bias(struct sm_bind *b, const char *base,
                               const struct sm_tensor_info *matrix,
                               const struct sm_tensor_info **out)
{
    char name[NAME_MAX_BYTES];
    name_of(b, base, "bias", name);
    *out = matrix ? sm_gguf_find_tensor(b->g, name) : NULL;
    return *out ? check_shape(b, *out, matrix->dim[1], b->m->hp.n_expert, 1) : SMOL_OK;
}

static smol_status bind_experts(struct sm_bind *b, const struct sm_moe_names *n, struct sm_moe *moe)
{
    const uint32_t E = b->m->hp.n_embd;
    struct sm_expert_tensors t = {0};
    if (sm_bind_has(b, n->gate_up)) {
        SM_TRY(expert_tensor(b, n->gate_up, E, 0, &t.gate));
        if (t.gate->dim[1] % 16)
            return SM_FAIL_AT(b->err, UNSUPPORTED, t.gate->at,
                              "tensor %s has %llu rows, expected a multiple of 16", t.gate->name,
                              (unsigned long long)t.gate->dim[1]);
        moe->n_ffn = (uint32_t)t.gate->dim[1] / 2;
    } else {
        SM_TRY(expert_tensor(b, n->gate, E, 0, &t.gate));
        moe->n_ffn = (uint32_t)t.gate->dim[1];
        SM_TRY(expert_tensor(b, n->up, E, moe->n_ffn, &t.up));
    }
    SM_TRY(expert_tensor(b, n->down, moe->n_ffn, E, &t.down));
    if (n->biases) {
        SM_TRY(expert_bias(b, t.up ? n->gate : n->gate_up, t.gate, &t.gate_bias));
        SM_TRY(expert_bias(b, n->up, t.up, &t.up_bias));
        SM_TRY(expert_bias(b, n->down, t.down, &t.down_bias));
    }
    return sm_store_add_experts(b->store, &t, &moe->pool, b->err);
}

static smol_status sm_bind_moe(struct sm_bind *b, const struct sm_moe_names *n, struct sm_moe *moe,
                            const struct sm_weight **choice_bias)
{
    const struct sm_hparams *hp = &b->m->hp;
    moe->router = (struct sm_router){
        .gating = (enum sm_gating)hp->gating, .n_expert = hp->n_expert, .n_used = hp->n_used,
        .n_group = hp->n_group, .n_group_used = hp->n_group_used, .normalize = hp->expert_norm,
        .scale = hp->expert_scale};
    SM_TRY(sm_bind_matrix(b, n->router, hp->n_embd, hp->n_expert, &moe->router_w));
    sm_store_pin(b->store, moe->router_w, true); /* copied for looking ahead */
    moe->form = n->form;
    if (n->biases)
        SM_TRY(sm_bind_vector(b, n->router, "bias", hp->n_expert, true, &moe->router_b));
    SM_TRY(sm_bind_vector(b, n->choice_bias, "bias", hp->n_expert, true, choice_bias));
    SM_TRY(bind_experts(b, n, moe));
    SM_TRY(sm_bind_vector(b, n->shared_scale, "weight", hp->n_embd, true, &moe->shared_scale));
    moe->has_shared = sm_bind_has(b, n->shared_gate);
    if (!moe->has_shared) return SMOL_OK;
    return sm_bind_ffn(b, n->shared_gate, n->shared_up, n->shared_down, &moe->shared);
}

smol_status sm_bind_layer(struct sm_bind *b, uint32_t i, struct sm_layer *l)
{
    const struct sm_arch *arch = b->m->arch;
    const uint32_t E = b->m->hp.n_embd;
    b->layer = i;
    SM_TRY(sm_bind_vector(b, arch->mixer_norm, "weight", E, false, &l->mixer_norm));
    const bool next = i >= b->m->hp.n_layer;
    SM_TRY(sm_bind_vector(b, arch->ffn_norm, "weight", E, next, &l->ffn_norm));
    if (arch->bind_mixer) SM_TRY(arch->bind_mixer(b, l));
    else SM_TRY(sm_bind_gqa(b, &arch->attn, &l->gqa));
    l->no_ffn = next && !sm_bind_has(b, arch->ffn_gate) && !sm_bind_has(b, arch->experts.router);
    if (l->no_ffn) return SMOL_OK;
    l->is_moe = arch->moe && i >= b->m->hp.n_dense;
    if (l->is_moe) SM_TRY(sm_bind_moe(b, &arch->experts, &l->moe, &l->choice_bias));
    else SM_TRY(sm_bind_ffn(b, arch->ffn_gate, arch->ffn_up, arch->ffn_down, &l->dense));
    return arch->finish_layer ? arch->finish_layer(b, l) : SMOL_OK;
}

smol_status sm_bind_ends(struct sm_bind *b)
{
    struct sm_model *m = b->m;
    const struct sm_tensor_info *e = sm_gguf_find_tensor(b->g, "token_embd.weight");
    if (!e) return missing(b, "token_embd.weight", m->hp.n_embd, 0);
    if (e->dim[1] < 1 || e->dim[1] > 1u << 24)
        return SM_FAIL_AT(b->err, FORMAT, e->at, "tensor token_embd.weight has %llu rows",
                          (unsigned long long)e->dim[1]);
    m->hp.n_vocab = (uint32_t)e->dim[1];
    SM_TRY(check_shape(b, e, m->hp.n_embd, m->hp.n_vocab, 1));
    char name[NAME_MAX_BYTES];
    (void)snprintf(name, sizeof name, "%s.weight",
                   m->arch->out_norm ? m->arch->out_norm : "output_norm");
    SM_TRY(sm_bind_named(b, name, m->hp.n_embd, 1, false, &m->out_norm));
    SM_TRY(sm_bind_named(b, "output.weight", m->hp.n_embd, m->hp.n_vocab,
                         m->arch->tied_head_allowed, &m->head));
    if (!m->head) { /* tied: the table is resident as the head and rows are decoded from it */
        SM_TRY(sm_store_add(b->store, e, SM_HOME_RESIDENT, &m->head, b->err));
        m->embd = m->head;
    } else {
        SM_TRY(sm_store_add(b->store, e, SM_HOME_BY_ROW, &m->embd, b->err));
    }
    SM_TRY(sm_bind_named(b, "rope_freqs.weight", m->hp.rope.n_rot / 2, 1, true, &m->rope_factors));
    if (m->out_norm->type != SM_F32 || (m->rope_factors && m->rope_factors->type != SM_F32))
        return SM_FAIL(b->err, UNSUPPORTED, "%s and rope_freqs must be F32", name);
    return SMOL_OK;
}
