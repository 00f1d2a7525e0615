/* SPDX-License-Identifier: MIT */
/* The sums of importance matrices: chunks of one token, where attention passes its value on, are
 * computed plainly in double from the file: the first layer of a dense model, of one with experts
 * (counts included) and of latent attention. */
#include "model_run.h"
#include "tap.h"
#include "temp.h"
#include "util_calibrate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static int32_t tokens[20];

/* ---- sums, computed plainly ------------------------------------------------------------------ */

struct plain {
    const struct sm_gguf *g;
    uint32_t E, F, n_head, n_kv, dv, n_expert, n_used;
    double eps;
};

/* blk.0.NAME.weight; the caller frees it. */
static float *weight_of(const struct plain *p, const char *name)
{
    char full[64];
    size_t n;
    (void)snprintf(full, sizeof full, "blk.0.%s.weight", name);
    return floats_of(p->g, full, &n);
}

static void plain_norm(double *out, const double *x, const float *w, uint32_t n, double eps)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += x[i] * x[i];
    for (uint32_t i = 0; i < n; i++) out[i] = x[i] / sqrt(sum / n + eps) * (double)w[i];
}

static void plain_product(double *y, const float *w, const double *x, uint32_t n_in, uint32_t n_out)
{
    for (uint32_t r = 0; r < n_out; r++) {
        y[r] = 0;
        for (uint32_t i = 0; i < n_in; i++) y[r] += (double)w[(size_t)r * n_in + i] * x[i];
    }
}

struct want { double *in, *value, *ffn, *gate, *down, *rows; }; /* sums; rows of each expert */

static void add(double *sum, const double *x, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) sum[i] += x[i] * x[i];
}

/* The n_used largest of n, the lower index first. */
static bool is_chosen(const double *score, uint32_t n, uint32_t n_used, uint32_t e)
{
    uint32_t before = 0;
    for (uint32_t i = 0; i < n; i++)
        before += score[i] > score[e] || (score[i] == score[e] && i < e);
    return before < n_used;
}

/* One token at position 0 through the first layer: attention gives back the value. */
static void plain_token(const struct plain *p, int32_t token, struct want *s)
{
    const bool moe = p->n_expert > 0;
    const char *const names[] = {"attn_norm", "attn_v", "attn_output", "ffn_norm",
                                 moe ? "ffn_gate_exps" : "ffn_gate", moe ? "ffn_up_exps" : "ffn_up",
                                 "ffn_gate_inp"};
    float *w[7], *embd;
    double x[512], a[512], v[512], all[512], f[512], up[512], score[512];
    size_t n;
    for (int i = 0; i < 7; i++) w[i] = weight_of(p, names[i]);
    embd = floats_of(p->g, "token_embd.weight", &n);
    for (uint32_t i = 0; i < p->E; i++) x[i] = (double)embd[(size_t)token * p->E + i];
    plain_norm(a, x, w[0], p->E, p->eps);
    add(s->in, a, p->E);
    plain_product(v, w[1], a, p->E, p->n_kv * p->dv);
    for (uint32_t h = 0; h < p->n_head; h++)
        memcpy(all + h * p->dv, v + h / (p->n_head / p->n_kv) * p->dv, p->dv * sizeof *v);
    add(s->value, all, p->n_head * p->dv);
    plain_product(a, w[2], all, p->n_head * p->dv, p->E);
    for (uint32_t i = 0; i < p->E; i++) x[i] += a[i];
    plain_norm(f, x, w[3], p->E, p->eps);
    add(s->ffn, f, p->E);
    if (moe) plain_product(score, w[6], f, p->E, p->n_expert);
    for (uint32_t e = 0; e < (moe ? p->n_expert : 1); e++) {
        if (moe && !is_chosen(score, p->n_expert, p->n_used, e)) continue;
        const size_t at = (size_t)e * p->E * p->F;
        plain_product(a, w[4] + at, f, p->E, p->F);
        plain_product(up, w[5] + at, f, p->E, p->F);
        for (uint32_t i = 0; i < p->F; i++) a[i] = a[i] / (1 + exp(-a[i])) * up[i];
        add(s->gate + (size_t)e * p->E, f, p->E);
        add(s->down + (size_t)e * p->F, a, p->F);
        s->rows[e]++;
    }
    for (int i = 0; i < 7; i++) free(w[i]);
    free(embd);
}

