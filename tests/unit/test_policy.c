/* SPDX-License-Identifier: MIT */
/* Least recently used, by hand: a pool of 3 of 6 experts, two experts a token. */
#include "base/mem.h"
#include "store/policy.h"
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
        TAP_OK(m == trace[i].misses && holds(&p, trace[i].after), "token %zu: %u misses, pool %s", i,
               trace[i].misses, trace[i].after);
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

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_trace();
    test_model();
    TAP_OK(!sm_policy_find("none"), "an unknown policy is unknown");
    return tap_done();
}
