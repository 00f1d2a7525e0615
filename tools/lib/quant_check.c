/* SPDX-License-Identifier: MIT */
#include "quant_check.h"

#include "base/fmath.h"
#include "base/rng.h"
#include "base/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED 280u
#define LOGIT_ROWS 16u
#define RISE 1.5 /* of the perplexity: more is bad */

struct check {
    struct quant_check *c;
    smol_params params;
    smol_model *m;
    const smol_vocab *v;
    int32_t ids[1 + QUANT_CHECK_TOKENS]; /* the start token, then c->n more */
    size_t n_vocab;
    FILE *logits; /* of IN, a row for each position */
    float *row;   /* one of them */
    double nll, kl;
    bool ends, failed_write;
    uint64_t random;
};

/* ---- a text -------------------------------------------------------------------------------- */

/* A number in [0, 1). */
static double draw(struct check *k)
{
    k->random += SM_MIX64_STEP;
    return (double)(sm_mix64(k->random) >> 11) * 0x1p-53;
}

static bool is_end(const struct check *k, size_t id)
{
    return k->v && (int64_t)id < smol_vocab_size(k->v) && smol_is_end(k->v, (int32_t)id);
}

/* A token drawn by its probability among those that do not end the text; -1: there is none. */
static int32_t next_token(struct check *k, const float *logits)
{
    const double lse = (double)logits[0] - smol_logprob(logits, k->n_vocab, 0);
    double sum = 0, at = 0;
    int32_t last = -1;
    for (size_t i = 0; i < k->n_vocab; i++)
        if (!is_end(k, i)) sum += sm_exp((double)logits[i] - lse);
    const double want = draw(k) * sum;
    for (size_t i = 0; i < k->n_vocab; i++) {
        const double p = is_end(k, i) ? 0 : sm_exp((double)logits[i] - lse);
        if (p > 0) last = (int32_t)i;
        if ((at += p) > want && p > 0) break;
    }
    return last;
}

static smol_status write_text(struct check *k, smol_session *s, smol_error *err)
{
    SM_TRY(smol_session_sync(s, k->ids, 1, err));
    for (unsigned i = 1; i <= k->c->n; i++) {
        k->ids[i] = next_token(k, smol_session_logits(s));
        if (k->ids[i] < 0)
            return SM_FAIL(err, UNSUPPORTED, "the model's logits are no finite numbers");
        if (i < k->c->n) SM_TRY(smol_session_append(s, k->ids[i], err));
        if (k->params.progress)
            k->params.progress(k->params.progress_arg, "writing a text", i, k->c->n);
    }
    return SMOL_OK;
}

/* ---- reading it ---------------------------------------------------------------------------- */