/* Sums of blk.0.NAME against what they should be, and its counts. */
static void check_sums(const struct sm_gguf *made, const char *name, const double *want, size_t n,
                       const double *rows, size_t n_mat)
{
    char full[96];
    size_t n_have = 0, n_counts = 0;
    double worst = 0, scale = 0;
    (void)snprintf(full, sizeof full, "blk.0.%s.weight.in_sum2", name);
    float *have = floats_of(made, full, &n_have);
    (void)snprintf(full, sizeof full, "blk.0.%s.weight.counts", name);
    float *counts = floats_of(made, full, &n_counts);
    bool right = have && counts && n_have == n && n_counts == n_mat;
    for (size_t i = 0; right && i < n_mat; i++) right = (double)counts[i] == rows[i];
    for (size_t i = 0; right && i < n; i++) {
        scale += want[i] / (double)n;
        worst = tap_worse(worst, fabs((double)have[i] - want[i]) / (want[i] + 1e-30));
    }
    TAP_OK(right && scale > 0 && worst < 2e-5, "%s: %zu counts and %zu sums, at most %.1e apart",
           name, n_counts, n_have, worst);
    free(have);
    free(counts);
}

static void check_plain(const char *relative, bool moe, bool paged)
{
    char model[512], path[512];
    struct sm_gguf *g = NULL, *made = NULL;
    smol_calibration info = {0};
    smol_error err = {0};
    smol_params how;
    const size_t n = 20;
    smol_params_default(&how);
    how.kv = SMOL_KV_F32;
    how.pool = paged ? 5 : 0;
    source_path(model, sizeof model, relative);
    (void)snprintf(path, sizeof path, "%s", temp_path("plain.gguf"));
    if (calibrate_model(model, &how, tokens, n, 1, path, &info, &err) != SMOL_OK ||
        sm_gguf_open(&g, model, &err) != SMOL_OK || sm_gguf_open(&made, path, &err) != SMOL_OK) {
        TAP_OK(false, "%s: %s", relative, err.msg);
        goto out;
    }
    const struct sm_tensor_info *gate = sm_gguf_find_tensor(
        g, moe ? "blk.0.ffn_gate_exps.weight" : "blk.0.ffn_gate.weight");
    struct plain p = {.g = g, .E = 64, .F = (uint32_t)gate->dim[1], .n_head = 4, .n_kv = 2,
                      .dv = 32, .n_expert = moe ? (uint32_t)gate->dim[2] : 0, .n_used = 4,
                      .eps = 1e-6};
    static double sum[6][16 * 512];
    struct want s = {sum[0], sum[1], sum[2], sum[3], sum[4], sum[5]};
    const double all = (double)n;
    memset(sum, 0, sizeof sum);
    for (size_t t = 0; t < n; t++) plain_token(&p, tokens[t], &s);
    const size_t n_mat = moe ? p.n_expert : 1;
    check_sums(made, "attn_q", s.in, p.E, &all, 1);
    check_sums(made, "attn_k", s.in, p.E, &all, 1);
    check_sums(made, "attn_v", s.in, p.E, &all, 1);
    check_sums(made, "attn_output", s.value, p.n_head * p.dv, &all, 1);
    if (moe) check_sums(made, "ffn_gate_inp", s.ffn, p.E, &all, 1);
    check_sums(made, moe ? "ffn_gate_exps" : "ffn_gate", s.gate, n_mat * p.E, s.rows, n_mat);
    check_sums(made, moe ? "ffn_up_exps" : "ffn_up", s.gate, n_mat * p.E, s.rows, n_mat);
    check_sums(made, moe ? "ffn_down_exps" : "ffn_down", s.down, n_mat * p.F, s.rows, n_mat);
out:
    sm_gguf_free(g);
    sm_gguf_free(made);
}

/* ---- latent attention ------------------------------------------------------------------------ */

