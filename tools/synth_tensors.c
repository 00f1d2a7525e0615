/* SPDX-License-Identifier: MIT */
/* The tensors of a shape, named and sized as llama.cpp reads them, with scales that keep
 * activations sane: see synth.h. */
#include "synth.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* RMS of what comes out of the inner part of a mixer or of a feed-forward layer whose inputs have
 * RMS 1: measured on normal numbers. */
#define RMS_ATTENTION 0.8
#define RMS_SILU_GATE 0.6 /* silu(a) b, and norm(a) silu(b) */
#define RMS_SIGMOID_GATE 0.54
#define SHARP 2.5 /* deviation of attention scores: a few of some hundred positions count */

struct make {
    struct synth_list *list;
    const struct synth_shape *s;
    const struct synth_mix *mix;
    const struct synth_settings *set;
    uint32_t layer; /* the one being made */
    double stream;  /* RMS of the residual stream before it */
    uint32_t constant; /* columns of the stream that are the same for all tokens */
    bool failed;
};

__attribute__((format(printf, 2, 3))) static struct synth_tensor *add(struct make *k,
                                                                      const char *fmt, ...)
{
    static struct synth_tensor spare;
    struct synth_list *l = k->list;
    va_list ap;
    if (l->n == l->room) {
        const size_t room = l->room ? 2 * l->room : 256;
        struct synth_tensor *v = realloc(l->v, room * sizeof *v);
        if (!v) {
            k->failed = true;
            return &spare;
        }
        l->v = v;
        l->room = room;
    }
    struct synth_tensor *t = &l->v[l->n++];
    memset(t, 0, sizeof *t);
    va_start(ap, fmt);
    (void)vsnprintf(t->name, sizeof t->name, fmt, ap);
    va_end(ap);
    return t;
}

static void shape(struct synth_tensor *t, uint32_t n_dims, uint64_t a, uint64_t b, uint64_t c)
{
    t->n_dims = n_dims;
    t->dim[0] = a;
    t->dim[1] = b;
    t->dim[2] = c;
    t->dim[3] = 1;
}

/* blk.<layer>.NAME.weight {n_in, n_out}, output RMS `gain` for input RMS 1. */
static void matrix(struct make *k, const char *name, enum synth_class c, bool more, uint64_t n_in,
                   uint64_t n_out, double gain)
{
    struct synth_tensor *t = add(k, "blk.%u.%s.weight", k->layer, name);
    shape(t, 2, n_in, n_out, 1);
    t->type = synth_mix_type(k->mix, c, more, n_in);
    t->std = (float)(gain / sqrt((double)n_in));
}

/* The layer's output: the constant columns of the stream are left alone. */
static void output(struct make *k)
{
    k->list->v[k->list->n - 1].zero_rows = k->constant;
}

static void matrices(struct make *k, const char *name, enum synth_class c, bool more, uint64_t n_in,
                     uint64_t n_out, uint64_t n, double gain)
{
    matrix(k, name, c, more, n_in, n_out, gain);
    struct synth_tensor *t = &k->list->v[k->list->n - 1];
    t->n_dims = 3;
    t->dim[2] = n;
}

static struct synth_tensor *vector(struct make *k, const char *name, uint64_t n, double mean,
                                   double std)
{
    struct synth_tensor *t = add(k, "blk.%u.%s", k->layer, name);
    shape(t, 1, n, 1, 1);
    t->type = SM_F32;
    t->fill = SYNTH_AROUND;
    t->mean = (float)mean;
    t->std = (float)std;
    return t;
}

static void norm(struct make *k, const char *name, uint64_t n, double mean)
{
    (void)vector(k, name, n, mean, 0.05);
}

/* What half of a layer adds to the stream. */
static double step(const struct make *k) { return k->stream * k->set->drift * sqrt(0.5); }

/* Value and down matrices get more bits in the first and last eighth of the layers and in every
 * third one between. */
static bool more_bits(const struct make *k)
{
    const uint32_t n = k->s->layers, i = k->layer, eighth = n / 8;
    return i < eighth || i >= 7 * n / 8 || (i - eighth) % 3 == 2;
}

static bool is(const struct make *k, const char *arch) { return !strcmp(k->s->arch, arch); }

/* ---- mixers -------------------------------------------------------------------------------- */

