/* SPDX-License-Identifier: MIT */
#include "infer/engine.h"
#include "infer/shift.h"
#include "cpu/cpu.h"
#include "infer/measure.h"
#include "infer/speculate.h"
#include "store/stream.h"

#include <stdio.h>
#include <string.h>

/* Program text, libc, heap slack and the main thread's stack: 3.1 MiB measured for the static
 * program on x86-64 (bench/memory), rounded up. */
#define PROGRAM_BYTES ((uint64_t)4 << 20)

/* Left to the rest of the system when no budget is given: a sixteenth of what is available, at
 * least 32 MiB and at most 512 MiB. */
static uint64_t budget_of(const smol_params *p)
{
    struct sm_memory mem;
    if (p->memory_bytes) return p->memory_bytes;
    sm_memory_probe(&mem);
    uint64_t reserve = mem.available_bytes / 16;
    if (reserve < (uint64_t)32 << 20) reserve = (uint64_t)32 << 20;
    if (reserve > (uint64_t)512 << 20) reserve = (uint64_t)512 << 20;
    /* what this process already holds is inside the budget */
    const uint64_t all = mem.available_bytes + mem.rss_bytes;
    return all > reserve ? all - reserve : 1;
}

/* What must stay free while running: 1/256 of the budget, 2 to 16 MiB. Less than the reserve of the
 * budget, so that ordinary ups and downs of the system are ignored. */
