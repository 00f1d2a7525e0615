/* SPDX-License-Identifier: MIT */
/* Faults below the store, at load and while experts are paged: the right bytes or a clear error,
 * never wrong bytes, never a hang (an alarm ends the test), and the store is whole afterwards. */
#include "store/store_int.h"
#include "inject.h"
#include "store_file.h"
#include "tap.h"

#include <unistd.h>

static const struct store_shape shape = {
    .n_layers = 2, .n_expert = 8, .n_embd = 256, .n_ffn = 256, .n_vocab = 20, .type_gate = SM_Q2_K,
    .type_down = SM_Q4_K, .type_dense = SM_Q6_K, .type_embd = SM_Q4_K, .seed = 11};
static struct store_file f;
static const struct sm_weight *weights[5];

static smol_status open_store(struct sm_store **s, const struct sm_store_options *opt, uint32_t n,
                              smol_error *err)
{
    const uint32_t slots[2] = {n, n};
    const struct sm_store_plan plan = {.n_slots = slots, .n_readers = 3};
    SM_TRY(sm_store_new(s, f.gguf, opt, err));
    (*s)->check = true;
    SM_TRY(store_file_declare(&f, *s, weights, err));
    return sm_store_load(*s, &plan, err);
}

/* Resident weights are right. */
static bool resident_ok(void)
{
    bool ok = true;
    for (unsigned i = 0; i < 4; i++)
        ok = ok && store_file_same(&f, weights[i]->info, 0, weights[i]->n_out, weights[i]->data);
    return ok;
}

/* One use of `n` experts from `first` on. OK means that all bytes were right. */
static smol_status use(struct sm_store *s, uint32_t pool, unsigned first, unsigned n,
                       enum sm_order order, bool *bytes_ok, smol_error *err)
{
    uint16_t ids[8] = {0};
    smol_status st = SMOL_OK;
    for (unsigned i = 0; i < n; i++) ids[i] = (uint16_t)(first + i);
    sm_pager_note(s, pool, ids, n < 2 ? n : 2);
    sm_pager_begin(s, pool, ids, n, order);
    for (unsigned k = 0; k < n && st == SMOL_OK; k++) {
        struct sm_expert e;
        unsigned i;
        SM_TRY_OUT(st, sm_pager_take(s, &i, &e, err));
        const struct sm_pool_info *info = sm_store_pool(s, pool);
        *bytes_ok = *bytes_ok && store_file_same_expert(&f, info, (int)pool, ids[i], &e, 1);
        SM_TRY_OUT(st, sm_pager_take_down(s, i, err));
        *bytes_ok = *bytes_ok && store_file_same_expert(&f, info, (int)pool, ids[i], &e, 2);
        sm_pager_give(s, i);
    }
out:
    sm_pager_end(s);
    return st;
}

/* Everything the store can be asked: two pools, both orders, rows. */
static smol_status use_all(struct sm_store *s, bool *bytes_ok, smol_error *err)
{
    float row[256], want[256];
    for (uint32_t pool = 0; pool < 2; pool++) {
        SM_TRY(use(s, pool, 0, 8, SM_ORDER_ASCENDING, bytes_ok, err));
        SM_TRY(use(s, pool, 2, 2, SM_ORDER_ARRIVAL, bytes_ok, err));
    }
    const struct sm_weight *w = weights[4];
    SM_TRY(sm_store_row(s, w, 3, row, err));
    sm_decode_row(w->type, f.bytes + w->info->at + 3 * sm_row_bytes(w->type, w->n_in), want, 256);
    *bytes_ok = *bytes_ok && !memcmp(row, want, sizeof row);
    return SMOL_OK;
}