static void attention(struct make *k)
{
    const struct synth_shape *s = k->s;
    const uint64_t q = (uint64_t)s->heads * s->head_dim, kv = (uint64_t)s->kv_heads * s->head_dim;
    const bool gated = is(k, "qwen35"), oss = is(k, "gpt-oss"), whole = is(k, "olmoe");
    const bool normed = !oss && !is(k, "llama");
    if (is(k, "bailingmoe2")) {
        matrix(k, "attn_qkv", SYNTH_ATTN, false, s->embd, q + 2 * kv, 1);
    } else {
        matrix(k, "attn_q", SYNTH_ATTN, false, s->embd, gated ? 2 * q : q, normed ? 1 : SHARP);
        matrix(k, "attn_k", SYNTH_ATTN, false, s->embd, kv, 1);
        matrix(k, "attn_v", SYNTH_ATTN, more_bits(k), s->embd, kv, 1);
    }
    if (normed) {
        norm(k, "attn_q_norm.weight", whole ? q : s->head_dim, SHARP);
        norm(k, "attn_k_norm.weight", whole ? kv : s->head_dim, 1);
    }
    if (oss) {
        (void)vector(k, "attn_q.bias", q, 0, 0.2);
        (void)vector(k, "attn_k.bias", kv, 0, 0.2);
        (void)vector(k, "attn_v.bias", kv, 0, 0.2);
        (void)vector(k, "attn_sinks.weight", s->heads, 0.5, 1);
        (void)vector(k, "attn_output.bias", s->embd, 0, 0.1 * step(k));
    }
    matrix(k, "attn_output", SYNTH_ATTN, false, q, s->embd,
           step(k) / (RMS_ATTENTION * (gated ? RMS_SIGMOID_GATE : 1)));
    output(k);
}

/* qwen35's recurrent block. */
static void gated_delta(struct make *k)
{
    const struct synth_shape *s = k->s;
    const uint64_t keys = 2ull * s->key_groups * s->state,
                   values = (uint64_t)s->value_heads * s->state;
    matrix(k, "attn_qkv", SYNTH_ATTN, false, s->embd, keys + values, 1);
    matrix(k, "attn_gate", SYNTH_ATTN, false, s->embd, values, 1);
    struct synth_tensor *t = vector(k, "ssm_conv1d.weight", s->conv, 0, 1 / sqrt(s->conv));
    shape(t, 2, s->conv, keys + values, 1);
    (void)vector(k, "ssm_dt.bias", s->value_heads, -1, 0.5);
    (void)vector(k, "ssm_a", s->value_heads, -1, 0.2);
    matrix(k, "ssm_beta", SYNTH_ATTN, false, s->embd, s->value_heads, 1);
    matrix(k, "ssm_alpha", SYNTH_ATTN, false, s->embd, s->value_heads, 1);
    norm(k, "ssm_norm.weight", s->state, 1);
    matrix(k, "ssm_out", SYNTH_ATTN, false, values, s->embd, step(k) / RMS_SILU_GATE);
    output(k);
}

/* bailingmoe3's recurrent block. */
static void kimi_delta(struct make *k)
{
    static const char *const part[3] = {"q", "k", "v"};
    const struct synth_shape *s = k->s;
    const uint64_t d = (uint64_t)s->heads * s->state;
    char name[32];
    for (int i = 0; i < 3; i++) {
        (void)snprintf(name, sizeof name, "attn_%s", part[i]);
        matrix(k, name, SYNTH_ATTN, false, s->embd, d, 1);
        (void)snprintf(name, sizeof name, "ssm_conv1d_%s.weight", part[i]);
        struct synth_tensor *t = vector(k, name, s->conv, 0, 1 / sqrt(s->conv));
        shape(t, 4, s->conv, 1, d);
    }
    matrix(k, "ssm_f_a", SYNTH_ATTN, false, s->embd, d, 1);
    matrix(k, "ssm_g_a", SYNTH_ATTN, false, s->embd, d, 1);
    matrix(k, "ssm_beta", SYNTH_ATTN, false, s->embd, s->heads, 1);
    struct synth_tensor *a = vector(k, "ssm_a", 1, 1, 0.1);
    shape(a, 2, 1, s->heads, 1);
    (void)vector(k, "ssm_dt.bias", d, -2.5, 0.8);
    norm(k, "ssm_norm.weight", s->state, 1);
    matrix(k, "attn_output", SYNTH_ATTN, false, d, s->embd, step(k) / RMS_SIGMOID_GATE);
    output(k);
}

