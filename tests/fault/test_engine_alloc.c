/* SPDX-License-Identifier: MIT */
/* Memory of a whole run: nothing is allocated while a prompt is read or a token is made; an
 * allocation that fails while a model is opened is a clear status and leaks nothing; a budget one
 * byte below the smallest plan is refused with the number that would do, which every plan names;
 * and what samplers hold is planned. */
#include "api/api.h"
#include "fail_alloc.h"
#include "infer/dry_breakers.h"
#include "infer/session.h"
#include "model_run.h"
#include "tap.h"

#include <string.h>

static char model_path[512];

static smol_params paged(void)
{
    smol_params p;
    smol_params_default(&p);
    p.threads = 2;
    p.pool = 6;
    p.ctx = 128;
    return p;
}

static void check_decode(void)
{
    const smol_params p = paged();
    smol_model *m = NULL;
    smol_session *s = NULL;
    smol_error err = {0};
    int32_t tokens[64];
    for (int i = 0; i < 64; i++) tokens[i] = (i * 7919 + 13) % 300;
    if (smol_model_open(&m, model_path, &p, &err) != SMOL_OK ||
        smol_session_new(&s, m, &err) != SMOL_OK) {
        TAP_OK(false, "opens: %s", err.msg);
    } else {
        alloc_fail_at(0);
        bool ok = smol_session_sync(s, tokens, 40, &err) == SMOL_OK;
        const uint64_t n_prompt = alloc_count();
        for (int i = 40; ok && i < 64; i++) ok = smol_session_append(s, tokens[i], &err) == SMOL_OK;
        TAP_OK(ok && n_prompt == 0, "a prompt of 40 tokens allocates nothing (%d) %s",
               (int)n_prompt, err.msg);
        TAP_OK(alloc_count() == 0, "24 tokens allocate nothing (%d)", (int)alloc_count());
    }
    smol_session_free(s);
    smol_model_free(m);
}

/* The same with drafts, on a model with recurrent states and a next-token block. */
static void check_drafts(smol_draft draft, const char *name)
{
    char path[512];
    struct sm_engine e;
    struct sm_session s = {0};
    smol_error err = {0};
    smol_params p;
    int32_t tokens[80];
    smol_params_default(&p);
    p.threads = 2;
    p.ctx = 128;
    p.draft = draft;
    for (int i = 0; i < 80; i++) tokens[i] = (i % 7 * 7919 + 13) % 300;
    source_path(path, sizeof path, "tests/data/models/rand-qwen35.gguf");
    if (sm_engine_open(&e, path, &p, &err) != SMOL_OK || sm_session_open(&s, &e, &err) != SMOL_OK) {
        TAP_OK(false, "opens: %s", err.msg);
    } else {
        alloc_fail_at(0);
        bool ok = sm_session_sync(&s, tokens, 20, &err) == SMOL_OK;
        for (uint32_t i = 20; ok && i < 80; i++)
            ok = sm_session_feed(&s, tokens[i], 79 - i, &err) == SMOL_OK;
        sm_session_settle(&s);
        TAP_OK(ok && alloc_count() == 0 && e.draft.proposed > 0 && s.n == 80,
               "drafts %s: 60 tokens and %d drafts allocate nothing (%d) %s", name,
               (int)e.draft.proposed, (int)alloc_count(), err.msg);
    }
    sm_session_close(&s);
    sm_engine_close(&e);
}

static void check_open_failures(void)
{
    smol_params p = paged();
    p.calibrate = true; /* all that an opening can take */
    unsigned n_failed = 0, n_wrong = 0, n_leaks = 0;
    smol_model *m = NULL;
    if (smol_model_open(&m, model_path, &p, NULL) == SMOL_OK) smol_model_free(m);
    const int64_t live = alloc_live();
    for (uint64_t n = 1; n < 1000; n++) {
        smol_error err = {0};
        m = NULL;
        alloc_fail_at(n);
        const smol_status st = smol_model_open(&m, model_path, &p, &err);
        const bool failed = alloc_failed();
        alloc_fail_at(0);
        smol_model_free(m);
        if (!failed) break;
        n_failed++;
        /* measurements for the prediction may go without their memory */
        if (st != SMOL_OK && (st != SMOL_NOMEM || !err.msg[0])) {
            n_wrong++;
            printf("# allocation %d: status %d %s\n", (int)n, (int)st, err.msg);
        }
        if (alloc_live() != live) {
            n_leaks++;
            printf("# allocation %d: %d blocks left\n", (int)n, (int)(alloc_live() - live));
            break;
        }
    }
    TAP_OK(n_failed > 10 && n_wrong == 0, "each of %u failing allocations is a clear status",
           n_failed);
    TAP_OK(n_leaks == 0, "and leaks nothing");
}

