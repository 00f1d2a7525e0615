/* SPDX-License-Identifier: MIT */
/* Declaring tensors, what they will need, and the end of it all. */
#include "store/store_int.h"

#include <assert.h>
#include <string.h>

#define FILE_BYTES 512u   /* generous bounds of what an open file (its path aside) */
#define THREAD_BYTES 128u /* and a thread object hold, */
#define WATCH_BYTES 512u  /* and the guard's view of the system's memory */

/* ---- the source of a pack -------------------------------------------------------------------- */

static void close_sources(struct sm_store *s)
{
    for (size_t i = 0; s->source && i < s->n_sources; i++) sm_file_close(s->source[i]);
    sm_mem_free(s->source, s->n_sources * sizeof *s->source);
    s->source = NULL;
}

/* A file beside the pack with the name and the size of its source i; NULL: none, or another. */
static struct sm_file *open_source(const struct sm_store *s, const struct sm_pack *pack, size_t i)
{
    const char *path = sm_file_path(s->file[0]), *slash = strrchr(path, '/');
    const size_t folder = slash ? (size_t)(slash - path) + 1 : 0;
    const size_t n = strlen(pack->source[i].name) + 1;
    struct sm_file *f = NULL;
    char *name = sm_mem_new(folder + n);
    uint8_t magic[4];
    if (!name) return NULL;
    memcpy(name, path, folder);
    memcpy(name + folder, pack->source[i].name, n);
    if (sm_file_open(&f, name, !s->opt.no_direct, NULL) == SMOL_OK &&
        (sm_file_size(f) != pack->source[i].bytes || sm_file_size(f) < 4 ||
         sm_file_read(f, 0, magic, 4, NULL) != SMOL_OK || memcmp(magic, "GGUF", 4))) {
        sm_file_close(f);
        f = NULL;
    }
    sm_mem_free(name, folder + n);
    return f;
}

/* All of them, or none: then a second read of the pack has to do. */
static smol_status open_sources(struct sm_store *s, smol_error *err)
{
    const struct sm_pack *pack = sm_gguf_pack(s->gguf);
    if (!pack) return SMOL_OK;
    s->n_sources = pack->n_sources;
    s->source = sm_mem_new(s->n_sources * sizeof *s->source);
    if (!s->source) return SM_FAIL(err, NOMEM, "no memory for the list of files");
    for (size_t i = 0; i < s->n_sources; i++) {
        s->source[i] = open_source(s, pack, i);
        if (s->source[i]) continue;
        s->no_source = pack->source[i].name;
        close_sources(s);
        return SMOL_OK;
    }
    return SMOL_OK;
}

smol_status sm_store_new(struct sm_store **out, const struct sm_gguf *g,
                         const struct sm_store_options *opt, smol_error *err)
{
    smol_status st = SMOL_OK;
    *out = NULL;
    struct sm_store *s = sm_mem_new(sizeof *s);
    if (!s) return SM_FAIL(err, NOMEM, "no memory for the store");
    s->gguf = g;
    s->opt = *opt;
    s->policy = sm_policy_find(opt->policy ? opt->policy : "lru");
    if (!s->policy) {
        st = SM_FAIL(err, ARG, "unknown policy \"%s\": lru, lfu and lfru are there", opt->policy);
        goto out;
    }
    s->piece_bytes = opt->piece_bytes ? opt->piece_bytes : SM_PIECE_BYTES;
    if (s->piece_bytes > SM_PIECE_BYTES_MAX) s->piece_bytes = SM_PIECE_BYTES_MAX;
    sm_limit_init(&s->limit, opt->flash_mb_s, opt->flash_stream_mb_s, opt->flash_latency_us);
    s->n_files = sm_gguf_n_files(g);
    s->file = sm_mem_new(s->n_files * sizeof *s->file);
    if (!s->file) {
        st = SM_FAIL(err, NOMEM, "no memory for the list of files");
        goto out;
    }
    for (size_t i = 0; i < s->n_files; i++) {
        const char *path = sm_gguf_file_path(g, i);
        SM_TRY_OUT(st, sm_file_open(&s->file[i], path, !opt->no_direct, err));
        if (sm_file_size(s->file[i]) != sm_gguf_file_bytes(g, i)) {
            st = SM_FAIL(err, IO, "%s changed while it was opened: it had %llu bytes, now %llu",
                         path, (unsigned long long)sm_gguf_file_bytes(g, i),
                         (unsigned long long)sm_file_size(s->file[i]));
            goto out;
        }
    }
    if (opt->verify) SM_TRY_OUT(st, open_sources(s, err));
    *out = s;
    s = NULL;
out:
    sm_store_free(s);
    return st;
}