static void latent_attention(struct make *k)
{
    const struct synth_shape *s = k->s;
    const uint64_t q = (uint64_t)s->heads * (s->head_dim + s->rot);
    const bool gate = is(k, "bailingmoe3");
    if (s->q_rank) {
        matrix(k, "attn_q_a", SYNTH_ATTN, false, s->embd, s->q_rank, 1);
        norm(k, "attn_q_a_norm.weight", s->q_rank, 1);
        matrix(k, "attn_q_b", SYNTH_ATTN, false, s->q_rank, q, SHARP);
    } else {
        matrix(k, "attn_q", SYNTH_ATTN, false, s->embd, q, SHARP);
    }
    matrix(k, "attn_kv_a_mqa", SYNTH_ATTN, false, s->embd, s->kv_rank + s->rot, 1);
    norm(k, "attn_kv_a_norm.weight", s->kv_rank, 1);
    /* k = k_b' c must have RMS 1: its columns are the long side here */
    matrices(k, "attn_k_b", SYNTH_ATTN, false, s->head_dim, s->kv_rank, s->heads,
             sqrt((double)s->head_dim / s->kv_rank));
    matrices(k, "attn_v_b", SYNTH_ATTN, more_bits(k), s->kv_rank, s->value_dim, s->heads, 1);
    if (gate) matrix(k, "attn_gate", SYNTH_ATTN, false, s->embd, s->heads, 1);
    matrix(k, "attn_output", SYNTH_ATTN, false, (uint64_t)s->heads * s->value_dim, s->embd,
           step(k) / (RMS_ATTENTION * (gate ? RMS_SIGMOID_GATE : 1)));
    output(k);
}

static void short_conv(struct make *k)
{
    const struct synth_shape *s = k->s;
    matrix(k, "shortconv.in_proj", SYNTH_ATTN, false, s->embd, 3ull * s->embd, 1);
    struct synth_tensor *t = vector(k, "shortconv.conv.weight", s->conv, 0, 1 / sqrt(s->conv));
    shape(t, 2, s->conv, s->embd, 1);
    matrix(k, "shortconv.out_proj", SYNTH_ATTN, false, s->embd, s->embd, step(k));
    output(k);
}

static void mixer(struct make *k)
{
    const struct synth_shape *s = k->s;
    const bool attends = k->layer >= s->layers || !s->interval || (k->layer + 1) % s->interval == 0;
    if (is(k, "lfm2moe") && !(k->layer < 64 && s->attends >> k->layer & 1)) short_conv(k);
    else if (s->kv_rank && attends) latent_attention(k);
    else if (attends) attention(k);
    else if (is(k, "qwen35")) gated_delta(k);
    else kimi_delta(k);
}

/* ---- feed-forward -------------------------------------------------------------------------- */

static void dense_ffn(struct make *k, const char *suffix, enum synth_class c, uint64_t width,
                      double out)
{
    char name[32];
    (void)snprintf(name, sizeof name, "ffn_gate%s", suffix);
    matrix(k, name, c, false, k->s->embd, width, 1);
    (void)snprintf(name, sizeof name, "ffn_up%s", suffix);
    matrix(k, name, c, false, k->s->embd, width, 1);
    (void)snprintf(name, sizeof name, "ffn_down%s", suffix);
    matrix(k, name, c, more_bits(k), width, k->s->embd, out);
    output(k);
}

/* RMS of the experts' sum when each has RMS 0.6: weights of about scale / used that add up to the
 * scale, or the part of a softmax that the chosen ones have. */
static double experts_rms(const struct synth_shape *s)
{
    double sum = s->weights_scale > 0 ? s->weights_scale : 1;
    if (!s->weights_norm && s->gating != 2 && strcmp(s->arch, "gpt-oss")) sum *= 0.35;
    return RMS_SILU_GATE * sum / sqrt(s->used);
}

static void experts(struct make *k)
{
    const struct synth_shape *s = k->s;
    const bool oss = is(k, "gpt-oss"), bias = s->gating == 2;
    const double routed = experts_rms(s), shared = s->shared ? RMS_SILU_GATE : 0;
    const double down = step(k) / sqrt(routed * routed + shared * shared);
    struct synth_tensor *t = vector(k, "ffn_gate_inp.weight", s->embd, 0, 1 / sqrt(s->embd));
    shape(t, 2, s->embd, s->experts, 1);
    t->fill = SYNTH_ROUTER;
    t->constant = k->constant;
    /* the constant columns weigh less where the stream has grown: make up for it */
    t->skew = (float)(k->set->skew * k->stream * sqrt(1 + k->set->drift * k->set->drift / 2));
    if (oss) (void)vector(k, "ffn_gate_inp.bias", s->experts, 0, 0.02);
    if (bias) (void)vector(k, "exp_probs_b.bias", s->experts, 0, 0.002);
    matrices(k, "ffn_gate_exps", SYNTH_EXPERTS, false, s->embd, s->expert_ff, s->experts, 1);
    matrices(k, "ffn_up_exps", SYNTH_EXPERTS, false, s->embd, s->expert_ff, s->experts, 1);
    matrices(k, "ffn_down_exps", SYNTH_EXPERTS, more_bits(k), s->expert_ff, s->embd, s->experts,
             down);
    output(k);
    if (oss) {
        const char *const part[3] = {"gate", "up", "down"};
        for (int i = 0; i < 3; i++) {
            char name[32];
            (void)snprintf(name, sizeof name, "ffn_%s_exps.bias", part[i]);
            struct synth_tensor *b = vector(k, name, i == 2 ? s->embd : s->expert_ff, 0,
                                            i == 2 ? 0.1 * step(k) : 0.1);
            b->n_dims = 2;
            b->dim[1] = s->experts;
        }
    }
    if (s->shared) dense_ffn(k, "_shexp", SYNTH_SHARED, (uint64_t)s->expert_ff * s->shared, down);
}

