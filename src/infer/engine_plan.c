/* SPDX-License-Identifier: MIT */
/* The plan of an opening: what the layers, the session and the store will need goes to
 * store/plan.c, which shares the budget out; then the device is measured and the same plan is made
 * once more, with a prediction. Dense weights that do not fit are streamed. Nothing but threads is
 * made here. */
#include "infer/calibrate.h"
#include "infer/dry_breakers.h"
#include "infer/engine_int.h"
#include "infer/measure.h"
#include "infer/sampler.h"
#include "infer/speculate.h"
#include "store/stream.h"

#include <stdio.h>

/* Program text, libc, heap slack and the main thread's stack: 3.1 MiB measured for the static
 * program on x86-64, rounded up. */
#define PROGRAM_BYTES ((uint64_t)4 << 20)

/* Left to the rest of the system when no budget is given: a sixteenth of what is available, at
 * least 32 MiB and at most 512 MiB. */
uint64_t sm_engine_budget(const smol_params *p)
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

void sm_engine_scratch_layout(struct sm_engine *e, struct sm_graph *g, struct sm_arena *a,
                              uint32_t chunk)
{
    const uint32_t max_tok = chunk > e->logit_rows ? chunk : e->logit_rows;
    g->dims = sm_model_dims(e->model, max_tok, e->logit_rows);
    sm_graph_layout(g, a, e->plan.n_threads);
    sm_next_layout(e, a, max_tok);
}

uint64_t sm_engine_scratch_bytes(void *arg, uint32_t chunk)
{
    struct sm_graph g = {0};
    struct sm_arena a = {0};
    sm_engine_scratch_layout(arg, &g, &a, chunk);
    return a.used;
}

uint64_t sm_engine_hold_bytes(const struct sm_engine *e)
{
    struct sm_arena a = {0};
    if (e->n_draft) sm_model_hold_layout(e->model, &a, NULL, e->n_draft + 1);
    return a.used;
}

void sm_engine_session_layout(struct sm_engine *e, struct sm_arena *a, uint32_t ctx)
{
    struct sm_layer_state unused[SM_MODEL_MAX_BLOCKS];
    /* the recurrent states come first: they are copied as one piece */
    sm_model_state_layout(e->model, a, a->base ? e->state : unused, e->kv_type, ctx);
    e->recur_bytes = sm_model_recur_bytes(e->model);
    e->snapshot = sm_arena_take(a, e->recur_bytes);
    e->tokens = SM_ARENA_NEW(a, int32_t, ctx);
    if (e->n_draft) sm_model_hold_layout(e->model, a, e->state, e->n_draft + 1);
}

uint32_t sm_engine_ctx_most(const struct sm_engine *e, const smol_params *p)
{
    const uint32_t most = e->model->hp.n_ctx_train;
    if (p->ctx) return p->ctx;
    return most && most < SM_PLAN_CTX_DEFAULT ? most : SM_PLAN_CTX_DEFAULT;
}

/* What the sampler for these settings will hold, in the largest context. DRY's list of texts is
 * known once it is made. */
static smol_status size_sampler(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    struct sm_sampler_params sp = sm_sampler_settings(p->sampling);
    const struct sm_sampler_model sm = {.n_vocab = e->model->hp.n_vocab,
                                        .n_ctx = sm_engine_ctx_most(e, p)};
    struct sm_dry_breakers *breakers = NULL;
    if (p->sampling) sp.n_bias = p->sampling->n_bias;
    e->sampler_bytes = sm_sampler_memory_for(&sp, &sm);
    if (!(sp.dry_multiplier > 0) || !e->tok) return SMOL_OK;
    SM_TRY(sm_dry_breakers_default(&breakers, e->tok, err));
    e->sampler_bytes += sm_dry_breakers_memory(breakers);
    sm_dry_breakers_free(breakers);
    return SMOL_OK;
}

/* Speeds of this device, for the prediction; zeros while unknown. */
struct speeds { double step_us, flash_mb_s, read_us_per_mb; };