static void free_pool(struct sm_expert_pool *p)
{
    sm_pages_free(p->arena, p->arena_bytes);
    sm_mem_free(p->tables, p->table_bytes);
    sm_mem_free(p, sizeof *p);
}

void sm_store_free(struct sm_store *s)
{
    if (!s) return;
    sm_sched_stop(s);
    if (s->sched.ready) {
        (void)pthread_cond_destroy(&s->sched.done);
        (void)pthread_cond_destroy(&s->sched.work);
        (void)pthread_mutex_destroy(&s->sched.mu);
    }
    sm_limit_destroy(&s->limit);
    sm_memory_watch_free(s->guard.watch);
    sm_mem_free(s->sched.bulk.order, s->n_resident * sizeof(struct sm_weight_node *));
    sm_pages_free(s->resident, (size_t)s->resident_bytes);
    for (uint32_t i = 0; i < s->n_pools; i++) free_pool(s->pool[i]);
    sm_spares_free(s);
    sm_mem_free(s->pool, s->cap_pools * sizeof *s->pool);
    for (struct sm_weight_node *n = s->first, *next; n; n = next) {
        next = n->next;
        sm_mem_free(n, sizeof *n);
    }
    sm_stream_forget(s);
    sm_stage_free(&s->row_stage);
    sm_rows_free(s);
    sm_stage_free(&s->check_stage);
    sm_mem_free(s->use_tables, s->use_bytes);
    for (size_t i = 0; s->file && i < s->n_files; i++) sm_file_close(s->file[i]);
    sm_mem_free(s->file, s->n_files * sizeof *s->file);
    close_sources(s);
    sm_mem_free(s, sizeof *s);
}

/* ---- declare --------------------------------------------------------------------------------- */

/* Type, width and bytes of a tensor of n_rows rows; nothing of the header is believed. */
static smol_status check_tensor(const struct sm_store *s, const struct sm_tensor_info *t,
                                uint64_t n_rows, smol_error *err)
{
    const struct sm_traits *traits = sm_traits_of(t->type);
    uint64_t bytes, end;
    if (!sm_type_is_matrix(t->type))
        return SM_FAIL_AT(err, UNSUPPORTED, t->at,
                          "tensor %s: weights in the format %s are not supported", t->name,
                          sm_type_name(t->type));
    if (!t->dim[0] || !n_rows || t->dim[0] > UINT32_MAX || n_rows > UINT32_MAX)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s is %llu x %llu", t->name,
                          (unsigned long long)t->dim[0], (unsigned long long)n_rows);
    if (t->dim[0] % traits->block)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s: rows of %llu are not whole blocks of %u",
                          t->name, (unsigned long long)t->dim[0], (unsigned)traits->block);
    if (!sm_mul_ok(sm_row_bytes(t->type, t->dim[0]), n_rows, &bytes) || bytes != t->bytes)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has %llu bytes, its shape needs %llu",
                          t->name, (unsigned long long)t->bytes,
                          (unsigned long long)sm_row_bytes(t->type, t->dim[0]) * n_rows);
    if (t->file >= s->n_files || !sm_add_ok(t->at, t->bytes, &end) ||
        (end > sm_file_size(s->file[t->file]) && sm_gguf_is_whole(s->gguf)))
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s reaches beyond the end of its file",
                          t->name);
    return SMOL_OK;
}

/* Keep the buffers large enough for runs of up to `bytes` of these rows. */
static void need_runs(struct sm_store *s, uint32_t n_rows, size_t row_bytes, size_t bytes,
                      const struct sm_place *place)
{
    const size_t run =
        sm_run_file_bytes(sm_run_rows(n_rows, row_bytes, bytes, place), row_bytes, place);
    if (run > s->run_bytes) s->run_bytes = run;
    if (row_bytes > s->row_bytes_max) s->row_bytes_max = row_bytes;
}

