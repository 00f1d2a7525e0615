/* SPDX-License-Identifier: MIT */
#include "api/api.h"
#include "infer/calibrate.h"
#include "infer/chat.h"
#include "infer/dry_breakers.h"
#include "infer/score.h"
#include "tok/reasoning.h"

#include <stdlib.h>

double smol_logprob(const float *logits, size_t n, int32_t id)
{
    return sm_score_logprob(logits, n, id);
}

smol_status smol_chat_tokenize(const smol_vocab *v, const smol_message *messages, size_t n,
                               int32_t **ids, size_t *n_ids, smol_error *err)
{
    return smol_chat_encode(v, messages, n, NULL, ids, n_ids, NULL, err);
}

smol_status smol_chat_encode(const smol_vocab *v, const smol_message *messages, size_t n,
                             const smol_chat_params *p, int32_t **ids, size_t *n_ids,
                             smol_chat_info *info, smol_error *err)
{
    struct sm_str text = {0};
    bool found = false;
    *ids = NULL;
    *n_ids = 0;
    if (!v) return SM_FAIL(err, ARG, "the model has no vocabulary");
    SM_TRY(sm_gguf_str(v->gguf, "tokenizer.chat_template", &text, &found, err));
    if (!found) return SM_FAIL(err, UNSUPPORTED, "the model has no chat template");
    return sm_chat_encode(v->tok, text, messages, n, p, ids, n_ids, info, err);
}

void smol_reasoning_begin(smol_reasoning *r, bool inside) { sm_reasoning_begin(r, inside); }

bool smol_reasoning_put(smol_reasoning *r, const char *bytes, size_t n, smol_part_fn fn, void *arg)
{
    return sm_reasoning_put(r, bytes, n, fn, arg);
}

bool smol_reasoning_end(smol_reasoning *r, smol_part_fn fn, void *arg)
{
    return sm_reasoning_end(r, fn, arg);
}

/* ---- samplers ------------------------------------------------------------------------------- */

void smol_sampling_default(smol_sampling *p)
{
    struct sm_sampler_params d;
    sm_sampler_defaults(&d);
    *p = (smol_sampling){.temp = d.temp, .top_p = d.top_p, .min_p = d.min_p, .typical = d.typical,
                         .top_k = d.top_k, .seed = d.seed, .repeat_penalty = d.repeat_penalty,
                         .frequency_penalty = d.frequency_penalty,
                         .presence_penalty = d.presence_penalty, .repeat_last = d.repeat_last,
                         .dry_multiplier = d.dry_multiplier, .dry_base = d.dry_base,
                         .dry_allowed = d.dry_allowed, .dry_last = d.dry_last,
                         .temp_range = d.temp_range, .temp_exponent = d.temp_exponent,
                         .top_n_sigma = d.top_n_sigma,
                         .xtc_probability = d.xtc_probability, .xtc_threshold = d.xtc_threshold,
                         .mirostat = d.mirostat, .mirostat_tau = d.mirostat_tau,
                         .mirostat_eta = d.mirostat_eta};
}

smol_status smol_sampler_new(smol_sampler **out, const smol_model *m, const smol_sampling *p,
                             smol_error *err)
{
    struct sm_sampler_params sp = sm_sampler_settings(p);
    struct sm_logit_bias *bias = NULL;
    const uint64_t now = sm_now_ns();
    struct sm_sampler_model sm = {.n_vocab = m->engine.model->hp.n_vocab,
                                  .n_ctx = m->engine.plan.ctx,
                                  .entropy = (uint32_t)(now ^ now >> 32)};
    *out = NULL;
    smol_sampler *s = calloc(1, sizeof *s);
    if (p->n_bias) bias = calloc(p->n_bias, sizeof *bias);
    if (!s || (p->n_bias && !bias)) {
        free(s);
        free(bias);
        return SM_FAIL(err, NOMEM, "no memory for the sampler");
    }
    for (uint32_t i = 0; i < p->n_bias; i++)
        bias[i] = (struct sm_logit_bias){p->bias[i].id, p->bias[i].bias};
    sp.bias = bias;
    sp.n_bias = p->n_bias;
    smol_status st = SMOL_OK;
    if (p->dry_multiplier > 0 && m->engine.tok)
        st = sm_dry_breakers_default(&s->breakers, m->engine.tok, err);
    sm.breakers = s->breakers;
    if (st == SMOL_OK) st = sm_sampler_new(&s->sampler, &sp, &sm, err);
    free(bias); /* the sampler has its own copy */
    if (st != SMOL_OK) {
        smol_sampler_free(s);
        return st;
    }
    *out = s;
    return SMOL_OK;
}

void smol_sampler_free(smol_sampler *s)
{
    if (!s) return;
    sm_sampler_free(s->sampler);
    sm_dry_breakers_free(s->breakers);
    free(s);
}

uint32_t smol_sampler_seed(const smol_sampler *s) { return sm_sampler_seed(s->sampler); }

size_t smol_sampler_top(smol_sampler *s, const float *logits, unsigned k, smol_token_logprob *out)
{
    struct sm_token_logprob top[SM_TOP_MAX];
    _Static_assert(SM_TOP_MAX == SMOL_TOP_MAX, "the same limit inside and outside");
    const size_t n = sm_sampler_top(s->sampler, logits, k, top);
    for (size_t i = 0; i < n; i++) out[i] = (smol_token_logprob){top[i].id, top[i].logprob};
    return n;
}

void smol_sampler_accept(smol_sampler *s, int32_t id) { sm_sampler_accept(s->sampler, id); }

smol_status smol_generate(smol_session *s, smol_sampler *sampler, const smol_generation *g,
                          smol_outcome *out, smol_error *err)
{
    return sm_generate(&s->session, sampler->sampler, g, out, err);
}

/* ---- calibration ---------------------------------------------------------------------------- */

smol_status smol_calibrate(smol_session *s, const int32_t *tokens, size_t n, smol_error *err)
{
    return sm_calibration_read(&s->session, tokens, n, err);
}

void smol_calibration_info(const smol_model *m, smol_calibration *out)
{
    sm_calibration_info(&m->engine, out);
}

smol_status smol_calibration_write(const smol_model *m, const char *path, const char *text,
                                   unsigned chunk, smol_error *err)
{
    return sm_calibration_write(&m->engine, path, text, chunk, err);
}