static smol_status make_plan(struct sm_engine *e, const smol_params *p, struct speeds speeds,
                             smol_error *err)
{
    const struct sm_model *m = e->model;
    const uint32_t n_pools = sm_store_n_pools(e->store);
    struct sm_plan_pool pools[SM_MODEL_MAX_BLOCKS];
    const struct sm_plan_item fixed[] = {
        {"program and libraries", PROGRAM_BYTES + p->caller_bytes},
        {"file header", sm_gguf_memory(e->gguf)},
        {"vocabulary", e->tok ? sm_tok_memory(e->tok) : 0},
        {"keys and values of windows", sm_model_window_bytes(m, e->kv_type, UINT32_MAX)},
        {"recurrent state and a copy", 2 * (uint64_t)sm_model_recur_bytes(m)},
        {"drafts", sm_engine_hold_bytes(e)},
        {"sampler", e->sampler_bytes},
        {"sums for calibration", sm_calibration_bytes(e, p->calibrate)},
        {"layer tables",
         sizeof *m + sm_model_n_blocks(m) * (sizeof *m->layers + sizeof *e->state)}};
    const struct sm_pool_info *pool = n_pools ? sm_store_pool(e->store, 0) : NULL;
    struct sm_plan_input in = {
        .budget_bytes = e->budget_bytes, .pools = pools, .n_pools = n_pools,
        .n_expert_used = m->hp.n_used, .fixed = fixed, .n_fixed = sizeof fixed / sizeof *fixed,
        .stack_bytes = SM_STACK_BYTES, .n_threads = p->threads ? p->threads : sm_cores_fast(),
        .kv_bytes_per_token = sm_model_kv_bytes(m, e->kv_type) + sizeof *e->tokens,
        .kv_fixed_bytes = (uint64_t)sm_model_n_blocks(m) * 2 * SM_ALIGN + SM_ALIGN,
        .scratch_bytes = sm_engine_scratch_bytes, .scratch_arg = e, .ctx_model = m->hp.n_ctx_train,
        .prefetch_bytes = e->prefetch_depth ? sm_model_prefetch_bytes(m) : 0,
        .prefetch_insist = e->prefetch_depth != SM_PREFETCH_AUTO,
        .ctx_user = p->ctx, .chunk_user = e->stream_chunk ? e->stream_chunk : p->chunk,
        .pool_user = p->pool, .readers_user = p->readers,
        .readers_flash = e->flash.n_readers,
        .expert_bytes_per_token =
            pool ? (uint64_t)n_pools * m->hp.n_used * pool->expert_file_bytes : 0,
        .step_us = speeds.step_us, .flash_mb_s = speeds.flash_mb_s,
        .read_us_per_mb = speeds.read_us_per_mb, .n_cores = sm_cores_allowed(),
        .miss_learned = sm_engine_miss_learned, .miss_arg = e};
    if (in.n_threads > 64) in.n_threads = 64;
    e->plan.n_threads = in.n_threads;
    sm_store_sizes(e->store, 1, &in.store);
    (void)sm_plan_pools_of(e->store, pools, SM_MODEL_MAX_BLOCKS);
    return sm_plan_make(&in, &e->plan, err);
}

/* The largest chunk whose scratch takes at most a tenth of the budget: every chunk of a prompt
 * reads all that is streamed. */
static uint32_t chunk_for_streaming(struct sm_engine *e, const smol_params *p)
{
    uint32_t chunk = SM_PLAN_CHUNK_MAX;
    if (p->chunk) return p->chunk;
    while (chunk > SM_PLAN_CHUNK_MIN &&
           sm_engine_scratch_bytes(e, chunk) > e->plan.budget_bytes / 10)
        chunk /= 2;
    return chunk;
}

/* make_plan before anything is measured; *refusal says why it fails. */
static smol_status try_plan(struct sm_engine *e, const smol_params *p, smol_error *refusal)
{
    *refusal = (smol_error){0};
    return make_plan(e, p, (struct speeds){0}, refusal);
}

/* The dense weights do not fit, with the smallest pool: as many as must are streamed. What that
 * needs itself (ring, larger read buffers) is known once they are chosen, so it takes a few
 * rounds. */