void sm_store_need_run(struct sm_store *s, uint32_t n_rows, size_t row_bytes,
                       const struct sm_place *place)
{
    const size_t run = sm_run_file_bytes(n_rows, row_bytes, place);
    if (run > s->run_bytes) s->run_bytes = run;
    if (row_bytes > s->row_bytes_max) s->row_bytes_max = row_bytes;
}

void sm_store_need_row(struct sm_store *s, const struct sm_weight *w)
{
    const struct sm_place *p = w->info->place;
    const size_t n = p ? (size_t)sm_place_bytes(p, sm_place_unit_rows(p, 0))
                       : (size_t)sm_row_bytes(w->type, w->n_in);
    if (n > s->by_row_bytes_max) s->by_row_bytes_max = n;
}

static uint64_t held_bytes(uint32_t type, bool x8, uint64_t n_rows, uint64_t n_cols)
{
    return x8 ? sm_x8_bytes(type, n_rows, n_cols) : sm_row_bytes(type, n_cols) * n_rows;
}

smol_status sm_store_add(struct sm_store *s, const struct sm_tensor_info *t, enum sm_home home,
                         const struct sm_weight **out, smol_error *err)
{
    *out = NULL;
    assert(!s->loaded);
    for (struct sm_weight_node *n = s->first; n; n = n->next) {
        if (n->w.info == t && n->w.home == home) {
            *out = &n->w;
            return SMOL_OK;
        }
    }
    uint64_t n_rows;
    if (!sm_mul_ok(t->dim[1], t->dim[2], &n_rows)) n_rows = UINT64_MAX;
    if (t->n_dims == 0 || t->dim[3] != 1)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has %u dimensions, 1 to 3 were expected",
                          t->name, (unsigned)t->n_dims);
    SM_TRY(check_tensor(s, t, n_rows, err));
    if (t->place && (t->place->n_mat != 1 || t->place->n_rows != n_rows))
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s is held as experts in this pack", t->name);
    const bool x8 = sm_type_is_x8(t->type);
    const uint64_t held = held_bytes(t->type, x8, n_rows, t->dim[0]);
    const uint64_t row_bytes = sm_row_bytes(t->type, t->dim[0]);
    if (held > SIZE_MAX / 2 || s->resident_bytes > SIZE_MAX / 2)
        return SM_FAIL_AT(err, NOMEM, t->at, "tensor %s is too large for this machine", t->name);
    struct sm_weight_node *node = sm_mem_new(sizeof *node);
    if (!node) return SM_FAIL(err, NOMEM, "no memory to declare a tensor");
    node->w = (struct sm_weight){.info = t, .type = t->type, .x8 = x8, .n_in = (uint32_t)t->dim[0],
                                 .n_out = (uint32_t)n_rows, .home = home};
    node->bytes = (size_t)held;
    if (home == SM_HOME_RESIDENT) {
        node->offset = (size_t)s->resident_bytes;
        s->resident_bytes = sm_round_up64(s->resident_bytes + held, SM_ALIGN);
        s->n_resident++;
        need_runs(s, node->w.n_out, (size_t)row_bytes, SM_RUN_BYTES, t->place);
    } else {
        sm_store_need_row(s, &node->w);
    }
    if (s->last) s->last->next = node;
    else s->first = node;
    s->last = node;
    s->n_weights++;
    *out = &node->w;
    return SMOL_OK;
}

/* ---- expert pools ---------------------------------------------------------------------------- */

