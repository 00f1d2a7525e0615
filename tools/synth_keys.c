/* SPDX-License-Identifier: MIT */
/* Metadata of a made-up model: hyper-parameters and a vocabulary. The vocabulary is byte-level BPE
 * whose merges are systematic (a space or a letter, then one letter more at a time), so it needs no
 * data and any text can be encoded. */
#include "synth.h"

#include "gguf/gguf_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hyper-parameters ---------------------------------------------------------------------- */

struct keys {
    struct sm_gguf_writer *w;
    const struct synth_shape *s;
    smol_error *err;
    smol_status st; /* the first failure */
};

static const char *full(const struct keys *k, const char *name, char buf[96])
{
    (void)snprintf(buf, 96, "%s.%s", k->s->arch, name);
    return buf;
}

static void put_u32(struct keys *k, const char *name, uint32_t v)
{
    char key[96];
    if (k->st == SMOL_OK) k->st = sm_gguf_writer_set_u32(k->w, full(k, name, key), v, k->err);
}

static void put_f32(struct keys *k, const char *name, double v)
{
    char key[96];
    if (k->st == SMOL_OK)
        k->st = sm_gguf_writer_set_f32(k->w, full(k, name, key), (float)v, k->err);
}

static void put_bool(struct keys *k, const char *name, bool v)
{
    char key[96];
    if (k->st == SMOL_OK) k->st = sm_gguf_writer_set_bool(k->w, full(k, name, key), v, k->err);
}

static void put_array(struct keys *k, const char *name, const int32_t *v, uint32_t n)
{
    char key[96];
    if (k->st == SMOL_OK)
        k->st = sm_gguf_writer_set(k->w, full(k, name, key), SM_KV_ARRAY, SM_KV_I32, n, v, 4 * n,
                                   k->err);
}

/* Key/value heads, an array where blocks differ: 0 marks a block without attention. */
static void put_kv_heads(struct keys *k)
{
    const struct synth_shape *s = k->s;
    const bool per_block = !strcmp(s->arch, "lfm2moe") || !strcmp(s->arch, "bailingmoe3");
    int32_t v[1024];
    if (!per_block) {
        put_u32(k, "attention.head_count_kv", s->kv_heads);
        return;
    }
    for (uint32_t i = 0; i < s->layers + s->next; i++) {
        const bool attends = s->interval ? (i + 1) % s->interval == 0 || i >= s->layers
                                         : i < 64 && s->attends >> i & 1;
        v[i] = attends ? (int32_t)s->kv_heads : 0;
    }
    put_array(k, "attention.head_count_kv", v, s->layers + s->next);
}

static void put_attention(struct keys *k)
{
    const struct synth_shape *s = k->s;
    const uint32_t width = s->kv_rank ? s->kv_rank + s->rot : s->head_dim;
    put_u32(k, "attention.head_count", s->heads);
    put_kv_heads(k);
    put_u32(k, "attention.key_length", width);
    put_u32(k, "attention.value_length", s->kv_rank ? s->kv_rank : s->head_dim);
    put_f32(k, "attention.layer_norm_rms_epsilon", s->eps);
    if (s->kv_rank) {
        put_u32(k, "attention.kv_lora_rank", s->kv_rank);
        if (s->q_rank) put_u32(k, "attention.q_lora_rank", s->q_rank);
        put_u32(k, "attention.key_length_mla", s->head_dim + s->rot);
        put_u32(k, "attention.value_length_mla", s->value_dim);
    }
    if (s->window) put_u32(k, "attention.sliding_window", s->window);
    put_u32(k, "rope.dimension_count", s->rot);
    put_f32(k, "rope.freq_base", s->rope_base);
    if (s->yarn_factor > 0) {
        char key[96];
        if (k->st == SMOL_OK)
            k->st = sm_gguf_writer_set_str(k->w, full(k, "rope.scaling.type", key), "yarn", k->err);
        put_f32(k, "rope.scaling.factor", s->yarn_factor);
        put_u32(k, "rope.scaling.original_context_length", s->yarn_ctx);
        if (s->yarn_log > 0) put_f32(k, "rope.scaling.yarn_log_multiplier", s->yarn_log);
    }
}

