/* SPDX-License-Identifier: MIT */
/* What stays and what is read row by row: bytes in kernel layout, sizes, hostile declarations, bad
 * blocks, progress and cancel. */
#include "store/pager.h"
#include "store_file.h"
#include "tap.h"
#include "temp.h"

#include "base/mem.h"

#include <unistd.h>

/* What was taken and not given back, in all. */
static size_t held(void) { return sm_mem_held() + sm_pages_held(); }

static const struct store_shape mixed = {
    .n_layers = 2, .n_expert = 6, .n_embd = 256, .n_ffn = 256, .n_vocab = 50, .type_gate = SM_Q2_K,
    .type_down = SM_Q3_K, .type_dense = SM_Q5_K, .type_embd = SM_Q6_K, .seed = 7};

struct progress { unsigned calls; uint64_t last, total; bool grows; };

static void on_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    struct progress *p = arg;
    p->grows = p->grows && done >= p->last && done <= total && what;
    p->calls++;
    p->last = done;
    p->total = total;
}

static smol_status load(struct sm_store *s, uint32_t n_slots, unsigned readers, struct progress *p,
                        const volatile bool *cancel, smol_error *err)
{
    uint32_t slots[64];
    for (unsigned i = 0; i < 64; i++) slots[i] = n_slots;
    const struct sm_store_plan plan = {.n_slots = slots, .n_readers = readers,
                                       .progress = p ? on_progress : NULL, .progress_arg = p,
                                       .cancel = cancel};
    return sm_store_load(s, &plan, err);
}

/* Resident bytes and rows of one mix of types. */
static void test_homes(const struct store_shape *shape, bool verify)
{
    struct store_file f;
    struct sm_store *s;
    const struct sm_weight *w[8], *again;
    smol_error err = {0};
    bool held = true, rows = true;
    store_file_make(&f, "homes.gguf", shape);
    const struct sm_store_options opt = {.verify = verify};
    TAP_OK(sm_store_new(&s, f.gguf, &opt, &err) == SMOL_OK, "new %s", err.msg);
    TAP_OK(store_file_declare(&f, s, w, &err) == SMOL_OK, "declare %s", err.msg);
    TAP_OK(sm_store_add(s, w[1]->info, SM_HOME_RESIDENT, &again, &err) == SMOL_OK && again == w[1],
           "the same tensor twice is one weight");
    const struct sm_weight *tied;
    TAP_OK(sm_store_add(s, w[4]->info, SM_HOME_RESIDENT, &tied, &err) == SMOL_OK && tied != w[4],
           "a tied embedding is resident as well");
    struct progress p = {.grows = true};
    TAP_OK(load(s, shape->n_expert, 3, &p, NULL, &err) == SMOL_OK, "load %s", err.msg);
    TAP_OK(p.grows && p.calls >= 1 && p.last == p.total && p.total > 0,
           "progress ends at the total");
    const struct sm_weight *all[] = {w[0], w[1], w[2], w[3], tied};
    for (unsigned i = 0; i < 5; i++) {
        held = held && all[i]->data && (uintptr_t)all[i]->data % SM_ALIGN == 0 &&
               all[i]->x8 == sm_type_is_x8(all[i]->type) &&
               store_file_same(&f, all[i]->info, 0, all[i]->n_out, all[i]->data);
    }
    TAP_OK(held && w[0]->n_out == 1 && w[1]->n_out == shape->n_embd + 3, "bytes in kernel layout");
    for (uint32_t r = 0; r < shape->n_vocab; r++) {
        float want[256], a[256], b[256];
        const size_t n = (size_t)sm_row_bytes(w[4]->type, w[4]->n_in);
        sm_decode_row(w[4]->type, f.bytes + w[4]->info->at + r * n, want, w[4]->n_in);
        rows = rows && sm_store_row(s, w[4], r, a, &err) == SMOL_OK &&
               sm_store_row(s, tied, r, b, &err) == SMOL_OK &&
               !memcmp(a, want, sizeof *a * w[4]->n_in) && !memcmp(b, want, sizeof *b * w[4]->n_in);
    }
    TAP_OK(rows && !w[4]->data, "rows by file and by memory are the same: %s", err.msg);
    struct sm_store_stats st;
    sm_store_stats(s, &st);
    TAP_OK(st.load_bytes_read > 0 && st.bytes_read > 0, "bytes read are counted");
    sm_store_free(s);
    store_file_free(&f);
}

