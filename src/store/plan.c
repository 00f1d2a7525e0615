/* SPDX-License-Identifier: MIT */
#include "store/plan.h"

#include "base/fmath.h"
#include "base/mem.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Additions that stick at the top instead of wrapping: a hostile header cannot make a plan
 * small. */
static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t r;
    return sm_add_ok(a, b, &r) ? r : UINT64_MAX;
}

static uint64_t mul(uint64_t a, uint64_t b)
{
    uint64_t r;
    return sm_mul_ok(a, b, &r) ? r : UINT64_MAX;
}

SM_PRINTF(2, 3) static void note(struct sm_plan *p, const char *fmt, ...)
{
    const size_t used = strlen(p->note);
    va_list ap;
    va_start(ap, fmt);
    if (used && used + 2 < sizeof p->note) {
        (void)snprintf(p->note + used, sizeof p->note - used, "; ");
        (void)vsnprintf(p->note + used + 2, sizeof p->note - used - 2, fmt, ap);
    } else if (!used) {
        (void)vsnprintf(p->note, sizeof p->note, fmt, ap);
    }
    va_end(ap);
}

static uint64_t pool_bytes(const struct sm_plan_input *in, uint32_t n_slots)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < in->n_pools; i++) {
        const struct sm_plan_pool *p = &in->pools[i];
        sum = add(sum, mul(p->slot_bytes, n_slots < p->n_expert ? n_slots : p->n_expert));
    }
    return sum;
}

static uint64_t kv_bytes(const struct sm_plan_input *in, uint32_t ctx)
{
    return add(mul(in->kv_bytes_per_token, ctx), in->kv_fixed_bytes);
}

static uint64_t scratch_bytes(const struct sm_plan_input *in, uint32_t chunk)
{
    return in->scratch_bytes ? in->scratch_bytes(in->scratch_arg, chunk) : 0;
}

static void set_readers(const struct sm_plan_input *in, struct sm_plan *p, unsigned n)
{
    p->n_readers = n < SM_PLAN_READERS_MAX ? n : SM_PLAN_READERS_MAX;
    p->io_bytes = mul(in->store.io_bytes, p->n_readers);
    p->stack_bytes = mul(in->stack_bytes, p->n_threads - 1 + p->n_readers);
}

/* Readers for the flash's bandwidth and one that packs; what their buffers take is bounded, for a
 * slow flash with all its memory is better than a fast one without. */
static unsigned fewest_readers(const struct sm_plan_input *in)
{
    const unsigned flash = in->readers_flash ? in->readers_flash : SM_PLAN_READERS_FLASH;
    const uint64_t each = add(in->store.io_bytes, in->stack_bytes);
    unsigned n = flash + 1;
    while (n > SM_PLAN_READERS_FLASH + 1 && mul(each, n) > in->budget_bytes / SM_PLAN_READER_SHARE)
        n--;
    return n;
}

/* Everything that depends on neither context, chunk nor slots, with the fewest readers. */
static void fill_constant(const struct sm_plan_input *in, struct sm_plan *p)
{
    p->budget_bytes = in->budget_bytes;
    p->n_threads = in->n_threads ? in->n_threads : 1;
    set_readers(in, p, in->readers_user ? in->readers_user : fewest_readers(in));
    for (uint32_t i = 0; i < in->n_pools; i++)
        if (in->pools[i].n_expert > p->n_expert) p->n_expert = in->pools[i].n_expert;
    for (uint32_t i = 0; i < in->n_fixed; i++)
        p->fixed_bytes = add(p->fixed_bytes, in->fixed[i].bytes);
    p->resident_bytes = in->store.resident_bytes;
    p->ring_bytes = in->store.ring_bytes;
    p->stream_bytes = in->store.stream_bytes;
    p->table_bytes = add(in->store.row_bytes, in->store.table_bytes);
}

static uint64_t constant_bytes(const struct sm_plan *p)
{
    const uint64_t io = add(p->io_bytes, p->ring_bytes);
    const uint64_t a = add(add(p->fixed_bytes, p->resident_bytes), add(io, p->stack_bytes));
    return add(a, p->table_bytes);
}

