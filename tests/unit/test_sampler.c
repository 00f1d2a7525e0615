/* SPDX-License-Identifier: MIT */
/* The sampler as a whole: against a naive chain written from the definition, on a large vocabulary
 * with many ties; settings, seeds, state, bans, numbers that are none; frozen draws. */
#include "base/fmath.h"
#include "base/mem.h"
#include "infer/sampler_stage.h"
#include "tap.h"

#include <math.h>
#include <time.h>

#define N_VOCAB 20000u
#define N_SMALL 2000u /* where hundreds of draws sort all of it */

static float logits[N_VOCAB];

/* Values with few distinct levels, so that ties are everywhere. */
static void fill_logits(unsigned levels)
{
    for (size_t i = 0; i < N_VOCAB; i++) {
        float l = 0.0f;
        for (int k = 0; k < 4; k++) l += tap_random_float(-3.0f, 3.0f);
        logits[i] = levels ? rintf(l * (float)levels / 12.0f) * 12.0f / (float)levels : l;
    }
}

static struct sm_sampler *make_of(uint32_t n_vocab, const struct sm_sampler_params *p)
{
    static const int32_t end[2] = {3, 7};
    const struct sm_sampler_model m = {
        .n_vocab = n_vocab, .n_ctx = 512, .end_ids = end, .n_end = 2, .entropy = 99};
    struct sm_sampler *s = NULL;
    smol_error err = {0};
    if (sm_sampler_new(&s, p, &m, &err) != SMOL_OK) printf("# %s\n", err.msg);
    return s;
}

static struct sm_sampler *make(const struct sm_sampler_params *p) { return make_of(N_VOCAB, p); }

/* ---- the generator ---- */

static void test_rng(void)
{
    struct sm_rng r;
    uint32_t x = 0;
    sm_rng_seed(&r, 5489);
    for (int i = 0; i < 10000; i++) x = sm_rng_u32(&r);
    TAP_OK(x == 4123659995u, "10000th word of MT19937 with its usual seed");
    sm_rng_seed(&r, 1);
    struct sm_rng same = r;
    const uint32_t a = sm_rng_u32(&same), b = sm_rng_u32(&same);
    TAP_OK(sm_rng_f64(&r) == ((double)a + (double)b * 0x1p32) / 0x1p64, "f64 of two words");
    TAP_OK(a == 1791095845u, "first word of seed 1");
    bool inside = true;
    for (int i = 0; i < 10000; i++) {
        const double u = sm_rng_f64(&r);
        const float f = sm_rng_f32(&r);
        inside = inside && u >= 0.0 && u < 1.0 && f >= 0.0f && f < 1.0f;
    }
    TAP_OK(inside, "uniform numbers are in [0, 1)");
    memset(r.word, 0xff, sizeof r.word); /* words that temper to something; then force the edge */
    r.at = 0;
    TAP_OK(sm_rng_f64(&r) < 1.0, "never 1");
}

/* ---- the naive chain ---- */