/* Reads that are interrupted, short or refused once: the right result. */
static void test_harmless(void)
{
    static const struct { const char *name; struct inject_rule rule; bool buffered;
    } cases[] = {
        {"EINTR on every third read",
         {.kind = INJECT_EINTR, .on = INJECT_READ, .every = 3, .count = UINT64_MAX},
         false},
        {"short reads of 1000 bytes",
         {.kind = INJECT_SHORT, .on = INJECT_READ, .amount = 1000, .every = 2, .count = UINT64_MAX},
         false},
        {"short reads of whole blocks",
         {.kind = INJECT_SHORT, .on = INJECT_READ, .amount = 4096, .count = UINT64_MAX},
         false},
        {"EINVAL on the 9th direct read",
         {.kind = INJECT_EINVAL, .on = INJECT_DIRECT, .first = 9, .count = UINT64_MAX},
         true},
        {"EINVAL on the first direct read",
         {.kind = INJECT_EINVAL, .on = INJECT_DIRECT, .count = UINT64_MAX},
         true},
        {"direct open refused",
         {.kind = INJECT_EINVAL, .on = INJECT_OPEN_DIRECT, .count = UINT64_MAX},
         true},
        {"slow reads",
         {.kind = INJECT_DELAY, .on = INJECT_READ, .amount = 3000, .every = 5, .count = UINT64_MAX},
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sm_store *s;
        smol_error err = {0};
        bool bytes_ok = true;
        inject_start();
        (void)inject_add(&cases[i].rule);
        smol_status st = open_store(&s, &(struct sm_store_options){0}, 3, &err);
        if (st == SMOL_OK) st = use_all(s, &bytes_ok, &err);
        struct sm_store_stats stats = {0};
        if (s) sm_store_stats(s, &stats);
        const bool fired = inject_fired(0) > 0 || inject_count(INJECT_DIRECT) == 0;
        TAP_OK(st == SMOL_OK && bytes_ok && resident_ok() && fired, "%s: %s", cases[i].name,
               err.msg);
        if (cases[i].buffered) TAP_OK(!stats.direct, "%s: now buffered", cases[i].name);
        sm_store_free(s);
        inject_stop();
    }
}

/* EIO on the n-th read, for every n: an error that names it, or a read that did not matter. */
static void test_eio(void)
{
    unsigned n_load = 0, n_use = 0, n_row = 0, n_fine = 0;
    bool clear = true, bytes_ok = true, healed = true;
    for (uint64_t n = 1; n < 200; n++) {
        struct sm_store *s;
        smol_error err = {0};
        inject_start();
        (void)inject_add(&(struct inject_rule){.kind = INJECT_EIO, .on = INJECT_READ, .first = n});
        smol_status st = open_store(&s, &(struct sm_store_options){0}, 3, &err);
        if (st != SMOL_OK) {
            n_load++;
            clear =
                clear && (st == SMOL_IO || err.code == SMOL_IO) && strstr(err.msg, "faults.gguf");
        } else if ((st = use_all(s, &bytes_ok, &err)) != SMOL_OK) {
            clear =
                clear && st == SMOL_IO && strstr(err.msg, "faults.gguf") && strstr(err.msg, "rror");
            if (strstr(err.msg, "expert")) n_use++;
            else n_row++;
            clear = clear && err.sys == 5;
            /* the disk is well again: nothing is left of the failure */
            err = (smol_error){0};
            healed = healed && use_all(s, &bytes_ok, &err) == SMOL_OK;
        } else {
            n_fine++;
        }
        const bool fired = inject_fired(0) > 0;
        sm_store_free(s);
        inject_stop();
        if (!fired) break;
    }
    TAP_OK(clear, "each error names file and cause");
    TAP_OK(n_load >= 4 && n_use >= 20 && n_row >= 1 && n_fine >= 1,
           "failed: %u loads, %u uses, %u rows; without effect: %u", n_load, n_use, n_row, n_fine);
    TAP_OK(bytes_ok, "no wrong bytes");
    TAP_OK(healed, "after a failed use the store works again");
}

static void test_truncation(void)
{
    struct sm_store *s;
    smol_error err = {0};
    bool bytes_ok = true;
    const struct sm_tensor_info *down = store_file_tensor(&f, 1, "ffn_down_exps");
    TAP_OK(open_store(&s, &(struct sm_store_options){0}, 3, &err) == SMOL_OK, "open %s", err.msg);
    TAP_OK(use(s, 0, 0, 4, SM_ORDER_ARRIVAL, &bytes_ok, &err) == SMOL_OK && bytes_ok, "works");
    TAP_OK(truncate(f.path, (off_t)(down->at + down->bytes / 2)) == 0, "the file is cut");
    TAP_OK(use(s, 1, 0, 2, SM_ORDER_ASCENDING, &bytes_ok, &err) == SMOL_OK && bytes_ok,
           "what is left can be used %s", err.msg);
    const smol_status st = use(s, 1, 6, 2, SM_ORDER_ASCENDING, &bytes_ok, &err);
    TAP_OK(st == SMOL_FORMAT && strstr(err.msg, "blk.1.ffn_down_exps.weight, expert 6"), "%s",
           err.msg);
    sm_store_free(s);
    FILE *w = fopen(f.path, "wb");
    TAP_OK(w && fwrite(f.bytes, 1, f.n_bytes, w) == f.n_bytes && fclose(w) == 0, "restored");
}

/* A bit flipped in one read is found under --verify and named. */
static void test_verify_reads(void)
{
    smol_error err = {0};
    bool bytes_ok = true;
    const struct sm_store_options opt = {.verify = true};
    const struct sm_tensor_info *dense = store_file_tensor(&f, 1, "dense"),
                                *up = store_file_tensor(&f, 1, "ffn_up_exps");
    /* far from a border: direct reads of the neighbour cover its first and last blocks too */
    const struct { const char *name; uint64_t at; uint64_t first; bool at_load; } cases[] = {
        {"first read of a resident tensor", dense->at + 20000, 1, true},
        {"second read of a resident tensor", dense->at + 20000, 2, true},
        {"first read of an expert", up->at + up->bytes / 8 * 5 + 10000, 1, false},
        {"second read of an expert", up->at + up->bytes / 8 * 5 + 10000, 2, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sm_store *probe;
        inject_start();
        err = (smol_error){0};
        if (cases[i].first == 2) /* let the first read of this byte pass */
            (void)inject_add(&(struct inject_rule){.kind = INJECT_DELAY, .on = INJECT_READ,
                                                   .at = cases[i].at, .has_at = true});
        (void)inject_add(&(struct inject_rule){.kind = INJECT_FLIP, .on = INJECT_READ,
                                               .at = cases[i].at, .has_at = true});
        bytes_ok = true;
        smol_status st = open_store(&probe, &opt, 3, &err);
        if (cases[i].at_load) TAP_OK(st == SMOL_IO, "%s: load fails", cases[i].name);
        else TAP_OK(st == SMOL_OK, "%s: load passes", cases[i].name);
        if (st == SMOL_OK) st = use(probe, 1, 4, 4, SM_ORDER_ASCENDING, &bytes_ok, &err);
        TAP_OK(st == SMOL_IO && strstr(err.msg, "verification failed") && bytes_ok, "%s", err.msg);
        sm_store_free(probe);
        inject_stop();
    }
}

/* And one flipped in a slot, between its read and its first use. */
static void test_verify_slots(void)
{
    struct sm_store *s;
    smol_error err;
    const struct sm_store_options opt = {.verify = true};
    for (unsigned half = 0; half < 2; half++) {
        err = (smol_error){0};
        TAP_OK(open_store(&s, &opt, 4, &err) == SMOL_OK, "open");
        const uint16_t id = 5;
        TAP_OK(sm_pager_prefetch(s, 0, &id, 1, SM_PREFETCH_NEXT) == 1, "asked ahead");
        struct sm_expert_pool *p = s->pool[0];
        for (bool ready = false; !ready; sm_sleep_ns(1000000)) {
            (void)pthread_mutex_lock(&s->sched.mu);
            ready = p->slot[p->slot_of[id]].state == SM_SLOT_READY;
            (void)pthread_mutex_unlock(&s->sched.mu);
        }
        p->arena[p->slot_of[id] * p->info.slot_bytes + 999 +
                 (half ? p->info.down.offset_bytes : 0)] ^= 8;
        smol_status st = SMOL_OK;
        struct sm_expert e;
        unsigned i;
        sm_pager_begin(s, 0, &id, 1, SM_ORDER_ARRIVAL);
        st = sm_pager_take(s, &i, &e, &err);
        TAP_OK((st == SMOL_OK) == (half == 1), "gate and up are %s", half ? "fine" : "not");
        if (st == SMOL_OK) st = sm_pager_take_down(s, i, &err);
        TAP_OK(st == SMOL_IO && strstr(err.msg, half ? "ffn_down_exps" : "ffn_gate_exps") &&
                   strstr(err.msg, "verification failed"), "%s", err.msg);
        sm_pager_end(s);
        sm_store_free(s);
    }
}

static void test_verify_passes(void)
{
    struct sm_store *s;
    smol_error err = {0};
    bool bytes_ok = true;
    const struct sm_store_options opt = {.verify = true};
    TAP_OK(open_store(&s, &opt, 3, &err) == SMOL_OK && use_all(s, &bytes_ok, &err) == SMOL_OK &&
               bytes_ok && resident_ok(), "verify passes what is right %s", err.msg);
    sm_store_free(s);
}

/* A failed read on speculation is forgotten; the demand reads again. */
static void test_speculation(void)
{
    struct sm_store *s;
    smol_error err = {0};
    bool bytes_ok = true;
    inject_start();
    TAP_OK(open_store(&s, &(struct sm_store_options){0}, 4, &err) == SMOL_OK, "open");
    (void)inject_add(&(struct inject_rule){.kind = INJECT_EIO, .on = INJECT_READ,
                                           .at = store_file_tensor(&f, 0, "ffn_up_exps")->at,
                                           .has_at = true, .count = UINT64_MAX});
    TAP_OK(sm_pager_prefetch(s, 0, &(uint16_t){0}, 1, SM_PREFETCH_WARM) == 1, "asked ahead");
    bool gone = false;
    for (unsigned i = 0; i < 10000 && !gone; i++) {
        sm_sleep_ns(1000000);
        (void)pthread_mutex_lock(&s->sched.mu);
        gone = s->pool[0]->slot_of[0] == SM_NO_SLOT;
        (void)pthread_mutex_unlock(&s->sched.mu);
    }
    TAP_OK(inject_fired(0) > 0 && gone, "it failed and was dropped");
    TAP_OK(use(s, 0, 0, 2, SM_ORDER_ARRIVAL, &bytes_ok, &err) == SMOL_IO, "the demand fails: %s",
           err.msg);
    inject_stop();
    inject_start();
    err = (smol_error){0};
    TAP_OK(use(s, 0, 0, 2, SM_ORDER_ARRIVAL, &bytes_ok, &err) == SMOL_OK && bytes_ok,
           "and works when the disk does %s", err.msg);
    sm_store_free(s);
    inject_stop();
}

/* Random faults under random uses: right bytes or an error, and the next use starts afresh. */
static void test_random(void)
{
    struct sm_store *s;
    smol_error err = {0};
    bool bytes_ok = true, clear = true;
    unsigned n_failed = 0, n_fine = 0;
    inject_start();
    TAP_OK(open_store(&s, &(struct sm_store_options){.piece_bytes = 8192}, 3, &err) == SMOL_OK,
           "open");
    for (unsigned round = 0; round < 60; round++) {
        inject_zero_counts();
        if (round % 16 == 0) {
            inject_stop();
            inject_start();
        }
        if (round % 4)
            (void)inject_add(&(struct inject_rule){.kind = round % 2 ? INJECT_EIO : INJECT_END,
                                                   .on = INJECT_READ,
                                                   .first = 1 + tap_random_below(40)});
        if (tap_random_below(2)) {
            const uint16_t id = (uint16_t)tap_random_below(8);
            (void)sm_pager_prefetch(s, (uint32_t)tap_random_below(2), &id, 1, SM_PREFETCH_NEXT);
        }
        err = (smol_error){0};
        const unsigned n = 1 + (unsigned)tap_random_below(7);
        const smol_status st =
            use(s, (uint32_t)tap_random_below(2), (unsigned)tap_random_below(9 - n), n,
                (enum sm_order)tap_random_below(2), &bytes_ok, &err);
        if (st == SMOL_OK) n_fine++;
        else n_failed++;
        clear = clear && (st == SMOL_OK || ((st == SMOL_IO || st == SMOL_FORMAT) && err.msg[0]));
    }
    TAP_OK(n_failed > 5 && n_fine > 5, "random faults: %u uses failed, %u did not", n_failed,
           n_fine);
    TAP_OK(bytes_ok && clear, "random faults: right bytes or a clear error");
    sm_store_free(s);
    inject_stop();
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    (void)alarm(600);
    store_file_make(&f, "faults.gguf", &shape);
    test_harmless();
    test_eio();
    test_truncation();
    test_verify_reads();
    test_verify_slots();
    test_verify_passes();
    test_speculation();
    test_random();
    store_file_free(&f);
    return tap_done();
}
