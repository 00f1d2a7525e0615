/* SPDX-License-Identifier: MIT */
/* The next-token block against recorded outputs (NAME.mtp.f32: the row of each prompt position;
 * NAME.mtp_chain.f32: four drafts behind the prompt) of llama.cpp 0.7.0, or of the numpy reference
 * for bailingmoe2, and on the trained model the share of first drafts that are right. F32: 1e-3. */
#include "infer/session.h"
#include "infer/speculate.h"
#include "json_read.h"
#include "model_run.h"
#include "tap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHAIN 4

static smol_params params(void)
{
    smol_params p;
    smol_params_default(&p);
    p.kv = SMOL_KV_F32;
    p.draft = SMOL_DRAFT_MTP;
    p.threads = 1;
    p.ctx = 512;
    return p;
}

struct recorded {
    int32_t tokens[64], first, chain[CHAIN];
    size_t n_tokens, n_vocab;
    float *rows, *chained;
};

static bool read_recorded(const char *name, struct recorded *r)
{
    char path[512], rel[128], why[128];
    size_t n;
    memset(r, 0, sizeof *r);
    (void)snprintf(rel, sizeof rel, "tests/data/golden/%s.json", name);
    struct json_doc *doc = json_load(source_path(path, sizeof path, rel), why, sizeof why);
    if (!doc) return false;
    const struct json *tokens = json_get(json_root(doc), "tokens"),
                      *mtp = json_get(json_root(doc), "mtp");
    for (; r->n_tokens < json_len(tokens) && r->n_tokens < 64; r->n_tokens++)
        r->tokens[r->n_tokens] = (int32_t)json_int(json_at(tokens, r->n_tokens), -1);
    r->first = (int32_t)json_int(json_get(mtp, "chain_first_token"), -1);
    for (size_t i = 0; i < CHAIN; i++)
        r->chain[i] = (int32_t)json_int(json_at(json_get(mtp, "chain"), i), -1);
    json_free(doc);
    (void)snprintf(rel, sizeof rel, "tests/data/golden/%s.mtp.f32", name);
    r->rows = read_floats(rel, &n);
    r->n_vocab = r->n_tokens ? n / r->n_tokens : 0;
    (void)snprintf(rel, sizeof rel, "tests/data/golden/%s.mtp_chain.f32", name);
    r->chained = read_floats(rel, &n);
    return r->rows && r->chained && r->n_vocab && n == CHAIN * r->n_vocab;
}

/* Rows of the prompt one by one, as if each next token had been drawn. */
static void check_rows(struct sm_engine *e, const struct recorded *r, const char *name)
{
    double worst = 0;
    smol_error err = {0};
    bool ok = true;
    for (uint32_t p = 0; ok && p < r->n_tokens; p++) {
        int32_t out;
        uint32_t n = 0;
        e->tokens[p] = r->tokens[p];
        ok = sm_next_draft(e, p, 1, &out, &n, &err) == SMOL_OK && n == 1;
        if (ok) {
            const double d = logits_distance(e->graph.logits, r->rows + p * r->n_vocab, r->n_vocab);
            worst = tap_worse(worst, d);
        }
        ok = ok && sm_engine_run(e, &r->tokens[p], 1, p, false, &err) == SMOL_OK;
    }
    TAP_OK(ok && worst <= 1e-3, "%s: rows of the prompt within %.3g of 0.001 %s", name, worst,
           err.msg);
}

static void check_chain(struct sm_engine *e, const struct recorded *r, const char *name)
{
    const uint32_t n = (uint32_t)r->n_tokens;
    double worst = 0;
    smol_error err = {0};
    size_t wrong = 0;
    bool ok = true;
    e->tokens[n] = r->first;
    for (uint32_t len = 1; ok && len <= CHAIN; len++) {
        int32_t out[CHAIN];
        uint32_t got = 0;
        sm_next_cut(e, n);
        ok = sm_next_draft(e, n, len, out, &got, &err) == SMOL_OK && got == len;
        if (!ok) break;
        for (uint32_t i = 0; i < len; i++) wrong += out[i] != r->chain[i];
        const double d =
            logits_distance(e->graph.logits, r->chained + (len - 1) * r->n_vocab, r->n_vocab);
        worst = tap_worse(worst, d);
    }
    TAP_OK(ok && wrong == 0 && worst <= 1e-3,
           "%s: a chain of four, %zu tokens wrong, within %.3g of 0.001 %s", name, wrong, worst,
           err.msg);
}

