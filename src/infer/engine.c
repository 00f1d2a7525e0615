/* SPDX-License-Identifier: MIT */
/* Opening a model: header, plan (engine_plan.c), memory, weights; and steps on the open one. */
#include "cpu/cpu.h"
#include "infer/calibrate.h"
#include "infer/engine_int.h"
#include "infer/speculate.h"

#include <string.h>

/* What the system can spare beside the plan, also of what is not touched yet; *says: it tells. */
static int64_t spare_bytes(const struct sm_engine *e, bool *says)
{
    struct sm_memory m;
    sm_memory_probe(&m);
    *says = m.total_bytes > 0;
    const uint64_t rest = e->plan.total_bytes > m.rss_bytes ? e->plan.total_bytes - m.rss_bytes : 0;
    return m.margin_bytes - (int64_t)(rest < INT64_MAX / 2 ? rest : INT64_MAX / 2);
}

/* A plan for more than there is would be ended by the system, without a word. */
static smol_status check_room(const struct sm_engine *e, smol_error *err)
{
    bool says;
    const int64_t spare = spare_bytes(e, &says);
    const double mib = 1048576.0, total = (double)e->plan.total_bytes / mib;
    if (spare >= 0 || !says) return SMOL_OK;
    return SM_FAIL(err, NOMEM,
                   "this would take %.1f MiB of memory, and the system has %.1f MiB less "
                   "than that left: ask for less",
                   total, -(double)spare / mib);
}

/* What must stay free while running: half of what is left beside the plan, 1 to 32 MiB. Less than
 * the reserve of the budget, so that ordinary ups and downs of the system are ignored. */
static uint64_t guard_reserve(const struct sm_engine *e)
{
    bool says;
    const int64_t spare = spare_bytes(e, &says), least = 1 << 20, most = 32 << 20;
    return (uint64_t)(spare / 2 < least ? least : spare / 2 > most ? most : spare / 2);
}

static enum sm_kv_type kv_type_of(const smol_params *p)
{
    switch (p->kv) {
    case SMOL_KV_F32: return SM_KV_F32;
    case SMOL_KV_Q8_0: return SM_KV_Q8_0;
    case SMOL_KV_F16: break;
    }
    return SM_KV_F16;
}

/* ---- header: everything that is known before memory is planned ------------------------------- */

smol_status sm_engine_declare(struct sm_engine *e, const smol_params *p, bool want_next,
                              smol_error *err)
{
    struct sm_store_options so = {.kern = &e->kern, .verify = p->verify,
                                  .policy = p->policy ? p->policy : "lfu",
                                  .flash_mb_s = p->flash_mb_s, .flash_latency_us = p->flash_us};
    if (sm_profile_find(p->device_profile, sm_gguf_file_path(e->gguf, 0), &e->flash))
        so.piece_bytes = e->flash.piece_bytes;
    sm_model_free(e->model);
    e->model = NULL;
    sm_store_free(e->store);
    e->store = NULL;
    SM_TRY(sm_store_new(&e->store, e->gguf, &so, err));
    SM_TRY(sm_model_new(&e->model, e->gguf, e->store, want_next, err));
    e->model->ring_slack = e->n_draft + 1; /* a step that fails takes back its token */
    return sm_engine_set_levers(e, p, err);
}

/* Drafts, and what they need: logits of a whole batch. A lever that looks at the pool would see it
 * as the batch left it, wrong drafts included, not as plain steps do. */
static smol_status read_drafts(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const bool pool_lever = sm_engine_pool_lever(p);
    if (p->draft < SMOL_DRAFT_OFF || p->draft > SMOL_DRAFT_AUTO || !(p->draft_oracle >= 0) ||
        p->draft_oracle > 1)
        return SM_FAIL(err, ARG, "unknown kind of draft %d", (int)p->draft);
    if (pool_lever &&
        (p->draft == SMOL_DRAFT_LOOKUP || p->draft == SMOL_DRAFT_MTP || p->draft_oracle > 0))
        return SM_FAIL(err, ARG,
                       "route-bias, route-swap and route-drop choose by what is in the pool, "
                       "which drafts would change: use one or the other");
    e->draft_kind = pool_lever ? SMOL_DRAFT_OFF : p->draft;
    e->oracle = p->draft_oracle;
    if (e->draft_kind == SMOL_DRAFT_OFF && !(e->oracle > 0)) return SMOL_OK;
    e->n_draft = SM_DRAFT_MAX;
    if (e->logit_rows < SM_DRAFT_MAX + 1) e->logit_rows = SM_DRAFT_MAX + 1;
    return SMOL_OK;
}

