/* SPDX-License-Identifier: MIT */
/* What stands between scores and reads: the choice and its levers, the policies lfu and lfru,
 * traces there and back, replays against a plain search for the bound. */
#include "base/mem.h"
#include "store/replay.h"
#include "tap.h"

#include <stdlib.h>

/* ---- levers
 * ------------------------------------------------------------------------------------- */

#define GONE 0xffffu

static bool chose(const struct sm_choice *c, const struct sm_lever *l, const uint8_t *held,
                  const float *scores, const uint16_t *want)
{
    uint16_t ids[SM_CHOICE_USED];
    const uint32_t n = sm_choose(c, l, held, scores, ids, c->n_used);
    for (uint32_t i = 0; i < c->n_used; i++)
        if (i < n ? ids[i] != want[i] : want[i] != GONE) return false;
    return true;
}

static void test_levers(void)
{
    static const float scores[8] = {0.9f, 0.1f, 0.5f, 0.45f, 0.3f, 0.8f, 0.2f, 0.44f};
    static const uint8_t held[8] = {0, 1, 0, 1, 0, 0, 0, 1};
    const struct sm_choice plain = {.n_expert = 8, .n_used = 3},
                           grouped = {8, 3, 4, 2, .range = 0.8f};
    struct sm_lever l = {0};
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){0, 5, 2}), "no lever: the three best");
    TAP_OK(chose(&grouped, &l, held, scores, (uint16_t[]){0, 5, 4}), "groups 0 and 2 stay");
    l = (struct sm_lever){.bias = 0.5f};
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){3, 7, 0}), "bias: those in the pool rise");
    l.bias_keep = 2;
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){0, 5, 3}), "the two best are kept");
    l = (struct sm_lever){.bias = 0.6f};
    TAP_OK(chose(&grouped, &l, held, scores, (uint16_t[]){3, 0, 1}),
           "bias counts before the group step: groups 0 and 1 stay");
    l = (struct sm_lever){.swap = 0.9f};
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){0, 5, 3}),
           "swap: a nearly as heavy one in the pool takes the place of 2 alone");
    l.swap = 0.4f;
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){3, 7, 2}), "swap at 0.4: 0 and 5 give way");
    l.swap_keep = 2;
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){0, 5, 3}), "the two best never do");
    l = (struct sm_lever){.bias = 0.5f, .swap = 0.1f, .drop = 0.9f};
    TAP_OK(chose(&plain, &l, NULL, scores, (uint16_t[]){0, 5, 2}), "no lever where all are in RAM");
    TAP_OK(sm_choice_range(&plain, scores) == 0.9f - 0.1f, "the range of the scores");
    l = (struct sm_lever){.bias = 0.75f, .bias_range = true};
    TAP_OK(chose(&grouped, &l, held, scores, (uint16_t[]){3, 0, 1}),
           "bias of 0.75 ranges is one of 0.6");
    TAP_OK(chose(&plain, &l, held, scores, (uint16_t[]){0, 5, 2}),
           "and none while no range is known");
}