static void block(struct make *k)
{
    const struct synth_shape *s = k->s;
    const bool post = is(k, "qwen35") || is(k, "gpt-oss"), next = k->layer >= s->layers;
    norm(k, "attn_norm.weight", s->embd, 1);
    mixer(k);
    norm(k, post ? "post_attention_norm.weight" : "ffn_norm.weight", s->embd, 1);
    if (s->experts && k->layer >= s->dense) experts(k);
    else dense_ffn(k, "", SYNTH_FFN, s->ff, step(k) / RMS_SILU_GATE);
    if (!next) return;
    matrix(k, "nextn.eh_proj", SYNTH_ATTN, false, 2ull * s->embd, s->embd, 1);
    norm(k, "nextn.enorm.weight", s->embd, 1);
    norm(k, "nextn.hnorm.weight", s->embd, 1);
    norm(k, is(k, "qwen35") ? "nextn.shared_head_norm.weight" : "layer_output_norm.weight", s->embd,
         1);
}

/* ---- the whole ----------------------------------------------------------------------------- */

static struct synth_tensor *table(struct make *k, const char *name, enum synth_class c,
                                  enum synth_fill fill, double std)
{
    struct synth_tensor *t = add(k, "%s", name);
    shape(t, 2, k->s->embd, k->s->vocab, 1);
    t->type = synth_mix_type(k->mix, c, false, k->s->embd);
    t->fill = fill;
    t->std = (float)std;
    return t;
}

/* A part of the row that is whole blocks; none when rows are too short to spare any. */
static uint32_t constant_columns(uint32_t embd, uint32_t type)
{
    const uint32_t block = sm_traits_of(type)->block, part = embd / 4 < 256 ? embd / 4 : 256;
    return part / block * block;
}

smol_status synth_list_make(struct synth_list *out, const struct synth_shape *s,
                            const struct synth_mix *m, const struct synth_settings *set,
                            smol_error *err)
{
    struct make k = {.list = out, .s = s, .mix = m, .set = set};
    const double logits = 2 / sqrt(s->embd); /* logits have deviation 2 */
    *out = (struct synth_list){0};
    k.stream = 1;
    /* A tied head would repeat the last token for ever: the final norm flips the stream's axes. */
    (void)table(&k, "token_embd.weight", s->tied ? SYNTH_HEAD : SYNTH_EMBD,
                s->tied ? SYNTH_TIED : SYNTH_ROWS, k.stream);
    struct synth_tensor *n =
        add(&k, is(&k, "lfm2moe") ? "token_embd_norm.weight" : "output_norm.weight");
    shape(n, 1, s->embd, 1, 1);
    n->type = SM_F32;
    n->fill = s->tied ? SYNTH_SIGNS : SYNTH_AROUND;
    n->mean = s->tied ? (float)logits : 1;
    n->std = 0.05f;
    if (!s->tied) (void)table(&k, "output.weight", SYNTH_HEAD, SYNTH_TEXT, logits);
    if (!k.failed) {
        k.constant = s->experts ? constant_columns(s->embd, out->v[0].type) : 0;
        out->v[0].constant = k.constant;
    }
    for (k.layer = 0; k.layer < s->layers + s->next && !k.failed; k.layer++) {
        if (k.layer >= s->layers) k.stream = 1; /* what eh_proj gives */
        block(&k);
        k.stream *= sqrt(1 + set->drift * set->drift);
    }
    if (!k.failed) return SMOL_OK;
    free(out->v);
    *out = (struct synth_list){0};
    return SM_FAIL(err, NOMEM, "no memory for the list of tensors");
}
