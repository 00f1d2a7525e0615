/* SPDX-License-Identifier: MIT */
/* Sampler settings, logits, histories and saved states from bytes: settings are refused or work,
 * a draw is a token of the vocabulary (or -1), and the same twice. */
#include "base/bits.h"
#include "infer/dry_breakers.h"
#include "infer/sampler.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
    const uint8_t *p;
    size_t n;
};

static uint32_t take(struct input *in)
{
    uint8_t b[4] = {0};
    const size_t n = in->n < 4 ? in->n : 4;
    for (size_t i = 0; i < n; i++) b[i] = in->p[i];
    in->p += n;
    in->n -= n;
    return sm_ld32(b);
}

/* Any bits, or mostly a number inside [lo, hi]. */
static float real(struct input *in, float lo, float hi)
{
    const uint32_t u = take(in);
    if ((u & 15u) == 15u) return sm_f32_of_bits(take(in));
    return lo + (hi - lo) * (float)(u >> 8) * 0x1p-24f;
}

static int32_t whole(struct input *in, int32_t lo, int32_t hi)
{
    const uint32_t u = take(in);
    if ((u & 15u) == 15u) return (int32_t)take(in);
    return lo + (int32_t)((u >> 8) % (uint32_t)(hi - lo + 1));
}

static struct sm_sampler_params settings(struct input *in, struct sm_logit_bias *bias)
{
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    p.seed = whole(in, -1, 1000);
    p.temp = real(in, 0.0f, 3.0f);
    p.temp_range = real(in, -1.0f, 2.0f);
    p.temp_exponent = real(in, 0.0f, 3.0f);
    p.top_k = whole(in, -1, 300);
    p.top_p = real(in, 0.0f, 1.0f);
    p.min_p = real(in, 0.0f, 0.5f);
    p.typical = real(in, 0.0f, 1.0f);
    p.top_n_sigma = real(in, -1.0f, 4.0f);
    p.xtc_probability = real(in, 0.0f, 1.0f);
    p.xtc_threshold = real(in, 0.0f, 0.6f);
    p.min_keep = (uint32_t)whole(in, 0, 20);
    p.repeat_last = whole(in, -1, 200);
    p.repeat_penalty = real(in, 0.5f, 2.0f);
    p.frequency_penalty = real(in, -1.0f, 2.0f);
    p.presence_penalty = real(in, -1.0f, 2.0f);
    p.dry_multiplier = real(in, 0.0f, 2.0f);
    p.dry_base = real(in, 0.5f, 3.0f);
    p.dry_allowed = whole(in, 1, 6);
    p.dry_last = whole(in, -1, 200);
    p.mirostat = whole(in, 0, 2);
    p.mirostat_tau = real(in, 0.0f, 10.0f);
    p.mirostat_eta = real(in, 0.0f, 1.0f);
    p.mirostat_m = whole(in, 2, 200);
    p.ignore_eos = take(in) & 1u;
    p.n_bias = take(in) & 3u;
    p.bias = bias;
    for (uint32_t i = 0; i < p.n_bias; i++)
        bias[i] = (struct sm_logit_bias){whole(in, 0, 15), real(in, -10.0f, 10.0f)};
    return p;
}

static void run(struct input in, const struct sm_sampler_params *p,
                const struct sm_sampler_model *m, int32_t *drawn)
{
    struct sm_sampler *s = NULL;
    struct sm_token_logprob top[SM_TOP_MAX];
    smol_error err = {0};
    for (int i = 0; i < 8; i++) drawn[i] = -2;
    if (sm_sampler_new(&s, p, m, &err) != SMOL_OK) {
        if (!err.msg[0]) abort();
        return;
    }
    float *logits = malloc(m->n_vocab * sizeof *logits);
    const size_t n_state = sm_sampler_state_size(s);
    uint8_t *state = malloc(n_state);
    if (!logits || !state) abort();
    for (int i = 0; i < 8; i++) {
        for (uint32_t k = 0; k < m->n_vocab; k++) {
            const uint32_t u = take(&in);
            logits[k] = (u & 255u) == 255u ? sm_f32_of_bits(take(&in))
                                           : (float)(int32_t)(u >> 20) * 0.01f - 20.0f;
        }
        drawn[i] = sm_sampler_sample(s, logits);
        if (drawn[i] < -1 || drawn[i] >= (int32_t)m->n_vocab) abort();
        if (drawn[i] >= 0 && !(logits[drawn[i]] >= -INFINITY)) abort();
        sm_sampler_accept(s, drawn[i]);
        if (sm_sampler_top(s, logits, take(&in) % 80, top) > m->n_vocab) abort();
    }
    sm_sampler_state_save(s, state);
    if (sm_sampler_state_load(s, state, n_state, &err) != SMOL_OK) abort();
    for (size_t i = 0; i < n_state && in.n; i++) state[i] ^= (uint8_t)take(&in);
    const smol_status st = sm_sampler_state_load(s, state, n_state, NULL);
    if (st != SMOL_OK && st != SMOL_FORMAT) abort();
    (void)sm_sampler_sample(s, logits);
    free(state);
    free(logits);
    sm_sampler_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    struct sm_logit_bias bias[4];
    static const int32_t end[2] = {0, 2}, ids[] = {1, 2, 3, 2};
    static const size_t start[] = {0, 1, 4};
    int32_t a[8], b[8];
    struct sm_dry_breakers *breakers = NULL;
    const struct sm_sampler_params p = settings(&in, bias);
    struct sm_sampler_model m = {
        .n_vocab = 16 + take(&in) % 200, .n_ctx = 1 + take(&in) % 100, .end_ids = end, .n_end = 2};
    if ((take(&in) & 1u) && sm_dry_breakers_of_ids(&breakers, ids, start, 2, NULL) == SMOL_OK)
        m.breakers = breakers;
    run(in, &p, &m, a);
    run(in, &p, &m, b);
    for (int i = 0; i < 8; i++)
        if (a[i] != b[i]) abort();
    sm_dry_breakers_free(breakers);
    return 0;
}