/* Set context, chunk and slots, and say whether the whole fits. */
static bool settle(const struct sm_plan_input *in, struct sm_plan *p, uint32_t ctx, uint32_t chunk,
                   uint32_t n_slots)
{
    p->ctx = ctx;
    p->chunk = chunk;
    p->n_slots = n_slots;
    p->experts_resident = n_slots >= p->n_expert;
    p->kv_bytes = kv_bytes(in, ctx);
    p->scratch_bytes = scratch_bytes(in, chunk);
    p->pool_bytes = pool_bytes(in, n_slots);
    p->prefetch_bytes = p->prefetch && !p->experts_resident ? in->prefetch_bytes : 0;
    p->total_bytes = add(add(constant_bytes(p), p->kv_bytes), add(p->scratch_bytes, p->pool_bytes));
    p->total_bytes = add(p->total_bytes, p->prefetch_bytes);
    return p->total_bytes <= in->budget_bytes && p->total_bytes != UINT64_MAX;
}

/* The most slots whose arenas take at most `room` bytes. */
static uint32_t slots_in(const struct sm_plan_input *in, uint32_t n_expert, uint64_t room)
{
    uint32_t lo = 0, hi = n_expert; /* lo fits, hi + 1 is not asked for */
    while (lo < hi) {
        const uint32_t mid = hi - (hi - lo) / 2;
        if (pool_bytes(in, mid) <= room) lo = mid;
        else hi = mid - 1;
    }
    return lo;
}

/* The same, rule 7 kept. */
static uint32_t slots_beside_spares(const struct sm_plan_input *in, const struct sm_plan *p,
                                    uint64_t room)
{
    const uint32_t n = slots_in(in, p->n_expert, room);
    if (!p->prefetch || in->pool_user || n < SM_PLAN_SPARE_SLOTS) return n;
    return slots_in(in, p->n_expert, room - room / SM_PLAN_SPARE_SHARE);
}

struct wishes {
    uint32_t ctx[2];       /* in order of preference */
    uint32_t n_ctx;
    uint32_t chunk[16];    /* descending */
    uint32_t n_chunk;
    uint32_t floor, pool;  /* pool: fixed number of slots, 0: free */
};

static smol_status read_wishes(const struct sm_plan_input *in, struct sm_plan *p, struct wishes *w,
                               smol_error *err)
{
    const uint32_t model = in->ctx_model ? in->ctx_model : SM_PLAN_CTX_DEFAULT;
    memset(w, 0, sizeof *w);
    if (in->ctx_user > model && in->ctx_model)
        return SM_FAIL(err, ARG, "a context of %u tokens is more than this model's %u",
                       (unsigned)in->ctx_user, (unsigned)model);
    if (in->ctx_user) {
        w->ctx[w->n_ctx++] = in->ctx_user;
    } else {
        w->ctx[w->n_ctx++] = model < SM_PLAN_CTX_DEFAULT ? model : SM_PLAN_CTX_DEFAULT;
        if (w->ctx[0] > SM_PLAN_CTX_LOWERED) w->ctx[w->n_ctx++] = SM_PLAN_CTX_LOWERED;
    }
    const uint32_t ctx_max = w->ctx[0];
    if (in->chunk_user) {
        w->chunk[0] = in->chunk_user;
        if (w->chunk[0] > SM_PLAN_CHUNK_MAX) {
            w->chunk[0] = SM_PLAN_CHUNK_MAX;
            note(p, "chunk lowered to %u, the largest", SM_PLAN_CHUNK_MAX);
        }
        if (w->chunk[0] > ctx_max) w->chunk[0] = ctx_max;
        w->n_chunk = 1;
    } else {
        for (uint32_t c = SM_PLAN_CHUNK_MAX; c >= SM_PLAN_CHUNK_MIN; c /= 2)
            if (c <= ctx_max || c == SM_PLAN_CHUNK_MIN)
                w->chunk[w->n_chunk++] = c < ctx_max ? c : ctx_max;
    }
    w->floor = in->n_expert_used + 1;
    if (w->floor < 2) w->floor = 2;
    if (w->floor > p->n_expert) w->floor = p->n_expert;
    w->pool = in->pool_user;
    if (w->pool && p->n_expert) {
        if (w->pool < w->floor) {
            note(p, "pool raised to %u slots per layer, the fewest that work", (unsigned)w->floor);
            w->pool = w->floor;
        }
        if (w->pool > p->n_expert) {
            note(p, "pool lowered to %u slots per layer, one for every expert",
                 (unsigned)p->n_expert);
            w->pool = p->n_expert;
        }
    }
    if (!p->n_expert) w->pool = 0;
    return SMOL_OK;
}