static void put_recurrent(struct keys *k)
{
    const struct synth_shape *s = k->s;
    if (!strcmp(s->arch, "qwen35")) {
        const int32_t pairs = (int32_t)s->rot / 2;
        const int32_t sections[4] = {pairs - 2 * (pairs / 3), pairs / 3, pairs / 3, 0};
        put_array(k, "rope.dimension_sections", sections, 4);
        put_u32(k, "full_attention_interval", s->interval);
        put_u32(k, "ssm.conv_kernel", s->conv);
        put_u32(k, "ssm.state_size", s->state);
        put_u32(k, "ssm.group_count", s->key_groups);
        put_u32(k, "ssm.time_step_rank", s->value_heads);
        put_u32(k, "ssm.inner_size", s->value_heads * s->state);
    } else if (!strcmp(s->arch, "bailingmoe3")) {
        put_u32(k, "ssm.conv_kernel", s->conv);
        put_u32(k, "kda.head_dim", s->state);
        put_bool(k, "kda.safe_gate", true);
        put_f32(k, "kda.gate_lower_bound", -5);
    } else if (!strcmp(s->arch, "lfm2moe")) {
        put_u32(k, "shortconv.l_cache", s->conv);
    }
}

static void put_experts(struct keys *k)
{
    const struct synth_shape *s = k->s;
    put_u32(k, "expert_count", s->experts);
    put_u32(k, "expert_used_count", s->used);
    if (strcmp(s->arch, "olmoe")) put_u32(k, "expert_feed_forward_length", s->expert_ff);
    if (s->dense) put_u32(k, "leading_dense_block_count", s->dense);
    if (s->shared) {
        put_u32(k, "expert_shared_count", s->shared);
        put_u32(k, "expert_shared_feed_forward_length", s->expert_ff);
    }
    if (s->groups > 1) {
        put_u32(k, "expert_group_count", s->groups);
        put_u32(k, "expert_group_used_count", s->groups_used);
    }
    if (s->gating) put_u32(k, "expert_gating_func", s->gating);
    if (s->weights_scale > 0) put_f32(k, "expert_weights_scale", s->weights_scale);
    if (s->gating) put_bool(k, "expert_weights_norm", s->weights_norm);
}

smol_status synth_keys_write(struct sm_gguf_writer *w, const struct synth_shape *s, const char *mix,
                             smol_error *err)
{
    struct keys k = {w, s, err, SMOL_OK};
    char name[160];
    (void)snprintf(name, sizeof name, "made-up weights of the shape %.40s (%.80s)", s->name, mix);
    SM_TRY(sm_gguf_writer_set_str(w, "general.architecture", s->arch, err));
    SM_TRY(sm_gguf_writer_set_str(w, "general.name", name, err));
    put_u32(&k, "block_count", s->layers + s->next);
    put_u32(&k, "context_length", s->ctx);
    put_u32(&k, "embedding_length", s->embd);
    put_u32(&k, "feed_forward_length", s->ff);
    put_u32(&k, "vocab_size", s->vocab);
    if (s->next) put_u32(&k, "nextn_predict_layers", s->next);
    put_attention(&k);
    if (s->conv) put_recurrent(&k);
    if (s->experts) put_experts(&k);
    return k.st;
}

/* ---- vocabulary ---------------------------------------------------------------------------- */

#define TOKEN_MAX 16u /* bytes of a token's text, and of the two parts of a merge with the space */

struct vocab {
    struct sm_str *token, *merge;
    char *text; /* TOKEN_MAX bytes for each token, then for each merge */
    int32_t *type;
    uint32_t n, n_merges;
};

/* Bytes stand for themselves where they print, else for the points from U+0100 on, in order. */
static bool prints(unsigned b) { return (b >= 33 && b <= 126) || (b >= 161 && b != 173); }

static size_t put_byte(unsigned byte, char *out)
{
    unsigned point = byte;
    if (!prints(byte)) {
        point = 256;
        for (unsigned b = 0; b < byte; b++) point += !prints(b);
    }
    if (point < 128) {
        out[0] = (char)point;
        return 1;
    }
    out[0] = (char)(0xc0 | point >> 6);
    out[1] = (char)(0x80 | (point & 63));
    return 2;
}

static void add_token(struct vocab *v, size_t n, int32_t type)
{
    v->token[v->n] = (struct sm_str){v->text + (size_t)v->n * TOKEN_MAX, n};
    v->type[v->n++] = type;
}

