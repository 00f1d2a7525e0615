/* SPDX-License-Identifier: MIT */
#include "model/model.h"
#include "graph/prefetch.h"
#include "model/bind.h"

#include <stdio.h>
#include <string.h>

static const struct sm_arch *const archs[] = {
    &sm_arch_llama, &sm_arch_qwen3, &sm_arch_qwen3moe, &sm_arch_bailingmoe2, &sm_arch_olmoe,
    &sm_arch_gpt_oss, &sm_arch_deepseek2, &sm_arch_lfm2moe, &sm_arch_qwen35, &sm_arch_qwen35moe,
    &sm_arch_bailingmoe3, &sm_arch_deepseek2_ocr,
};
#define N_ARCHS (sizeof archs / sizeof *archs)

void sm_model_arch_names(char *buf, size_t n)
{
    size_t used = 0;
    if (n) buf[0] = 0;
    for (size_t i = 0; i < N_ARCHS && used < n; i++)
        used += (size_t)snprintf(buf + used, n - used, "%s%s", i ? " " : "", archs[i]->name);
}

const char *sm_model_arch(const struct sm_model *m) { return m->arch->name; }

static smol_status find_arch(const struct sm_gguf *g, const struct sm_arch **out, smol_error *err)
{
    struct sm_str name = {0};
    char names[256];
    SM_TRY(sm_gguf_str(g, "general.architecture", &name, NULL, err));
    for (size_t i = 0; i < N_ARCHS; i++) {
        if (name.n != strlen(archs[i]->name) || memcmp(name.p, archs[i]->name, name.n)) continue;
        *out = archs[i];
        return SMOL_OK;
    }
    sm_model_arch_names(names, sizeof names);
    return SM_FAIL(err, UNSUPPORTED, "architecture \"%.*s\" is not supported (supported: %s)",
                   name.n > 40 ? 40 : (int)name.n, name.p, names);
}

smol_status sm_model_new(struct sm_model **out, const struct sm_gguf *g, struct sm_store *store,
                         bool want_next, smol_error *err)
{
    struct sm_bind b = {.g = g, .store = store, .err = err};
    smol_status st;
    struct sm_model *m = sm_mem_new(sizeof *m);
    *out = NULL;
    if (!m) return SM_FAIL(err, NOMEM, "no memory for the model");
    b.m = m;
    SM_TRY_OUT(st, find_arch(g, &m->arch, err));
    SM_TRY_OUT(st, sm_hparams_read(&b));
    m->have_next = want_next && m->hp.n_layer < m->hp.n_block;
    m->layers = sm_mem_new(sm_model_n_blocks(m) * sizeof *m->layers);
    if (!m->layers) {
        st = SM_FAIL(err, NOMEM, "no memory for %u layers", m->hp.n_layer);
        goto out;
    }
    for (uint32_t i = 0; i < m->hp.n_layer; i++)
        SM_TRY_OUT(st, sm_bind_layer(&b, i, &m->layers[i]));
    SM_TRY_OUT(st, sm_bind_ends(&b));
    if (m->have_next) SM_TRY_OUT(st, sm_bind_next(&b));
    *out = m;
    m = NULL;
out:
    sm_model_free(m);
    return st;
}

void sm_model_free(struct sm_model *m)
{
    if (!m) return;
    sm_mem_free(m->layers, sm_model_n_blocks(m) * sizeof *m->layers);
    sm_mem_free(m, sizeof *m);
}

void sm_model_ready(struct sm_model *m)
{
    struct sm_rope_params p = m->hp.rope;
    p.factors = sm_floats_of(m->rope_factors);
    sm_rope_init(&m->rope, &p);
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++)
        m->layers[i].moe.router.bias = sm_floats_of(m->layers[i].choice_bias);
}

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static void gqa_dims(const struct sm_gqa *a, struct sm_graph_dims *d)
{
    d->max_qkv = max_u32(d->max_qkv, sm_gqa_row(a));
    d->max_attn_out = max_u32(d->max_attn_out, a->n_head * a->dv);
    d->max_q_per_kv = max_u32(d->max_q_per_kv, a->n_head / a->n_kv);
    d->max_dv = max_u32(d->max_dv, a->dv);
    if (a->window) d->max_ring_head = max_u32(d->max_ring_head, a->dk + a->dv);
}

static void mla_dims(const struct sm_mla *a, struct sm_graph_dims *d)
{
    d->max_qkv = max_u32(d->max_qkv, sm_mla_row(a));
    d->max_attn_out = max_u32(d->max_attn_out, a->n_head * a->dv);
    d->max_q_per_kv = max_u32(d->max_q_per_kv, a->n_head);
    d->max_dv = max_u32(d->max_dv, a->n_latent);
    if (a->wq_a) d->max_lora = max_u32(d->max_lora, a->wq_a->n_out);
    d->max_mla_in = max_u32(d->max_mla_in, a->n_head * a->n_plain);
    d->max_mla_latent = max_u32(d->max_mla_latent, a->n_head * a->n_latent);
    d->max_mla_q = max_u32(d->max_mla_q, a->n_head * (a->n_latent + a->n_rot));
    d->n_mla_tok = d->max_tok < SM_MLA_TOKENS ? d->max_tok : SM_MLA_TOKENS;
}

