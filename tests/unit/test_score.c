/* SPDX-License-Identifier: MIT */
/* Log-probabilities and evaluation sums against long double; the detector of loops against its
 * definition. */
#include "base/bits.h"
#include "base/fmath.h"
#include "infer/score.h"
#include "tap.h"

#include <math.h>
#include <stdbool.h>

#define N 5000u

static float logits[N];

static long double exact_lse(size_t n)
{
    long double sum = 0, max = -INFINITY;
    for (size_t i = 0; i < n; i++) max = fmaxl(max, (long double)logits[i]);
    for (size_t i = 0; i < n; i++) sum += expl((long double)logits[i] - max);
    return max + logl(sum);
}

static void test_logprob(void)
{
    double worst = 0;
    for (int round = 0; round < 20; round++) {
        const float spread = (float)(1 << (round % 8));
        for (size_t i = 0; i < N; i++) logits[i] = tap_random_float(-spread, spread);
        const double error =
            fabs((double)((long double)sm_score_log_sum_exp(logits, N) - exact_lse(N)));
        worst = tap_worse(worst, error);
    }
    TAP_OK(worst < 1e-12, "log-sum-exp within %.2g of the exact value", worst);
    const float two[2] = {0.0f, 0.0f}, one[1] = {-3.0f};
    TAP_OK(fabs(sm_score_logprob(two, 2, 1) + 0.69314718055994531) < 1e-16, "one of two");
    TAP_OK(sm_score_logprob(one, 1, 0) == 0.0, "the only token is certain");
    float x[4] = {1.0f, -INFINITY, 2.0f, 0.0f};
    TAP_OK(sm_score_logprob(x, 4, 1) == -INFINITY, "a banned token");
    TAP_OK(fabs(sm_score_log_sum_exp(x, 4) - log(exp(1.0) + exp(2.0) + 1.0)) < 1e-15,
           "banned tokens count for nothing");
    x[3] = NAN;
    TAP_OK(isnan(sm_score_log_sum_exp(x, 4)), "NaN among the logits");
    x[3] = INFINITY;
    TAP_OK(isnan(sm_score_log_sum_exp(x, 4)), "+infinity among the logits");
    TAP_OK(isnan(sm_score_log_sum_exp(x, 0)), "no logits");
    const float none[2] = {-INFINITY, -INFINITY};
    TAP_OK(sm_score_log_sum_exp(none, 2) == -INFINITY, "all banned");
}

static void test_frozen(void)
{
    uint64_t h = 0xcbf29ce484222325u;
    uint32_t s = 7;
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < N; i++) {
            s = s * 1664525u + 1013904223u;
            logits[i] = (float)(s >> 8) * 0x1p-20f * (float)(round + 1) - 5.0f;
        }
        h = (h ^ sm_bits_of_f64(sm_score_logprob(logits, N, 17))) * 0x100000001b3u;
    }
    TAP_OK(h == 0xdd24ebdca8e092dfu, "frozen bits: 0x%016" PRIx64, h);
}

static void test_sums(void)
{
    struct sm_score s = {0};
    TAP_OK(isnan(sm_score_perplexity(&s)) && isnan(sm_score_bits_per_byte(&s)), "nothing yet");
    sm_score_add(&s, -1.0, true, 3);
    TAP_OK(isnan(sm_score_perplexity_error(&s)), "no error from one token");
    sm_score_add(&s, -2.0, false, 0);
    sm_score_add(&s, -4.5, false, 7);
    TAP_OK(fabs(sm_score_perplexity(&s) - exp(2.5)) < 1e-12, "perplexity");
    TAP_OK(fabs(sm_score_bits_per_byte(&s) - 7.5 / log(2.0) / 10.0) < 1e-15, "bits per byte");
    TAP_OK(s.n_tok == 3 && s.n_bytes == 10 && s.n_best == 1, "counts");
    /* mean 2.5, variance of the mean (25.25 / 3 - 6.25) / 2 */
    const double want = exp(2.5) * sqrt((25.25 / 3 - 6.25) / 2);
    TAP_OK(fabs(sm_score_perplexity_error(&s) - want) < 1e-12, "standard error");
}

/* The shortest period d for which the last max(d * times, n_tok) tokens repeat with period d. */
static uint32_t naive_loop(const int32_t *t, uint32_t n, uint32_t times, uint32_t n_tok)
{
    for (uint32_t d = 1; d <= SM_LOOP_PERIOD; d++) {
        const uint32_t len = d * times > n_tok ? d * times : n_tok;
        bool same = len <= n;
        for (uint32_t i = n - (same ? len : 0); same && i + d < n; i++) same = t[i] == t[i + d];
        if (same && len > d) return d;
    }
    return 0;
}

static void test_loops(void)
{
    static int32_t t[600];
    bool good = true;
    int found = 0;
    for (int round = 0; round < 400; round++) {
        struct sm_loop l;
        const uint32_t period = 1 + (uint32_t)tap_random_below(70);
        const uint32_t times = 2 + (uint32_t)tap_random_below(4);
        const uint32_t n_tok = (uint32_t)tap_random_below(60);
        const uint32_t begin = (uint32_t)tap_random_below(100);
        sm_loop_init(&l);
        for (uint32_t i = 0; i < 600; i++) {
            const bool odd = i < begin || tap_random_below(200) == 0;
            t[i] = odd ? (int32_t)tap_random_below(3) : t[i < period ? 0 : i - period];
            const uint32_t got = sm_loop_put(&l, t[i], times, n_tok);
            good = good && got == naive_loop(t, i + 1, times, n_tok);
            found += got > 0;
        }
    }
    TAP_OK(good && found > 1000, "loops equal their definition (%d found)", found);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_logprob();
    test_frozen();
    test_sums();
    test_loops();
    return tap_done();
}