/* The prompt at once and then the chain: the rows were made by catching up. */
static void check_model(const char *name)
{
    char path[512], rel[128];
    struct recorded r;
    struct sm_engine e;
    struct sm_session s;
    smol_error err = {0};
    const smol_params p = params();
    (void)snprintf(rel, sizeof rel, "tests/data/models/rand-%s.gguf", name);
    if (!read_recorded(name, &r) ||
        sm_engine_open(&e, source_path(path, sizeof path, rel), &p, &err) != SMOL_OK ||
        sm_session_open(&s, &e, &err) != SMOL_OK) {
        TAP_OK(false, "%s: opens %s", name, err.msg);
        return;
    }
    check_rows(&e, &r, name);
    check_chain(&e, &r, name);
    sm_session_close(&s);
    if (sm_session_open(&s, &e, &err) == SMOL_OK &&
        sm_session_sync(&s, r.tokens, r.n_tokens, &err) == SMOL_OK)
        check_chain(&e, &r, name);
    else TAP_OK(false, "%s: reads the prompt at once: %s", name, err.msg);
    sm_session_close(&s);
    sm_engine_close(&e);
    free(r.rows);
    free(r.chained);
}

#define WINDOW 512u
#define PASS 8u

/* Positions of a window whose draft for the next token is the main model's best. Row t of the
 * block: token t and the main model's row of t - 1; right when its best is the best of position
 * t. */
static bool count_window(struct sm_engine *e, const int32_t *tokens, size_t *right, size_t *n,
                         smol_error *err)
{
    const uint32_t V = e->model->hp.n_vocab, ld = sm_pad8(V);
    int32_t main_best[PASS], out;
    uint32_t got;
    sm_next_cut(e, 0);
    memcpy(e->tokens, tokens, WINDOW * sizeof *tokens);
    for (uint32_t at = 0; at < WINDOW; at += PASS) {
        if (sm_engine_try(e, tokens + at, PASS, at, err) != SMOL_OK) return false;
        sm_engine_keep(e, PASS);
        for (uint32_t i = 0; i < PASS; i++) main_best[i] = logits_best(e->graph.logits + i * ld, V);
        for (uint32_t i = 0; i < PASS; i++) {
            if (sm_next_draft(e, at + i, 1, &out, &got, err) != SMOL_OK || got != 1) return false;
            /* positions 1 .. 510, as they were recorded */
            if (at + i < 1 || at + i > WINDOW - 2) continue;
            *right += out == main_best[i];
            ++*n;
        }
    }
    return true;
}

/* The recorded share is that of the trained weights: Q8_0 keeps it, Q2_K experts lose 2.3
 * points. */
static void check_acceptance(const char *model, double limit, size_t n_windows, size_t n_right)
{
    char path[512], why[128], *text = NULL;
    struct sm_engine e;
    smol_error err = {0};
    int32_t *ids = NULL;
    size_t n_ids = 0, right = 0, n = 0, n_bytes = 0;
    const smol_params p = params();
    struct json_doc *doc = json_load(
        source_path(path, sizeof path, "tests/data/golden/routing.json"), why, sizeof why);
    const double want = json_num(
        json_get(json_get(json_root(doc), "mtp"), "acceptance_top1_teacher_forced"), -1);
    json_free(doc);
    bool ok = sm_engine_open(&e, model, &p, &err) == SMOL_OK;
    FILE *f = fopen(source_path(path, sizeof path, "tests/data/text/eval-en.txt"), "rb");
    text = malloc(1 << 16);
    if (f && text) n_bytes = fread(text, 1, 1 << 16, f);
    if (f) (void)fclose(f);
    ok = ok && n_bytes &&
         sm_tok_encode(e.tok, text, n_bytes, SM_TOK_ADD_SPECIAL, &ids, &n_ids, &err) == SMOL_OK;
    for (size_t w = 0; ok && w < n_windows && (w + 1) * WINDOW <= n_ids; w++)
        ok = count_window(&e, ids + w * WINDOW, &right, &n, &err);
    const double share = n ? (double)right / (double)n : 0;
    TAP_OK(ok && fabs(share - want) <= limit && right == n_right,
           "%s: %.4f of %zu first drafts right (%zu, frozen %zu), recorded %.4f %s", model, share,
           n, right, n_right, want, err.msg);
    free(ids);
    free(text);
    sm_engine_close(&e);
}

int main(int argc, char **argv)
{
    char q2[512], q8[512];
    tap_init(argc, argv);
    check_model("qwen35");
    check_model("qwen35moe");
    check_model("bailingmoe2");
    check_model("bailingmoe3");
    const bool full = tap_effort() == 2;
    check_acceptance(source_path(q2, sizeof q2, "models/tiny-moe.gguf"), 0.03, full ? 12 : 4,
                     full ? 4169 : 1382);
    if (file_exists(shared_path(q8, sizeof q8, "models/tiny-moe-q8_0.gguf")))
        check_acceptance(q8, 0.02, 12, 4308);
    else TAP_SKIP(1, "tiny-moe-q8_0.gguf is not among the shared fixtures");
    return tap_done();
}
