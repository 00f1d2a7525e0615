/* SPDX-License-Identifier: MIT */
/* The pager: at every pool size, in both orders, with any ids, an expert's slot holds that expert's
 * bytes; each expert is read at most once per use; decoding token by token reads exactly what the
 * logical pool misses; nothing is allocated after load. All invariants are asserted at every
 * step. */
#include "store/store_int.h"
#include "store_file.h"
#include "tap.h"

#include <stdatomic.h>
#include <unistd.h>

/* Sanitizers and emulation bind these tests: fewer pool sizes and rounds there. */
static bool is_slow(void)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return true;
#else
    return tap_effort() == 0;
#endif
}

struct use_result { bool bytes_ok, order_ok, all_taken; uint64_t n_reads; };

/* One whole use; holds up to `hold` taken experts at a time as a decoder with several threads. */
static struct use_result run_use(const struct store_file *f, struct sm_store *s, uint32_t pool,
                                 const uint16_t *ids, unsigned n, enum sm_order order,
                                 unsigned hold)
{
    struct use_result r = {true, true, true, 0};
    struct sm_store_stats before, after;
    const struct sm_pool_info *info = sm_store_pool(s, pool);
    smol_error err = {0};
    bool seen[512] = {false};
    unsigned taken = 0;
    sm_store_stats(s, &before);
    sm_pager_begin(s, pool, ids, n, order);
    while (taken < n && r.all_taken) {
        unsigned item[8], held = 0;
        do {
            struct sm_expert e;
            unsigned i;
            if (sm_pager_take(s, &i, &e, &err) != SMOL_OK) {
                printf("# take: %s\n", err.msg);
                r.all_taken = false;
                break;
            }
            if (i >= n || seen[i]) r.all_taken = false;
            if (order == SM_ORDER_ASCENDING && i != taken) r.order_ok = false;
            seen[i] = true;
            item[held++] = i;
            taken++;
            r.bytes_ok = r.bytes_ok && store_file_same_expert(f, info, (int)pool, ids[i], &e, 1);
            if (tap_random_below(2) || held == hold) {
                if (sm_pager_take_down(s, i, &err) != SMOL_OK) r.all_taken = false;
                r.bytes_ok =
                    r.bytes_ok && store_file_same_expert(f, info, (int)pool, ids[i], &e, 2);
            }
        } while (taken < n && held < hold && sm_pager_has_ready(s));
        for (unsigned k = 0; k < held; k++) {
            if (sm_pager_take_down(s, item[k], &err) != SMOL_OK) r.all_taken = false;
            sm_pager_give(s, item[k]);
        }
    }
    sm_pager_end(s);
    sm_store_stats(s, &after);
    r.n_reads = after.n_expert_reads - before.n_expert_reads;
    return r;
}

static struct sm_store *open_store(const struct store_file *f, const struct sm_store_options *opt,
                                   uint32_t n_slots, unsigned n_readers)
{
    uint32_t slots[64];
    smol_error err = {0};
    struct sm_store *s;
    for (unsigned i = 0; i < 64; i++) slots[i] = n_slots;
    smol_status st = sm_store_new(&s, f->gguf, opt, &err);
    if (st == SMOL_OK) s->check = true;
    if (st == SMOL_OK) st = store_file_declare(f, s, NULL, &err);
    const struct sm_store_plan plan = {.n_slots = slots, .n_readers = n_readers,
                                       .n_spares = n_slots % 5,
                                       .spare_bytes = sm_store_pool(s, 0)->slot_bytes};
    if (st == SMOL_OK) st = sm_store_load(s, &plan, &err);
    if (st != SMOL_OK) {
        printf("# open: %s\n", err.msg);
        abort();
    }
    return s;
}

/* n distinct ascending ids below n_expert. */
static unsigned random_ids(uint16_t *ids, unsigned n, unsigned n_expert)
{
    unsigned have = 0;
    for (unsigned e = 0; e < n_expert && have < n; e++)
        if (tap_random_below(n_expert - e) < n - have) ids[have++] = (uint16_t)e;
    return have;
}

