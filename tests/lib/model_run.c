/* SPDX-License-Identifier: MIT */
#include "model_run.h"
#include "tap.h"
#include "json_read.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *root(void)
{
    const char *d = getenv("SMOL_SRC");
    return d ? d : ".";
}

const char *source_path(char *buf, size_t n, const char *relative)
{
    (void)snprintf(buf, n, "%s/%s", root(), relative);
    return buf;
}

const char *shared_path(char *buf, size_t n, const char *relative)
{
    const char *d = getenv("SMOL_SHARED");
    if (d) (void)snprintf(buf, n, "%s/%s", d, relative);
    else (void)snprintf(buf, n, "%s/../shared/%s", root(), relative);
    return buf;
}

bool file_exists(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (f) (void)fclose(f);
    return f != NULL;
}

float *read_floats(const char *relative, size_t *n)
{
    char path[512];
    float *v = NULL;
    long size = 0;
    *n = 0;
    FILE *f = fopen(source_path(path, sizeof path, relative), "rb");
    if (!f) return NULL;
    if (!fseek(f, 0, SEEK_END)) size = ftell(f);
    rewind(f);
    if (size > 0) v = malloc((size_t)size);
    if (v) *n = fread(v, sizeof *v, (size_t)size / sizeof *v, f);
    (void)fclose(f);
    return v;
}

double logits_distance(const float *a, const float *b, size_t n)
{
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]);
        worst = tap_worse(worst, d);
    }
    return worst;
}

int32_t logits_best(const float *logits, size_t n)
{
    size_t b = 0;
    for (size_t i = 1; i < n; i++)
        if (logits[i] > logits[b]) b = i;
    return (int32_t)b;
}

struct copy { float *out; size_t n_vocab; };

static smol_status copy_row(void *arg, size_t pos, const float *logits)
{
    struct copy *c = arg;
    memcpy(c->out + pos * c->n_vocab, logits, c->n_vocab * sizeof *logits);
    return SMOL_OK;
}

float *model_logits(const char *path, const smol_params *p, const int32_t *tokens, size_t n,
                    size_t *n_vocab, smol_error *err)
{
    smol_model *m = NULL;
    smol_session *s = NULL;
    struct copy c = {0};
    *err = (smol_error){0};
    if (smol_model_open(&m, path, p, err) == SMOL_OK && smol_session_new(&s, m, err) == SMOL_OK) {
        c.n_vocab = *n_vocab = smol_model_n_vocab(m);
        c.out = malloc(n * c.n_vocab * sizeof *c.out);
        if (c.out && smol_session_score(s, tokens, n, copy_row, &c, err) != SMOL_OK) {
            free(c.out);
            c.out = NULL;
        }
    }
    smol_session_free(s);
    smol_model_free(m);
    return c.out;
}

struct sum { const int32_t *ids; size_t window, n_vocab, n; double nll; };

static smol_status score_row(void *arg, size_t pos, const float *logits)
{
    struct sum *s = arg;
    if (pos >= s->window / 2 && pos + 1 < s->window) {
        s->nll -= smol_logprob(logits, s->n_vocab, s->ids[pos + 1]);
        s->n++;
    }
    return SMOL_OK;
}

static smol_status score_windows(smol_model *m, int32_t *ids, size_t n_ids, size_t window,
                                 struct model_score *out, smol_error *err)
{
    smol_session *session = NULL;
    struct sum s = {.window = window, .n_vocab = smol_model_n_vocab(m)};
    smol_stats st;
    smol_status status = smol_session_new(&session, m, err);
    for (size_t i = 0; status == SMOL_OK && (i + 1) * window <= n_ids; i++) {
        s.ids = ids + i * window;
        status = smol_session_score(session, s.ids, window, score_row, &s, err);
    }
    smol_session_free(session);
    smol_model_stats(m, &st);
    out->perplexity = s.n ? exp(s.nll / (double)s.n) : 0;
    out->miss_rate = st.expert_uses ? (double)st.expert_misses / (double)st.expert_uses : 0;
    out->n_scored = s.n;
    out->n_tokens = n_ids;
    return status;
}

smol_status model_score(const char *path, const smol_params *p, const char *text_path,
                        size_t window, struct model_score *out, smol_error *err)
{
    smol_model *m = NULL;
    int32_t *ids = NULL;
    size_t n = 0, n_ids = 0;
    char *text = json_read_file(text_path, &n);
    *err = (smol_error){0};
    *out = (struct model_score){0};
    if (!text) return SMOL_IO;
    smol_status st = smol_model_open(&m, path, p, err);
    if (st == SMOL_OK)
        st = smol_tokenize(smol_model_vocab(m), text, n, SMOL_ADD_SPECIAL, &ids, &n_ids, err);
    if (st == SMOL_OK) st = score_windows(m, ids, n_ids, window, out, err);
    smol_free(ids);
    smol_model_free(m);
    free(text);
    return st;
}
