/* SPDX-License-Identifier: MIT */
/* A full context that goes on without its oldest part: the keys of the first layer, which see their
 * own token alone, must be those of reading what stays; nothing is read twice; the same bits with
 * any number of threads; models that cannot do it say so; such a state is never saved. */
#include "api/api.h"
#include "model_run.h"
#include "quant/quant.h"
#include "tap.h"
#include "temp.h"

#include <math.h>
#include <stdlib.h>

enum { HEAD = 11, GONE = 29, TAIL = 45, MORE = 5, ALL = HEAD + GONE + TAIL };

static smol_status open_model(smol_model **m, smol_session **s, const char *name, smol_params *p,
                              smol_error *err)
{
    char path[4096], file[128];
    (void)snprintf(file, sizeof file, "tests/data/models/%s.gguf", name);
    p->memory_bytes = (uint64_t)256 << 20;
    p->ctx = 128;
    *s = NULL;
    const smol_status st = smol_model_open(m, source_path(path, sizeof path, file), p, err);
    return st == SMOL_OK ? smol_session_new(s, *m, err) : st;
}

/* What is read first, and what is to stay of it with MORE new tokens. */
static void make_tokens(int32_t *all, int32_t *stays)
{
    for (int i = 0; i < ALL; i++) all[i] = i * 37 % 200 + 3;
    memcpy(stays, all, HEAD * sizeof *all);
    memcpy(stays + HEAD, all + HEAD + GONE, TAIL * sizeof *all);
    for (int i = 0; i < MORE; i++) stays[HEAD + TAIL + i] = i + 20;
}

/* Largest difference of the first n rows, keys or values, of layer 0, relative to the largest. */
static double difference(const struct sm_kv_cache *a, const struct sm_kv_cache *b, uint32_t n,
                         bool keys)
{
    static const uint32_t type[] = {SM_F32, SM_F16, SM_Q8_0};
    const size_t stride = keys ? a->k_stride : a->v_stride;
    const uint32_t width = a->n_kv * (keys ? a->dk : a->dv ? a->dv : a->dk);
    float *x = malloc(width * sizeof *x), *y = malloc(width * sizeof *y);
    double most = 0, off = 0;
    for (uint32_t i = 0; x && y && i < n; i++) {
        sm_decode_row(type[a->type], (keys ? a->k : a->v) + i * stride, x, width);
        sm_decode_row(type[b->type], (keys ? b->k : b->v) + i * stride, y, width);
        for (uint32_t j = 0; j < width; j++) {
            most = fmax(most, fabs((double)x[j]));
            off = tap_worse(off, fabs((double)x[j] - (double)y[j]));
        }
    }
    free(x);
    free(y);
    return most > 0 ? off / most : 1;
}

static uint64_t n_read(const smol_model *m)
{
    smol_stats st;
    smol_model_stats(m, &st);
    return st.tokens_prompt;
}

static bool has_lever(const smol_model *m)
{
    smol_stats st;
    bool found = false;
    smol_model_stats(m, &st);
    for (unsigned i = 0; i < st.n_loss_levers; i++)
        found |= !strcmp(st.loss_levers[i], "ctx-shift");
    return found;
}

static void test_keys(const char *name, smol_kv kv, double tolerance)
{
    smol_model *m[2] = {NULL, NULL};
    smol_session *s[2] = {NULL, NULL};
    int32_t all[ALL], stays[HEAD + TAIL + MORE];
    smol_error err = {0};
    smol_params p;
    size_t held = 0;
    make_tokens(all, stays);
    smol_params_default(&p);
    p.kv = kv;
    p.threads = 2;
    bool good = open_model(&m[0], &s[0], name, &p, &err) == SMOL_OK &&
                smol_session_sync(s[0], stays, HEAD + TAIL, &err) == SMOL_OK;
    p.ctx_shift = true;
    good = good && open_model(&m[1], &s[1], name, &p, &err) == SMOL_OK &&
           smol_session_sync(s[1], all, ALL, &err) == SMOL_OK &&
           smol_session_shift(s[1], stays, HEAD + TAIL + MORE, &held, &err) == SMOL_OK;
    TAP_OK(good && held == HEAD + TAIL, "%s: %zu tokens stay %s", name, held, err.msg);
    if (good) {
        const struct sm_kv_cache *a = &m[0]->engine.state[0].kv, *b = &m[1]->engine.state[0].kv;
        const double keys = difference(a, b, HEAD + TAIL, true);
        TAP_OK(keys < tolerance, "%s, kv %d: keys are off by %.2g", name, (int)kv, keys);
        if (a->dv) TAP_OK(difference(a, b, HEAD + TAIL, false) <= 0, "%s: values are not", name);
        good = smol_session_sync(s[1], stays, HEAD + TAIL + MORE, &err) == SMOL_OK;
        const float *logits = smol_session_logits(s[1]);
        TAP_OK(good && logits && isfinite(logits[0]) && n_read(m[1]) == ALL + MORE &&
                   has_lever(m[1]),
               "%s: only what is new is read %s", name, err.msg);
        TAP_OK(smol_session_save(s[1], temp_path("s.state"), &err) == SMOL_LIMIT, "not saved: %s",
               err.msg);
        err = (smol_error){0};
        TAP_OK(smol_session_sync(s[1], all, ALL, &err) == SMOL_OK &&
                   n_read(m[1]) == 2 * ALL - HEAD + MORE &&
                   smol_session_save(s[1], temp_path("s.state"), &err) == SMOL_OK,
               "what was moved is read again for another text, then saved %s", err.msg);
        (void)!smol_session_sync(s[0], all, ALL, &err);
        TAP_OK(!memcmp(smol_session_logits(s[0]), smol_session_logits(s[1]),
                       smol_model_n_vocab(m[0]) * sizeof(float)),
               "with the bits of a session that never moved");
    }
    for (int i = 0; i < 2; i++) {
        smol_session_free(s[i]);
        smol_model_free(m[i]);
    }
}