static smol_status read_header(struct sm_engine *e, const char *path, const smol_params *p,
                               bool plan_only, smol_error *err)
{
    uint32_t levels = 0;
    if (p->kv < SMOL_KV_F32 || p->kv > SMOL_KV_Q8_0)
        return SM_FAIL(err, ARG, "unknown KV format %d", (int)p->kv);
    if (p->prefetch > SM_PREFETCH_MAX && p->prefetch != SMOL_PREFETCH_AUTO)
        return SM_FAIL(err, ARG, "looking %u layers ahead: 0 to %u is possible", p->prefetch,
                       SM_PREFETCH_MAX);
    e->prefetch_depth = p->prefetch == SMOL_PREFETCH_AUTO ? SM_PREFETCH_AUTO : p->prefetch;
    e->kv_type = kv_type_of(p);
    e->logit_rows = p->logit_rows ? p->logit_rows : 1;
    SM_TRY(read_drafts(e, p, err));
    e->budget_bytes = sm_engine_budget(p);
    e->cancel = p->cancel;
    e->progress = p->progress;
    e->progress_arg = p->progress_arg;
    SM_TRY(sm_cpu_pick(p->cpu, &levels, err));
    sm_kern_init(&e->kern, levels);
    sm_cpu_float_mode();
    if (plan_only) SM_TRY(sm_gguf_open_header(&e->gguf, path, err));
    else SM_TRY(sm_gguf_open(&e->gguf, path, err));
    if (sm_gguf_find(e->gguf, "tokenizer.ggml.model"))
        SM_TRY(sm_tok_new(&e->tok, e->gguf, err));
    sm_gguf_drop_arrays(e->gguf);
    SM_TRY(sm_engine_declare(e, p, e->draft_kind >= SMOL_DRAFT_MTP, err));
    e->ctx_shift = p->ctx_shift;
    if (e->ctx_shift) SM_TRY(sm_model_can_shift(e->model, e->kv_type, err));
    if (e->ctx_shift && e->model->have_next) /* its rows of hidden states cannot be moved */
        return SM_FAIL(err, ARG, "ctx-shift goes with --draft off or lookup only");
    if (e->draft_kind == SMOL_DRAFT_MTP && !e->model->have_next)
        return SM_FAIL(err, UNSUPPORTED, "this model has no next-token block to draft with");
    if (e->tok && sm_tok_n_vocab(e->tok) > e->model->hp.n_vocab)
        return SM_FAIL(err, FORMAT, "the vocabulary has %u tokens, the embedding only %u rows",
                       sm_tok_n_vocab(e->tok), e->model->hp.n_vocab);
    if (!sm_model_kv_fits(e->model, e->kv_type))
        return SM_FAIL(err, ARG, "this model's heads cannot be held in q8_0: their width is not a "
                                 "multiple of 32");
    return SMOL_OK;
}

smol_status sm_engine_plan(const char *path, const smol_params *p, smol_plan *out, smol_error *err)
{
    struct sm_engine e = {0};
    smol_status st;
    *out = (smol_plan){0};
    SM_TRY_OUT(st, read_header(&e, path, p, true, err));
    st = sm_engine_make_plan(&e, p, err);
    *out = e.plan_info;
out:
    sm_engine_close(&e);
    return st;
}

smol_status sm_engine_context_cost(const char *path, const smol_params *p, smol_context_cost *out,
                                   smol_error *err)
{
    struct sm_engine e = {0};
    *out = (smol_context_cost){0};
    const smol_status st = read_header(&e, path, p, true, err);
    if (st == SMOL_OK) {
        out->kv_bytes_per_token = sm_model_kv_bytes(e.model, e.kv_type);
        out->window_bytes = sm_model_window_bytes(e.model, e.kv_type, e.model->hp.n_ctx_train);
        out->state_bytes = sm_model_recur_bytes(e.model);
        out->ctx = sm_engine_ctx_most(&e, p);
        out->ctx_model = e.model->hp.n_ctx_train;
        out->token_bytes_max = e.tok ? sm_tok_token_bytes(e.tok) : 0;
    }
    sm_engine_close(&e);
    return st;
}

/* ---- allocation and reading ------------------------------------------------------------------ */

static smol_status take_session(struct sm_engine *e, smol_error *err)
{
    struct sm_arena a = {0};
    sm_engine_session_layout(e, &a, e->plan.ctx);
    e->session_bytes = a.used;
    e->state = sm_mem_new(sm_model_n_blocks(e->model) * sizeof *e->state);
    e->session = sm_mem_new(e->session_bytes);
    if (!e->state || !e->session)
        return SM_FAIL(err, NOMEM, "the system refused %zu bytes for the context",
                       e->session_bytes);
    a = (struct sm_arena){.base = e->session, .capacity = e->session_bytes};
    sm_engine_session_layout(e, &a, e->plan.ctx);
    return SMOL_OK;
}