/* n_rows of n_cols values of every expert of tensor t become part i. */
static smol_status add_part(struct sm_store *s, struct sm_expert_pool *p, unsigned i,
                            const struct sm_tensor_info *t, uint64_t n_rows, uint64_t n_expert,
                            struct sm_expert_shape *shape, smol_error *err)
{
    uint64_t all_rows;
    if (!sm_mul_ok(n_rows, n_expert, &all_rows)) all_rows = UINT64_MAX;
    if (t->dim[3] != 1 || n_expert > SM_NO_SLOT)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has no shape of experts (%u dimensions)",
                          t->name, (unsigned)t->n_dims);
    SM_TRY(check_tensor(s, t, all_rows, err));
    if (t->place && (t->place->n_mat != n_expert || t->place->n_rows != n_rows))
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s is not held as experts in this pack",
                          t->name);
    if (p->info.n_expert && p->info.n_expert != n_expert)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has %llu experts, its neighbour %u",
                          t->name, (unsigned long long)n_expert, (unsigned)p->info.n_expert);
    p->info.n_expert = (uint32_t)n_expert;
    const bool x8 = sm_type_is_x8(t->type);
    const uint64_t row_bytes = sm_row_bytes(t->type, t->dim[0]);
    const uint64_t held = held_bytes(t->type, x8, n_rows, t->dim[0]);
    if (held > SIZE_MAX / 8 - p->info.slot_bytes)
        return SM_FAIL_AT(err, NOMEM, t->at, "tensor %s is too large for this machine", t->name);
    *shape = (struct sm_expert_shape){
        .type = t->type, .x8 = x8, .n_in = (uint32_t)t->dim[0], .n_out = (uint32_t)n_rows,
        .offset_bytes = p->info.slot_bytes, .slot_bytes = (size_t)held,
        .file_bytes = row_bytes * n_rows};
    p->info.slot_bytes = sm_round_up(p->info.slot_bytes + (size_t)held, SM_ALIGN);
    p->info.expert_file_bytes += shape->file_bytes;

    struct sm_part *part = &p->part[i];
    const uint32_t groups = (shape->n_out + 7) / 8;
    const uint64_t wanted = (shape->file_bytes + s->piece_bytes - 1) / s->piece_bytes;
    const uint32_t n = wanted < groups ? (uint32_t)wanted : groups;
    const uint32_t even = (groups + n - 1) / n; /* pieces of like size, of whole units */
    const uint32_t unit = t->place && t->place->n_units > 1 ? t->place->unit_rows / 8 : 1;
    const uint32_t per_piece =
        t->place && t->place->n_units == 1 ? groups : (even + unit - 1) / unit * unit;
    *part = (struct sm_part){.info = t, .shape = shape, .row_bytes = (size_t)row_bytes,
                             .rows_per_piece = per_piece * 8,
                             .n_pieces = (groups + per_piece - 1) / per_piece};
    p->n_pieces += part->n_pieces;
    need_runs(s, shape->n_out, (size_t)row_bytes, (size_t)part->rows_per_piece * part->row_bytes,
              t->place);
    return SMOL_OK;
}

static smol_status add_matrix(struct sm_store *s, struct sm_expert_pool *p, unsigned i,
                              const struct sm_tensor_info *t, struct sm_expert_shape *shape,
                              smol_error *err)
{
    if (t->n_dims < 3)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has no shape of experts (%u dimensions)",
                          t->name, (unsigned)t->n_dims);
    return add_part(s, p, i, t, t->dim[1], t->dim[2], shape, err);
}

/* One bias a row of its matrix; NULL: none. */
static smol_status add_bias(struct sm_store *s, struct sm_expert_pool *p, unsigned i,
                            const struct sm_tensor_info *t, const struct sm_expert_shape *matrix,
                            struct sm_expert_shape *shape, smol_error *err)
{
    if (!t) return SMOL_OK;
    if (t->dim[0] != matrix->n_out || t->dim[2] != 1)
        return SM_FAIL_AT(err, FORMAT, t->at, "tensor %s has %llu values an expert, expected %u",
                          t->name, (unsigned long long)t->dim[0], (unsigned)matrix->n_out);
    if (t->type != SM_F32)
        return SM_FAIL_AT(err, UNSUPPORTED, t->at,
                          "tensor %s has type %s, only F32 is supported here", t->name,
                          sm_type_name(t->type));
    return add_part(s, p, i, t, 1, t->dim[1], shape, err);
}

static smol_status grow_pools(struct sm_store *s, smol_error *err)
{
    if (s->n_pools < s->cap_pools) return SMOL_OK;
    const uint32_t cap = s->cap_pools ? 2 * s->cap_pools : 64;
    struct sm_expert_pool **list = sm_mem_new(cap * sizeof *list);
    if (!list) return SM_FAIL(err, NOMEM, "no memory for the list of pools");
    if (s->n_pools) memcpy(list, s->pool, s->n_pools * sizeof *list);
    sm_mem_free(s->pool, s->cap_pools * sizeof *s->pool);
    s->pool = list;
    s->cap_pools = cap;
    return SMOL_OK;
}