static void check_budget(void)
{
    smol_params p;
    smol_plan plan;
    smol_error err = {0};
    smol_params_default(&p);
    p.ctx = 64;
    p.threads = 1;
    p.memory_bytes = 1;
    TAP_OK(smol_plan_file(model_path, &p, &plan, &err) == SMOL_NOMEM && plan.needed_bytes > 1 &&
               strstr(err.msg, "needs at least"),
           "one byte is refused with the number needed: %s", err.msg);
    p.memory_bytes = plan.needed_bytes;
    err = (smol_error){0};
    TAP_OK(smol_plan_file(model_path, &p, &plan, &err) == SMOL_OK, "that number does: %s", err.msg);
    p.memory_bytes--;
    err = (smol_error){0};
    TAP_OK(smol_plan_file(model_path, &p, &plan, &err) == SMOL_NOMEM, "one byte less does not");
}

/* The plan that fits and the refusal name the same smallest budget: of the model as it is with all
 * streamed that can be. */
static void check_smallest(void)
{
    static const char *const models[] = {"models/tiny-moe.gguf",
                                         "tests/data/models/rand-qwen35.gguf",
                                         "tests/data/models/rand-llama.gguf"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        char path[512];
        smol_params p;
        smol_plan roomy, tight;
        smol_error err = {0};
        smol_model *m = NULL;
        smol_params_default(&p);
        p.threads = 2;
        p.calibrate = i == 0;
        p.draft = i == 1 ? SMOL_DRAFT_AUTO : SMOL_DRAFT_OFF;
        source_path(path, sizeof path, models[i]);
        p.memory_bytes = (uint64_t)1 << 30;
        bool same = smol_plan_file(path, &p, &roomy, &err) == SMOL_OK;
        p.memory_bytes = 1;
        same = smol_plan_file(path, &p, &tight, NULL) == SMOL_NOMEM && same &&
               roomy.needed_bytes == tight.needed_bytes && roomy.needed_bytes < roomy.total_bytes;
        p.memory_bytes = roomy.needed_bytes;
        TAP_OK(same && smol_model_open(&m, path, &p, &err) == SMOL_OK &&
                   smol_model_plan(m)->needed_bytes == roomy.needed_bytes,
               "%s: %d bytes are the least, which opens; %d are refused for %d %s", models[i],
               (int)roomy.needed_bytes, 1, (int)tight.needed_bytes, err.msg);
        smol_model_free(m);
    }
}

/* What samplers hold is planned, for the settings that are named. */
static void check_sampler(void)
{
    const int32_t windows[] = {-1, 1 << 20};
    smol_params p = paged();
    smol_sampling s;
    smol_sampling_default(&s);
    s.top_k = 0;
    s.frequency_penalty = s.dry_multiplier = 1;
    p.sampling = &s;
    for (unsigned i = 0; i < 2; i++) {
        smol_model *m = NULL;
        smol_sampler *sampler = NULL;
        smol_error err = {0};
        uint64_t planned = 0, held = 0;
        s.repeat_last = s.dry_last = windows[i];
        if (smol_model_open(&m, model_path, &p, &err) == SMOL_OK &&
            smol_sampler_new(&sampler, m, &s, &err) == SMOL_OK) {
            const smol_plan *plan = smol_model_plan(m);
            for (unsigned k = 0; k < plan->n_items; k++)
                if (!strcmp(plan->items[k].what, "sampler")) planned = plan->items[k].bytes;
            held = sm_sampler_memory(sampler->sampler);
            if (sampler->breakers) held += sm_dry_breakers_memory(sampler->breakers);
        }
        TAP_OK(held > 0 && held == planned,
               "a sampler that looks back %d tokens holds %d bytes, %d are planned %s",
               (int)windows[i], (int)held, (int)planned, err.msg);
        smol_sampler_free(sampler);
        smol_model_free(m);
    }
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    source_path(model_path, sizeof model_path, "tests/data/models/rand-bailingmoe2-k256-q2_k.gguf");
    check_decode();
    check_drafts(SMOL_DRAFT_LOOKUP, "lookup");
    check_drafts(SMOL_DRAFT_MTP, "mtp");
    check_open_failures();
    check_budget();
    check_smallest();
    check_sampler();
    return tap_done();
}
