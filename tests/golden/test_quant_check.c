/* SPDX-License-Identifier: MIT */
/* The look at what quantising did: a model against itself, against one with fewer bits, and which
 * results are called bad. */
#include "json_read.h"
#include "lib/quant_check.h"
#include "store/requant.h"
#include "tap.h"
#include "temp.h"

#include <unistd.h>

static smol_error err;
static char model[512];

static bool check(struct quant_check *c, const char *out, uint64_t memory, bool *in_failed)
{
    smol_params p;
    smol_params_default(&p);
    p.threads = 2;
    p.memory_bytes = memory;
    err = (smol_error){0};
    const smol_status st = quant_check_run(c, model, out, 315, &p, in_failed, &err);
    return st == SMOL_OK;
}

static bool quantise(uint32_t experts, uint32_t rest, const char *out)
{
    const struct sm_requant_options o = {.experts = experts, .rest = rest, .n_threads = 2};
    struct sm_requant *r;
    smol_status st = sm_requant_open(&r, model, &o, &err);
    if (st == SMOL_OK) st = sm_requant_write(r, out, &err);
    sm_requant_free(r);
    return st == SMOL_OK;
}

static void test_models(void)
{
    struct quant_check same, eight, two, none;
    bool in_failed = false;
    char q8[600], q2[600];
    (void)snprintf(q8, sizeof q8, "%s", temp_path("q8.gguf"));
    (void)snprintf(q2, sizeof q2, "%s", temp_path("q2.gguf"));
    TAP_OK(quantise(SM_Q8_0, SM_Q8_0, q8) && quantise(SM_Q2_K, SM_Q2_K, q2), "two models %s",
           err.msg);
    /* a copy beside which the logits may lie */
    TAP_OK(quantise(SM_Q8_0, SM_Q8_0, temp_path("self.gguf")), "and a third %s", err.msg);
    (void)unlink(temp_path("self.gguf"));
    TAP_OK(!symlink(model, temp_path("self.gguf")) &&
               check(&same, temp_path("self.gguf"), 0, &in_failed),
           "with itself %s", err.msg);
    TAP_OK(same.n == 280 && same.ppl_in == same.ppl_out && same.ppl_in > 1 &&
               fabs(same.kl) < 1e-9 && same.ends_in == same.ends_out && !quant_check_bad(&same),
           "perplexity %.6f and %.6f, divergence %g", same.ppl_in, same.ppl_out, same.kl);
    TAP_OK(check(&eight, q8, 0, &in_failed) && check(&two, q2, 0, &in_failed), "both %s", err.msg);
    TAP_OK(eight.ppl_in == same.ppl_in && two.ppl_in == same.ppl_in, "the text is the same");
    TAP_OK(eight.kl > 0 && two.kl > 10 * eight.kl && two.ppl_out > eight.ppl_out,
           "divergence of 8 bits %.6f, of 2 bits %.6f", eight.kl, two.kl);
    TAP_OK(!check(&none, q8, 1 << 20, &in_failed) && in_failed && err.code == SMOL_NOMEM, "%s",
           err.msg);
    TAP_OK(!check(&none, temp_path("nothing.gguf"), 0, &in_failed) && !in_failed &&
               strstr(err.msg, "nothing.gguf"),
           "%s", err.msg);
    TAP_OK(access(temp_path("q8.gguf.logits"), F_OK) &&
               access(temp_path("nothing.gguf.logits"), F_OK),
           "no logits are left");
}

static bool bad(double in, double out, bool ends_in, bool ends_out)
{
    return quant_check_bad(&(struct quant_check){280, in, out, 0, ends_in, ends_out}) != NULL;
}

static void test_verdicts(void)
{
    TAP_OK(!bad(10, 15, false, false) && !bad(10, 5, false, false), "half more is not yet bad");
    TAP_OK(bad(10, 15.01, false, false) && bad(10, NAN, false, false) &&
               bad(10, INFINITY, false, false),
           "more, and no number, are");
    TAP_OK(bad(10, 10, false, true) && !bad(10, 10, true, true) && !bad(10, 10, true, false),
           "an end where the source goes on");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    (void)tap_src(model, sizeof model, "tests/data/models/rand-bailingmoe2-k256.gguf");
    test_models();
    test_verdicts();
    return tap_done();
}
