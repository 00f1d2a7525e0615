/* SPDX-License-Identifier: MIT */
/* Least recently used, by hand: a pool of 3 of 6 experts, two experts a token; slots shared out
 * among pools by what was learned. */
#include "base/mem.h"
#include "store/policy.h"
#include "store/shares.h"
#include "tap.h"

static bool holds(const struct sm_policy *p, const char *want)
{
    for (uint16_t e = 0; e < p->n_expert; e++)
        if (p->held[e] != (strchr(want, '0' + e) != NULL)) return false;
    return true;
}

static void test_trace(void)
{
    static const struct { uint16_t ids[2]; unsigned misses; const char *after; } trace[] = {
        {{0, 1}, 2, "01"},  /* cold */
        {{1, 2}, 1, "012"}, /* one hit */
        {{0, 3}, 1, "023"}, /* 1 (used before 2) leaves for 3 */
        {{1, 2}, 1, "123"}, /* 0 leaves: 3 was used after it, 2 is chosen by this token */
        {{1, 2}, 0, "123"},
        {{3, 4}, 1, "234"}, /* 1 leaves: it stands before 2 within its token */
        {{0, 5}, 2, "045"}, /* 2 and 3 leave; 4 was used last */
        {{4, 5}, 0, "045"},
        {{1, 2}, 2, "125"}, /* 0 then 4 leave */
    };
    const size_t n = sm_policy_bytes(6);
    void *tables = sm_mem_new(n);
    struct sm_policy p;
    unsigned misses = 0, wanted = 0;
    sm_policy_init(&p, sm_policy_find("lru"), 6, 3, tables);
    for (size_t i = 0; i < sizeof trace / sizeof *trace; i++) {
        const unsigned m = sm_policy_touch(&p, trace[i].ids, 2);
        TAP_OK(m == trace[i].misses && holds(&p, trace[i].after), "token %zu: %u misses, pool %s",
               i, trace[i].misses, trace[i].after);
        misses += m;
        wanted += trace[i].misses;
    }
    TAP_IS_INT(misses, wanted, "misses in all");
    TAP_OK(sm_policy_worth(&p, 5) < sm_policy_worth(&p, 1) &&
               sm_policy_worth(&p, 4) < sm_policy_worth(&p, 5),
           "worth: outside the pool below inside, earlier below later");
    sm_mem_free(tables, n);
}

/* Against a list kept in order of use, on random tokens. */
static void test_model(void)
{
    enum { N = 32, K = 4 };
    for (unsigned slots = K + 1; slots <= N; slots += 9) {
        const size_t n = sm_policy_bytes(N);
        void *tables = sm_mem_new(n);
        struct sm_policy p;
        uint16_t list[N]; /* most recently used first */
        unsigned held = 0, want = 0, got = 0;
        sm_policy_init(&p, &sm_policy_lru, N, slots, tables);
        for (unsigned token = 0; token < 2000; token++) {
            uint16_t ids[K];
            unsigned have = 0;
            for (unsigned e = 0; e < N && have < K; e++)
                if (tap_random_below(N - e) < K - have) ids[have++] = (uint16_t)e;
            for (unsigned i = 0; i < K; i++) { /* hits move to the front; one not chosen leaves */
                unsigned at = 0;
                while (at < held && list[at] != ids[i]) at++;
                if (at == held) {
                    want++;
                    if (held == slots) {
                        at = held - 1;
                        while (list[at] == ids[0] || list[at] == ids[1] || list[at] == ids[2] ||
                               list[at] == ids[3])
                            at--;
                    } else {
                        held++;
                    }
                }
                memmove(list + 1, list, at * sizeof *list);
                list[0] = ids[i];
            }
            got += sm_policy_touch(&p, ids, K);
        }
        TAP_OK(got == want && p.n_held == held, "pool of %u: %u misses as by a list", slots, want);
        sm_mem_free(tables, n);
    }
}

/* Uses of the n most used experts of a pool of 4. */
static float best_of(const float *uses, uint32_t n)
{
    float sum = 0;
    bool taken[4] = {false};
    for (uint32_t i = 0; i < n; i++) {
        int best = -1;
        for (int e = 0; e < 4; e++)
            if (!taken[e] && (best < 0 || uses[e] > uses[best])) best = e;
        taken[best] = true;
        sum += uses[best];
    }
    return sum;
}

/* Against every way to share slots out. */
static void test_shares(void)
{
    unsigned n_best = 0, n_within = 0;
    for (unsigned round = 0; round < 300; round++) {
        float uses[3][4];
        uint32_t n[3];
        const uint32_t total = 3 + round % 10;
        float most = 0;
        struct sm_share_pool p[3];
        for (unsigned i = 0; i < 3; i++) {
            for (unsigned e = 0; e < 4; e++) uses[i][e] = (float)tap_random_below(9);
            p[i] = (struct sm_share_pool){10, 4, uses[i]};
        }
        sm_shares(p, 3, 1, 10 * total + 9, n);
        n_within += n[0] + n[1] + n[2] == total && n[0] && n[1] && n[2] && n[0] <= 4 && n[1] <= 4 &&
                    n[2] <= 4;
        for (uint32_t a = 1; a <= 4; a++)
            for (uint32_t b = 1; b <= 4; b++)
                for (uint32_t c = 1; c <= 4 && a + b + c <= total; c++) {
                    const float kept =
                        best_of(uses[0], a) + best_of(uses[1], b) + best_of(uses[2], c);
                    most = kept > most ? kept : most;
                }
        n_best += best_of(uses[0], n[0]) + best_of(uses[1], n[1]) + best_of(uses[2], n[2]) == most;
    }
    TAP_OK(n_within == 300, "slots are shared out to the last, one each at least (%u)", n_within);
    TAP_OK(n_best == 300, "no other way keeps more uses (%u)", n_best);
    static const float few[2] = {5, 1}, many[2] = {4, 4};
    const struct sm_share_pool p[2] = {{30, 2, few}, {10, 2, many}};
    uint32_t n[2];
    sm_shares(p, 2, 0, 45, n);
    TAP_OK(n[0] == 0 && n[1] == 2, "by what a byte saves: %u and %u", n[0], n[1]);
    sm_shares(p, 2, 5, 0, n);
    TAP_OK(n[0] == 2 && n[1] == 2, "the floor is kept, or one slot for every expert");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_trace();
    test_model();
    test_shares();
    TAP_OK(!sm_policy_find("none"), "an unknown policy is unknown");
    return tap_done();
}