/* Nothing speculative is left, nothing is under way. */
static void calm(struct sm_store *s)
{
    for (uint32_t i = 0; i < s->n_pools; i++)
        for (uint32_t e = 0; e < s->pool[i]->info.n_expert; e++)
            sm_pager_drop(s, i, &(uint16_t){(uint16_t)e}, 1);
    for (bool busy = true; busy;) {
        (void)pthread_mutex_lock(&s->sched.mu);
        busy = sm_sched_busy(&s->sched);
        (void)pthread_mutex_unlock(&s->sched.mu);
        sm_sleep_ns(100000);
    }
}

/* Once every pool was used again, nothing of the spare memory is lent. */
static bool all_returned(const struct store_file *f, struct sm_store *s)
{
    bool ok = true;
    for (uint32_t pool = 0; pool < s->n_pools; pool++) {
        (void)run_use(f, s, pool, &(uint16_t){0}, 1, SM_ORDER_ARRIVAL, 1);
        ok = ok && s->pool[pool]->n_lent == 0;
    }
    return ok && s->spares.n_free == s->spares.n;
}

/* Reads take 0 to 200 us, now and then 2 ms. */
static void random_delay(void *arg, uint64_t at, size_t n)
{
    static atomic_uint_fast64_t count;
    uint64_t z = (at + n) * 0x9e3779b97f4a7c15u + atomic_fetch_add(&count, 1) * 0xbf58476d1ce4e5b9u;
    (void)arg;
    z ^= z >> 31;
    if (z % 4 == 0) return;
    sm_sleep_ns(z % 64 == 1 ? 2000000u : z % 200000u);
}

static void stress(const struct store_file *f, const struct sm_store_options *opt, unsigned readers,
                   unsigned rounds, const char *name)
{
    const unsigned n_expert = f->shape.n_expert, step = is_slow() ? 4 : 1;
    bool bytes_ok = true, order_ok = true, all = true, once = true, same_alloc = true;
    bool returned = true;
    if (is_slow()) rounds = (rounds + 5) / 6;
    for (uint32_t n_slots = 2; n_slots <= n_expert; n_slots += n_slots < 6 ? step : 3) {
        struct sm_store *s = open_store(f, opt, n_slots, readers);
        const size_t held = sm_mem_held();
        for (unsigned round = 0; round < rounds; round++) {
            uint16_t ids[512], ahead[512];
            const uint32_t pool = (uint32_t)tap_random_below(f->shape.n_layers);
            const unsigned n = random_ids(ids, 1 + (unsigned)tap_random_below(n_expert), n_expert);
            const enum sm_order order = tap_random_below(2) ? SM_ORDER_ASCENDING : SM_ORDER_ARRIVAL;
            /* a decoder notes at most slots - 1 experts a token; a wave notes several tokens */
            for (unsigned i = 0; i < n; i += n_slots - 1)
                sm_pager_note(s, pool, ids + i, n - i < n_slots - 1 ? n - i : n_slots - 1);
            for (unsigned k = (unsigned)tap_random_below(3); k > 0; k--) { /* speculation */
                const uint32_t other = (uint32_t)tap_random_below(f->shape.n_layers);
                const unsigned m = random_ids(ahead, 1 + (unsigned)tap_random_below(4), n_expert);
                const uint16_t k_max = (uint16_t)s->pool[other]->k_max;
                s->pool[other]->k_max = 1; /* let speculation have what it can get */
                (void)sm_pager_prefetch(s, other, ahead, m,
                                        (enum sm_prefetch_class)tap_random_below(2));
                s->pool[other]->k_max = k_max;
                if (tap_random_below(3) == 0) sm_pager_drop(s, other, ahead, m);
                if (tap_random_below(3) == 0) sm_pager_settle(s, other);
            }
            const struct use_result r = run_use(
                f, s, pool, ids, n, order, 1 + (unsigned)tap_random_below(n_slots > 4 ? 4 : 1));
            bytes_ok = bytes_ok && r.bytes_ok;
            order_ok = order_ok && r.order_ok;
            all = all && r.all_taken;
        }
        same_alloc = same_alloc && sm_mem_held() == held;
        calm(s);
        returned = returned && all_returned(f, s);
        /* without speculation: at most one read of each expert per use */
        for (unsigned round = 0; round < rounds; round++) {
            uint16_t ids[512];
            const unsigned n = random_ids(ids, 1 + (unsigned)tap_random_below(n_expert), n_expert);
            sm_pager_note(s, 0, ids, n < n_slots ? n : n_slots - 1);
            const struct use_result r = run_use(f, s, 0, ids, n, SM_ORDER_ASCENDING, 1);
            once = once && r.n_reads <= n && r.bytes_ok && r.all_taken;
        }
        sm_store_free(s);
    }
    TAP_OK(all, "%s: every expert is taken once", name);
    TAP_OK(bytes_ok, "%s: slots hold the bytes of their expert", name);
    TAP_OK(order_ok, "%s: ascending order is kept", name);
    TAP_OK(once, "%s: at most one read of each expert per use", name);
    TAP_OK(returned, "%s: spare memory comes back", name);
    TAP_OK(same_alloc, "%s: nothing is allocated after load", name);
}