static int largest_first(const void *a, const void *b)
{
    const struct sm_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void naive_softmax(struct sm_candidate *v, size_t n)
{
    float max = v[0].logit, sum = 0.0f;
    for (size_t i = 0; i < n; i++) max = v[i].logit > max ? v[i].logit : max;
    for (size_t i = 0; i < n; i++) sum += v[i].p = sm_exp_f32(v[i].logit - max);
    for (size_t i = 0; i < n; i++) v[i].p /= sum;
}

/* top-k, top-p, min-p, temperature, draw: whole sorts, nothing clever. */
static int32_t naive_sample(const struct sm_sampler_params *p, struct sm_rng *rng)
{
    static struct sm_candidate v[N_VOCAB];
    size_t n = N_VOCAB, k = 0;
    for (size_t i = 0; i < n; i++)
        v[i] = (struct sm_candidate){.id = (int32_t)i, .logit = logits[i]};
    if (p->top_k > 0 && (size_t)p->top_k < n) {
        qsort(v, n, sizeof *v, largest_first);
        n = (size_t)p->top_k;
    }
    if (p->top_p < 1.0f) {
        naive_softmax(v, n);
        qsort(v, n, sizeof *v, largest_first);
        float sum = 0.0f;
        for (k = 0; k < n; k++) {
            sum += v[k].p;
            if (sum >= p->top_p && k + 1 >= p->min_keep) break;
        }
        n = k < n ? k + 1 : n;
    }
    if (p->min_p > 0.0f) {
        float max = v[0].logit;
        for (size_t i = 0; i < n; i++) max = v[i].logit > max ? v[i].logit : max;
        for (size_t i = k = 0; i < n; i++)
            if (v[i].logit >= max + sm_log_f32(p->min_p)) v[k++] = v[i];
        n = k;
    }
    for (size_t i = 0; i < n; i++) v[i].logit /= p->temp;
    naive_softmax(v, n);
    double sum = 0.0, reached = 0.0;
    for (size_t i = 0; i < n; i++) sum += (double)v[i].p;
    const double u = sm_rng_f64(rng);
    for (k = 0; k + 1 < n; k++) {
        reached += (double)v[k].p / sum;
        if (reached >= u) break;
    }
    return v[k].id;
}

static void test_naive(void)
{
    static const struct {
        int32_t top_k;
        float top_p, min_p;
    } t[] = {{40, 0.95f, 0.05f},  {40, 1.0f, 0.0f}, {1, 1.0f, 0.0f},   {0, 0.9f, 0.0f},
             {0, 1.0f, 0.01f},    {0, 1.0f, 0.0f},  {700, 0.5f, 0.0f}, {20000, 0.3f, 0.1f},
             {19999, 1.0f, 0.0f}, {63, 1.0f, 0.0f}, {64, 1.0f, 0.0f},  {0, 0.999f, 0.0f}};
    for (size_t i = 0; i < sizeof t / sizeof *t; i++) {
        struct sm_sampler_params p;
        struct sm_rng rng;
        sm_sampler_defaults(&p);
        p.seed = (int64_t)i;
        p.top_k = t[i].top_k;
        p.top_p = t[i].top_p;
        p.min_p = t[i].min_p;
        struct sm_sampler *s = make(&p);
        sm_rng_seed(&rng, (uint32_t)i);
        bool same = true;
        for (int round = 0; round < 6; round++) {
            fill_logits(round % 3 == 0 ? 0 : round % 3 == 1 ? 8 : 60);
            const int32_t want = naive_sample(&p, &rng), got = sm_sampler_sample(s, logits);
            same = same && want == got;
        }
        TAP_OK(same, "as the definition says: top-k %d, top-p %g, min-p %g", p.top_k,
               (double)p.top_p, (double)p.min_p);
        sm_sampler_free(s);
    }
}

/* Orders that defeat pivots and prunings. */
static void test_top_k_orders(void)
{
    static struct sm_candidate a[N_VOCAB], b[N_VOCAB];
    for (int order = 0; order < 6; order++) {
        bool same = true;
        for (size_t i = 0; i < N_VOCAB; i++) {
            const float up = (float)i;
            logits[i] = order == 0   ? up
                        : order == 1 ? -up
                        : order == 2 ? 1.0f
                        : order == 3 ? (float)(i % 2 ? i : N_VOCAB - i)
                        : order == 4 ? (float)(i * 7919 % 512)
                                     : (i < N_VOCAB / 2 ? up : (float)(N_VOCAB - i));
        }
        static const int32_t ks[] = {1, 2, 40, 64, 1000, 9999, 19999};
        for (size_t i = 0; i < N_VOCAB; i++)
            b[i] = (struct sm_candidate){.id = (int32_t)i, .logit = logits[i]};
        qsort(b, N_VOCAB, sizeof *b, largest_first);
        for (size_t k = 0; k < sizeof ks / sizeof *ks; k++) {
            struct sm_cands c = {.v = a};
            sm_stage_top_k(&c, logits, N_VOCAB, ks[k]);
            same = same && c.n == (size_t)ks[k] && c.sorted;
            for (size_t i = 0; i < c.n; i++) same = same && a[i].id == b[i].id;
        }
        TAP_OK(same, "top-k of order %d", order);
    }
}

/* ---- settings ---- */

static bool refused(const struct sm_sampler_params *p, const char *flag)
{
    smol_error err = {0};
    const bool no = sm_sampler_check(p, N_VOCAB, &err) == SMOL_ARG;
    return no && err.msg[0] && strstr(err.msg, flag) != NULL;
}

static void test_settings(void)
{
    struct sm_sampler_params good, p;
    smol_error err = {0};
    sm_sampler_defaults(&good);
    TAP_OK(sm_sampler_check(&good, N_VOCAB, &err) == SMOL_OK, "defaults are accepted");
#define REFUSED(field, value, flag)                                                                \
    do {                                                                                           \
        p = good;                                                                                  \
        p.field = (value);                                                                         \
        TAP_OK(refused(&p, flag), "%s = %s is refused by name", #field, #value);                   \
    } while (0)
    REFUSED(temp, -1.0f, "--temp");
    REFUSED(temp, NAN, "--temp");
    REFUSED(temp, INFINITY, "--temp");
    REFUSED(top_p, 1.5f, "--top-p");
    REFUSED(min_p, -0.1f, "--min-p");
    REFUSED(typical, 2.0f, "--typical");
    REFUSED(repeat_penalty, 0.0f, "--repeat-penalty");
    REFUSED(frequency_penalty, NAN, "--frequency-penalty");
    REFUSED(presence_penalty, 1e9f, "--presence-penalty");
    REFUSED(dry_multiplier, -1.0f, "--dry-multiplier");
    REFUSED(dry_allowed, 0, "--dry-allowed-length");
    REFUSED(dry_last, -2, "--dry-penalty-last-n");
    REFUSED(repeat_last, -2, "--repeat-last");
    REFUSED(top_k, -2, "--top-k");
    REFUSED(seed, -2, "--seed");
    REFUSED(seed, (int64_t)1 << 32, "--seed");
    REFUSED(mirostat, 3, "--mirostat");
    REFUSED(mirostat_tau, NAN, "--mirostat-tau");
    REFUSED(xtc_threshold, -1.0f, "--xtc-threshold");
    const struct sm_logit_bias bad_id = {N_VOCAB, 1.0f}, bad_value = {1, NAN};
    p = good;
    p.n_bias = 1;
    p.bias = &bad_id;
    TAP_OK(refused(&p, "20000"), "a bias outside the vocabulary is refused");
    p.bias = &bad_value;
    TAP_OK(refused(&p, "bias"), "a bias that is no number is refused");
}

static void test_memory(void)
{
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    p.dry_multiplier = 0.8f;
    p.repeat_penalty = 1.1f;
    const size_t before = sm_mem_held();
    struct sm_sampler *s = make(&p);
    const size_t held = sm_mem_held() - before;
    TAP_IS_INT(sm_sampler_memory(s), held, "memory is reported as held");
    fill_logits(0);
    for (int i = 0; i < 50; i++) sm_sampler_accept(s, sm_sampler_sample(s, logits));
    TAP_IS_INT(sm_mem_held() - before, held, "and does not grow");
    sm_sampler_free(s);
    sm_sampler_free(NULL);
    TAP_IS_INT(sm_mem_held(), before, "and is given back");
}

/* ---- behaviour ---- */

static void test_bans(void)
{
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    p.temp = 0.0f;
    fill_logits(0);
    logits[3] = 50.0f;
    logits[7] = 49.0f;
    logits[11] = 48.0f;
    struct sm_sampler *s = make(&p);
    TAP_IS_INT(sm_sampler_sample(s, logits), 3, "temperature 0 takes the best");
    logits[2] = logits[9] = 50.0f;
    TAP_IS_INT(sm_sampler_sample(s, logits), 2, "a tie goes to the lower id");
    logits[2] = logits[9] = 0.0f;
    sm_sampler_free(s);
    p.ignore_eos = true;
    s = make(&p);
    TAP_IS_INT(sm_sampler_sample(s, logits), 11, "ignore-eos bans the end tokens");
    sm_sampler_free(s);
    const struct sm_logit_bias bias[2] = {{11, -INFINITY}, {5, 1000.0f}};
    p.bias = bias;
    p.n_bias = 2;
    s = make(&p);
    TAP_IS_INT(sm_sampler_sample(s, logits), 5, "a bias lifts a token");
    sm_sampler_free(s);
    p.bias = NULL;
    p.n_bias = 0;
    s = make(&p);
    logits[100] = NAN;
    TAP_IS_INT(sm_sampler_sample(s, logits), -1, "NaN among the logits");
    logits[100] = INFINITY;
    TAP_IS_INT(sm_sampler_sample(s, logits), -1, "+infinity among the logits");
    for (size_t i = 0; i < N_VOCAB; i++) logits[i] = -INFINITY;
    TAP_IS_INT(sm_sampler_sample(s, logits), -1, "every token banned");
    logits[123] = -1e30f;
    TAP_IS_INT(sm_sampler_sample(s, logits), 123, "all but one token banned");
    logits[3] = 1.0f;
    logits[123] = -INFINITY;
    TAP_IS_INT(sm_sampler_sample(s, logits), -1, "only an end token left, and that is banned");
    sm_sampler_free(s);
}

static void test_state(void)
{
    for (int mode = 0; mode < 3; mode++) {
        struct sm_sampler_params p;
        smol_error err = {0};
        sm_sampler_defaults(&p);
        p.seed = 5;
        p.temp = 1.5f;
        p.top_k = 0;
        p.mirostat = mode;
        p.repeat_penalty = 1.3f;
        p.dry_multiplier = 0.5f;
        p.xtc_probability = 0.5f;
        struct sm_sampler *s = make_of(N_SMALL, &p), *t = make_of(N_SMALL, &p);
        fill_logits(0);
        for (int i = 0; i < 20; i++) sm_sampler_accept(s, sm_sampler_sample(s, logits));
        const size_t n = sm_sampler_state_size(s);
        uint8_t *state = malloc(n);
        if (!state) return;
        int32_t a[10], b[10], c[10];
        sm_sampler_state_save(s, state);
        for (int i = 0; i < 10; i++) sm_sampler_accept(s, a[i] = sm_sampler_sample(s, logits));
        TAP_OK(sm_sampler_state_load(s, state, n, &err) == SMOL_OK &&
                   sm_sampler_state_load(t, state, n, &err) == SMOL_OK,
               "state is loaded, Mirostat %d", mode);
        for (int i = 0; i < 10; i++) sm_sampler_accept(s, b[i] = sm_sampler_sample(s, logits));
        for (int i = 0; i < 10; i++) sm_sampler_accept(t, c[i] = sm_sampler_sample(t, logits));
        TAP_OK(!memcmp(a, b, sizeof a) && !memcmp(a, c, sizeof a), "and goes on the same");
        TAP_OK(sm_sampler_state_load(s, state, n - 1, NULL) == SMOL_FORMAT, "a short state");
        bool never_bad = true;
        for (size_t i = 0; i < 28; i++) {
            state[i] ^= 0x80;
            const smol_status st = sm_sampler_state_load(t, state, n, NULL);
            never_bad = never_bad && (st == SMOL_OK || st == SMOL_FORMAT);
            (void)sm_sampler_sample(t, logits);
            state[i] ^= 0x80;
        }
        TAP_OK(never_bad, "a damaged state");
        sm_sampler_reset(s);
        sm_sampler_reset(t);
        bool same = true;
        for (int i = 0; i < 10; i++) {
            const int32_t x = sm_sampler_sample(s, logits);
            same = same && x == sm_sampler_sample(t, logits);
        }
        TAP_OK(same, "reset starts again");
        free(state);
        sm_sampler_free(s);
        sm_sampler_free(t);
    }
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    struct sm_sampler *s = make(&p);
    TAP_IS_INT(sm_sampler_seed(s), 99, "a random seed comes from the caller");
    sm_sampler_free(s);
}

static void test_top(void)
{
    struct sm_sampler_params p;
    sm_sampler_defaults(&p);
    p.top_k = 1;
    struct sm_sampler *s = make(&p);
    struct sm_token_logprob top[SM_TOP_MAX];
    fill_logits(20);
    const size_t n = sm_sampler_top(s, logits, 1000, top);
    TAP_IS_INT(n, SM_TOP_MAX, "at most SM_TOP_MAX tokens");
    double sum = 0;
    long double exact = 0;
    bool sorted = true;
    for (size_t i = 0; i < N_VOCAB; i++) exact += expl((long double)logits[i]);
    for (size_t i = 0; i < n; i++) {
        sum += exp(top[i].logprob);
        const double want = (double)((long double)logits[top[i].id] - logl(exact));
        sorted = sorted && fabs(want - top[i].logprob) < 1e-12;
        sorted = sorted && (i == 0 || top[i - 1].logprob > top[i].logprob ||
                            (top[i - 1].logprob == top[i].logprob && top[i - 1].id < top[i].id));
    }
    TAP_OK(sorted && sum < 1.0, "log-probabilities, largest first");
    logits[17] = NAN;
    TAP_IS_INT(sm_sampler_top(s, logits, 5, top), 0, "none when a logit is NaN");
    sm_sampler_free(s);
    const struct sm_sampler_model tiny = {.n_vocab = 3, .n_ctx = 8};
    const float three[3] = {1.0f, 2.0f, 2.0f};
    if (sm_sampler_new(&s, &p, &tiny, NULL) == SMOL_OK) {
        TAP_IS_INT(sm_sampler_top(s, three, 5, top), 3, "a vocabulary of three");
        TAP_OK(top[0].id == 1 && top[1].id == 2 && top[2].id == 0, "in order");
        sm_sampler_free(s);
    }
}

/* Draws of many settings, frozen: any difference between machines shows here. */
static void test_frozen(void)
{
    uint64_t h = 0xcbf29ce484222325u;
    uint32_t x = 12345;
    for (int k = 0; k < 14; k++) {
        struct sm_sampler_params p;
        sm_sampler_defaults(&p);
        p.seed = 1000 + k;
        p.temp = 1.2f;
        if (k & 1) p.top_k = 0;
        if (k == 2 || k == 3) p.typical = 0.7f;
        if (k == 4 || k == 5) p.top_n_sigma = 2.5f;
        if (k == 6 || k == 7) p.xtc_probability = 0.6f;
        if (k == 8 || k == 9) p.temp_range = 0.7f;
        if (k == 10) p.repeat_penalty = 1.2f, p.frequency_penalty = 0.1f;
        if (k == 11) p.dry_multiplier = 0.9f, p.dry_allowed = 1, p.dry_last = -1;
        if (k >= 12) p.mirostat = k - 11;
        struct sm_sampler *s = make(&p);
        for (int step = 0; step < 12; step++) {
            for (size_t i = 0; i < N_VOCAB; i++) {
                x = x * 1664525u + 1013904223u;
                const float u = (float)(x >> 8) * 0x1p-24f;
                logits[i] = 12.0f * u * u * u + (i % 97 == 0 ? 2.0f : 0.0f);
            }
            const int32_t id = sm_sampler_sample(s, logits);
            sm_sampler_accept(s, id);
            h = (h ^ (uint32_t)id) * 0x100000001b3u;
        }
        sm_sampler_free(s);
    }
    TAP_OK(h == 0xaf53a624546edf3bu, "frozen draws: 0x%016" PRIx64, h);
}

/* Processor time, so that a busy machine changes little; and only a ratio is judged. */
static double now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void test_speed(void)
{
    enum { N_BIG = 151936 };
    static float big[N_BIG];
    static struct sm_candidate room[N_BIG];
    double select = 1e9, sort = 1e9;
    for (size_t i = 0; i < N_BIG; i++) {
        big[i] = 0.0f;
        for (int k = 0; k < 4; k++) big[i] += tap_random_float(-3.0f, 3.0f);
    }
    for (int k = 0; k < 4; k++) {
        struct sm_cands c = {.v = room};
        const double begin = now_ms();
        sm_stage_top_k(&c, big, N_BIG, 40);
        const double middle = now_ms();
        sm_stage_top_k(&c, big, N_BIG, 0);
        sm_cands_sort(&c);
        const double end = now_ms();
        if (middle - begin < select) select = middle - begin;
        if (end - middle < sort) sort = end - middle;
    }
    printf("# top 40 of %d: %.3f ms, sorting all: %.3f ms\n", N_BIG, select, sort);
    TAP_OK(select * 4.0 < sort, "top-k does not sort the vocabulary");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_frozen(); /* before anything that depends on the seed of the run */
    test_rng();
    test_naive();
    test_top_k_orders();
    test_settings();
    test_memory();
    test_bans();
    test_state();
    test_top();
    test_speed();
    return tap_done();
}