/* Rows that were read are kept, one for each cell; with --verify each is read again. */
static void test_kept_rows(const struct store_file *f, bool verify)
{
    enum { N_CELLS = 4 }; /* one, and three more */
    static const uint32_t order[] = {1, 1, 2, 1, 1 + N_CELLS, 1};
    static const bool read[] = {true, false, true, false, true, true};
    struct sm_store *s;
    struct sm_store_sizes z;
    struct sm_store_stats st;
    const struct sm_weight *w[8];
    const uint32_t no_slots[64] = {5, 5};
    smol_error err = {0};
    bool right = true, reads = true;
    const size_t before = held(), page = sm_page_bytes();
    const struct sm_store_options opt = {.verify = verify};
    const struct sm_store_plan plan = {
        .n_slots = no_slots, .n_readers = 1, .n_row_cells = N_CELLS - 1};
    TAP_OK(sm_store_new(&s, f->gguf, &opt, &err) == SMOL_OK &&
               store_file_declare(f, s, w, &err) == SMOL_OK, "declare %s", err.msg);
    sm_store_sizes(s, 1, &z);
    TAP_OK(sm_store_load(s, &plan, &err) == SMOL_OK, "load with cells %s", err.msg);
    TAP_OK(held() - before <= z.io_bytes + z.row_bytes + z.table_bytes + z.resident_bytes +
                                  5 * z.slots_bytes_per_slot +
                                  plan.n_row_cells * z.row_cell_bytes + 4 * page,
           "cells take what was said");
    sm_store_stats(s, &st);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        float want[256], have[256];
        const uint64_t so_far = st.bytes_read;
        const size_t n = (size_t)sm_row_bytes(w[4]->type, w[4]->n_in);
        sm_decode_row(w[4]->type, f->bytes + w[4]->info->at + order[i] * n, want, w[4]->n_in);
        right = right && sm_store_row(s, w[4], order[i], have, &err) == SMOL_OK &&
                !memcmp(have, want, sizeof *have * w[4]->n_in);
        sm_store_stats(s, &st);
        reads = reads && (st.bytes_read > so_far) == (verify || read[i]);
    }
    TAP_OK(right, "rows that are kept are right %s", err.msg);
    TAP_OK(reads, "a row is read again %s", verify ? "each time" : "when another took its cell");
    sm_store_free(s);
}

/* Law 2: what sm_store_sizes says is what is allocated. */
static void test_sizes(const struct store_file *f, bool verify, unsigned readers)
{
    struct sm_store *s;
    struct sm_store_sizes z, one;
    const size_t before = held(), page = sm_page_bytes();
    const struct sm_store_options opt = {.verify = verify};
    TAP_OK(sm_store_new(&s, f->gguf, &opt, NULL) == SMOL_OK &&
               store_file_declare(f, s, NULL, NULL) == SMOL_OK, "declare");
    sm_store_sizes(s, readers, &z);
    sm_store_sizes(s, 1, &one);
    TAP_OK(z.io_bytes == readers * one.io_bytes, "read buffers are so many times one reader's");
    TAP_OK(load(s, 3, readers, NULL, NULL, NULL) == SMOL_OK, "load");
    const uint64_t taken = held() - before;
    const uint64_t said = z.io_bytes + z.row_bytes + z.table_bytes + z.resident_bytes +
                          3 * z.slots_bytes_per_slot;
    /* the list of weights is given back after load; files, threads and pages are bounds */
    TAP_OK(taken <= said + 8 * page && said < taken + 4096, "%llu bytes said, %llu taken",
           (unsigned long long)said, (unsigned long long)taken);
    const struct sm_pool_info *i = sm_store_pool(s, 0);
    TAP_OK(z.slots_bytes_per_slot == 2 * i->slot_bytes && i->slot_bytes % 4096 == 0 &&
               i->slot_bytes >= i->gate.slot_bytes + i->up.slot_bytes + i->down.slot_bytes &&
               i->expert_file_bytes == i->gate.file_bytes + i->up.file_bytes + i->down.file_bytes,
           "slots");
    sm_store_free(s);
    TAP_IS_INT(held(), before, "everything is given back");
}