/* 0.9 : 0.8 : 0.5 are shares of 41, 36 and 23 %. */
static void test_drop(void)
{
    static const float scores[8] = {0.9f, 0.1f, 0.5f, 0.45f, 0.3f, 0.8f, 0.2f, 0.44f};
    static const uint8_t none[8] = {0}, two[8] = {0, 0, 1}, all[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const struct sm_choice plain = {.n_expert = 8, .n_used = 3};
    struct sm_choice logits = plain;
    struct sm_lever l = {.drop = 0.25f};
    logits.logits = true;
    TAP_OK(chose(&plain, &l, none, scores, (uint16_t[]){0, 5, GONE}), "drop: the lightest goes");
    TAP_OK(chose(&plain, &l, two, scores, (uint16_t[]){0, 5, 2}), "not when it is in the pool");
    l.drop = 0.2f;
    TAP_OK(chose(&plain, &l, none, scores, (uint16_t[]){0, 5, 2}), "nor when its share is enough");
    l.drop = 1;
    TAP_OK(chose(&plain, &l, none, scores, (uint16_t[]){0, GONE, GONE}), "the very best stays");
    TAP_OK(chose(&plain, &l, two, scores, (uint16_t[]){0, 2, GONE}), "what stays keeps its order");
    TAP_OK(chose(&plain, &l, all, scores, (uint16_t[]){0, 5, 2}), "a full pool: nothing goes");
    l.drop_keep = 2;
    TAP_OK(chose(&plain, &l, none, scores, (uint16_t[]){0, 5, GONE}), "nor do the two best");
    l = (struct sm_lever){.drop = 0.25f}; /* e^0.9 : e^0.8 : e^0.5 are 39, 35 and 26 % */
    TAP_OK(chose(&logits, &l, none, scores, (uint16_t[]){0, 5, 2}),
           "logits: shares of their softmax");
    l.drop = 0.27f;
    TAP_OK(chose(&logits, &l, none, scores, (uint16_t[]){0, 5, GONE}), "the lightest of them goes");
    l = (struct sm_lever){.swap = 0.94f}; /* 0.45 for 0.5: e^-0.05 = 0.951 of its weight, not 0.9 */
    const uint8_t third[8] = {0, 0, 0, 1};
    TAP_OK(chose(&logits, &l, third, scores, (uint16_t[]){0, 5, 3}) &&
               chose(&plain, &l, third, scores, (uint16_t[]){0, 5, 2}),
           "swap compares weights, too");
}

/* ---- policies
 * ----------------------------------------------------------------------------------- */

static void test_lfu(void)
{
    const size_t n = sm_policy_bytes(6);
    static const char *const names[] = {"lfu", "lfru"};
    for (int i = 0; i < 2; i++) {
        void *tables = sm_mem_new(n);
        struct sm_policy p;
        sm_policy_init(&p, sm_policy_find(names[i]), 6, 3, tables);
        for (int t = 0; t < 5; t++) (void)sm_policy_touch(&p, (uint16_t[]){0, 1}, 2);
        for (int t = 0; t < 30; t++) (void)sm_policy_touch(&p, (uint16_t[]){2, 3}, 2);
        TAP_OK(p.held[2] && p.held[3], "%s: what is used often stays", names[i]);
        (void)sm_policy_touch(&p, (uint16_t[]){4}, 1);
        (void)sm_policy_touch(&p, (uint16_t[]){5}, 1);
        TAP_OK(p.held[2] && p.held[3] && p.held[5] && !p.held[4], "%s: one use drives out one use",
               names[i]);
        for (int t = 0; t < 100000; t++)
            (void)sm_policy_touch(&p, (uint16_t[]){(uint16_t)(t % 2)}, 1);
        TAP_OK(p.held[0] && p.held[1] && sm_policy_uses(&p, 0) < 100 &&
                   sm_policy_uses(&p, 0) > 80 && sm_policy_uses(&p, 2) < 1e-100,
               "%s: sums decay and stay small over 100,000 tokens (%.2f)", names[i],
               sm_policy_uses(&p, 0));
        sm_policy_shrink(&p, 1);
        TAP_OK(p.n_held == 1 && (p.held[0] || p.held[1]), "%s: the warmest stays when it shrinks",
               names[i]);
        sm_mem_free(tables, n);
    }
}

static void test_warm(void)
{
    static const float uses[6] = {0, 3, 1, 0, 2, 9};
    void *tables = sm_mem_new(sm_policy_bytes(6));
    struct sm_policy p;
    sm_policy_init(&p, sm_policy_find("lfu"), 6, 3, tables);
    sm_policy_warm(&p, uses);
    TAP_OK(p.n_held == 3 && p.held[5] && p.held[1] && p.held[4],
           "a learned list: the warmest are held");
    TAP_OK(sm_policy_touch(&p, (uint16_t[]){1, 5}, 2) == 0 &&
               sm_policy_touch(&p, (uint16_t[]){0}, 1) == 1 && !p.held[4],
           "and the least warm leaves first");
    sm_mem_free(tables, sm_policy_bytes(6));
}

/* ---- traces
 * ------------------------------------------------------------------------------------- */

static uint8_t bytes[1 << 20];
static size_t n_bytes;

static void put(void *arg, const void *b, size_t n)
{
    (void)arg;
    if (n_bytes + n > sizeof bytes) abort();
    memcpy(bytes + n_bytes, b, n);
    n_bytes += n;
}

enum { N = 8, K = 2, TOKENS = 200 };
static float scores[2][TOKENS][N];

/* Two layers; a wave of 100 tokens, then single ones, the second layer foreseen wrongly every
 * 4th. */
static void write_trace(void)
{
    const struct sm_trace_shape shape = {2, N, K, 1, 1};
    static const float bias[N] = {0, 0, 0, 0, 0, 0, 0, 2};
    const float *const biases[2] = {NULL, bias};
    struct sm_trace t = {.put = put};
    n_bytes = 0;
    sm_trace_begin(&t, &shape, biases, true);
    for (unsigned i = 0; i < 2 * TOKENS * N; i++)
        ((float *)scores)[i] = (float)tap_random_below(1000) / 1000;
    for (unsigned i = 0; i < 100; i++) sm_trace_token(&t, i);
    for (unsigned l = 0; l < 2; l++)
        for (unsigned i = 0; i < 100; i++) sm_trace_scores(&t, l, scores[l][i]);
    for (unsigned i = 100; i < TOKENS; i++) {
        uint16_t right[K];
        const struct sm_choice c = {N, K, 1, 1, .bias = bias};
        sm_choose(&c, &(struct sm_lever){0}, NULL, scores[1][i], right, K);
        if (i % 4 == 0) right[1] = right[0] ? 0 : 1;
        sm_trace_token(&t, i);
        sm_trace_ahead(&t, 0, 1, right, K); /* from the embedding */
        sm_trace_scores(&t, 0, scores[0][i]);
        sm_trace_ahead(&t, 1, 1, right, K);
        sm_trace_scores(&t, 1, scores[1][i]);
    }
}

static void test_trace(void)
{
    struct sm_trace_data d;
    smol_error err = {0};
    write_trace();
    const bool read = sm_trace_read(&d, bytes, n_bytes, &err) == SMOL_OK;
    TAP_OK(read && !d.cut_at && d.n_tokens == TOKENS && d.layer[0].n == TOKENS &&
               d.layer[1].n == TOKENS &&
               !memcmp(d.layer[0].score, scores[0], sizeof scores[0]) &&
               !memcmp(d.layer[1].score, scores[1], sizeof scores[1]) && d.layer[1].bias[7] == 2 &&
               d.logits,
           "a trace comes back: %u tokens %s", d.n_tokens, err.msg);
    TAP_OK(read && d.layer[1].ahead[0][99 * K] == 0xffff &&
               d.layer[1].ahead[0][100 * K] != 0xffff && d.layer[1].ahead[1][100 * K] == 0xffff,
           "expectations stand where they were made");
    sm_trace_free(&d);
    TAP_OK(sm_trace_read(&d, bytes, n_bytes - 3, &err) == SMOL_OK && d.layer[1].n == TOKENS - 1 &&
               d.cut_at == n_bytes - 3 - N * sizeof(float),
           "a cut trace ends at its last whole record, and says so");
    sm_trace_free(&d);
    unsigned crashes = 0;
    for (unsigned i = 0; i < 3000; i++) { /* no input may do more than fail */
        static uint8_t copy[sizeof bytes];
        memcpy(copy, bytes, n_bytes);
        for (unsigned j = 0; j < 3; j++)
            copy[tap_random_below(i % 2 ? (unsigned)n_bytes : 40)] = (uint8_t)tap_random_below(256);
        smol_error e = {0};
        if (sm_trace_read(&d, copy, n_bytes, &e) != SMOL_OK) crashes += !e.msg[0];
        else sm_trace_free(&d);
    }
    TAP_OK(crashes == 0, "broken traces are refused with a sentence");
}

/* ---- replays
 * ------------------------------------------------------------------------------------ */

/* The fewest misses by trying everything: dynamic programming over the sets of held experts. */
static unsigned fewest(const struct sm_trace_data *d, uint32_t n_slots, unsigned tokens)
{
    static unsigned best[1 << N], next[1 << N];
    const struct sm_choice c = {N, K, 1, 1, .bias = d->layer[0].bias};
    for (unsigned s = 0; s < 1u << N; s++) best[s] = s ? UINT32_MAX : 0;
    for (unsigned t = 0; t < tokens; t++) {
        uint16_t ids[K];
        sm_choose(&c, &(struct sm_lever){0}, NULL, d->layer[0].score + t * N, ids, K);
        const unsigned need = 1u << ids[0] | 1u << ids[1];
        for (unsigned s = 0; s < 1u << N; s++) next[s] = UINT32_MAX;
        for (unsigned from = 0; from < 1u << N; from++) {
            if (best[from] == UINT32_MAX) continue;
            const unsigned all = from | need;
            const unsigned cost = best[from] + (unsigned)__builtin_popcount(need & ~from);
            /* every subset that keeps what is needed */
            for (unsigned to = all;; to = (to - 1) & all) {
                if ((to & need) == need && (unsigned)__builtin_popcount(to) <= n_slots &&
                    cost < next[to])
                    next[to] = cost;
                if (!to) break;
            }
        }
        memcpy(best, next, sizeof best);
    }
    unsigned least = UINT32_MAX;
    for (unsigned s = 0; s < 1u << N; s++) least = best[s] < least ? best[s] : least;
    return least;
}

static void test_replay(void)
{
    struct sm_trace_data d;
    smol_error err = {0};
    write_trace();
    if (sm_trace_read(&d, bytes, n_bytes, &err) != SMOL_OK) abort();
    for (uint32_t slots = K + 1; slots < N; slots += 2) {
        struct sm_replay_result bound = {0}, lru = {0}, lfu = {0};
        const struct sm_replay how[3] = {{.n_slots = slots},
                                         {.policy = sm_policy_find("lru"), .n_slots = slots},
                                         {.policy = sm_policy_find("lfu"), .n_slots = slots}};
        const bool ok = sm_replay_run(&d, 0, &how[0], &bound, &err) == SMOL_OK &&
                        sm_replay_run(&d, 0, &how[1], &lru, &err) == SMOL_OK &&
                        sm_replay_run(&d, 0, &how[2], &lfu, &err) == SMOL_OK;
        TAP_OK(ok && bound.misses == fewest(&d, slots, TOKENS) && bound.uses == TOKENS * K,
               "%u slots: %u misses are the fewest possible", slots, (unsigned)bound.misses);
        TAP_OK(lru.predictable[0] == 0 && lru.asked[0] == 0, "no router foresees the first layer");
        TAP_OK(lru.misses >= bound.misses && lfu.misses >= bound.misses, "no policy is better");
    }
    struct sm_replay_result r = {0};
    const struct sm_replay three = {.policy = sm_policy_find("lru"), .n_slots = 3};
    const bool ran = sm_replay_run(&d, 1, &three, &r, &err) == SMOL_OK;
    TAP_OK(ran && r.predictable[0] > 0 && r.foreseen[0] < r.predictable[0] &&
               r.asked[0] >= r.foreseen[0] && r.predictable[1] == 0,
           "misses foreseen: %u of %u with %u reads", (unsigned)r.foreseen[0],
           (unsigned)r.predictable[0], (unsigned)r.asked[0]);
    struct sm_replay_result some = {0}, full = {0};
    struct sm_replay drop = {
        .policy = sm_policy_find("lru"), .n_slots = 4, .lever = {.drop = 0.48f}};
    const bool dropped = sm_replay_run(&d, 0, &drop, &some, &err) == SMOL_OK;
    drop.n_slots = N;
    TAP_OK(dropped && some.dropped > 10 && some.uses + some.dropped == TOKENS * K &&
               sm_replay_run(&d, 0, &drop, &full, &err) == SMOL_OK && full.dropped == 0,
           "a lever leaves %u of %u choices out, none where all have room", (unsigned)some.dropped,
           TOKENS * K);
    sm_trace_free(&d);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_levers();
    test_drop();
    test_lfu();
    test_warm();
    test_trace();
    test_replay();
    return tap_done();
}
