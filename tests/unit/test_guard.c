/* SPDX-License-Identifier: MIT */
/* The guard, with a made-up system: slots are given back when memory runs short, layers stay alike,
 * what remains is right, and at the floor the run ends after a few looks. And filling pools before
 * the first token, settling what was read ahead for nothing, and borrowing memory for it. */
#include "store/store_int.h"
#include "store_file.h"
#include "tap.h"

enum { N_EXPERT = 16, N_LAYERS = 2 };
static const struct store_shape shape = {
    .n_layers = N_LAYERS, .n_expert = N_EXPERT, .n_embd = 256, .n_ffn = 256, .n_vocab = 8,
    .type_gate = SM_Q2_K, .type_down = SM_Q2_K, .type_dense = SM_Q4_0, .type_embd = SM_Q4_0,
    .seed = 9,
};
static struct store_file f;
static int64_t available;
static uint64_t rss;

static void probe(struct sm_memory_watch *watch, struct sm_memory *m)
{
    (void)watch;
    *m = (struct sm_memory){.total_bytes = 1u << 30, .margin_bytes = available, .rss_bytes = rss};
}

static struct sm_store *new_store(void)
{
    const struct sm_store_options opt = {0};
    struct sm_store *s;
    smol_error err = {0};
    if (sm_store_new(&s, f.gguf, &opt, &err) != SMOL_OK ||
        store_file_declare(&f, s, NULL, &err) != SMOL_OK) {
        printf("# %s\n", err.msg);
        abort();
    }
    s->check = true;
    return s;
}

static uint32_t n_spares;

static smol_status load(struct sm_store *s, uint32_t n_slots, smol_error *err)
{
    const uint32_t slots[N_LAYERS] = {n_slots, n_slots};
    const struct sm_store_plan plan = {.n_slots = slots, .n_readers = 2, .n_spares = n_spares,
                                       .spare_bytes = sm_store_pool(s, 0)->slot_bytes};
    return sm_store_load(s, &plan, err);
}

static struct sm_store *open_store(uint32_t n_slots)
{
    struct sm_store *s = new_store();
    smol_error err = {0};
    if (load(s, n_slots, &err) == SMOL_OK) return s;
    printf("# %s\n", err.msg);
    abort();
}

/* One token's use of these experts, reads ahead of it settled as a layer does. */
static bool use(struct sm_store *s, uint32_t pool, const uint16_t *ids, unsigned n)
{
    bool ok = true;
    sm_pager_note(s, pool, ids, n);
    sm_pager_begin(s, pool, ids, n, SM_ORDER_ARRIVAL);
    sm_pager_settle(s, pool);
    for (unsigned k = 0; k < n && ok; k++) {
        struct sm_expert e;
        unsigned i;
        smol_error err = {0};
        ok = sm_pager_take(s, &i, &e, &err) == SMOL_OK &&
             sm_pager_take_down(s, i, &err) == SMOL_OK &&
             s->pool[pool]->slot[s->use.slot[i]].expert == ids[i];
        if (ok) sm_pager_give(s, i);
    }
    sm_pager_end(s);
    return ok;
}

/* Use every expert of the pool, four at a time. */
static bool use_all(struct sm_store *s, uint32_t pool)
{
    bool ok = true;
    for (unsigned e = 0; e < N_EXPERT; e += 4) {
        const uint16_t ids[4] = {(uint16_t)e, (uint16_t)(e + 1), (uint16_t)(e + 2),
                                 (uint16_t)(e + 3)};
        ok = ok && use(s, pool, ids, 4);
    }
    return ok;
}

static smol_status look(struct sm_store *s, smol_error *err)
{
    s->guard.next_ns = 0;
    return sm_store_guard_look(s, err);
}

static void test_guard(void)
{
    struct sm_store *s = open_store(12);
    smol_error err = {0};
    struct sm_store_stats st;
    const int64_t slot = (int64_t)sm_store_pool(s, 0)->slot_bytes, reserve = 8 * slot;
    sm_store_guard(s, (uint64_t)reserve, 5);
    s->guard.probe = probe;
    TAP_OK(use_all(s, 0) && use_all(s, 1), "twelve slots work");
    available = reserve;
    TAP_OK(look(s, &err) == SMOL_OK && s->guard.given_bytes == 0,
           "enough is left: nothing happens");
    available = reserve - 1;
    TAP_OK(look(s, &err) == SMOL_OK && s->pool[0]->n_off == 5 && s->pool[1]->n_off == 5,
           "short of memory: %u and %u slots go, until twice the reserve is free",
           s->pool[0]->n_off, s->pool[1]->n_off);
    available = 2 * reserve;
    TAP_OK(look(s, &err) == SMOL_OK && use_all(s, 0) && use_all(s, 1), "seven slots work");
    available = 0;
    TAP_OK(look(s, &err) == SMOL_OK && sm_pool_live(s->pool[0]) == 5 &&
               sm_pool_live(s->pool[1]) == 5,
           "the floor is kept");
    TAP_OK(use_all(s, 0) && use_all(s, 1) && s->pool[0]->policy.n_held == 5, "and works");
    unsigned looks = 1;
    while (looks < 20 && look(s, &err) == SMOL_OK) looks++;
    TAP_OK(looks == 5 && err.code == SMOL_NOMEM && strstr(err.msg, "out of memory"),
           "at the floor the run ends after %u looks: %s", looks, err.msg);
    sm_store_stats(s, &st);
    TAP_IS_INT((int64_t)st.given_back_bytes, 14 * slot, "what was given back is counted");
    err = (smol_error){0};
    available = reserve / 2;
    TAP_OK(look(s, &err) == SMOL_OK, "half the reserve at the floor is bearable");
    sm_store_free(s);
}