/* Token by token without prefetch the physical misses are the logical ones. */
static void token_by_token(const struct store_file *f)
{
    const unsigned k = 3, n_expert = f->shape.n_expert;
    bool same = true;
    uint64_t total = 0;
    for (uint32_t n_slots = k + 1; n_slots < n_expert; n_slots += 2) {
        const struct sm_store_options opt = {0};
        struct sm_store *s = open_store(f, &opt, n_slots, 2);
        for (unsigned token = 0; token < 60; token++) {
            for (uint32_t pool = 0; pool < f->shape.n_layers; pool++) {
                uint16_t ids[8];
                (void)random_ids(ids, k, n_expert);
                sm_pager_note(s, pool, ids, k);
                (void)run_use(f, s, pool, ids, k, SM_ORDER_ARRIVAL, 2);
            }
        }
        struct sm_store_stats st;
        sm_store_stats(s, &st);
        same = same && st.n_expert_reads == st.expert_misses &&
               st.expert_uses == 180 * f->shape.n_layers;
        total += st.expert_misses;
        sm_store_free(s);
    }
    TAP_OK(same && total > 400, "token by token %llu reads are %llu misses",
           (unsigned long long)total, (unsigned long long)total);
}

static void complete_pool(const struct store_file *f)
{
    const struct sm_store_options opt = {0};
    struct sm_store *s = open_store(f, &opt, f->shape.n_expert, 2);
    uint16_t ids[512];
    bool ok = true;
    for (unsigned e = 0; e < f->shape.n_expert; e++) ids[e] = (uint16_t)e;
    for (uint32_t pool = 0; pool < f->shape.n_layers; pool++) {
        sm_pager_note(s, pool, ids, 4);
        const struct use_result r =
            run_use(f, s, pool, ids, f->shape.n_expert, SM_ORDER_ASCENDING, 1);
        ok = ok && r.bytes_ok && r.all_taken && r.n_reads == 0;
    }
    struct sm_store_stats st;
    sm_store_stats(s, &st);
    TAP_OK(ok, "a complete pool holds every expert");
    TAP_OK(st.bytes_read == 0 && st.expert_misses == 0 && st.n_expert_reads == 0 &&
               st.demand_wait_ns == 0 && st.load_bytes_read > 0,
           "and reads nothing after load");
    sm_store_free(s);
}

/* A full pool that is read ahead borrows half of the spare slots and evicts nothing; its use then
 * has the experts of both, and gives back what was borrowed. */