static void test_hostile(const struct store_file *f)
{
    struct sm_store *s;
    const struct sm_weight *w;
    uint32_t pool;
    smol_error err;
    const struct sm_tensor_info *dense = store_file_tensor(f, 0, "dense");
    const struct sm_tensor_info *gate = store_file_tensor(f, 0, "ffn_gate_exps"),
                                *up = store_file_tensor(f, 0, "ffn_up_exps"),
                                *down = store_file_tensor(f, 0, "ffn_down_exps");
    const struct sm_store_options opt = {0};
    TAP_OK(sm_store_new(&s, f->gguf, &opt, NULL) == SMOL_OK, "new");
#define BAD(status, change, base)                                                                  \
    do {                                                                                           \
        struct sm_tensor_info t = *(base);                                                         \
        err = (smol_error){0};                                                                     \
        change;                                                                                    \
        TAP_OK(sm_store_add(s, &t, SM_HOME_RESIDENT, &w, &err) == SMOL_##status && !w &&           \
                   err.code == SMOL_##status, "%s: %s", #change, err.msg);                         \
    } while (0)
    BAD(UNSUPPORTED, t.type = SM_I32, dense);
    BAD(UNSUPPORTED, t.type = 77, dense);
    BAD(FORMAT, t.dim[0] = 0, dense);
    BAD(FORMAT, t.dim[1] = 0, dense);
    BAD(FORMAT, t.dim[0] = 100, dense);
    BAD(FORMAT, t.dim[1] = UINT64_MAX / 2, dense);
    BAD(FORMAT, t.dim[1]++, dense);
    BAD(FORMAT, t.n_dims = 0, dense);
    BAD(FORMAT, t.bytes--, dense);
    BAD(FORMAT, t.at = UINT64_MAX - 5, dense);
    BAD(FORMAT, t.at = f->n_bytes - 100, dense);
    BAD(FORMAT, t.file = 1, dense);
    BAD(FORMAT, t.dim[2] = 2, dense);
    BAD(FORMAT, t.dim[3] = 2, dense);
    struct sm_tensor_info t = *up;
    const struct sm_expert_tensors other = {.gate = gate, .up = &t, .down = down},
                                   flat = {.gate = dense, .up = up, .down = down};
    err = (smol_error){0};
    t.dim[2]--;
    t.bytes = sm_row_bytes(t.type, t.dim[0]) * t.dim[1] * t.dim[2];
    TAP_OK(sm_store_add_experts(s, &other, &pool, &err) == SMOL_FORMAT, "other number: %s",
           err.msg);
    err = (smol_error){0};
    t = *up;
    t.dim[1] = 128;
    t.bytes /= 2;
    TAP_OK(sm_store_add_experts(s, &other, &pool, &err) == SMOL_FORMAT, "other rows: %s", err.msg);
    err = (smol_error){0};
    TAP_OK(sm_store_add_experts(s, &flat, &pool, &err) == SMOL_FORMAT, "no experts: %s", err.msg);
    err = (smol_error){0};
    t = *down;
    t.dim[0] = 512;
    t.dim[1] /= 2;
    const struct sm_expert_tensors wide = {.gate = gate, .up = up, .down = &t};
    TAP_OK(sm_store_add_experts(s, &wide, &pool, &err) == SMOL_FORMAT, "down does not fit: %s",
           err.msg);
    TAP_IS_INT(sm_store_n_pools(s), 0, "nothing bad was kept");
    sm_store_free(s);
    sm_store_free(NULL);
}

/* A scale that is not a number: the message names tensor, row and byte. */
static void test_bad_blocks(void)
{
    struct store_file f;
    struct sm_store *s;
    const struct sm_weight *w[5];
    smol_error err = {0};
    char want[80];
    float row[256];
    const struct sm_store_options opt = {0};
    store_file_make(&f, "bad.gguf", &mixed);
    const struct sm_tensor_info *dense = store_file_tensor(&f, 1, "dense"),
                                *down = store_file_tensor(&f, 1, "ffn_down_exps"),
                                *embd = store_file_tensor(&f, -1, "token_embd");
    uint8_t *bad = f.bytes + dense->at + 21 * sm_row_bytes(SM_Q5_K, 256); /* d leads the block */
    const uint8_t saved[2] = {bad[0], bad[1]};
    bad[0] = 0;
    bad[1] = 0x7c;
    (void)temp_write("bad.gguf", f.bytes, f.n_bytes);
    TAP_OK(sm_store_new(&s, f.gguf, &opt, &err) == SMOL_OK &&
               store_file_declare(&f, s, w, &err) == SMOL_OK &&
               load(s, 3, 2, NULL, NULL, &err) == SMOL_FORMAT, "an infinite scale is refused");
    (void)snprintf(want, sizeof want, "blk.1.dense.weight, row 21 at byte %llu",
                   (unsigned long long)(bad - f.bytes));
    TAP_OK(strstr(err.msg, want) && err.at == (uint64_t)(bad - f.bytes), "%s", err.msg);
    sm_store_free(s);

    bad[0] = saved[0];
    bad[1] = saved[1];
    /* Q3_K: d ends the block; expert 4, row 9 of down; Q6_K: row 33 of the embedding */
    bad = f.bytes + down->at + (4 * 256 + 9) * sm_row_bytes(SM_Q3_K, 256) + 108;
    bad[0] = 1;
    bad[1] = 0xfe;
    uint8_t *bad_row = f.bytes + embd->at + 33 * sm_row_bytes(SM_Q6_K, 256) + 208;
    bad_row[0] = 0;
    bad_row[1] = 0xfc;
    (void)temp_write("bad.gguf", f.bytes, f.n_bytes);
    err = (smol_error){0};
    TAP_OK(sm_store_new(&s, f.gguf, &opt, &err) == SMOL_OK &&
               store_file_declare(&f, s, w, &err) == SMOL_OK &&
               load(s, 3, 2, NULL, NULL, &err) == SMOL_OK,
           "bad experts are met when they are read");
    TAP_OK(sm_store_row(s, w[4], 32, row, &err) == SMOL_OK &&
               sm_store_row(s, w[4], 33, row, &err) == SMOL_FORMAT &&
               strstr(err.msg, "token_embd.weight, row 33"), "%s", err.msg);
    unsigned i;
    struct sm_expert e;
    err = (smol_error){0};
    sm_pager_begin(s, 1, &(uint16_t){4}, 1, SM_ORDER_ARRIVAL);
    smol_status st = sm_pager_take(s, &i, &e, &err);
    if (st == SMOL_OK) st = sm_pager_take_down(s, i, &err);
    TAP_OK(st == SMOL_FORMAT && strstr(err.msg, "expert 4, row 1033"), "%s", err.msg);
    sm_pager_end(s);
    sm_pager_begin(s, 1, &(uint16_t){5}, 1, SM_ORDER_ARRIVAL);
    TAP_OK(sm_pager_take(s, &i, &e, &err) == SMOL_OK, "its neighbour is fine");
    sm_pager_end(s);
    sm_store_free(s);
    store_file_free(&f);
}

static void test_cancel(const struct store_file *f)
{
    struct sm_store *s;
    smol_error err = {0};
    volatile bool cancel = true;
    const struct sm_store_options opt = {.flash_mb_s = 1, .flash_latency_us = 1000};
    TAP_OK(sm_store_new(&s, f->gguf, &opt, &err) == SMOL_OK &&
               store_file_declare(f, s, NULL, &err) == SMOL_OK, "declare");
    TAP_OK(load(s, 6, 2, NULL, &cancel, &err) == SMOL_CANCELLED, "loading is stopped: %s", err.msg);
    sm_store_free(s);
}

/* The limit: one read alone is bound by its stream, many by the bus. */
static void test_limit(const struct store_file *f)
{
    struct sm_store *s;
    const struct sm_store_options opt = {.flash_mb_s = 8, .flash_stream_mb_s = 4};
    TAP_OK(sm_store_new(&s, f->gguf, &opt, NULL) == SMOL_OK &&
               store_file_declare(f, s, NULL, NULL) == SMOL_OK, "declare");
    const uint64_t start = sm_now_ns();
    TAP_OK(load(s, 6, 4, NULL, NULL, NULL) == SMOL_OK, "load");
    struct sm_store_stats st;
    sm_store_stats(s, &st);
    const double seconds = (double)(sm_now_ns() - start) * 1e-9;
    const double least = (double)st.load_bytes_read / 8.2e6;
    TAP_OK(seconds > least, "%llu bytes at 8 MB/s took %.2f s, at least %.2f",
           (unsigned long long)st.load_bytes_read, seconds, least);
    sm_store_free(s);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    (void)alarm(600);
    struct store_shape shape = mixed;
    test_homes(&shape, false);
    shape.type_embd = SM_F16;
    shape.type_dense = SM_BF16;
    test_homes(&shape, true);
    shape.type_embd = SM_Q8_0;
    shape.type_dense = SM_Q4_0;
    test_homes(&shape, true);
    struct store_file f;
    store_file_make(&f, "mixed.gguf", &mixed);
    test_sizes(&f, false, 3);
    test_sizes(&f, true, 2);
    test_kept_rows(&f, false);
    test_kept_rows(&f, true);
    test_hostile(&f);
    test_bad_blocks();
    test_cancel(&f);
    test_limit(&f);
    store_file_free(&f);
    return tap_done();
}