/* Memory runs short while the store is loaded: slots go before the first token; at the floor, with
 * a fall that two looks foresee, loading ends. */
static void test_guard_load(void)
{
    struct sm_store *s = new_store();
    smol_error err = {0};
    const int64_t slot = (int64_t)sm_store_pool(s, 0)->slot_bytes, reserve = 8 * slot;
    sm_store_guard(s, (uint64_t)reserve, 5);
    s->guard.probe = probe;
    available = 24 * slot; /* as many slots, but there are other weights and a reserve */
    TAP_OK(load(s, 12, &err) == SMOL_OK && s->pool[0]->n_off == 7 && s->pool[1]->n_off == 7 &&
               s->guard.goal_bytes == 0,
           "short while loading: %u and %u slots go", s->pool[0]->n_off, s->pool[1]->n_off);
    available = 20 * reserve;
    TAP_OK(use_all(s, 0) && use_all(s, 1), "the others work");
    sm_store_free(s);

    s = new_store();
    sm_store_guard(s, (uint64_t)reserve, 5);
    s->guard.probe = probe;
    s->guard.left_bytes = reserve; /* as if it had been so much at a look before */
    s->guard.n_low = 4;
    available = 0;
    TAP_OK(load(s, N_EXPERT, &err) == SMOL_NOMEM && strstr(err.msg, "out of memory"),
           "nothing to give: loading ends: %s", err.msg);
    sm_store_free(s);
}

/* Slots are given back before it is too late, and as many as a lowered limit asks for. */
static void test_guard_fall(void)
{
    struct sm_store *s = open_store(12);
    smol_error err = {0};
    const int64_t slot = (int64_t)sm_store_pool(s, 0)->slot_bytes, reserve = 2 * slot;
    sm_store_guard(s, (uint64_t)reserve, 5);
    s->guard.probe = probe;
    available = 20 * slot;
    bool ok = look(s, &err) == SMOL_OK && s->guard.next_ns > sm_now_ns() + 50000000;
    available = 12 * slot;
    rss = (uint64_t)(8 * slot);
    ok = ok && look(s, &err) == SMOL_OK && s->guard.given_bytes == 0;
    TAP_OK(ok, "what we take ourselves is no cause");
    available = 7 * slot;
    TAP_OK(look(s, &err) == SMOL_OK && s->guard.given_bytes == 0 &&
               s->guard.next_ns < sm_now_ns() + 50000000, "it falls: looks come soon");
    available = 4 * slot;
    TAP_OK(look(s, &err) == SMOL_OK && s->pool[0]->n_off == 2 && s->pool[1]->n_off == 2,
           "it falls to below the reserve at the next look: %u slots go", s->pool[0]->n_off);
    rss -= (uint64_t)(4 * slot);
    available = 8 * slot;
    TAP_OK(look(s, &err) == SMOL_OK && s->pool[0]->n_off == 2, "what was given back is no fall");
    rss = 0;
    s->guard.left_bytes = INT64_MIN;
    available = -2 * slot;
    TAP_OK(look(s, &err) == SMOL_OK && s->pool[0]->n_off == 5 && use_all(s, 0) && use_all(s, 1),
           "over a limit: as much more at once, %u slots are gone", s->pool[0]->n_off);
    available = -20 * slot;
    ok = look(s, &err) == SMOL_OK && s->pool[0]->n_off == 7;
    for (int i = 4; ok && i > 0; i--) { /* at the first half of the reserve would be left */
        available = i * slot;
        ok = (look(s, &err) == SMOL_OK) == (i > 1);
    }
    TAP_OK(ok && err.code == SMOL_NOMEM, "at the floor it falls fast: two looks are enough");

    available = 20 * slot;
    s->guard.left_bytes = INT64_MIN;
    s->guard.n_low = 0;
    TAP_OK(look(s, NULL) == SMOL_OK, "enough is left again");
    s->guard.goal_bytes = (int64_t)s->guard.given_bytes + 20 * slot;
    unsigned looks = 1;
    while (looks < 20 && look(s, NULL) == SMOL_OK) looks++;
    TAP_IS_INT(looks, 5, "but not for what is still to be loaded");
    sm_store_free(s);
}