static uint64_t guard_reserve(const struct sm_engine *e)
{
    const uint64_t r = e->plan.total_bytes / 256, least = (uint64_t)2 << 20, most = (uint64_t)16 << 20;
    return r < least ? least : r > most ? most : r;
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

/* ---- header: everything that is known before memory is planned --------------------------------- */

/* Store and model; once more without the next-token block when it does not pay. */
static smol_status declare_model(struct sm_engine *e, const smol_params *p, bool want_next,
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

/* Drafts, and what they need: logits of a whole batch. A lever that looks at the pool would see it as
 * the batch left it, wrong drafts included, not as plain steps do. */
static smol_status read_drafts(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const bool pool_lever = sm_engine_pool_lever(p);
    if (p->draft < SMOL_DRAFT_OFF || p->draft > SMOL_DRAFT_AUTO || !(p->draft_oracle >= 0) ||
        p->draft_oracle > 1)
        return SM_FAIL(err, ARG, "unknown kind of draft %d", (int)p->draft);
    if (pool_lever && (p->draft == SMOL_DRAFT_LOOKUP || p->draft == SMOL_DRAFT_MTP || p->draft_oracle > 0))
        return SM_FAIL(err, ARG, "route-bias, route-swap and route-drop choose by what is in the pool, "
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
    if (p->prefetch > SM_AHEAD_MAX && p->prefetch != SMOL_PREFETCH_AUTO)
        return SM_FAIL(err, ARG, "looking %u layers ahead: 0 to %u is possible", p->prefetch,
                       SM_AHEAD_MAX);
    e->ahead_depth = p->prefetch == SMOL_PREFETCH_AUTO ? SM_AHEAD_AUTO : p->prefetch;
    e->kv_type = kv_type_of(p);
    e->logit_rows = p->logit_rows ? p->logit_rows : 1;
    SM_TRY(read_drafts(e, p, err));
    e->budget_bytes = budget_of(p);
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
    SM_TRY(declare_model(e, p, e->draft_kind >= SMOL_DRAFT_MTP, err));
    e->ctx_shift = p->ctx_shift;
    if (e->ctx_shift) SM_TRY(sm_shift_allowed(e->model, e->kv_type, err));
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

/* ---- the plan ----------------------------------------------------------------------------------- */

/* Lay out what a batch needs; counts while a->base is NULL. */
static void scratch_layout(struct sm_engine *e, struct sm_graph *g, struct sm_arena *a,
                           uint32_t chunk)
{
    const uint32_t max_tok = chunk > e->logit_rows ? chunk : e->logit_rows;
    g->dims = sm_model_dims(e->model, max_tok, e->logit_rows);
    sm_graph_layout(g, a, e->plan.n_threads);
    sm_next_layout(e, a, max_tok);
}

static uint64_t scratch_bytes(void *arg, uint32_t chunk, uint32_t ctx)
{
    struct sm_graph g = {0};
    struct sm_arena a = {0};
    (void)ctx;
    scratch_layout(arg, &g, &a, chunk);
    return a.used;
}

/* Bytes for taking back batches. */
static uint64_t hold_bytes(const struct sm_engine *e)
{
    struct sm_arena a = {0};
    if (e->n_draft) sm_model_hold_layout(e->model, &a, NULL, e->n_draft + 1);
    return a.used;
}

/* Lay out what belongs to the session: caches, and the tokens. Counts while a->base is NULL. */
static void session_layout(struct sm_engine *e, struct sm_arena *a, uint32_t ctx)
{
    struct sm_layer_state unused[1024]; /* n_block <= 1024 */
    /* the recurrent states come first: they are copied as one piece */
    sm_model_state_layout(e->model, a, a->base ? e->state : unused, e->kv_type, ctx);
    e->recur_bytes = sm_model_recur_bytes(e->model);
    e->snapshot = sm_arena_take(a, e->recur_bytes);
    e->tokens = SM_ARENA_NEW(a, int32_t, ctx);
    if (e->n_draft) sm_model_hold_layout(e->model, a, e->state, e->n_draft + 1);
}

/* Speeds of this device, for the prediction; zeros while unknown. */
struct speeds { double step_us, flash_mb_s, read_us_per_mb; };

static smol_status make_plan(struct sm_engine *e, const smol_params *p, struct speeds speeds,
                             smol_error *err)
{
    const struct sm_model *m = e->model;
    const uint32_t n_pools = sm_store_n_pools(e->store);
    struct sm_plan_pool pools[1024];
    const struct sm_plan_item fixed[] = {
        {"program and libraries", PROGRAM_BYTES + p->caller_bytes},
        {"file header", sm_gguf_memory(e->gguf)},
        {"vocabulary", e->tok ? sm_tok_memory(e->tok) : 0},
        {"keys and values of windows", sm_model_window_bytes(m, e->kv_type, UINT32_MAX)},
        {"recurrent state and a copy", 2 * (uint64_t)sm_model_recur_bytes(m)},
        {"drafts", hold_bytes(e)},
        {"layer tables", sizeof *m + sm_model_n_blocks(m) * (sizeof *m->layers + sizeof *e->state)}};
    const struct sm_pool_info *pool = n_pools ? sm_store_pool(e->store, 0) : NULL;
    struct sm_plan_input in = {
        .budget_bytes = e->budget_bytes, .pools = pools, .n_pools = n_pools,
        .n_expert_used = m->hp.n_used, .fixed = fixed, .n_fixed = sizeof fixed / sizeof *fixed,
        .stack_bytes = SM_STACK_BYTES, .n_threads = p->threads ? p->threads : sm_cores_fast(),
        .kv_bytes_per_token = sm_model_kv_bytes(m, e->kv_type) + sizeof *e->tokens,
        .kv_fixed_bytes = (uint64_t)sm_model_n_blocks(m) * 2 * SM_ALIGN + SM_ALIGN,
        .scratch_bytes = scratch_bytes, .scratch_arg = e, .ctx_model = m->hp.n_ctx_train,
        .ahead_bytes = e->ahead_depth ? sm_model_ahead_bytes(m) : 0,
        .ahead_insist = e->ahead_depth != SM_AHEAD_AUTO,
        .ctx_user = p->ctx, .chunk_user = e->stream_chunk ? e->stream_chunk : p->chunk,
        .pool_user = p->pool, .readers_user = p->readers ? p->readers : e->flash.n_readers,
        .expert_bytes_per_token =
            pool ? (uint64_t)n_pools * m->hp.n_used * pool->expert_file_bytes : 0,
        .step_us = speeds.step_us, .flash_mb_s = speeds.flash_mb_s,
        .read_us_per_mb = speeds.read_us_per_mb, .n_cores = sm_cores_allowed(),
        .miss_learned = sm_engine_miss_learned, .miss_arg = e};
    if (in.n_threads > 64) in.n_threads = 64;
    e->plan.n_threads = in.n_threads;
    sm_store_sizes(e->store, 1, &in.store);
    (void)sm_plan_pools_of(e->store, pools, 1024);
    return sm_plan_make(&in, &e->plan, err);
}

/* The largest chunk whose scratch takes at most a tenth of the budget: every chunk of a prompt reads
 * all that is streamed. */
static uint32_t chunk_for_streaming(struct sm_engine *e, const smol_params *p)
{
    uint32_t chunk = SM_PLAN_CHUNK_MAX;
    if (p->chunk) return p->chunk;
    while (chunk > SM_PLAN_CHUNK_MIN && scratch_bytes(e, chunk, 0) > e->plan.budget_bytes / 10) chunk /= 2;
    return chunk;
}

/* The dense weights do not fit, with the smallest pool: as many as must are streamed. What that needs
 * itself (ring, larger read buffers) is known once they are chosen, so it takes a few rounds. */
static smol_status stream_dense(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const struct speeds unknown = {0};
    const uint64_t all = sm_store_streamable(e->store), needed_resident = e->plan.needed_bytes;
    smol_error refusal = {0};
    uint64_t want = 0, streamed = 0;
    smol_status st = SMOL_NOMEM;
    e->stream_chunk = chunk_for_streaming(e, p);
    while (st == SMOL_NOMEM && want < all) {
        refusal = (smol_error){0};
        st = make_plan(e, p, unknown, &refusal);
        if (st != SMOL_NOMEM) break;
        const struct sm_plan *now = &e->plan;
        const uint64_t over =
            now->needed_bytes > now->budget_bytes ? now->needed_bytes - now->budget_bytes : all;
        want = over < all - streamed ? streamed + over : all;
        SM_TRY(sm_store_stream(e->store, want, &streamed, err));
        if (streamed < want) want = all;
    }
    if (st == SMOL_NOMEM) st = make_plan(e, p, unknown, &refusal);
    if (st == SMOL_NOMEM && !p->chunk) { /* all is streamed: now the chunk may shrink */
        e->stream_chunk = 0;
        refusal = (smol_error){0};
        st = make_plan(e, p, unknown, &refusal);
    }
    if (st == SMOL_NOMEM && e->plan.needed_bytes >= needed_resident) { /* a ring for nothing */
        e->stream_chunk = 0;
        refusal = (smol_error){0};
        SM_TRY(sm_store_stream(e->store, 0, &streamed, err));
        st = make_plan(e, p, unknown, &refusal);
    }
    if (st != SMOL_OK && err && err->code == SMOL_OK) *err = refusal;
    return st;
}

/* The plan as the public header shows it. */
static void fill_info(struct sm_engine *e)
{
    const struct sm_plan *p = &e->plan;
    const struct sm_hparams *hp = &e->model->hp;
    const uint32_t n_pools = sm_store_n_pools(e->store);
    smol_plan *o = &e->plan_info;
    *o = (smol_plan){.arch = sm_model_arch(e->model), .ctx = p->ctx, .ctx_model = hp->n_ctx_train,
                     .chunk = p->chunk, .threads = p->n_threads, .readers = p->n_readers,
                     .n_layer = hp->n_layer, .n_pool = n_pools, .n_expert = hp->n_expert,
                     .n_used = hp->n_used, .slots = p->n_slots,
                     .experts_resident = p->experts_resident, .budget_bytes = p->budget_bytes,
                     .total_bytes = p->total_bytes, .needed_bytes = p->needed_bytes,
                     .kv_bytes_per_token = sm_model_kv_bytes(e->model, e->kv_type),
                     .expert_bytes = n_pools ? sm_store_pool(e->store, 0)->expert_file_bytes : 0,
                     .predicted_tok_s = p->tok_s_predicted, .predicted_miss = p->miss_predicted};
    for (uint32_t i = 0; i < p->n_items && i < SMOL_PLAN_ITEMS; i++) {
        o->items[i].what = p->items[i].what;
        o->items[i].bytes = p->items[i].bytes;
        o->n_items = i + 1;
    }
    (void)snprintf(o->note, sizeof o->note, "%s", p->note);
}

/* Reads as the pager makes them: one part of an expert after the other, packed on the way. What the
 * device profile says holds for pieces of the size it found; smaller ones are slower. */
static void measure(struct sm_engine *e, const smol_params *p, struct speeds *speeds)
{
    struct sm_measure_reads how = {0}, row = {.piece_bytes = 4096, .ms = 4};
    speeds->step_us = sm_measure_step(&e->kern, e->pool, e->store, e->model->hp.n_used,
                                      e->plan.total_bytes / 8);
    if (e->model->embd->home == SM_HOME_BY_ROW) { /* a row of the embedding table, half of them kept */
        sm_measure_flash(e->gguf, 1, &row);
        if (row.mb_s > 0 && speeds->step_us > 0) speeds->step_us += 4096 / row.mb_s / 2;
    }
    if (e->plan.experts_resident && !e->plan.stream_bytes) return;
    if (!e->plan.experts_resident) {
        const struct sm_expert_shape *gate = &sm_store_pool(e->store, 0)->gate;
        how.piece_bytes = (size_t)gate->file_bytes;
        if (gate->x8 && !sm_store_next(e->store, NULL)->info->place) how.kern = &e->kern; /* no pack */
        how.type = gate->type;
        how.n_in = gate->n_in;
    }
    sm_measure_flash(e->gguf, e->plan.n_readers, &how);
    speeds->flash_mb_s = how.mb_s;
    speeds->read_us_per_mb = how.cpu_us_per_mb;
    if (e->flash.device && (!how.piece_bytes || how.piece_bytes >= e->flash.piece_bytes))
        speeds->flash_mb_s = e->flash.mb_s;
    if (p->flash_mb_s > 0 && p->flash_mb_s < speeds->flash_mb_s) speeds->flash_mb_s = p->flash_mb_s;
}

/* Plan, start the threads, measure, and plan again with the speeds: the same homes, now with a
 * prediction. */
static smol_status plan_and_measure(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    struct speeds speeds = {0};
    smol_error refusal = {0};
    smol_status st;
    if (e->draft_kind == SMOL_DRAFT_AUTO && e->model->have_next) {
        /* where experts are paged the block would take slots, and every guess would read its experts */
        if (make_plan(e, p, speeds, NULL) != SMOL_OK || !e->plan.experts_resident)
            SM_TRY(declare_model(e, p, false, err));
    }
    SM_TRY(sm_engine_read_learned(e, p->learned_path, err)); /* a list for these pools */
    st = make_plan(e, p, speeds, &refusal);
    if (st == SMOL_NOMEM && sm_store_streamable(e->store)) {
        st = stream_dense(e, p, err);
    } else if (st != SMOL_OK && err && err->code == SMOL_OK) {
        *err = refusal;
    }
    if (st != SMOL_OK) {
        fill_info(e);
        return st;
    }
    SM_TRY(sm_pool_new(&e->pool, e->plan.n_threads, err));
    measure(e, p, &speeds);
    st = make_plan(e, p, speeds, err);
    fill_info(e);
    return st;
}

smol_status sm_engine_plan(const char *path, const smol_params *p, smol_plan *out, smol_error *err)
{
    struct sm_engine e = {0};
    smol_status st;
    *out = (smol_plan){0};
    SM_TRY_OUT(st, read_header(&e, path, p, true, err));
    st = plan_and_measure(&e, p, err);
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
    }
    sm_engine_close(&e);
    return st;
}

/* ---- allocation and reading ---------------------------------------------------------------------- */

static smol_status take_memory(struct sm_engine *e, smol_error *err)
{
    const struct sm_plan *p = &e->plan;
    struct sm_arena a = {0};
    e->scratch_bytes = scratch_bytes(e, p->chunk, p->ctx);
    session_layout(e, &a, p->ctx);
    e->session_bytes = a.used;
    e->state = sm_mem_new(sm_model_n_blocks(e->model) * sizeof *e->state);
    e->scratch = sm_mem_new(e->scratch_bytes);
    e->session = sm_mem_new(e->session_bytes);
    if (!e->state || !e->scratch || !e->session)
        return SM_FAIL(err, NOMEM, "the system refused %zu bytes for the context and scratch",
                       e->scratch_bytes + e->session_bytes);
    a = (struct sm_arena){.base = e->session, .capacity = e->session_bytes};
    session_layout(e, &a, p->ctx);
    a = (struct sm_arena){.base = e->scratch, .capacity = e->scratch_bytes};
    e->graph = (struct sm_graph){.kern = &e->kern, .pool = e->pool, .store = e->store};
    scratch_layout(e, &e->graph, &a, p->chunk);
    return SMOL_OK;
}

static smol_status load_weights(struct sm_engine *e, smol_error *err)
{
    uint32_t slots[1024];
    const struct sm_store_plan sp = {.n_slots = slots, .n_readers = e->plan.n_readers,
                                     .n_row_cells = e->plan.n_row_cells,
                                     .progress = e->progress, .progress_arg = e->progress_arg,
                                     .cancel = e->cancel};
    for (uint32_t i = 0; i < sm_store_n_pools(e->store); i++)
        slots[i] = sm_plan_slots(&e->plan, sm_store_pool(e->store, i)->n_expert);
    SM_TRY(sm_store_load(e->store, &sp, err));
    sm_model_ready(e->model);
    if (!e->plan.ahead) return SMOL_OK;
    e->ahead_mem = sm_mem_new((size_t)e->plan.ahead_bytes);
    if (!e->ahead_mem) return SM_FAIL(err, NOMEM, "no memory for looking ahead");
    sm_model_ahead(e->model, &e->ahead, e->ahead_depth, e->ahead_mem);
    e->graph.ahead = &e->ahead;
    return SMOL_OK;
}

smol_status sm_engine_open(struct sm_engine *e, const char *path, const smol_params *p,
                           smol_error *err)
{
    const uint64_t start = sm_now_ns();
    memset(e, 0, sizeof *e);
    SM_TRY(read_header(e, path, p, false, err));
    SM_TRY(plan_and_measure(e, p, err));
    SM_TRY(take_memory(e, err));
    SM_TRY(load_weights(e, err));
    sm_draft_init(&e->draft, (enum sm_draft_mode)e->draft_kind, e->model->have_next);
    SM_TRY(sm_engine_warm(e, p, err));
    sm_engine_drop_learned(e);
    sm_engine_begin_trace(e, p);
    sm_store_guard(e->store, guard_reserve(e), e->model->hp.n_used + 1);
    e->ns_load = sm_now_ns() - start;
    return SMOL_OK;
}

void sm_engine_close(struct sm_engine *e)
{
    if (e->model) sm_engine_drop_learned(e);
    sm_store_free(e->store);
    sm_pool_free(e->pool);
    if (e->model) sm_mem_free(e->state, sm_model_n_blocks(e->model) * sizeof *e->state);
    sm_mem_free(e->ahead_mem, (size_t)e->plan.ahead_bytes);
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

void sm_engine_stats(const struct sm_engine *e, smol_stats *out)
{
    struct sm_store_stats s;
    struct sm_memory mem;
    sm_store_stats(e->store, &s);
    sm_memory_probe(&mem);
    *out = (smol_stats){
        .tokens_prompt = e->n_prompt, .tokens_generated = e->n_generated,
        .seconds_load = (double)e->ns_load * 1e-9, .seconds_prompt = (double)e->ns_prompt * 1e-9,
        .seconds_decode = (double)e->ns_decode * 1e-9, .peak_rss_bytes = mem.peak_rss_bytes,
        .budget_bytes = e->plan.budget_bytes, .resident_bytes = e->plan.resident_bytes,
        .bytes_read = s.bytes_read, .load_bytes_read = s.load_bytes_read,
        .pool_slots_per_layer = e->plan.n_slots, .expert_uses = s.expert_uses,
        .expert_misses = s.expert_misses, .expert_dropped = e->graph.n_dropped,
        .prefetch_issued = s.prefetch_issued, .prefetch_used = s.prefetch_used,
        .prefetch_wasted_bytes = s.prefetch_wasted_bytes,
        .demand_wait_seconds = (double)s.demand_wait_ns * 1e-9,
        .given_back_bytes = s.given_back_bytes, .direct = s.direct,
        .file_system = sm_file_system_hint(sm_gguf_file_path(e->gguf, 0)),
        .kernel_level = e->kern.level,
        .draft_proposed = e->draft.proposed, .draft_accepted = e->draft.accepted,
        .draft_gain = sm_draft_gain(&e->draft),
        .predicted_tok_s = e->plan.tok_s_predicted};
    if (e->kv_type == SM_KV_Q8_0) out->loss_levers[out->n_loss_levers++] = "kv q8_0";
    if (e->ctx_shift) out->loss_levers[out->n_loss_levers++] = "ctx-shift";
    for (size_t i = 0; i < sizeof e->lever_text / sizeof *e->lever_text; i++)
        if (e->lever_text[i][0]) out->loss_levers[out->n_loss_levers++] = e->lever_text[i];
}