static size_t first_choice(const float *logits, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

/* Each row ends with what the position costs; the last predicts nothing that is known. */
static void judge(struct check *k, size_t pos, const float *logits)
{
    if (pos < k->c->n) k->nll -= smol_logprob(logits, k->n_vocab, k->ids[pos + 1]);
    else k->ends = is_end(k, first_choice(logits, k->n_vocab));
}

static smol_status keep_row(void *arg, size_t pos, const float *logits)
{
    struct check *k = arg;
    judge(k, pos, logits);
    if (fwrite(logits, sizeof *logits, k->n_vocab, k->logits) == k->n_vocab) return SMOL_OK;
    k->failed_write = true;
    return SMOL_IO;
}

static smol_status compare_row(void *arg, size_t pos, const float *logits)
{
    struct check *k = arg;
    const size_t n = k->n_vocab;
    judge(k, pos, logits);
    if (fread(k->row, sizeof *k->row, n, k->logits) != n) return SMOL_IO;
    if (pos == k->c->n) return SMOL_OK;
    const double before = (double)k->row[0] - smol_logprob(k->row, n, 0);
    const double after = (double)logits[0] - smol_logprob(logits, n, 0);
    for (size_t i = 0; i < n; i++) {
        const double l = (double)k->row[i] - before, p = sm_exp(l);
        if (p > 0) k->kl += p * (l - ((double)logits[i] - after));
    }
    return SMOL_OK;
}

static smol_status read_text(struct check *k, smol_session *s, smol_score_fn fn, smol_error *err)
{
    k->nll = k->kl = 0;
    smol_status st = smol_session_score(s, k->ids, 1 + (size_t)k->c->n, fn, k, err);
    if (st == SMOL_IO && err->code == SMOL_OK)
        st = SM_FAIL(err, IO, "the logits could not be %s beside OUT",
                     k->failed_write ? "kept" : "read");
    return st;
}

/* ---- the models ---------------------------------------------------------------------------- */

static smol_status open_model(struct check *k, const char *path, smol_session **s, smol_error *err)
{
    SM_TRY(smol_model_open(&k->m, path, &k->params, err));
    k->v = smol_model_vocab(k->m);
    k->n_vocab = smol_model_n_vocab(k->m);
    return smol_session_new(s, k->m, err);
}

static void close_model(struct check *k, smol_session *s)
{
    smol_session_free(s);
    smol_model_free(k->m);
    k->m = NULL;
}

static smol_status with_in(struct check *k, const char *in, smol_error *err)
{
    smol_session *s = NULL;
    smol_status st = open_model(k, in, &s, err);
    if (st == SMOL_OK && k->ids[0] >= (int64_t)k->n_vocab) k->ids[0] = 0;
    if (st == SMOL_OK) st = write_text(k, s, err);
    if (st == SMOL_OK) st = read_text(k, s, keep_row, err);
    close_model(k, s);
    k->c->ppl_in = sm_exp(k->nll / k->c->n);
    k->c->ends_in = k->ends;
    return st;
}

static smol_status with_out(struct check *k, const char *out, smol_error *err)
{
    smol_session *s = NULL;
    const size_t row_bytes = k->n_vocab * sizeof *k->row;
    k->row = malloc(row_bytes);
    if (!k->row) return SM_FAIL(err, NOMEM, "no memory for a row of logits");
    k->params.caller_bytes += row_bytes; /* OUT's plan counts it */
    smol_status st = open_model(k, out, &s, err);
    rewind(k->logits);
    if (st == SMOL_OK) st = read_text(k, s, compare_row, err);
    close_model(k, s);
    k->c->ppl_out = sm_exp(k->nll / k->c->n);
    k->c->kl = k->kl / k->c->n;
    k->c->ends_out = k->ends;
    return st;
}

/* A file that is gone when the program ends, however that comes about. */
static smol_status open_logits(struct check *k, const char *out, smol_error *err)
{
    const size_t n = strlen(out) + sizeof ".logits";
    char *path = malloc(n);
    if (!path) return SM_FAIL(err, NOMEM, "no memory for a path");
    (void)snprintf(path, n, "%s.logits", out);
    k->logits = fopen(path, "w+bxe");
    const smol_status st =
        k->logits ? SMOL_OK : SM_FAIL_SYS(err, "cannot keep the logits in %s", path);
    if (k->logits) (void)remove(path);
    free(path);
    return st;
}

smol_status quant_check_run(struct quant_check *c, const char *in, const char *out, int32_t start,
                            const smol_params *params, bool *in_failed, smol_error *err)
{
    smol_context_cost cost;
    struct check k = {.c = c, .params = *params, .random = SEED, .ids = {start}};
    memset(c, 0, sizeof *c);
    *in_failed = true;
    SM_TRY(smol_context_cost_file(in, params, &cost, err));
    c->n = cost.ctx_model && cost.ctx_model <= QUANT_CHECK_TOKENS ? cost.ctx_model - 1
                                                                  : QUANT_CHECK_TOKENS;
    if (!c->n) return SM_FAIL(err, UNSUPPORTED, "the model's context holds one token");
    k.params.ctx = c->n + 1;
    k.params.logit_rows = LOGIT_ROWS;
    SM_TRY(open_logits(&k, out, err));
    smol_status st = with_in(&k, in, err);
    if (st == SMOL_OK) {
        *in_failed = false;
        st = with_out(&k, out, err);
    }
    free(k.row);
    (void)fclose(k.logits);
    return st;
}

const char *quant_check_bad(const struct quant_check *c)
{
    if (c->ends_out && !c->ends_in)
        return "its first choice behind this text is the end of it, which the source's is not";
    if (!(c->ppl_out <= RISE * c->ppl_in)) return "its perplexity rises by more than half";
    return NULL;
}