/* Rule 2: everything in RAM, at the best context, with the largest chunk that still allows it;
 * where there are no experts, whose tokens a large chunk brings together, no larger than products
 * gain by. */
static bool try_resident(const struct sm_plan_input *in, struct sm_plan *p, const struct wishes *w)
{
    if (w->pool && w->pool < p->n_expert) return false;
    for (uint32_t i = 0; i < w->n_ctx; i++) {
        for (uint32_t j = 0; j < w->n_chunk; j++) {
            const bool small = w->chunk[j] < SM_PLAN_CHUNK_RESIDENT_MIN && !in->chunk_user &&
                               w->chunk[j] < w->ctx[i];
            if (small) break;
            if (!p->n_expert && !in->chunk_user && w->chunk[j] > SM_PLAN_CHUNK_DENSE) continue;
            if (settle(in, p, w->ctx[i], w->chunk[j], p->n_expert)) return true;
        }
    }
    return false;
}

/* One reader more where experts are paged and it is cheap beside what the pools will have. */
static void add_reader(const struct sm_plan_input *in, struct sm_plan *p)
{
    const uint64_t spare =
        in->budget_bytes > p->needed_bytes ? in->budget_bytes - p->needed_bytes : 0;
    if (in->readers_user || !p->n_expert) return;
    if (add(in->store.io_bytes, in->stack_bytes) <= spare / SM_PLAN_READER_SHARE)
        set_readers(in, p, p->n_readers + 1);
}

/* The largest chunk with which pools have as many slots as with chunk j: what does not make a slot
 * in every pool may as well be scratch. Not where the rest makes spare slots. */
static uint32_t free_chunk(const struct sm_plan_input *in, const struct sm_plan *p,
                           const struct wishes *w, uint32_t j, uint64_t shared, uint32_t n_slots)
{
    if (n_slots >= SM_PLAN_SPARE_SLOTS) return j;
    while (j > 0) {
        const uint64_t scratch = scratch_bytes(in, w->chunk[j - 1]);
        if (scratch > shared || slots_beside_spares(in, p, shared - scratch) < n_slots) break;
        j--;
    }
    return j;
}

/* Rules 3 to 5: the experts do not all fit. */
static bool try_paged(const struct sm_plan_input *in, struct sm_plan *p, const struct wishes *w)
{
    const uint32_t ctx = w->ctx[w->n_ctx - 1];
    const uint32_t least = w->pool ? w->pool : w->floor;
    const uint64_t taken = add(add(constant_bytes(p), kv_bytes(in, ctx)),
                               p->prefetch ? in->prefetch_bytes : 0);
    if (taken > in->budget_bytes) return false;
    const uint64_t shared = in->budget_bytes - taken; /* pool and scratch share this */
    const uint32_t chunk_min = w->chunk[w->n_chunk - 1];
    const uint64_t scratch_min = scratch_bytes(in, chunk_min);
    for (uint32_t j = 0; j < w->n_chunk; j++) {
        const uint64_t scratch = scratch_bytes(in, w->chunk[j]);
        if (scratch > shared) continue;
        const uint32_t n = slots_beside_spares(in, p, shared - scratch);
        if (n < least) continue;
        const bool modest = scratch < scratch_min ||
                            scratch - scratch_min <= shared / SM_PLAN_SCRATCH_SHARE;
        if (!modest && !w->pool && p->n_expert && j + 1 < w->n_chunk) continue;
        const uint32_t slots = w->pool ? w->pool : n;
        return settle(in, p, ctx, w->chunk[free_chunk(in, p, w, j, shared, slots)], slots);
    }
    return false;
}

