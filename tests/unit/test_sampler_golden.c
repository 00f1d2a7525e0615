/* SPDX-License-Identifier: MIT */
/* Every stage of the sampler against tests/data/golden/sampling.json: 300 cases made by another
 * program. `dry` and `temp_ext` within 2e-6 relative, everything else exactly. */
#include "infer/sampler_stage.h"
#include "json_read.h"
#include "tap.h"

#include <math.h>

#define N_MAX 64

struct fixture {
    size_t n;
    float logit[N_MAX];
    struct sm_candidate room[N_MAX];
    struct sm_cands c;
    int32_t ring[2048], map_id[4096], map_value[4096], run[2048];
    struct sm_history history;
    struct sm_token_map map;
};

static struct fixture fx;

static void load(const struct json *c)
{
    const struct json *logits = json_get(c, "logits"), *past = json_get(c, "history");
    fx.n = json_len(logits);
    if (fx.n > N_MAX) fx.n = N_MAX;
    for (size_t i = 0; i < fx.n; i++) fx.logit[i] = (float)json_num(json_at(logits, i), NAN);
    fx.history = (struct sm_history){.id = fx.ring, .capacity = 2048};
    fx.map = (struct sm_token_map){fx.map_id, fx.map_value, 4096};
    for (size_t i = 0; i < json_len(past); i++)
        sm_history_put(&fx.history, (int32_t)json_int(json_at(past, i), 0));
    fx.c = (struct sm_cands){.v = fx.room};
}

static double param(const struct json *c, size_t i)
{
    return json_num(json_at(json_get(c, "params"), i), NAN);
}

/* Candidates from the logits. With `shuffle`, in an order that no stage may depend on. */
static void all_candidates(bool shuffle)
{
    sm_stage_top_k(&fx.c, fx.logit, fx.n, 0);
    for (size_t i = fx.n; shuffle && i-- > 1;) {
        const size_t j = (size_t)tap_random_below(i + 1);
        const struct sm_candidate t = fx.room[i];
        fx.room[i] = fx.room[j];
        fx.room[j] = t;
    }
}

static void run_stage(const char *name, const struct json *c, bool shuffle)
{
    const float a = (float)param(c, 0), b = (float)param(c, 1), d = (float)param(c, 2);
    if (!strcmp(name, "penalties")) {
        sm_stage_penalties(fx.logit, &fx.history, &fx.map, (uint32_t)a, b, d, (float)param(c, 3));
    } else if (!strcmp(name, "dry")) {
        const struct sm_dry dry = {.multiplier = b,
                                   .base = d,
                                   .allowed = (uint32_t)param(c, 3),
                                   .last = (uint32_t)param(c, 4),
                                   .run = fx.run};
        sm_stage_dry(fx.logit, &fx.history, &fx.map, &dry);
    } else if (!strcmp(name, "top_n_sigma")) {
        sm_stage_top_n_sigma(fx.logit, fx.n, a);
    }
    if (!strcmp(name, "top_k")) {
        sm_stage_top_k(&fx.c, fx.logit, fx.n, (int32_t)a);
        return;
    }
    all_candidates(shuffle);
    if (!strcmp(name, "top_p")) sm_stage_top_p(&fx.c, a, (size_t)b);
    if (!strcmp(name, "min_p")) sm_stage_min_p(&fx.c, a, (size_t)b);
    if (!strcmp(name, "typical")) sm_stage_typical(&fx.c, a, (size_t)b);
    if (!strcmp(name, "temp")) sm_stage_temp(&fx.c, a);
    if (!strcmp(name, "temp_ext")) sm_stage_temp_dynamic(&fx.c, a, b, d);
    if (!strcmp(name, "xtc")) {
        struct sm_rng rng;
        sm_rng_seed(&rng, (uint32_t)param(c, 3));
        sm_stage_xtc(&fx.c, a, b, (size_t)d, &rng);
    }
}

static int by_id(const void *a, const void *b)
{
    const struct sm_candidate *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static bool result_is(const struct json *c, double tolerance)
{
    const struct json *ids = json_get(c, "out_ids"), *out = json_get(c, "out_logits");
    if (json_len(ids) != fx.c.n) return false;
    qsort(fx.c.v, fx.c.n, sizeof *fx.c.v, by_id);
    for (size_t i = 0; i < fx.c.n; i++) {
        const double want = json_num(json_at(out, i), -INFINITY), got = (double)fx.c.v[i].logit;
        if (json_int(json_at(ids, i), -1) != fx.c.v[i].id) return false;
        if (got != want && !(fabs(got - want) <= tolerance * fabs(want))) return false;
    }
    return true;
}

static bool trace_is(const char *name, const struct json *c)
{
    const bool first = !strcmp(name, "mirostat1");
    const size_t skip = first ? 1 : 0; /* the vocabulary size comes first */
    const float tau = (float)param(c, skip + 1), eta = (float)param(c, skip + 2);
    const struct json *trace = json_get(c, "trace");
    float mu = 2.0f * tau;
    struct sm_rng rng;
    sm_rng_seed(&rng, (uint32_t)param(c, skip));
    bool good = json_len(trace) == 40;
    for (size_t i = 0; i < json_len(trace); i++) {
        fx.c = (struct sm_cands){.v = fx.room};
        sm_stage_top_k(&fx.c, fx.logit, fx.n, 0);
        const size_t at = first ? sm_stage_mirostat1(&fx.c, &rng, &mu, tau, eta,
                                                     (int32_t)param(c, 4), (uint32_t)param(c, 0))
                                : sm_stage_mirostat2(&fx.c, &rng, &mu, tau, eta);
        good = good && fx.c.v[at].id == json_int(json_at(trace, i), -1);
    }
    return good;
}

int main(int argc, char **argv)
{
    char path[4096], why[200];
    tap_init(argc, argv);
    struct json_doc *doc =
        json_load(tap_src(path, sizeof path, "tests/data/golden/sampling.json"), why, sizeof why);
    TAP_OK(doc != NULL, "golden file is read: %s", doc ? path : why);
    const struct json *cases = json_get(json_root(doc), "cases");
    TAP_IS_INT(json_len(cases), 300, "number of cases");
    for (size_t i = 0; i < json_len(cases); i++) {
        const struct json *c = json_at(cases, i);
        const char *name = json_str(json_get(c, "sampler"), "");
        const bool loose = !strcmp(name, "dry") || !strcmp(name, "temp_ext");
        if (json_get(c, "trace")) {
            load(c);
            TAP_OK(trace_is(name, c), "case %zu: trace of %s", i, name);
            continue;
        }
        load(c);
        run_stage(name, c, false);
        const bool plain = result_is(c, loose ? 2e-6 : 0.0);
        load(c);
        run_stage(name, c, true);
        TAP_OK(plain && result_is(c, loose ? 2e-6 : 0.0), "case %zu: %s", i, name);
    }
    json_free(doc);
    return tap_done();
}