/* The token and the merge of `left` and one letter. */
static void add_merge(struct vocab *v, uint32_t vocab, struct sm_str left, char letter)
{
    char *text = v->text + (size_t)v->n * TOKEN_MAX;
    char *merge = v->text + ((size_t)vocab + v->n_merges) * TOKEN_MAX;
    memcpy(text, left.p, left.n);
    text[left.n] = letter;
    memcpy(merge, left.p, left.n);
    merge[left.n] = ' ';
    merge[left.n + 1] = letter;
    v->merge[v->n_merges++] = (struct sm_str){merge, left.n + 2};
    add_token(v, left.n + 1, 1);
}

static void make_vocab(struct vocab *v, uint32_t vocab)
{
    static const char *const control[SYNTH_CONTROLS] = {
        "<|begin|>", "<|end_of_text|>", "<|im_start|>", "<|im_end|>",
        "<|spare_0|>", "<|spare_1|>", "<|spare_2|>", "<|pad|>"};
    const uint32_t words = vocab - SYNTH_CONTROLS;
    for (unsigned b = 0; b < 256; b++)
        add_token(v, put_byte(b, v->text + (size_t)v->n * TOKEN_MAX), 1);
    uint32_t first = v->n;
    for (unsigned b = ' '; v->n < words; b = b == ' ' ? 'a' : b + 1) { /* what words begin with */
        if (b > 'z') break;
        for (char c = 'a'; c <= 'z' && v->n < words; c++) add_merge(v, vocab, v->token[b], c);
    }
    while (v->n < words) {
        const uint32_t end = v->n;
        for (uint32_t i = first; i < end && v->n < words; i++)
            for (char c = 'a'; c <= 'z' && v->n < words; c++) add_merge(v, vocab, v->token[i], c);
        first = end;
    }
    for (unsigned i = 0; i < SYNTH_CONTROLS; i++) {
        const size_t n = strlen(control[i]);
        memcpy(v->text + (size_t)v->n * TOKEN_MAX, control[i], n);
        add_token(v, n, 3);
    }
}

static smol_status put_vocab(struct sm_gguf_writer *w, const struct vocab *v, const char *pre,
                             smol_error *err)
{
    const uint32_t control = v->n - SYNTH_CONTROLS;
    SM_TRY(sm_gguf_writer_set_str(w, "tokenizer.ggml.model", "gpt2", err));
    SM_TRY(sm_gguf_writer_set_str(w, "tokenizer.ggml.pre", pre, err));
    SM_TRY(sm_gguf_writer_set_strings(w, "tokenizer.ggml.tokens", v->token, v->n, err));
    SM_TRY(sm_gguf_writer_set(w, "tokenizer.ggml.token_type", SM_KV_ARRAY, SM_KV_I32, v->n, v->type,
                              v->n * sizeof *v->type, err));
    SM_TRY(sm_gguf_writer_set_strings(w, "tokenizer.ggml.merges", v->merge, v->n_merges, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "tokenizer.ggml.bos_token_id", control, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "tokenizer.ggml.eos_token_id", control + 1, err));
    SM_TRY(sm_gguf_writer_set_u32(w, "tokenizer.ggml.padding_token_id", control + 7, err));
    return sm_gguf_writer_set_bool(w, "tokenizer.ggml.add_bos_token", false, err);
}

smol_status synth_vocab_write(struct sm_gguf_writer *w, const struct synth_shape *s,
                              smol_error *err)
{
    struct vocab v = {0};
    smol_status st = SMOL_OK;
    v.token = calloc(s->vocab, sizeof *v.token);
    v.merge = calloc(s->vocab, sizeof *v.merge);
    v.type = calloc(s->vocab, sizeof *v.type);
    v.text = calloc(2 * (size_t)s->vocab, TOKEN_MAX);
    if (!v.token || !v.merge || !v.type || !v.text)
        st = SM_FAIL(err, NOMEM, "no memory for the vocabulary");
    if (st == SMOL_OK) {
        make_vocab(&v, s->vocab);
        st = put_vocab(w, &v, s->pre, err);
    }
    free(v.token);
    free(v.merge);
    free(v.type);
    free(v.text);
    return st;
}