/* Logits behind a shift, malloc'ed. */
static float *shifted(unsigned threads, const char *cpu, size_t *n)
{
    smol_model *m = NULL;
    smol_session *s = NULL;
    int32_t all[ALL], stays[HEAD + TAIL + MORE];
    smol_error err = {0};
    smol_params p;
    size_t held = 0;
    float *out = NULL;
    make_tokens(all, stays);
    smol_params_default(&p);
    p.threads = threads;
    p.cpu = cpu;
    p.ctx_shift = true;
    if (open_model(&m, &s, "rand-qwen3moe", &p, &err) == SMOL_OK &&
        smol_session_sync(s, all, ALL, &err) == SMOL_OK &&
        smol_session_shift(s, stays, HEAD + TAIL + MORE, &held, &err) == SMOL_OK &&
        smol_session_sync(s, stays, HEAD + TAIL + MORE, &err) == SMOL_OK) {
        *n = smol_model_n_vocab(m) * sizeof *out;
        out = malloc(*n);
        if (out) memcpy(out, smol_session_logits(s), *n);
    }
    smol_session_free(s);
    smol_model_free(m);
    return out;
}

static void test_bits(void)
{
    size_t n = 0;
    float *a = shifted(1, NULL, &n), *b = shifted(3, NULL, &n), *c = shifted(2, "ref", &n);
    TAP_OK(a && b && c && !memcmp(a, b, n) && !memcmp(a, c, n),
           "the same bits with any threads and kernels");
    free(a);
    free(b);
    free(c);
}

static void test_refusals(void)
{
    static const struct {
        const char *name;
        smol_draft draft;
        smol_status want;
        const char *says;
    } t[] = {{"rand-qwen35", SMOL_DRAFT_OFF, SMOL_UNSUPPORTED, "recurrent layers"},
             {"rand-lfm2moe", SMOL_DRAFT_OFF, SMOL_UNSUPPORTED, "recurrent layers"},
             {"rand-gpt-oss", SMOL_DRAFT_OFF, SMOL_UNSUPPORTED, "sliding windows"},
             {"rand-bailingmoe2", SMOL_DRAFT_MTP, SMOL_ARG, "draft"}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        smol_model *m = NULL;
        smol_session *s = NULL;
        smol_error err = {0};
        smol_params p;
        smol_params_default(&p);
        p.ctx_shift = true;
        p.draft = t[i].draft;
        TAP_OK(open_model(&m, &s, t[i].name, &p, &err) == t[i].want && strstr(err.msg, t[i].says),
               "%s: %s", t[i].name, err.msg);
        smol_session_free(s);
        smol_model_free(m);
    }
    smol_model *m = NULL;
    smol_session *s = NULL;
    smol_error err = {0};
    smol_params p;
    const int32_t one[2] = {5, 6};
    size_t held = 0;
    smol_params_default(&p);
    TAP_OK(open_model(&m, &s, "rand-qwen3", &p, &err) == SMOL_OK &&
               smol_session_shift(s, one, 2, &held, &err) == SMOL_ARG,
           "without the lever: %s", err.msg);
    smol_session_free(s);
    smol_model_free(m);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_keys("rand-qwen3", SMOL_KV_F32, 1e-5);
    test_keys("rand-qwen3-yarn", SMOL_KV_F32, 1e-5);
    test_keys("rand-llama3", SMOL_KV_F32, 1e-5);
    test_keys("rand-bailingmoe2", SMOL_KV_F32, 1e-5);
    test_keys("rand-deepseek2", SMOL_KV_F32, 1e-5);
    test_keys("rand-qwen3moe", SMOL_KV_F16, 2e-3);
    test_keys("rand-bailingmoe2-k256", SMOL_KV_Q8_0, 0.02);
    test_bits();
    test_refusals();
    return tap_done();
}