static smol_status stream_dense(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const uint64_t all = sm_store_streamable(e->store), needed_resident = e->plan.needed_bytes;
    smol_error refusal = {0};
    uint64_t want = 0, streamed = 0;
    smol_status st = SMOL_NOMEM;
    e->stream_chunk = chunk_for_streaming(e, p);
    while (st == SMOL_NOMEM && want < all) {
        st = try_plan(e, p, &refusal);
        if (st != SMOL_NOMEM) break;
        const struct sm_plan *now = &e->plan;
        const uint64_t over =
            now->needed_bytes > now->budget_bytes ? now->needed_bytes - now->budget_bytes : all;
        want = over < all - streamed ? streamed + over : all;
        SM_TRY(sm_store_stream(e->store, want, &streamed, err));
        if (streamed < want) want = all;
    }
    if (st == SMOL_NOMEM) st = try_plan(e, p, &refusal);
    if (st == SMOL_NOMEM && !p->chunk) { /* all is streamed: now the chunk may shrink */
        e->stream_chunk = 0;
        st = try_plan(e, p, &refusal);
    }
    if (st == SMOL_NOMEM && (e->prefetch_depth == 0 || e->prefetch_depth == SM_PREFETCH_AUTO)) {
        e->prefetch_depth = 0; /* the last to go: routers, and with them looking ahead */
        sm_model_release_routers(e->model, e->store);
        SM_TRY(sm_store_stream(e->store, sm_store_streamable(e->store), &streamed, err));
        st = try_plan(e, p, &refusal);
    }
    if (st == SMOL_NOMEM && e->plan.needed_bytes >= needed_resident) { /* a ring for nothing */
        e->stream_chunk = 0;
        SM_TRY(sm_store_stream(e->store, 0, &streamed, err));
        st = try_plan(e, p, &refusal);
    }
    if (st != SMOL_OK && err && err->code == SMOL_OK) *err = refusal;
    return st;
}

/* Streamed weights of a token, and the share of their reading that computing goes on behind. */
static void fill_streaming(const struct sm_engine *e, struct speeds speeds, smol_plan *o)
{
    const double read_us = speeds.flash_mb_s > 0
                               ? (double)e->plan.stream_bytes / speeds.flash_mb_s : 0;
    o->streamed_bytes = e->plan.stream_bytes;
    o->predicted_overlap = -1;
    if (read_us > 0 && speeds.step_us > 0)
        o->predicted_overlap = speeds.step_us < read_us ? speeds.step_us / read_us : 1;
}

/* Of the experts of one layer, in the file. */
static void fill_expert_bytes(const struct sm_engine *e, smol_plan *o)
{
    for (uint32_t i = 0; i < sm_store_n_pools(e->store); i++) {
        const uint64_t bytes = sm_store_pool(e->store, i)->expert_file_bytes;
        if (!i || bytes < o->expert_bytes) o->expert_bytes = bytes;
        if (bytes > o->expert_bytes_most) o->expert_bytes_most = bytes;
    }
}

/* The plan as the public header shows it. */
static void fill_info(struct sm_engine *e, const smol_params *params, struct speeds speeds)
{
    const struct sm_plan *p = &e->plan;
    const struct sm_hparams *hp = &e->model->hp;
    const uint32_t n_pools = sm_store_n_pools(e->store);
    smol_plan *o = &e->plan_info;
    *o = (smol_plan){.arch = sm_model_arch(e->model), .ctx = p->ctx, .ctx_model = hp->n_ctx_train,
                     .chunk = p->chunk, .threads = p->n_threads, .readers = p->n_readers,
                     .token_bytes_max = e->tok ? sm_tok_token_bytes(e->tok) : 0,
                     .n_layer = hp->n_layer, .n_pool = n_pools, .n_expert = hp->n_expert,
                     .n_used = hp->n_used, .slots = p->n_slots,
                     .experts_resident = p->experts_resident, .budget_bytes = p->budget_bytes,
                     .total_bytes = p->total_bytes, .needed_bytes = e->needed_bytes,
                     .kv_bytes_per_token = sm_model_kv_bytes(e->model, e->kv_type),
                     .draft = e->draft_kind, .draft_most = e->n_draft,
                     .predicted_tok_s = p->tok_s_predicted, .predicted_miss = p->miss_predicted};
    for (uint32_t i = 0; i < p->n_items && i < SMOL_PLAN_ITEMS; i++) {
        o->items[i].what = p->items[i].what;
        o->items[i].bytes = p->items[i].bytes;
        o->n_items = i + 1;
    }
    fill_streaming(e, speeds, o);
    fill_expert_bytes(e, o);
    if (p->chunk)
        o->draft_bytes = sm_engine_draft_bytes(e, params->logit_rows ? params->logit_rows : 1);
    (void)snprintf(o->note, sizeof o->note, "%s", p->note);
}

/* Reads as the pager makes them: one part of an expert after the other, packed on the way. What the
 * device profile says holds for pieces of the size it found; smaller ones are slower. */