/* Behind the weights: the read buffers of what is all in RAM are given back by then. */
static smol_status take_scratch(struct sm_engine *e, smol_error *err)
{
    const struct sm_plan *p = &e->plan;
    e->scratch = sm_mem_new(e->scratch_bytes);
    if (!e->scratch)
        return SM_FAIL(err, NOMEM, "the system refused %zu bytes for scratch", e->scratch_bytes);
    struct sm_arena a = {.base = e->scratch, .capacity = e->scratch_bytes};
    e->graph = (struct sm_graph){.kern = &e->kern, .pool = e->pool, .store = e->store};
    sm_engine_scratch_layout(e, &e->graph, &a, p->chunk);
    return SMOL_OK;
}

static smol_status load_weights(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    uint32_t slots[SM_MODEL_MAX_BLOCKS];
    const struct sm_store_plan sp = {.n_slots = slots, .n_readers = e->plan.n_readers,
                                     .n_row_cells = e->plan.n_row_cells,
                                     .n_spares = e->plan.n_spares,
                                     .spare_bytes = (size_t)e->plan.spare_slot_bytes,
                                     .later_bytes = e->scratch_bytes + e->plan.prefetch_bytes +
                                                    sm_calibration_bytes(e, p->calibrate),
                                     .progress = e->progress, .progress_arg = e->progress_arg,
                                     .cancel = e->cancel};
    for (uint32_t i = 0; i < sm_store_n_pools(e->store); i++)
        slots[i] = sm_plan_slots(&e->plan, sm_store_pool(e->store, i)->n_expert);
    SM_TRY(sm_store_load(e->store, &sp, err));
    sm_model_ready(e->model);
    SM_TRY(take_scratch(e, err));
    if (!e->plan.prefetch) return SMOL_OK;
    e->prefetch_mem = sm_mem_new((size_t)e->plan.prefetch_bytes);
    if (!e->prefetch_mem) return SM_FAIL(err, NOMEM, "no memory for looking ahead");
    sm_model_prefetch(e->model, &e->prefetch, e->prefetch_depth, e->prefetch_mem);
    e->graph.prefetch = &e->prefetch;
    return SMOL_OK;
}

smol_status sm_engine_open(struct sm_engine *e, const char *path, const smol_params *p,
                           smol_error *err)
{
    const uint64_t start = sm_now_ns();
    memset(e, 0, sizeof *e);
    SM_TRY(read_header(e, path, p, false, err));
    SM_TRY(sm_engine_make_plan(e, p, err));
    SM_TRY(check_room(e, err));
    SM_TRY(take_session(e, err));
    e->scratch_bytes = sm_engine_scratch_bytes(e, e->plan.chunk);
    sm_store_guard(e->store, guard_reserve(e), e->model->hp.n_used + 1);
    SM_TRY(load_weights(e, p, err));
    if (p->calibrate) SM_TRY(sm_calibration_begin(e, err));
    sm_draft_init(&e->draft, (enum sm_draft_mode)e->draft_kind, e->model->have_next);
    SM_TRY(sm_engine_warm(e, p, err));
    sm_engine_drop_learned(e);
    sm_engine_begin_trace(e, p);
    e->ns_load = sm_now_ns() - start;
    return SMOL_OK;
}

void sm_engine_close(struct sm_engine *e)
{
    if (e->model) sm_engine_drop_learned(e);
    sm_calibration_end(e);
    sm_store_free(e->store);
    sm_pool_free(e->pool);
    if (e->model) sm_mem_free(e->state, sm_model_n_blocks(e->model) * sizeof *e->state);
    sm_mem_free(e->prefetch_mem, (size_t)e->plan.prefetch_bytes);
    sm_mem_free(e->scratch, e->scratch_bytes);
    sm_mem_free(e->session, e->session_bytes);
    sm_model_free(e->model);
    sm_tok_free(e->tok);
    sm_gguf_free(e->gguf);
    memset(e, 0, sizeof *e);
}

smol_status sm_engine_run(struct sm_engine *e, const int32_t *tokens, uint32_t n_tok, uint32_t pos0,
                          bool want_logits, smol_error *err)
{
    /* a token that is given up half-way would leave a recurrent state that fits no position */
    const volatile bool *cancel = n_tok == 1 && e->recur_bytes ? NULL : e->cancel;
    SM_TRY(sm_model_forward(e->model, &e->graph, e->state, tokens, n_tok, pos0, cancel, err));
    sm_next_note(e, pos0, n_tok);
    if (want_logits) SM_TRY(sm_model_logits(e->model, &e->graph, n_tok - 1, 1, err));
    return SMOL_OK;
}