static void delta_dims(const struct sm_delta *r, struct sm_graph_dims *d)
{
    d->max_qkv = max_u32(d->max_qkv, sm_delta_row(r));
    d->max_attn_out = max_u32(d->max_attn_out, r->n_v * r->dv);
    d->n_hist = max_u32(d->n_hist, r->taps - 1);
    d->max_delta_tile = max_u32(d->max_delta_tile, r->dk * SM_DELTA_ROWS);
}

static void mixer_dims(const struct sm_layer *l, struct sm_graph_dims *d)
{
    switch (l->mixer) {
    case SM_MIXER_GQA: gqa_dims(&l->gqa, d); break;
    case SM_MIXER_MLA: mla_dims(&l->mla, d); break;
    case SM_MIXER_SHORTCONV:
        d->max_qkv = max_u32(d->max_qkv, sm_shortconv_row(&l->conv));
        d->max_attn_out = max_u32(d->max_attn_out, l->conv.n);
        d->n_hist = max_u32(d->n_hist, l->conv.taps - 1);
        break;
    case SM_MIXER_DELTA: delta_dims(&l->delta, d); break;
    }
}

/* A wave goes through an ffn in blocks: as fast with 128 tokens as with all, and less scratch. What
 * is streamed is read once: then all at once. */
static void ffn_dims(const struct sm_ffn *f, struct sm_graph_dims *d)
{
    d->max_ffn = max_u32(d->max_ffn, f->gate->n_out);
    if (f->gate->home == SM_HOME_STREAMED || f->up->home == SM_HOME_STREAMED ||
        f->down->home == SM_HOME_STREAMED)
        d->n_ffn_tok = d->max_tok;
}

struct sm_graph_dims sm_model_dims(const struct sm_model *m, uint32_t max_tok,
                                   uint32_t n_logit_rows)
{
    struct sm_graph_dims d = {.max_tok = max_tok, .n_embd = m->hp.n_embd, .n_vocab = m->hp.n_vocab,
                              .n_expert = m->hp.n_expert, .n_used = m->hp.n_used,
                              .n_rot = m->hp.rope.n_rot, .n_logit_rows = n_logit_rows,
                              .n_ffn_tok = max_tok < SM_FFN_TOKENS ? max_tok : SM_FFN_TOKENS};
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const struct sm_layer *l = &m->layers[i];
        mixer_dims(l, &d);
        if (l->no_ffn) continue;
        if (!l->is_moe) {
            ffn_dims(&l->dense, &d);
            continue;
        }
        d.max_ffn = max_u32(d.max_ffn, l->moe.n_ffn);
        if (l->moe.has_shared) ffn_dims(&l->moe.shared, &d);
    }
    if (m->have_next) d.max_attn_out = max_u32(d.max_attn_out, 2 * m->hp.n_embd);
    return d;
}

/* Bytes of the keys and values of one position in a layer; false: the format cannot hold them. */
static bool position_bytes(const struct sm_layer *l, enum sm_kv_type type, size_t *bytes)
{
    const struct sm_gqa *a = &l->gqa;
    size_t k = 0, v = 0;
    *bytes = 0;
    switch (l->mixer) {
    case SM_MIXER_GQA:
        k = sm_kv_head_bytes(type, a->dk);
        v = sm_kv_head_bytes(type, a->dv);
        *bytes = a->n_kv * (k + v);
        break;
    case SM_MIXER_MLA:
        k = *bytes = sm_kv_head_bytes(type, l->mla.n_latent + l->mla.n_rot);
        v = sm_kv_head_bytes(type, l->mla.n_latent); /* the front of the same row */
        break;
    case SM_MIXER_SHORTCONV: /* no positions */
    case SM_MIXER_DELTA: return true;
    }
    return k && v;
}

/* Rows of the ring of a layer with a window, 0: it has none. */
static uint32_t ring_rows(const struct sm_model *m, const struct sm_layer *l)
{
    const uint32_t w = l->mixer == SM_MIXER_GQA ? l->gqa.window : 0;
    return w ? w + m->ring_slack : 0;
}

bool sm_model_kv_fits(const struct sm_model *m, enum sm_kv_type type)
{
    size_t unused;
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++)
        if (!position_bytes(&m->layers[i], type, &unused)) return false;
    return true;
}

size_t sm_model_kv_bytes(const struct sm_model *m, enum sm_kv_type type)
{
    size_t sum = 0, bytes;
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++)
        if (position_bytes(&m->layers[i], type, &bytes) && !ring_rows(m, &m->layers[i]))
            sum += bytes;
    return sum;
}