static void measure(struct sm_engine *e, const smol_params *p, struct speeds *speeds)
{
    struct sm_measure_reads how = {0}, row = {.piece_bytes = 4096, .ms = 4};
    speeds->step_us = sm_measure_step(&e->kern, e->pool, e->store, e->model->hp.n_used,
                                      e->plan.total_bytes / 8);
    /* a row of the embedding table, half of them kept */
    if (e->model->embd->home == SM_HOME_BY_ROW) {
        sm_measure_flash(e->gguf, 1, &row);
        if (row.mb_s > 0 && speeds->step_us > 0) speeds->step_us += 4096 / row.mb_s / 2;
    }
    if (e->plan.experts_resident && !e->plan.stream_bytes) return;
    if (!e->plan.experts_resident) {
        const struct sm_expert_shape *gate = &sm_store_pool(e->store, 0)->gate;
        how.piece_bytes = (size_t)gate->file_bytes;
        const bool packed = sm_store_next(e->store, NULL)->info->place != NULL;
        if (gate->x8 && !packed) how.kern = &e->kern;
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

/* Where experts are paged the next-token block would take slots, and every guess would read its
 * experts: automatic drafts go without it. */
static smol_status leave_next_out(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    smol_error ignored;
    if (e->draft_kind != SMOL_DRAFT_AUTO || !e->model->have_next) return SMOL_OK;
    if (try_plan(e, p, &ignored) == SMOL_OK && e->plan.experts_resident) return SMOL_OK;
    return sm_engine_declare(e, p, false, err);
}

static void set_drafts(struct sm_engine *e, uint32_t n_draft, uint32_t logit_rows)
{
    e->n_draft = n_draft;
    e->logit_rows = logit_rows;
    e->model->ring_slack = n_draft + 1;
}

/* What drafts need may cost slots. Automatic ones are left out when it is more than one in 33: the
 * experts that are missed more often cost every token, and drafts help few. */
static void leave_drafts_out(struct sm_engine *e, const smol_params *p)
{
    const uint32_t n_draft = e->n_draft, logit_rows = e->logit_rows;
    smol_error ignored;
    if (e->draft_kind != SMOL_DRAFT_AUTO || e->oracle > 0) return;
    if (try_plan(e, p, &ignored) != SMOL_OK || e->plan.experts_resident) return;
    const uint32_t with = e->plan.n_slots;
    set_drafts(e, 0, p->logit_rows ? p->logit_rows : 1);
    if (try_plan(e, p, &ignored) == SMOL_OK && 33 * with < 32 * e->plan.n_slots)
        e->draft_kind = SMOL_DRAFT_OFF;
    else set_drafts(e, n_draft, logit_rows);
}

/* The homes of all weights for the budget. */
static smol_status share_out(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    smol_error refusal;
    const smol_status st = try_plan(e, p, &refusal);
    if (st == SMOL_NOMEM && sm_store_streamable(e->store)) return stream_dense(e, p, err);
    if (st != SMOL_OK && err && err->code == SMOL_OK) *err = refusal;
    return st;
}

/* What the smallest budget for these options is, into e->needed_bytes: that which is named to one
 * byte, with all streamed that can be. Then everything is as before. */
static smol_status find_smallest(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    const uint64_t budget_bytes = e->budget_bytes;
    const uint32_t prefetch_depth = e->prefetch_depth;
    smol_error refusal = {0};
    e->budget_bytes = 1;
    SM_TRY(leave_next_out(e, p, err));
    const smol_status st = share_out(e, p, &refusal);
    e->needed_bytes = e->plan.needed_bytes;
    e->budget_bytes = budget_bytes;
    e->prefetch_depth = prefetch_depth;
    e->stream_chunk = 0;
    if (st != SMOL_NOMEM) {
        if (err && err->code == SMOL_OK) *err = refusal;
        return st;
    }
    return sm_engine_declare(e, p, e->draft_kind >= SMOL_DRAFT_MTP, err);
}

/* Plan, start the threads, measure, and plan again with the speeds: the same homes, now with a
 * prediction. */
smol_status sm_engine_make_plan(struct sm_engine *e, const smol_params *p, smol_error *err)
{
    struct speeds speeds = {0};
    smol_status st;
    SM_TRY(size_sampler(e, p, err));
    SM_TRY(find_smallest(e, p, err));
    SM_TRY(leave_next_out(e, p, err));
    leave_drafts_out(e, p);
    SM_TRY(sm_engine_read_learned(e, p->learned_path, err)); /* a list for these pools */
    st = share_out(e, p, err);
    if (st != SMOL_OK) {
        fill_info(e, p, speeds);
        return st;
    }
    SM_TRY(sm_pool_new(&e->pool, e->plan.n_threads, err));
    measure(e, p, &speeds);
    st = make_plan(e, p, speeds, err);
    fill_info(e, p, speeds);
    return st;
}