/* Misses: from what earlier runs used, where that is known. Else those of pools by decayed use: on
 * the trained tiny-moe they follow (1 - f)^1.8, f being the share of the experts that has a slot,
 * to half a point: f = 1/4, 3/8, 1/2, 3/4 give 59.6, 42.9, 28.7 and 8.2 % where 59.2, 42.8, 28.9
 * and 8.8 % were counted (least recently used: (1 - f)^1.5). */
static double predict_misses(const struct sm_plan_input *in, const struct sm_plan *p)
{
    if (p->experts_resident || !p->n_expert) return 0;
    const double known = in->miss_learned ? in->miss_learned(in->miss_arg, p->n_slots) : -1;
    if (known >= 0) return known < 1 ? known : 1;
    const double left = 1.0 - (double)p->n_slots / (double)p->n_expert;
    return left > 0 ? sm_pow(left, 1.8) : 0;
}

/* Compute is taken as bound by memory. How far reads hide behind it, or it behind them, is that of
 * a discrete-event model of a flagship-like token (19 layers, 8 experts of 1 MB): looking ahead
 * leaves a tenth of the reads, or of compute somewhat less than half; without it a half and nine
 * tenths stay. */
static void predict(const struct sm_plan_input *in, struct sm_plan *p)
{
    p->miss_predicted = predict_misses(in, p);
    const bool reads = !p->experts_resident || p->stream_bytes;
    if (in->step_us <= 0 || (reads && in->flash_mb_s <= 0)) return;
    const double missed =
        p->experts_resident ? 0 : p->miss_predicted * (double)in->expert_bytes_per_token;
    double compute = in->step_us;
    if (in->n_cores && p->n_threads >= in->n_cores) compute += missed * 1e-6 * in->read_us_per_mb;
    if (p->stream_bytes && (double)p->stream_bytes / in->flash_mb_s > compute)
        compute = (double)p->stream_bytes / in->flash_mb_s; /* computing goes on behind the reads */
    const double flash = missed > 0 ? missed / in->flash_mb_s : 0;
    double us = compute;
    if (flash > compute) us = flash + (p->prefetch ? 0.45 : 0.9) * compute;
    else us += (p->prefetch ? 0.1 : 0.5) * flash;
    if (us > 0) p->tok_s_predicted = 1e6 / us;
}

/* Rows of the embedding table that are kept once read: a thousandth of the budget, from what is
 * left (a part of a slot in every pool). */
static void keep_rows(const struct sm_plan_input *in, struct sm_plan *p)
{
    const uint64_t left = in->budget_bytes - p->total_bytes, cell = in->store.row_cell_bytes;
    const uint64_t most = in->budget_bytes / SM_PLAN_ROWS_SHARE;
    if (!cell) return;
    const uint64_t n = (left < most ? left : most) / cell;
    p->n_row_cells = n < SM_PLAN_ROWS_MAX ? (uint32_t)n : SM_PLAN_ROWS_MAX;
    p->rows_bytes = p->n_row_cells * cell;
    p->total_bytes += p->rows_bytes;
}

/* The size of a slot in most pools: spare ones serve those. */
static uint64_t usual_slot(const struct sm_plan_input *in)
{
    uint64_t usual = 0;
    uint32_t most = 0;
    for (uint32_t i = 0; i < in->n_pools; i++) {
        uint32_t n = 0;
        for (uint32_t j = i; j < in->n_pools; j++)
            n += in->pools[j].slot_bytes == in->pools[i].slot_bytes;
        if (n > most) {
            most = n;
            usual = in->pools[i].slot_bytes;
        }
    }
    return usual;
}

/* A part of a slot in every pool is whole slots for those that are read ahead. */
static void keep_spares(const struct sm_plan_input *in, struct sm_plan *p)
{
    const uint64_t left = in->budget_bytes - p->total_bytes, bytes = usual_slot(in);
    uint64_t n = SM_SPARES_MAX;
    if (!p->prefetch || !bytes || in->pool_user) return;
    if (2 * (uint64_t)(p->n_expert - p->n_slots) < n) n = 2 * (p->n_expert - p->n_slots);
    if (left / bytes < n) n = left / bytes;
    p->n_spares = (uint32_t)n;
    p->spare_slot_bytes = bytes;
    p->spare_bytes = n * bytes;
    p->total_bytes += p->spare_bytes;
}

