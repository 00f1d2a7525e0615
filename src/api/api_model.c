/* SPDX-License-Identifier: MIT */
#include "api/api.h"

#include "base/log.h"
#include "cpu/cpu.h"
#include "infer/prefix_cache.h"
#include "infer/session_file.h"
#include "infer/shift.h"

#include <stdlib.h>

const char *smol_version(void) { return "0.1.0"; }

void smol_params_default(smol_params *p)
{
    *p = (smol_params){.kv = SMOL_KV_F16, .prefetch = SMOL_PREFETCH_AUTO};
}

smol_status smol_model_open(smol_model **out, const char *path, const smol_params *p,
                            smol_error *err)
{
    *out = NULL;
    smol_model *m = calloc(1, sizeof *m);
    if (!m) return SM_FAIL(err, NOMEM, "no memory for the model");
    const smol_status st = sm_engine_open(&m->engine, path, p, err);
    if (st != SMOL_OK) {
        smol_model_free(m);
        return st;
    }
    m->vocab.tok = m->engine.tok;
    m->vocab.gguf = m->engine.gguf;
    *out = m;
    return SMOL_OK;
}

void smol_model_free(smol_model *m)
{
    if (!m) return;
    sm_engine_close(&m->engine);
    free(m);
}

smol_status smol_plan_file(const char *path, const smol_params *p, smol_plan *out, smol_error *err)
{
    return sm_engine_plan(path, p, out, err);
}

smol_status smol_context_cost_file(const char *path, const smol_params *p, smol_context_cost *out,
                                   smol_error *err)
{
    return sm_engine_context_cost(path, p, out, err);
}

const smol_plan *smol_model_plan(const smol_model *m) { return &m->engine.plan_info; }

size_t smol_model_n_vocab(const smol_model *m) { return m->engine.model->hp.n_vocab; }

const smol_vocab *smol_model_vocab(const smol_model *m) { return m->vocab.tok ? &m->vocab : NULL; }

void smol_model_stats(const smol_model *m, smol_stats *out) { sm_engine_stats(&m->engine, out); }

size_t smol_model_slots(const smol_model *m, unsigned pool, smol_slot *out, size_t cap)
{
    struct sm_slot_view v[64];
    const size_t n = sm_store_slots(m->engine.store, pool, 0, v, 0);
    for (size_t i = 0; i < n && i < cap;) {
        size_t part = cap - i < 64 ? cap - i : 64;
        if (part > n - i) part = n - i;
        (void)sm_store_slots(m->engine.store, pool, (uint32_t)i, v, (uint32_t)part);
        for (size_t k = 0; k < part; k++, i++)
            out[i] = (smol_slot){.loads = v[k].loads, .uses = v[k].uses, .expert = v[k].expert,
                                 .ahead = v[k].ahead,
                                 .state = (uint8_t)(v[k].ready     ? SMOL_SLOT_READY
                                                    : v[k].loading ? SMOL_SLOT_LOADING
                                                                   : SMOL_SLOT_EMPTY)};
    }
    return n;
}

smol_status smol_model_learn(const smol_model *m, const char *path, smol_error *err)
{
    return sm_engine_learn(&m->engine, path, err);
}

void smol_notes_set(smol_note_fn fn, void *arg) { sm_log_set(fn, arg); }

void smol_cpu_text(char *buf, size_t n) { sm_cpu_features(buf, n); }

/* ---- sessions ------------------------------------------------------------------------------- */

smol_status smol_session_new(smol_session **out, smol_model *m, smol_error *err)
{
    *out = NULL;
    smol_session *s = calloc(1, sizeof *s);
    if (!s) return SM_FAIL(err, NOMEM, "no memory for the session");
    const smol_status st = sm_session_open(&s->session, &m->engine, err);
    if (st != SMOL_OK) {
        free(s);
        return st;
    }
    *out = s;
    return SMOL_OK;
}

void smol_session_free(smol_session *s)
{
    if (!s) return;
    sm_session_close(&s->session);
    free(s);
}

smol_status smol_session_sync(smol_session *s, const int32_t *tokens, size_t n, smol_error *err)
{
    return sm_session_sync(&s->session, tokens, n, err);
}

smol_status smol_session_shift(smol_session *s, const int32_t *tokens, size_t n, size_t *n_held,
                               smol_error *err)
{
    return sm_session_shift(&s->session, tokens, n, n_held, err);
}

smol_status smol_session_append(smol_session *s, int32_t token, smol_error *err)
{
    return sm_session_append(&s->session, token, err);
}

size_t smol_session_length(const smol_session *s) { return s->session.n; }

const int32_t *smol_session_tokens(const smol_session *s, size_t *n)
{
    *n = s->session.n;
    return s->session.e->tokens;
}

smol_status smol_session_save(smol_session *s, const char *path, smol_error *err)
{
    return sm_session_save(&s->session, path, err);
}

smol_status smol_session_load(smol_session *s, const char *path, smol_error *err)
{
    return sm_session_load(&s->session, path, err);
}

smol_status smol_cache_restore(smol_session *s, const char *folder, const int32_t *tokens,
                               size_t n_tokens, size_t *n, smol_error *err)
{
    return sm_prefix_restore(&s->session, folder, tokens, n_tokens, n, err);
}

smol_status smol_cache_save(smol_session *s, const char *folder, uint64_t max_bytes,
                            smol_error *err)
{
    return sm_prefix_save(&s->session, folder, max_bytes, err);
}

const float *smol_session_logits(const smol_session *s)
{
    return sm_session_logits(&s->session);
}

smol_status smol_session_score(smol_session *s, const int32_t *tokens, size_t n, smol_score_fn fn,
                               void *arg, smol_error *err)
{
    return sm_session_score(&s->session, tokens, n, fn, arg, err);
}