smol_status sm_engine_try(struct sm_engine *e, const int32_t *tokens, uint32_t n_tok, uint32_t pos0,
                          smol_error *err)
{
    e->graph.hold = e->recur_bytes > 0;
    const smol_status st =
        sm_model_forward(e->model, &e->graph, e->state, tokens, n_tok, pos0, e->cancel, err);
    e->graph.hold = false;
    SM_TRY(st);
    sm_next_note(e, pos0, n_tok);
    return sm_model_logits(e->model, &e->graph, 0, n_tok, err);
}

void sm_engine_keep(struct sm_engine *e, uint32_t n)
{
    if (e->recur_bytes) sm_model_keep(e->model, &e->graph, e->state, n);
}

/* to += a - b, of what grows while tokens are computed. */
static void add_difference(struct sm_store_stats *to, const struct sm_store_stats *a,
                           const struct sm_store_stats *b)
{
    to->expert_uses += a->expert_uses - b->expert_uses;
    to->expert_misses += a->expert_misses - b->expert_misses;
    to->misses_ready += a->misses_ready - b->misses_ready;
    to->misses_late += a->misses_late - b->misses_late;
    to->bytes_read += a->bytes_read - b->bytes_read;
    to->expert_bytes += a->expert_bytes - b->expert_bytes;
    to->stream_bytes += a->stream_bytes - b->stream_bytes;
    to->demand_wait_ns += a->demand_wait_ns - b->demand_wait_ns;
    to->stream_wait_ns += a->stream_wait_ns - b->stream_wait_ns;
    to->n_expert_reads += a->n_expert_reads - b->n_expert_reads;
    to->prefetch_issued += a->prefetch_issued - b->prefetch_issued;
    to->prefetch_used += a->prefetch_used - b->prefetch_used;
    to->prefetch_wasted_bytes += a->prefetch_wasted_bytes - b->prefetch_wasted_bytes;
    to->flash_busy_ns += a->flash_busy_ns - b->flash_busy_ns;
    to->stream_busy_ns += a->stream_busy_ns - b->stream_busy_ns;
}

void sm_engine_leave_out(struct sm_engine *e, const struct sm_store_stats *before)
{
    struct sm_store_stats now;
    sm_store_stats(e->store, &now);
    add_difference(&e->silent, &now, before);
}

static double overlap_of(const struct sm_store_stats *s)
{
    if (!s->stream_bytes || !s->stream_busy_ns) return -1;
    const double waited = (double)s->stream_wait_ns / (double)s->stream_busy_ns;
    return waited < 1 ? 1 - waited : 0; /* waiting begins before the read and ends after it */
}

void sm_engine_stats(const struct sm_engine *e, smol_stats *out)
{
    static const struct sm_store_stats none;
    struct sm_store_stats s;
    struct sm_memory mem;
    sm_store_stats(e->store, &s);
    add_difference(&s, &none, &e->silent);
    sm_memory_probe(&mem);
    *out = (smol_stats){
        .tokens_prompt = e->n_prompt, .tokens_generated = e->n_generated,
        .seconds_load = (double)e->ns_load * 1e-9, .seconds_prompt = (double)e->ns_prompt * 1e-9,
        .seconds_decode = (double)e->ns_decode * 1e-9, .peak_rss_bytes = mem.peak_rss_bytes,
        .budget_bytes = e->plan.budget_bytes, .resident_bytes = e->plan.resident_bytes,
        .bytes_read = s.bytes_read, .expert_bytes_read = s.expert_bytes,
        .streamed_bytes = s.stream_bytes, .stream_overlap = overlap_of(&s),
        .stream_wait_seconds = (double)s.stream_wait_ns * 1e-9,
        .streamed_bytes_per_token =
            e->n_generated ? (double)e->decode_streamed_bytes / (double)e->n_generated : 0,
        .load_bytes_read = s.load_bytes_read,
        .pool_slots_per_layer = e->plan.n_slots, .expert_uses = s.expert_uses,
        .expert_misses = s.expert_misses, .expert_misses_ready = s.misses_ready,
        .expert_misses_late = s.misses_late,
        .flash_busy_seconds = (double)s.flash_busy_ns * 1e-9, .expert_dropped = e->graph.n_dropped,
        .prefetch_issued = s.prefetch_issued, .prefetch_used = s.prefetch_used,
        .prefetch_wasted_bytes = s.prefetch_wasted_bytes,
        .demand_wait_seconds = (double)s.demand_wait_ns * 1e-9,
        .given_back_bytes = s.given_back_bytes, .direct = s.direct,
        .file_system = sm_file_system_hint(sm_gguf_file_path(e->gguf, 0)),
        .kernel_level = e->kern.level,
        .draft_proposed = e->draft.proposed, .draft_accepted = e->draft.accepted,
        .draft_gain = sm_draft_gain(&e->draft),
        .predicted_tok_s = e->plan.tok_s_predicted};
    sm_engine_list_levers(e, out);
}