size_t sm_model_window_bytes(const struct sm_model *m, enum sm_kv_type type, uint32_t ctx)
{
    size_t sum = 0, bytes;
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const uint32_t w = ring_rows(m, &m->layers[i]);
        if (position_bytes(&m->layers[i], type, &bytes)) sum += bytes * (w < ctx ? w : ctx);
    }
    return sum;
}

/* The recurrent states alone. */
static void recur_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st)
{
    struct sm_layer_state unused;
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const struct sm_layer *l = &m->layers[i];
        struct sm_layer_state *to = st ? &st[i] : &unused;
        if (l->mixer == SM_MIXER_DELTA) sm_delta_layout(&l->delta, a, &to->recur);
        if (l->mixer == SM_MIXER_SHORTCONV) sm_shortconv_layout(&l->conv, a, &to->conv);
    }
}

void sm_model_hold_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st,
                          uint32_t cap)
{
    struct sm_layer_state unused = {0};
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const struct sm_layer *l = &m->layers[i];
        struct sm_layer_state *to = a->base ? &st[i] : &unused;
        if (l->mixer == SM_MIXER_DELTA) sm_delta_hold_layout(&l->delta, a, &to->recur, cap);
        if (l->mixer == SM_MIXER_SHORTCONV) sm_shortconv_hold_layout(&l->conv, a, &to->conv, cap);
    }
}

size_t sm_model_recur_bytes(const struct sm_model *m)
{
    struct sm_arena a = {0};
    recur_layout(m, &a, NULL);
    return a.used;
}

smol_status sm_model_can_shift(const struct sm_model *m, enum sm_kv_type type, smol_error *err)
{
    const char *what = sm_model_recur_bytes(m)                    ? "recurrent layers"
                       : sm_model_window_bytes(m, type, UINT32_MAX) ? "sliding windows"
                                                                    : NULL;
    if (!what) return SMOL_OK;
    return SM_FAIL(err, UNSUPPORTED, "%s has %s, whose memory cannot be shifted (--ctx-shift)",
                   sm_model_arch(m), what);
}

bool sm_model_keeps(const struct sm_model *m, uint32_t n, uint32_t to)
{
    uint32_t window = 0; /* the smallest ring */
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const uint32_t w = ring_rows(m, &m->layers[i]);
        if (w && (!window || w < window)) window = w;
    }
    /* rows of tokens that were taken back, as many as the slack, may stand in places of earlier
     * ones: of a full ring only n - window and on are sure, and a token at `to` sees to - window +
     * 1 and on */
    return !window || n + m->ring_slack <= window || to + 1 >= n;
}

void sm_model_state_layout(const struct sm_model *m, struct sm_arena *a, struct sm_layer_state *st,
                           enum sm_kv_type type, uint32_t capacity)
{
    recur_layout(m, a, st);
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++) {
        const struct sm_gqa *q = &m->layers[i].gqa;
        const struct sm_mla *l = &m->layers[i].mla;
        switch (m->layers[i].mixer) {
        case SM_MIXER_GQA:
            sm_kv_layout(&st[i].kv, a, type, q->n_kv, q->dk, q->dv, capacity,
                         ring_rows(m, &m->layers[i]));
            break;
        case SM_MIXER_MLA:
            sm_kv_layout_latent(&st[i].kv, a, type, l->n_latent + l->n_rot, capacity);
            break;
        case SM_MIXER_SHORTCONV:
        case SM_MIXER_DELTA: break;
        }
    }
}

static uint32_t n_moe(const struct sm_model *m)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->hp.n_layer; i++) n += m->layers[i].is_moe;
    return n;
}

static struct sm_prefetch_shape prefetch_shape(const struct sm_model *m)
{
    struct sm_prefetch_shape s = {n_moe(m), m->hp.n_embd, m->hp.n_expert, 1, m->hp.n_vocab};
    for (uint32_t i = 0; i < m->hp.n_layer; i++)
        if (m->layers[i].is_moe && m->layers[i].moe.router.n_used > s.n_used)
            s.n_used = m->layers[i].moe.router.n_used;
    return s;
}

size_t sm_model_prefetch_bytes(const struct sm_model *m)
{
    const struct sm_prefetch_shape shape = prefetch_shape(m);
    return shape.n_layers ? sm_prefetch_bytes(&shape) : 0;
}

void sm_model_release_routers(const struct sm_model *m, struct sm_store *s)
{
    for (uint32_t i = 0; i < sm_model_n_blocks(m); i++)
        if (m->layers[i].is_moe) sm_store_pin(s, m->layers[i].moe.router_w, false);
}

void sm_model_prefetch(const struct sm_model *m, struct sm_prefetch *a, uint32_t depth, void *mem)
{
    const struct sm_prefetch_shape shape = prefetch_shape(m);
    sm_prefetch_init(a, depth, &shape, m->hp.eps, mem);
    for (uint32_t i = 0; i < m->hp.n_layer; i++)
        if (m->layers[i].is_moe)
            sm_prefetch_add(a, m->layers[i].moe.pool, &m->layers[i].moe, m->layers[i].ffn_norm);
}