/* gate, up and down fit one another: gate and up alike, down back from what they make. */
static smol_status check_shapes(const struct sm_expert_pool *p, const struct sm_tensor_info *down,
                                smol_error *err)
{
    const struct sm_pool_info *i = &p->info;
    const uint32_t hidden = i->fused ? i->gate.n_out / 2 : i->gate.n_out;
    if (i->fused && (i->gate.n_out % 2 || (i->gate.x8 && hidden % 8)))
        return SM_FAIL(err, UNSUPPORTED, "experts of %s: gate and up have %u rows together, which "
                       "do not part into whole groups of 8", down->name, (unsigned)i->gate.n_out);
    if (!i->fused && (i->up.n_in != i->gate.n_in || i->up.n_out != i->gate.n_out))
        return SM_FAIL(err, FORMAT, "experts of %s: gate is %u x %u, up %u x %u", down->name,
                       (unsigned)i->gate.n_in, (unsigned)i->gate.n_out, (unsigned)i->up.n_in,
                       (unsigned)i->up.n_out);
    if (i->down.n_in != hidden)
        return SM_FAIL(err, FORMAT, "experts of %s: down takes %u values, gate makes %u",
                       down->name, (unsigned)i->down.n_in, (unsigned)hidden);
    return SMOL_OK;
}

smol_status sm_store_add_experts(struct sm_store *s, const struct sm_expert_tensors *t,
                                 uint32_t *pool, smol_error *err)
{
    smol_status st = SMOL_OK;
    assert(!s->loaded && t->gate && t->down);
    *pool = 0;
    SM_TRY(grow_pools(s, err));
    struct sm_expert_pool *p = sm_mem_new(sizeof *p);
    if (!p) return SM_FAIL(err, NOMEM, "no memory for a pool");
    p->info.fused = !t->up;
    p->index = s->n_pools;
    struct sm_pool_info *in = &p->info;
    SM_TRY_OUT(st, add_matrix(s, p, SM_PART_GATE, t->gate, &in->gate, err));
    if (t->up) SM_TRY_OUT(st, add_matrix(s, p, SM_PART_UP, t->up, &in->up, err));
    SM_TRY_OUT(st, add_matrix(s, p, SM_PART_DOWN, t->down, &in->down, err));
    SM_TRY_OUT(st, add_bias(s, p, SM_PART_GATE_BIAS, t->gate_bias, &in->gate, &in->gate_bias, err));
    SM_TRY_OUT(st, add_bias(s, p, SM_PART_UP_BIAS, t->up_bias, &in->up, &in->up_bias, err));
    SM_TRY_OUT(st, add_bias(s, p, SM_PART_DOWN_BIAS, t->down_bias, &in->down, &in->down_bias, err));
    SM_TRY_OUT(st, check_shapes(p, t->down, err));
    p->info.slot_bytes = sm_round_up(p->info.slot_bytes, sm_page_bytes());
    if (p->info.n_expert > s->n_expert_max) s->n_expert_max = p->info.n_expert;
    *pool = s->n_pools;
    s->pool[s->n_pools++] = p;
    p = NULL;
out:
    if (p) free_pool(p);
    return st;
}

const struct sm_weight *sm_store_next(const struct sm_store *s, const struct sm_weight *w)
{
    const struct sm_weight_node *n =
        w ? ((const struct sm_weight_node *)(const void *)w)->next : s->first;
    return n ? &n->w : NULL;
}

uint32_t sm_store_n_pools(const struct sm_store *s) { return s->n_pools; }

const struct sm_pool_info *sm_store_pool(const struct sm_store *s, uint32_t pool)
{
    assert(pool < s->n_pools);
    return &s->pool[pool]->info;
}

struct sm_expert_tensors sm_store_pool_tensors(const struct sm_store *s, uint32_t pool)
{
    assert(pool < s->n_pools);
    const struct sm_part *p = s->pool[pool]->part;
    return (struct sm_expert_tensors){
        p[SM_PART_GATE].info, p[SM_PART_UP].info, p[SM_PART_DOWN].info,
        p[SM_PART_GATE_BIAS].info, p[SM_PART_UP_BIAS].info, p[SM_PART_DOWN_BIAS].info};
}

/* ---- sizes and statistics -------------------------------------------------------------------- */