static void put_item(struct sm_plan *p, const char *what, uint64_t bytes)
{
    if (!bytes) return;
    assert(p->n_items < SM_PLAN_ITEMS_MAX);
    p->items[p->n_items++] = (struct sm_plan_item){what, bytes};
}

static void list_items(const struct sm_plan_input *in, struct sm_plan *p)
{
    p->n_items = 0;
    put_item(p, "weights that stay", p->resident_bytes);
    put_item(p, p->experts_resident ? "experts, all" : "expert pool", p->pool_bytes);
    put_item(p, "spare slots, for reading ahead", p->spare_bytes);
    put_item(p, "context (KV cache)", p->kv_bytes);
    put_item(p, "scratch", p->scratch_bytes);
    put_item(p, "ring of streamed weights", p->ring_bytes);
    put_item(p, "read buffers", p->io_bytes);
    put_item(p, "looking ahead", p->prefetch_bytes);
    put_item(p, "rows of the embedding table", p->rows_bytes);
    put_item(p, "tables of the store", p->table_bytes);
    put_item(p, "thread stacks", p->stack_bytes);
    for (uint32_t i = 0; i < in->n_fixed; i++) put_item(p, in->fixed[i].what, in->fixed[i].bytes);
}

static double mib(uint64_t bytes) { return (double)bytes / 1048576.0; }

static smol_status refuse(const struct sm_plan *p, smol_error *err)
{
    char experts[48] = "";
    if (p->n_expert)
        (void)snprintf(experts, sizeof experts, ", %u experts per layer in RAM",
                       (unsigned)p->n_slots);
    return SM_FAIL(err, NOMEM,
                   "this needs at least %.1f MiB of memory (--ctx %u%s) and may use %.1f MiB "
                   "(--memory)",
                   mib(p->needed_bytes) + 0.05, (unsigned)p->ctx, experts, mib(p->budget_bytes));
}

smol_status sm_plan_make(const struct sm_plan_input *in, struct sm_plan *out, smol_error *err)
{
    struct wishes w;
    memset(out, 0, sizeof *out);
    assert(in->n_fixed + 11 <= SM_PLAN_ITEMS_MAX);
    fill_constant(in, out);
    SM_TRY(read_wishes(in, out, &w, err));

    /* The smallest plan for these options, which a refusal names. */
    out->prefetch = in->prefetch_bytes && in->prefetch_insist;
    (void)settle(in, out, w.ctx[w.n_ctx - 1], w.chunk[w.n_chunk - 1], w.pool ? w.pool : w.floor);
    out->needed_bytes = out->total_bytes;

    out->prefetch = in->prefetch_bytes > 0;
    bool fits = try_resident(in, out, &w);
    if (!fits) {
        add_reader(in, out);
        fits = try_paged(in, out, &w);
    }
    if (!fits && out->prefetch && !in->prefetch_insist) {
        out->prefetch = false;
        fits = try_paged(in, out, &w);
    }
    if (!fits) {
        (void)settle(in, out, w.ctx[w.n_ctx - 1], w.chunk[w.n_chunk - 1],
                     w.pool ? w.pool : w.floor);
        list_items(in, out);
        return refuse(out, err);
    }
    assert(out->total_bytes <= in->budget_bytes);
    if (!in->ctx_user && w.n_ctx == 2 && out->ctx == w.ctx[1])
        note(out, "context lowered to %u to leave room for experts", (unsigned)out->ctx);
    if (out->stream_bytes)
        note(out, "%.1f MiB of dense weights do not fit and are read for every token",
             mib(out->stream_bytes));
    if (out->experts_resident) out->prefetch = false;
    keep_rows(in, out);
    keep_spares(in, out);
    list_items(in, out);
    predict(in, out);
    return SMOL_OK;
}

uint32_t sm_plan_pools_of(const struct sm_store *s, struct sm_plan_pool *out, uint32_t cap)
{
    const uint32_t n = sm_store_n_pools(s);
    for (uint32_t i = 0; i < n && i < cap; i++) {
        const struct sm_pool_info *p = sm_store_pool(s, i);
        out[i] = (struct sm_plan_pool){p->slot_bytes, p->n_expert};
    }
    return n;
}