static void test_warm(void)
{
    struct sm_store *s = open_store(6);
    float uses[N_EXPERT] = {0};
    smol_error err = {0};
    unsigned there = 0;
    for (unsigned e = 0; e < N_EXPERT; e += 2) uses[e] = (float)(100 + e);
    TAP_OK(sm_store_warm(s, 0, uses, true, &err) == SMOL_OK, "a pool is filled %s", err.msg);
    for (unsigned e = 4; e < N_EXPERT; e += 2) there += s->pool[0]->slot_of[e] != SM_NO_SLOT;
    TAP_OK(there == 6 && s->pool[0]->policy.n_held == 6 && !s->pool[0]->policy.held[2],
           "with the most used");
    TAP_OK(sm_store_warm(s, 1, uses, false, &err) == SMOL_OK && s->pool[1]->policy.n_held == 0 &&
               s->pool[1]->slot_of[14] != SM_NO_SLOT, "the logical pool may stay empty");
    TAP_OK(use_all(s, 0) && use_all(s, 1), "and then it is used");
    TAP_OK(sm_store_usage(s, 0, uses) == 4 && uses[0] == 250 && uses[15] == 250,
           "uses are counted");
    sm_store_free(s);
}

static void test_settle(void)
{
    struct sm_store *s = open_store(9);
    const uint16_t ids[3] = {1, 2, 3};
    struct sm_store_stats st;
    uint16_t missing[3];
    s->pool[0]->k_max = 4;
    TAP_OK(sm_pager_missing(s, 0, ids, 3, missing) == 3 &&
               sm_pager_prefetch(s, 0, ids, 3, SM_PREFETCH_NEXT) == 3, "three are asked for");
    TAP_IS_INT(sm_pager_missing(s, 0, ids, 3, missing), 0, "and none is missing then");
    for (unsigned i = 0; i < 3; i++)
        while (s->pool[0]->slot[s->pool[0]->slot_of[ids[i]]].state != SM_SLOT_READY)
            sm_sleep_ns(100000);
    const uint16_t used[2] = {2, 7};
    TAP_OK(use(s, 0, used, 2), "two are used");
    sm_store_stats(s, &st);
    TAP_OK(st.prefetch_issued == 3 && st.prefetch_used == 1 &&
               st.prefetch_wasted_bytes == 2 * sm_store_pool(s, 0)->expert_file_bytes,
           "one of three was used: %llu bytes for nothing",
           (unsigned long long)st.prefetch_wasted_bytes);
    TAP_OK(st.flash_busy_ns > 0, "the time of reading is counted");
    sm_store_free(s);
}

static unsigned held(const struct sm_store *s, uint32_t pool, unsigned first, unsigned end)
{
    unsigned n = 0;
    for (; first < end; first++) n += s->pool[pool]->slot_of[first] != SM_NO_SLOT;
    return n;
}

/* A full pool is read ahead: it borrows half of what there is, and nothing that is expected goes
 * for it. After its use it is as large as before; what goes is what was used least. When memory
 * runs short, what nobody has borrowed goes first. */
static void test_spares(void)
{
    n_spares = 4;
    struct sm_store *s = open_store(6);
    const struct sm_expert_pool *p = s->pool[1];
    const uint16_t often[4] = {0, 1, 2, 3}, once[2] = {4, 5}, late[2] = {6, 15};
    uint16_t all[N_EXPERT];
    for (uint16_t e = 0; e < N_EXPERT; e++) all[e] = e;
    const bool ok = use(s, 1, often, 4) && use(s, 1, often, 4) && use(s, 1, once, 2);
    TAP_OK(ok && sm_pool_live(p) == 6 && held(s, 1, 0, 6) == 6, "six slots are full");
    s->pool[1]->k_max = 2;
    TAP_IS_INT(sm_pager_prefetch(s, 1, all, N_EXPERT, SM_PREFETCH_NEXT), 8,
               "all experts are expected: two more come");
    TAP_OK(p->n_lent == 2 && s->spares.n_free == 2 && held(s, 1, 0, 8) == 8,
           "on borrowed memory");
    TAP_OK(use(s, 1, often, 4) && use(s, 1, late, 2), "then others are used");
    TAP_OK(p->n_lent == 0 && s->spares.n_free == 4 && sm_pool_live(p) == 6, "it is returned");
    TAP_OK(held(s, 1, 0, 4) == 4, "and what is used most has stayed");

    const int64_t slot = (int64_t)sm_store_pool(s, 0)->slot_bytes;
    smol_error err = {0};
    sm_store_guard(s, (uint64_t)(2 * slot), 5);
    s->guard.probe = probe;
    rss = 0;
    available = slot;
    TAP_OK(look(s, &err) == SMOL_OK && s->spares.n_free == 1 && s->spares.n == 1 && p->n_off == 2,
           "short of memory: three spare slots go, none of a pool");
    s->guard.left_bytes = INT64_MIN;
    TAP_OK(look(s, &err) == SMOL_OK && s->spares.n == 0 && p->n_off == 3 &&
               (int64_t)s->guard.given_bytes == 6 * slot && use_all(s, 0) && use_all(s, 1),
           "and then one of each pool");
    sm_store_free(s);
    n_spares = 0;
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    store_file_make(&f, "guard.gguf", &shape);
    test_guard();
    test_guard_fall();
    test_guard_load();
    test_warm();
    test_settle();
    test_spares();
    store_file_free(&f);
    return tap_done();
}