static void lending(const struct store_file *f)
{
    const struct sm_store_options opt = {0};
    struct sm_store *s = open_store(f, &opt, 4, 2); /* four spare slots */
    const uint16_t own[] = {0, 1, 2, 3}, ahead[] = {5, 6, 7}, all[] = {0, 1, 2, 3, 5, 6};
    struct sm_expert_pool *p = s->pool[0];
    uint16_t missing[6];
    p->k_max = 1; /* let speculation have what it can get */
    struct use_result r = run_use(f, s, 0, own, 4, SM_ORDER_ARRIVAL, 1);
    (void)sm_pager_prefetch(s, 0, ahead, 2, SM_PREFETCH_NEXT);
    TAP_OK(r.all_taken && p->n_lent == 2 && s->spares.n_free == 2,
           "a full pool that is read ahead borrows half of the spare slots");
    TAP_OK(sm_pager_missing(s, 0, all, 6, missing) == 0, "and keeps all that it held");
    r = run_use(f, s, 0, all, 6, SM_ORDER_ARRIVAL, 1);
    TAP_OK(r.bytes_ok && r.all_taken && r.n_reads <= 2, "its use reads nothing more");
    TAP_OK(!p->n_lent && s->spares.n_free == 4, "and gives back what was borrowed");
    (void)sm_pager_prefetch(s, 0, ahead, 3, SM_PREFETCH_NEXT);
    TAP_OK(p->n_lent <= 2 && s->spares.n_free >= 2, "never more than half");
    sm_store_free(s);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    (void)alarm(600); /* a hang is a failure */
    struct store_file q2, f16;
    store_file_make(&q2, "q2.gguf", &(struct store_shape){
        .n_layers = 2, .n_expert = 12, .n_embd = 256, .n_ffn = 256, .n_vocab = 40,
        .type_gate = SM_Q2_K, .type_down = SM_Q4_K, .type_dense = SM_Q6_K, .type_embd = SM_Q4_K,
        .seed = 1});
    store_file_make(&f16, "f16.gguf", &(struct store_shape){
        .n_layers = 2, .n_expert = 13, .n_embd = 64, .n_ffn = 40, .n_vocab = 10,
        .type_gate = SM_F16, .type_down = SM_F32, .type_dense = SM_BF16, .type_embd = SM_F16,
        .fused = true, .seed = 2});
    struct store_file q8;
    store_file_make(&q8, "q8.gguf", &(struct store_shape){
        .n_layers = 1, .n_expert = 9, .n_embd = 96, .n_ffn = 64, .n_vocab = 10,
        .type_gate = SM_Q8_0, .type_down = SM_Q4_0, .type_dense = SM_Q8_0, .type_embd = SM_F32,
        .fused = true, .seed = 3});
    struct store_file mixed; /* slots of two sizes: spare ones are for pool 0 */
    store_file_make(&mixed, "mixed.gguf", &(struct store_shape){
        .n_layers = 2, .n_expert = 12, .n_embd = 256, .n_ffn = 256, .n_vocab = 40,
        .type_gate = SM_Q2_K, .type_down = SM_Q6_K, .type_dense = SM_Q6_K, .type_embd = SM_Q4_K,
        .mixed = true, .seed = 4});
    stress(&q2, &(struct sm_store_options){0}, 3, 2, "real file");
    stress(&f16, &(struct sm_store_options){.no_direct = true}, 1, 2, "real file, buffered");
    store_file_fake(&q2, NULL, NULL);
    stress(&q2, &(struct sm_store_options){.piece_bytes = 4096}, 4, 12, "fast reads, many pieces");
    token_by_token(&q2);
    complete_pool(&q2);
    store_file_fake(&q2, random_delay, NULL);
    stress(&q2, &(struct sm_store_options){.piece_bytes = 8192}, 3, 6, "slow reads, many pieces");
    stress(&q2, &(struct sm_store_options){.flash_mb_s = 400, .flash_latency_us = 100}, 4, 3,
           "flash limit");
    store_file_fake(&mixed, random_delay, NULL);
    stress(&mixed, &(struct sm_store_options){0}, 3, 6, "slots of two sizes");
    store_file_fake(&f16, random_delay, NULL);
    stress(&f16, &(struct sm_store_options){0}, 1, 12, "f16 fused, one reader");
    store_file_fake(&q8, random_delay, NULL);
    stress(&q8, &(struct sm_store_options){.verify = true}, 2, 15, "q8_0 fused, verified");
    complete_pool(&q8);
    store_file_unfake();
    lending(&q2);
    store_file_free(&q2);
    store_file_free(&mixed);
    store_file_free(&f16);
    store_file_free(&q8);
    return tap_done();
}