/* y = norm(W x) with the weights blk.0.NAME.weight; norm NULL: none. Returns values of W x. */
static uint32_t plain_part(const struct plain *p, double *y, const char *name, const char *norm,
                           const double *x, uint32_t n_norm)
{
    char full[64];
    (void)snprintf(full, sizeof full, "blk.0.%s.weight", name);
    const struct sm_tensor_info *t = sm_gguf_find_tensor(p->g, full);
    float *w = weight_of(p, name), *scale = norm ? weight_of(p, norm) : NULL;
    const uint32_t n = (uint32_t)t->dim[1];
    plain_product(y, w, x, (uint32_t)t->dim[0], n);
    if (norm) plain_norm(y, y, scale, n_norm ? n_norm : n, p->eps);
    free(w);
    free(scale);
    return n;
}

/* Stacks of heads, or the joint matrix, at position 0: each head sees its part of the query, and
 * the latent row itself. */
static void check_latent(const char *relative, bool stacked)
{
    char model[512], path[512];
    struct sm_gguf *g = NULL, *made = NULL;
    smol_calibration info = {0};
    smol_error err = {0};
    smol_params how;
    const size_t n = 12;
    const uint32_t H = 4, R = 32, n_plain = 16;
    smol_params_default(&how);
    how.kv = SMOL_KV_F32;
    source_path(model, sizeof model, relative);
    (void)snprintf(path, sizeof path, "%s", temp_path("latent.gguf"));
    if (calibrate_model(model, &how, tokens, n, 1, path, &info, &err) != SMOL_OK ||
        sm_gguf_open(&g, model, &err) != SMOL_OK || sm_gguf_open(&made, path, &err) != SMOL_OK) {
        TAP_OK(false, "%s: %s", relative, err.msg);
        goto out;
    }
    const struct plain p = {
        .g = g, .E = (uint32_t)sm_gguf_find_tensor(g, "token_embd.weight")->dim[0], .eps = 1e-6};
    double x[512], a[512], low[512], q[512], latent[512], rows[4];
    double k_sum[64] = {0}, v_sum[128] = {0}, low_sum[512] = {0};
    uint32_t n_low = 0;
    size_t n_embd;
    float *embd = floats_of(g, "token_embd.weight", &n_embd), *norm = weight_of(&p, "attn_norm");
    for (size_t t = 0; t < n; t++) {
        for (uint32_t i = 0; i < p.E; i++) x[i] = (double)embd[(size_t)tokens[t] * p.E + i];
        plain_norm(a, x, norm, p.E, p.eps);
        (void)plain_part(&p, latent, "attn_kv_a_mqa", "attn_kv_a_norm", a, R);
        for (uint32_t h = 0; h < H; h++) add(v_sum + h * R, latent, R);
        if (!stacked) continue;
        n_low = plain_part(&p, low, "attn_q_a", "attn_q_a_norm", a, 0);
        add(low_sum, low, n_low);
        const uint32_t head = plain_part(&p, q, "attn_q_b", NULL, low, 0) / H;
        for (uint32_t h = 0; h < H; h++) add(k_sum + h * n_plain, q + h * head, n_plain);
    }
    for (uint32_t h = 0; h < H; h++) rows[h] = (double)n;
    if (stacked) {
        check_sums(made, "attn_q_b", low_sum, n_low, rows, 1);
        check_sums(made, "attn_k_b", k_sum, H * n_plain, rows, H);
        check_sums(made, "attn_v_b", v_sum, H * R, rows, H);
    } else {
        check_sums(made, "attn_kv_b", v_sum, R, rows, 1);
    }
    free(embd);
    free(norm);
out:
    sm_gguf_free(g);
    sm_gguf_free(made);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    temp_prefer_memory(8);
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        tokens[i] = (int32_t)(tap_random_below(200) + 20);
    check_plain("tests/data/models/rand-qwen3.gguf", false, false);
    check_plain("tests/data/models/rand-qwen3moe.gguf", true, false);
    check_plain("tests/data/models/rand-qwen3moe.gguf", true, true);
    check_latent("tests/data/models/rand-deepseek2.gguf", true);
    check_latent("tests/data/models/rand-deepseek2-lite.gguf", false);
    return tap_done();
}
