/* SPDX-License-Identifier: MIT */
/* The scheduler by script: a fake reader holds every read until the test lets it go, so that
 * classes, caps, joining, draining, arrival order and halves can be looked at one step at a
 * time. */
#include "store/store_int.h"
#include "store_file.h"
#include "tap.h"

#include <pthread.h>
#include <unistd.h>

enum { N_EXPERT = 16, MAX_LOG = 4096 };
static struct store_file f;
static const struct store_shape shape = {
    .n_layers = 2, .n_expert = N_EXPERT, .n_embd = 256, .n_ffn = 256, .n_vocab = 8,
    .type_gate = SM_Q2_K, .type_down = SM_Q2_K, .type_dense = SM_Q4_0, .type_embd = SM_Q4_0,
    .seed = 5,
};

/* ---- the script
 * ------------------------------------------------------------------------------- */

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool closed[2][N_EXPERT][SM_MATRICES]; /* reads of these wait */
static unsigned n_started[2][N_EXPERT][SM_MATRICES];
static struct { uint8_t pool, expert, part; } reads[MAX_LOG];
static unsigned n_log;

static bool find(uint64_t at, unsigned *pool, unsigned *expert, unsigned *part)
{
    static const char *const names[SM_MATRICES] = {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"};
    const uint64_t in = at + SM_IO_ALIGN - 1; /* a direct read starts up to a block early */
    for (unsigned l = 0; l < 2; l++) {
        for (unsigned i = 0; i < SM_MATRICES; i++) {
            const struct sm_tensor_info *t = store_file_tensor(&f, (int)l, names[i]);
            if (in < t->at || in >= t->at + t->bytes) continue;
            *pool = l;
            *expert = (unsigned)((in - t->at) / (t->bytes / N_EXPERT));
            *part = i;
            return true;
        }
    }
    return false;
}

static void gate(void *arg, uint64_t at, size_t n)
{
    unsigned l, e, i;
    (void)arg;
    (void)n;
    if (!find(at, &l, &e, &i)) return;
    (void)pthread_mutex_lock(&mu);
    n_started[l][e][i]++;
    if (n_log < MAX_LOG) {
        reads[n_log].pool = (uint8_t)l;
        reads[n_log].expert = (uint8_t)e;
        reads[n_log++].part = (uint8_t)i;
    }
    (void)pthread_cond_broadcast(&changed);
    while (closed[l][e][i]) (void)pthread_cond_wait(&changed, &mu);
    (void)pthread_mutex_unlock(&mu);
}

static void set(unsigned pool, unsigned expert, unsigned part, bool shut)
{
    (void)pthread_mutex_lock(&mu);
    closed[pool][expert][part] = shut;
    (void)pthread_cond_broadcast(&changed);
    (void)pthread_mutex_unlock(&mu);
}

static void set_expert(unsigned pool, unsigned expert, bool shut)
{
    for (unsigned i = 0; i < SM_MATRICES; i++) set(pool, expert, i, shut);
}

static unsigned started(unsigned pool, unsigned expert)
{
    unsigned n = 0;
    (void)pthread_mutex_lock(&mu);
    for (unsigned i = 0; i < SM_MATRICES; i++) n += n_started[pool][expert][i];
    (void)pthread_mutex_unlock(&mu);
    return n;
}

/* Wait until so many reads of an expert have started. */
static void await_started(unsigned pool, unsigned expert, unsigned n)
{
    while (started(pool, expert) < n) sm_sleep_ns(200000);
}

static void forget_log(void)
{
    (void)pthread_mutex_lock(&mu);
    n_log = 0;
    memset(n_started, 0, sizeof n_started);
    (void)pthread_mutex_unlock(&mu);
}

/* ---- a store and looks into it
 * ---------------------------------------------------------------- */

static struct sm_store *open_store(uint32_t n_slots, unsigned n_readers)
{
    const uint32_t slots[2] = {n_slots, n_slots};
    const struct sm_store_options opt = {0};
    const struct sm_store_plan plan = {.n_slots = slots, .n_readers = n_readers};
    struct sm_store *s;
    smol_error err = {0};
    memset(closed, 0, sizeof closed);
    if (sm_store_new(&s, f.gguf, &opt, &err) != SMOL_OK ||
        store_file_declare(&f, s, NULL, &err) != SMOL_OK ||
        sm_store_load(s, &plan, &err) != SMOL_OK) {
        printf("# %s\n", err.msg);
        abort();
    }
    s->check = true;
    forget_log();
    return s;
}

struct look { int state, io_class; unsigned flying, pins; };
static struct look look_at(struct sm_store *s, unsigned pool, unsigned expert)
{
    struct look l = {-1, -1, 0, 0};
    (void)pthread_mutex_lock(&s->sched.mu);
    const uint16_t i = s->pool[pool]->slot_of[expert];
    if (i != SM_NO_SLOT) {
        const struct sm_slot *sl = &s->pool[pool]->slot[i];
        l = (struct look){sl->state, sl->io_class, sl->n_flying, sl->pins};
    }
    (void)pthread_mutex_unlock(&s->sched.mu);
    return l;
}

static void await_state(struct sm_store *s, unsigned pool, unsigned expert, int state)
{
    while (look_at(s, pool, expert).state != state) sm_sleep_ns(200000);
}

static bool take_give(struct sm_store *s, unsigned pool, const uint16_t *ids, unsigned want)
{
    struct sm_expert e;
    smol_error err = {0};
    unsigned i = 99;
    const bool ok = sm_pager_take(s, &i, &e, &err) == SMOL_OK && i == want &&
                    sm_pager_take_down(s, i, &err) == SMOL_OK &&
                    store_file_same_expert(&f, sm_store_pool(s, pool), (int)pool, ids[i], &e, 3);
    if (!ok) printf("# took %u, wanted %u: %s\n", i, want, err.msg);
    sm_pager_give(s, i);
    return ok;
}

/* One use in which everything is taken in the order of `ids`. */
static bool use(struct sm_store *s, unsigned pool, const uint16_t *ids, unsigned n)
{
    bool ok = true;
    sm_pager_begin(s, pool, ids, n, SM_ORDER_ASCENDING);
    for (unsigned i = 0; i < n; i++) ok = take_give(s, pool, ids, i) && ok;
    sm_pager_end(s);
    return ok;
}

/* ---- tests
 * ------------------------------------------------------------------------------------ */

static void test_arrival(void)
{
    struct sm_store *s = open_store(6, 8);
    const uint16_t first[] = {5}, ids[] = {1, 3, 5};
    TAP_OK(use(s, 0, first, 1), "expert 5 comes");
    set_expert(0, 1, true);
    set_expert(0, 3, true);
    sm_pager_begin(s, 0, ids, 3, SM_ORDER_ARRIVAL);
    TAP_OK(sm_pager_has_ready(s) && take_give(s, 0, ids, 2), "the resident one first");
    await_started(0, 1, 3);
    await_started(0, 3, 3);
    TAP_OK(!sm_pager_has_ready(s), "nothing has landed");
    set_expert(0, 3, false);
    TAP_OK(take_give(s, 0, ids, 1), "then what lands first");
    set_expert(0, 1, false);
    TAP_OK(take_give(s, 0, ids, 0), "then the last");
    sm_pager_end(s);
    TAP_OK(started(0, 1) == 3 && started(0, 3) == 3 && started(0, 5) == 3,
           "each part is read once");
    sm_store_free(s);
}

static void *open_later(void *arg)
{
    sm_sleep_ns(30000000);
    set(0, 2, SM_PART_DOWN, false);
    return arg;
}

static void *open_gate_later(void *arg)
{
    sm_sleep_ns(30000000);
    set(0, 7, SM_PART_GATE, false);
    return arg;
}

static void test_halves(void)
{
    struct sm_store *s = open_store(4, 4);
    const uint16_t ids[] = {2};
    struct sm_expert e;
    smol_error err = {0};
    unsigned i;
    pthread_t t;
    set(0, 2, SM_PART_DOWN, true);
    sm_pager_begin(s, 0, ids, 1, SM_ORDER_ARRIVAL);
    TAP_OK(sm_pager_take(s, &i, &e, &err) == SMOL_OK, "gate and up are there");
    TAP_OK(store_file_same_expert(&f, sm_store_pool(s, 0), 0, 2, &e, 1), "and right");
    TAP_OK(look_at(s, 0, 2).state == SM_SLOT_LOADING, "while down is under way");
    struct sm_store_stats before, after;
    sm_store_stats(s, &before);
    TAP_OK(pthread_create(&t, NULL, open_later, NULL) == 0, "down comes 30 ms later");
    TAP_OK(sm_pager_take_down(s, i, &err) == SMOL_OK &&
               store_file_same_expert(&f, sm_store_pool(s, 0), 0, 2, &e, 2), "down is there");
    sm_store_stats(s, &after);
    (void)pthread_join(t, NULL);
    const uint64_t waited = after.demand_wait_ns - before.demand_wait_ns;
    TAP_OK(waited > 20000000u, "%.1f ms of demand wait", (double)waited * 1e-6);
    sm_pager_give(s, i);
    sm_pager_end(s);
    sm_store_free(s);
}

static void test_join(void)
{
    struct sm_store *s = open_store(4, 4);
    const uint16_t ids[] = {4};
    set_expert(0, 4, true);
    TAP_OK(sm_pager_prefetch(s, 0, ids, 1, SM_PREFETCH_WARM) == 1, "asked ahead");
    await_started(0, 4, 2); /* WARM: two of four readers */
    struct look l = look_at(s, 0, 4);
    TAP_OK(l.state == SM_SLOT_LOADING && l.io_class == SM_IO_WARM && l.flying == 2 && !l.pins,
           "speculation leaves readers free");
    TAP_OK(sm_pager_prefetch(s, 0, ids, 1, SM_PREFETCH_NEXT) == 1 &&
               look_at(s, 0, 4).io_class == SM_IO_NEXT,
           "asking again raises its class");
    await_started(0, 4, 3);
    sm_pager_begin(s, 0, ids, 1, SM_ORDER_ARRIVAL);
    l = look_at(s, 0, 4);
    TAP_OK(l.io_class == SM_IO_DEMAND && l.pins == 1, "the demand joins and raises it");
    set_expert(0, 4, false);
    TAP_OK(take_give(s, 0, ids, 0), "and gets it");
    sm_pager_end(s);
    TAP_IS_INT(started(0, 4), 3, "there was no second read");
    sm_store_free(s);
}

static void test_drain(void)
{
    struct sm_store *s = open_store(3, 3);
    const uint16_t ids[] = {7}, other[] = {1, 2, 3};
    set_expert(0, 7, true);
    TAP_OK(sm_pager_prefetch(s, 0, ids, 1, SM_PREFETCH_NEXT) == 1, "asked ahead");
    await_started(0, 7, 2);
    sm_pager_drop(s, 0, ids, 1);
    struct look l = look_at(s, 0, 7);
    TAP_OK(l.state == SM_SLOT_DRAINING && l.flying == 2, "dropped: it drains");
    TAP_OK(use(s, 0, other, 3), "three experts pass through the two other slots");
    TAP_OK(look_at(s, 0, 7).state == SM_SLOT_DRAINING, "its slot was not touched");
    set_expert(0, 7, false);
    await_state(s, 0, 7, -1);
    TAP_IS_INT(started(0, 7), 2, "the third piece was never started");

    set_expert(0, 7, true);
    forget_log();
    TAP_OK(sm_pager_prefetch(s, 0, ids, 1, SM_PREFETCH_NEXT) == 1, "asked again");
    await_started(0, 7, 2);
    sm_pager_drop(s, 0, ids, 1);
    sm_pager_begin(s, 0, ids, 1, SM_ORDER_ARRIVAL);
    l = look_at(s, 0, 7);
    TAP_OK(l.state == SM_SLOT_LOADING && l.pins == 1, "a demand takes a draining slot back");
    set_expert(0, 7, false);
    TAP_OK(take_give(s, 0, ids, 0), "and it is right");
    sm_pager_end(s);
    TAP_IS_INT(started(0, 7), 3, "each part read once");
    sm_store_free(s);
}

static void test_priority(void)
{
    struct sm_store *s = open_store(6, 1);
    const uint16_t warm[] = {1}, next[] = {2}, ids[] = {9};
    set_expert(1, 1, true);
    TAP_OK(sm_pager_prefetch(s, 1, warm, 1, SM_PREFETCH_WARM) == 1, "WARM");
    await_started(1, 1, 1);
    TAP_OK(sm_pager_prefetch(s, 1, next, 1, SM_PREFETCH_NEXT) == 1, "NEXT");
    sm_pager_begin(s, 0, ids, 1, SM_ORDER_ARRIVAL);
    set_expert(1, 1, false);
    TAP_OK(take_give(s, 0, ids, 0), "DEMAND");
    sm_pager_end(s);
    await_state(s, 1, 1, SM_SLOT_READY);
    static const struct { unsigned pool, expert, part; } want[] = {
        {1, 1, SM_PART_GATE}, /* was under way */
        {0, 9, SM_PART_GATE}, {0, 9, SM_PART_UP}, {0, 9, SM_PART_DOWN},
        {1, 2, SM_PART_GATE}, {1, 2, SM_PART_UP}, {1, 2, SM_PART_DOWN},
        {1, 1, SM_PART_UP}, {1, 1, SM_PART_DOWN}};
    bool same = n_log == 9;
    for (unsigned i = 0; i < 9 && same; i++)
        same = reads[i].pool == want[i].pool && reads[i].expert == want[i].expert &&
               reads[i].part == want[i].part;
    TAP_OK(same, "pieces in order of class, gate and up before down, one WARM piece ahead at most");
    sm_store_free(s);
}

static void test_caps(void)
{
    struct sm_store *s = open_store(6, 3);
    const uint16_t many[] = {0, 1, 2, 3, 4, 5}, token[] = {10, 11}, rest[] = {10, 11, 12};
    for (unsigned e = 0; e < 6; e++) set_expert(0, e, true);
    sm_pager_note(s, 0, token, 2);
    TAP_IS_INT(sm_pager_prefetch(s, 0, many, 6, SM_PREFETCH_NEXT), 4,
               "speculation gets slots - used");
    await_started(0, 0, 2);
    TAP_OK(use(s, 0, token, 2), "a token gets its slots and a reader at once");
    TAP_IS_INT(started(0, 0) + started(0, 1), 2, "NEXT has two of three readers");
    /* a third slot is only to be had from speculation: the one not started yet goes */
    TAP_OK(use(s, 0, rest, 3), "three experts");
    for (unsigned e = 0; e < 6; e++) set_expert(0, e, false);
    for (unsigned e = 0; e < 6; e++)
        while (look_at(s, 0, e).state == SM_SLOT_LOADING) sm_sleep_ns(200000);
    sm_store_free(s);

    s = open_store(3, 3);
    const uint16_t two[] = {0, 1}, four[] = {8, 9, 10, 11};
    set_expert(0, 0, true);
    set_expert(0, 1, true);
    sm_pager_note(s, 0, two, 1);
    TAP_IS_INT(sm_pager_prefetch(s, 0, two, 2, SM_PREFETCH_NEXT), 2,
               "two of three slots are speculative");
    await_started(0, 0, 2);
    sm_pager_begin(s, 0, four, 4, SM_ORDER_ARRIVAL);
    const uint16_t held = look_at(s, 0, 1).state == -1;
    TAP_OK(held && look_at(s, 0, 0).state == SM_SLOT_LOADING,
           "a demand cancels what was not started and leaves the rest");
    set_expert(0, 0, false);
    set_expert(0, 1, false);
    unsigned taken = 0;
    for (unsigned i = 0; i < 4; i++) {
        struct sm_expert e;
        unsigned item;
        if (sm_pager_take(s, &item, &e, NULL) == SMOL_OK &&
            sm_pager_take_down(s, item, NULL) == SMOL_OK &&
            store_file_same_expert(&f, sm_store_pool(s, 0), 0, four[item], &e, 3))
            taken++;
        sm_pager_give(s, item);
    }
    sm_pager_end(s);
    TAP_IS_INT(taken, 4, "and all four come");
    sm_store_free(s);
}

static struct sm_store_stats stats_of(struct sm_store *s)
{
    struct sm_store_stats st;
    sm_store_stats(s, &st);
    return st;
}

/* Read ahead and there; not read ahead and waited for; there all along. */
static void test_in_time(void)
{
    struct sm_store *s = open_store(6, 4);
    const uint16_t ids[] = {1, 3};
    sm_pager_note(s, 0, ids, 2);
    TAP_OK(sm_pager_prefetch(s, 0, ids, 1, SM_PREFETCH_NEXT) == 1, "one of two is read ahead");
    await_state(s, 0, 1, SM_SLOT_READY);
    TAP_OK(use(s, 0, ids, 2), "both are used");
    struct sm_store_stats st = stats_of(s);
    TAP_OK(st.expert_misses == 2 && st.misses_ready == 1,
           "one miss of two was there when asked for");
    const uint64_t late = st.misses_late;
    TAP_OK(late <= 1, "it was not waited for");
    sm_pager_note(s, 0, ids, 2);
    TAP_OK(use(s, 0, ids, 2), "again: no miss");
    st = stats_of(s);
    TAP_OK(st.expert_misses == 2 && st.misses_ready == 1 && st.misses_late == late,
           "nothing to count");

    const uint16_t other[] = {7};
    pthread_t t;
    set(0, 7, SM_PART_GATE, true);
    sm_pager_note(s, 0, other, 1);
    sm_pager_note(s, 0, other, 1); /* two tokens of a wave: one miss, the second is a hit */
    TAP_OK(pthread_create(&t, NULL, open_gate_later, NULL) == 0, "gate comes 30 ms later");
    TAP_OK(use(s, 0, other, 1), "waited for");
    (void)pthread_join(t, NULL);
    st = stats_of(s);
    TAP_OK(st.expert_misses == 3 && st.misses_ready == 1 && st.misses_late == late + 1, "and late");
    sm_store_free(s);
}

/* Experts that are expected and there do not make room for others that are expected. */
static void test_keep(void)
{
    struct sm_store *s = open_store(4, 3);
    const uint16_t hot[] = {5}, first[] = {0, 1, 2, 3}, expected[] = {8, 0, 1};
    sm_pager_note(s, 0, first, 1);
    /* 0 is the coldest, then 1 */
    for (unsigned i = 1; i < 4; i++) sm_pager_note(s, 0, first + i, 1);
    TAP_OK(use(s, 0, first, 4), "four slots are full");
    sm_pager_note(s, 1, hot, 1);
    TAP_IS_INT(sm_pager_prefetch(s, 0, expected, 3, SM_PREFETCH_NEXT), 3,
               "two are there, one is read");
    TAP_OK(look_at(s, 0, 0).state == SM_SLOT_READY && look_at(s, 0, 1).state == SM_SLOT_READY &&
               look_at(s, 0, 2).state == -1,
           "in place of the coldest that is not expected");
    await_state(s, 0, 8, SM_SLOT_READY);
    TAP_IS_INT(started(0, 0) + started(0, 1), 6, "nothing is read again");
    sm_store_free(s);
}

/* Experts that a wave brings and the policy would not keep leave the hot ones alone. */
static void test_wave(void)
{
    struct sm_store *s = open_store(8, 3);
    const uint16_t hot[] = {0, 1, 2, 3, 4, 5, 6, 7}, cold[] = {8, 9, 10, 11, 12, 13, 14, 15};
    unsigned kept = 0;
    for (unsigned t = 0; t < 4; t++) sm_pager_note(s, 0, cold + 2 * t, 2);
    for (unsigned t = 0; t < 8; t++) sm_pager_note(s, 0, hot + 2 * (t % 4), 2);
    TAP_OK(use(s, 0, hot, 8), "the hot ones are in");
    forget_log();
    TAP_OK(use(s, 0, cold, 8), "a wave of cold ones");
    for (unsigned e = 0; e < 8; e++) kept += look_at(s, 0, e).state == SM_SLOT_READY;
    TAP_OK(kept >= 5, "%u of 8 hot ones stay", kept);
    unsigned n = 0;
    for (unsigned e = 8; e < 16; e++) n += started(0, e);
    TAP_IS_INT(n, 24, "each cold one is read once");

    /* all resident, and needed after what is missing: two slots are lent, two are read again */
    TAP_OK(use(s, 1, cold, 8), "the last ids are in");
    forget_log();
    const uint16_t all[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    TAP_OK(use(s, 1, all, 16), "a wave through a full pool");
    n = 0;
    bool once = true;
    for (unsigned e = 0; e < 16; e++) {
        n += started(1, e);
        once = once && started(1, e) <= 3;
    }
    TAP_OK(once && n == 3 * (8 + 2), "%u parts read, none twice", n);
    sm_store_free(s);

    s = open_store(2, 2);
    const uint16_t last[] = {14, 15};
    TAP_OK(use(s, 0, last, 2), "two slots");
    forget_log();
    TAP_OK(use(s, 0, all, 16), "sixteen experts through two slots");
    n = 0;
    for (unsigned e = 0; e < 16; e++) n += started(0, e);
    TAP_OK(n == 3 * 15 || n == 3 * 16, "%u parts read", n);
    sm_store_free(s);
}

/* All slots held by the caller and more wanted: an error, not a hang. */
static void test_held(void)
{
    struct sm_store *s = open_store(2, 2);
    const uint16_t ids[] = {1, 2, 3};
    struct sm_expert e;
    unsigned i;
    smol_error err = {0};
    sm_pager_begin(s, 0, ids, 3, SM_ORDER_ASCENDING);
    TAP_OK(sm_pager_take(s, &i, &e, &err) == SMOL_OK && sm_pager_take(s, &i, &e, &err) == SMOL_OK,
           "two");
    TAP_OK(sm_pager_take_down(s, 0, &err) == SMOL_OK && sm_pager_take_down(s, 1, &err) == SMOL_OK,
           "down");
    TAP_OK(sm_pager_take(s, &i, &e, &err) == SMOL_LIMIT, "%s", err.msg);
    sm_pager_end(s);
    TAP_OK(use(s, 0, ids, 3), "afterwards all is well");
    sm_store_free(s);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    (void)alarm(600);
    store_file_make(&f, "sched.gguf", &shape);
    store_file_fake(&f, gate, NULL);
    test_arrival();
    test_halves();
    test_join();
    test_drain();
    test_priority();
    test_caps();
    test_in_time();
    test_keep();
    test_wave();
    test_held();
    store_file_unfake();
    store_file_free(&f);
    return tap_done();
}
