/* SPDX-License-Identifier: MIT */
/* What looks back: repeat penalties, DRY and its sequence breakers. */
#include "base/fmath.h"
#include "infer/sampler_stage.h"
#include "tap.h"

#define N_VOCAB 200u

static float logits[N_VOCAB];

static struct sm_sampler *make(const struct sm_sampler_params *p)
{
    const struct sm_sampler_model m = {.n_vocab = N_VOCAB, .n_ctx = 512};
    struct sm_sampler *s = NULL;
    smol_error err = {0};
    if (sm_sampler_new(&s, p, &m, &err) != SMOL_OK) printf("# %s\n", err.msg);
    return s;
}

static void test_repeats(void)
{
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    p.temp = 0.0f;
    p.repeat_penalty = 2.0f;
    p.repeat_last = 2;
    for (size_t i = 0; i < N_VOCAB; i++) logits[i] = 0.0f;
    logits[1] = 10.0f;
    logits[2] = 9.0f;
    logits[4] = 8.0f;
    struct sm_sampler *s = make(&p);
    int32_t got[4];
    for (int i = 0; i < 4; i++) sm_sampler_accept(s, got[i] = sm_sampler_sample(s, logits));
    TAP_OK(got[0] == 1 && got[1] == 2 && got[2] == 4 && got[3] == 1, "the window of the penalty");
    sm_sampler_accept(s, -1);
    sm_sampler_accept(s, (int32_t)N_VOCAB);
    TAP_OK(1, "ids out of range are ignored");
    sm_sampler_free(s);

    /* DRY: after "20 21 22 ... 20 21" the token 22 would repeat a run of two */
    sm_sampler_defaults(&p);
    p.temp = 0.0f;
    p.dry_multiplier = 5.0f;
    logits[22] = 12.0f;
    s = make(&p);
    static const int32_t text[] = {20, 21, 22, 30, 20, 21};
    for (size_t i = 0; i < 6; i++) sm_sampler_accept(s, text[i]);
    TAP_IS_INT(sm_sampler_sample(s, logits), 1, "DRY stops a repeat");
    sm_sampler_free(s);

    struct sm_dry_breakers *b = NULL;
    smol_error err = {0};
    static const int32_t ids[] = {20, 21, 40};
    static const size_t start[] = {0, 1, 3};
    TAP_OK(sm_dry_breakers_of_ids(&b, ids, start, 2, &err) == SMOL_OK, "breakers from ids");
    const struct sm_sampler_model m = {.n_vocab = N_VOCAB, .n_ctx = 512, .breakers = b};
    if (sm_sampler_new(&s, &p, &m, &err) == SMOL_OK) {
        for (size_t i = 0; i < 6; i++) sm_sampler_accept(s, text[i]);
        TAP_IS_INT(sm_sampler_sample(s, logits), 22, "not across a breaker");
        sm_sampler_free(s);
    }
    const struct sm_breaker *first = NULL;
    TAP_OK(sm_dry_breakers_find(b, 21, &first) == 1 && first->n_tail == 1 && first->tail[0] == 40,
           "a breaker of two tokens");
    TAP_OK(sm_dry_breakers_find(b, 19, &first) == 0 && sm_dry_breakers_find(b, 99, &first) == 0,
           "tokens that begin none");
    sm_dry_breakers_free(b);
}

/* R counts from where a breaker is complete: "20 | 21 22 30 20 21" and head 30 with tail 20. */
static void test_breaker_tail(void)
{
    struct sm_dry_breakers *b = NULL;
    smol_error err = {0};
    static const int32_t ids[] = {30, 20};
    static const size_t start[] = {0, 2};
    static const int32_t text[] = {5, 20, 21, 22, 30, 20, 21, 6, 5};
    int32_t ring[16], id[32], value[32], run[16];
    struct sm_history h = {.id = ring, .capacity = 16};
    struct sm_token_map map = {id, value, 32};
    struct sm_dry dry = {.multiplier = 1, .base = 2, .allowed = 1, .last = 16, .run = run};
    if (sm_dry_breakers_of_ids(&b, ids, start, 1, &err) != SMOL_OK) return;
    for (size_t i = 0; i < 7; i++) sm_history_put(&h, text[i]);
    float l[64] = {0};
    sm_stage_dry(l, &h, &map, &dry);
    TAP_OK(l[22] == -2.0f, "without breakers the run is 20 21: 1 * 2^(2 - 1)");
    memset(l, 0, sizeof l);
    dry.breakers = b;
    sm_stage_dry(l, &h, &map, &dry);
    TAP_OK(l[22] == -1.0f, "the run is cut to what follows the breaker 30 20: 1 * 2^(1 - 1)");
    dry.allowed = 2;
    memset(l, 0, sizeof l);
    sm_stage_dry(l, &h, &map, &dry);
    TAP_OK(l[22] == 0.0f, "a remainder shorter than the allowed length costs nothing");
    sm_dry_breakers_free(b);
}

/* The linear-time runs against the quadratic definition. */
static void test_dry_definition(void)
{
    int32_t ring[64], id[128], value[128], run[64], w[64];
    struct sm_token_map map = {id, value, 128};
    bool same = true;
    for (int round = 0; round < 3000; round++) {
        struct sm_history h = {.id = ring, .capacity = 64};
        const uint32_t n = 1 + (uint32_t)tap_random_below(64);
        const uint32_t allowed = 1 + (uint32_t)tap_random_below(4);
        float got[4] = {0};
        int want[4] = {-1, -1, -1, -1};
        for (uint32_t i = 0; i < n; i++)
            sm_history_put(&h, w[i] = (int32_t)tap_random_below(round % 2 ? 2 : 4));
        for (uint32_t j = 0; j + 1 < n && n > allowed; j++) {
            int m = 0;
            while ((uint32_t)m <= j && w[j - (uint32_t)m] == w[n - 1 - (uint32_t)m]) m++;
            if (m >= (int)allowed && m > want[w[j + 1]]) want[w[j + 1]] = m;
        }
        const struct sm_dry dry = {
            .multiplier = 1, .base = 1.5f, .allowed = allowed, .last = 64, .run = run};
        sm_stage_dry(got, &h, &map, &dry);
        for (int t = 0; t < 4; t++) {
            const double cost = want[t] < 0 ? 0.0 : sm_pow(1.5, want[t] - (double)allowed);
            same = same && got[t] == -(float)cost;
        }
    }
    TAP_OK(same, "DRY equals its quadratic definition on 3000 random windows");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_repeats();
    test_breaker_tail();
    test_dry_definition();
    return tap_done();
}