void sm_store_sizes(const struct sm_store *s, unsigned n_readers, struct sm_store_sizes *out)
{
    const bool verify = s->opt.verify;
    *out = (struct sm_store_sizes){0};
    out->resident_bytes = sm_round_up64(s->resident_bytes, sm_page_bytes());
    out->table_bytes = sizeof *s + s->n_weights * sizeof(struct sm_weight_node) +
                       s->n_resident * sizeof(struct sm_weight_node *) +
                       s->cap_pools * sizeof *s->pool + SM_READERS_MAX * THREAD_BYTES +
                       WATCH_BYTES;
    for (size_t i = 0; i < s->n_files; i++)
        out->table_bytes += FILE_BYTES + strlen(sm_file_path(s->file[i])) + sizeof *s->file;
    for (size_t i = 0; s->source && i < s->n_sources; i++)
        out->table_bytes += FILE_BYTES + strlen(sm_file_path(s->source[i])) + sizeof *s->source;
    for (uint32_t i = 0; i < s->n_pools; i++) {
        const struct sm_expert_pool *p = s->pool[i];
        out->slots_bytes_per_slot += p->info.slot_bytes;
        out->table_bytes += sizeof *p + sm_slots_table_bytes(p->info.n_expert);
    }
    if (s->n_expert_max) out->table_bytes += sm_use_table_bytes(s->n_expert_max);
    out->io_bytes = n_readers * (uint64_t)sm_stage_bytes(s->run_bytes, s->row_bytes_max, verify);
    out->ring_bytes = s->stream.ring_bytes;
    out->stream_bytes = s->stream.bytes;
    out->table_bytes += s->stream.n_items * sizeof *s->stream.item +
                        s->stream.n_chunks * sizeof *s->stream.item_of;
    if (s->by_row_bytes_max) {
        out->row_cell_bytes = sm_row_cell_bytes(s);
        out->row_bytes = out->row_cell_bytes +
                         sm_stage_bytes(s->by_row_bytes_max, s->by_row_bytes_max, verify);
    }
    if (verify && s->n_pools)
        out->row_bytes += sm_stage_bytes(s->run_bytes, s->row_bytes_max, true);
}

uint64_t sm_store_file_bytes(const struct sm_store *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_files; i++) sum += sm_file_bytes_read(s->file[i]);
    return sum;
}

void sm_store_stats(const struct sm_store *s, struct sm_store_stats *out)
{
    struct sm_sched *q = (struct sm_sched *)(uintptr_t)&s->sched; /* locked, not changed */
    if (q->ready) (void)pthread_mutex_lock(&q->mu);
    *out = s->stats;
    const uint64_t now = sm_now_ns();
    out->flash_busy_ns = sm_busy_ns(&q->busy, now);
    out->stream_busy_ns = sm_busy_ns(&q->stream_busy, now);
    out->stream_bytes = q->stream_bytes;
    out->expert_bytes = q->expert_bytes;
    for (uint32_t i = 0; i < s->n_pools; i++) {
        const struct sm_expert_pool *p = s->pool[i];
        out->prefetch_issued += p->n_guessed;
        out->prefetch_used += p->n_guess_used;
        out->prefetch_wasted_bytes += p->guess_wasted_bytes;
        for (uint32_t j = 0; p->slot && j < p->n_slots; j++) /* read, unused and not expected now */
            if (p->slot[j].guess && !p->slot[j].ahead)
                out->prefetch_wasted_bytes += p->slot[j].landed_bytes;
    }
    if (q->ready) (void)pthread_mutex_unlock(&q->mu);
    out->given_back_bytes = s->guard.given_bytes;
    out->bytes_read = sm_store_file_bytes(s) - s->read_base;
    out->direct = true;
    for (size_t i = 0; i < s->n_files; i++)
        out->direct = out->direct && sm_file_is_direct(s->file[i]);
}

void sm_store_reset_stats(struct sm_store *s)
{
    const uint64_t load_bytes_read = s->stats.load_bytes_read;
    sm_sched_lock(&s->sched);
    s->stats = (struct sm_store_stats){.load_bytes_read = load_bytes_read};
    sm_busy_reset(&s->sched.busy);
    sm_busy_reset(&s->sched.stream_busy);
    s->sched.stream_bytes = s->sched.expert_bytes = 0;
    for (uint32_t i = 0; i < s->n_pools; i++)
        s->pool[i]->n_guessed = s->pool[i]->n_guess_used = s->pool[i]->guess_wasted_bytes = 0;
    s->read_base = sm_store_file_bytes(s);
    sm_sched_unlock(&s->sched);
}
