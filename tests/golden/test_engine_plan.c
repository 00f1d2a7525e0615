/* SPDX-License-Identifier: MIT */
/* What an opening arranges before the first token: the list of learned experts belongs to the pools
 * that were planned, and dense weights are streamed in the order in which a token uses them. */
#include "infer/session.h"
#include "model_run.h"
#include "store/store_int.h"
#include "tap.h"
#include "temp.h"

#include <string.h>

static const char tiny[] = "models/tiny-moe.gguf";

static double predicted_miss(smol_draft draft, const char *learned, unsigned *n_pool,
                             smol_error *err)
{
    char path[512];
    smol_params p;
    smol_plan plan;
    smol_params_default(&p);
    p.pool = 12;
    p.ctx = 64;
    p.draft = draft;
    p.learned_path = learned;
    *n_pool = 0;
    if (smol_plan_file(source_path(path, sizeof path, tiny), &p, &plan, err) != SMOL_OK) return -1;
    *n_pool = plan.n_pool;
    return plan.predicted_miss;
}

/* In auto mode the next-token block and its pool are dropped where experts are paged. */
static void check_learned(void)
{
    char path[512];
    struct sm_engine e;
    struct sm_session s = {0};
    smol_params p;
    smol_error err = {0};
    int32_t tokens[40];
    unsigned n_off, n_auto;
    const char *list = temp_path("experts");
    for (int i = 0; i < 40; i++) tokens[i] = (int32_t)(tap_random_below(1900) + 10);
    smol_params_default(&p);
    p.pool = 12;
    p.ctx = 64;
    bool ok = sm_engine_open(&e, source_path(path, sizeof path, tiny), &p, &err) == SMOL_OK &&
              sm_session_open(&s, &e, &err) == SMOL_OK &&
              sm_session_sync(&s, tokens, 40, &err) == SMOL_OK &&
              sm_engine_learn(&e, list, &err) == SMOL_OK;
    sm_session_close(&s);
    sm_engine_close(&e);
    const double none = predicted_miss(SMOL_DRAFT_AUTO, NULL, &n_auto, &err);
    const double off = predicted_miss(SMOL_DRAFT_OFF, list, &n_off, &err);
    const double with = predicted_miss(SMOL_DRAFT_AUTO, list, &n_auto, &err);
    TAP_OK(
        ok && n_off && n_off == n_auto && off != none && with == off,
        "misses promised by a learned list: %.4f, with drafts chosen freely %.4f (without %.4f) %s",
        off, with, none, err.msg);
    p.draft = SMOL_DRAFT_AUTO;
    p.learned_path = list;
    ok = sm_engine_open(&e, source_path(path, sizeof path, tiny), &p, &err) == SMOL_OK;
    TAP_OK(ok && !e.learned && !e.model->have_next, "opened with it %s", err.msg);
    sm_engine_close(&e);
}

/* In small budgets, drafts that are chosen freely take one slot in 33 at most; those that are asked
 * for may take more. */
static void check_slots(void)
{
    static const smol_draft draft[3] = {SMOL_DRAFT_OFF, SMOL_DRAFT_AUTO, SMOL_DRAFT_LOOKUP};
    char path[512];
    unsigned n_less = 0, n_plans = 0;
    bool kept = true;
    smol_error err = {0};
    for (unsigned mib = 13; mib < 22; mib++, n_plans++) {
        unsigned slots[3] = {0};
        for (unsigned i = 0; i < 3; i++) {
            smol_params p;
            smol_plan plan = {0};
            smol_params_default(&p);
            p.memory_bytes = (uint64_t)mib << 20;
            p.ctx = 512;
            p.draft = draft[i];
            if (smol_plan_file(source_path(path, sizeof path, tiny), &p, &plan, &err) == SMOL_OK)
                slots[i] = plan.slots;
        }
        kept = kept && slots[0] > 0 && 33 * slots[1] >= 32 * slots[0];
        n_less += slots[2] < slots[0];
    }
    TAP_OK(kept, "free drafts leave the slots alone in %u budgets %s", n_plans, err.msg);
    TAP_OK(n_less > 0, "lookups that are asked for take slots in %u of them", n_less);
}

/* The speed is predicted in RAM and paged, a slow flash makes it slower. */
static void check_speed(void)
{
    static const struct { unsigned pool; double flash; } cases[] = {{0, 0}, {12, 0}, {12, 1}};
    char path[512];
    double speed[3] = {0};
    smol_error err = {0};
    for (unsigned i = 0; i < 3; i++) {
        smol_params p;
        smol_plan plan = {0};
        smol_params_default(&p);
        p.pool = cases[i].pool;
        p.flash_mb_s = cases[i].flash;
        p.ctx = 64;
        if (smol_plan_file(source_path(path, sizeof path, tiny), &p, &plan, &err) == SMOL_OK)
            speed[i] = plan.predicted_tok_s;
    }
    TAP_OK(speed[0] > 1 && speed[0] < 1e6 && speed[1] > 0, "%.1f tokens/s in RAM, %.1f paged %s",
           speed[0], speed[1], err.msg);
    TAP_OK(speed[2] > 0 && speed[2] < speed[1], "%.2f from a flash of 1 MB/s", speed[2]);
}

/* Where everything fits, drafts cost what the plan says: what it would be less without them, but
 * for the tables of a pool more. */
static void check_draft_bytes(const char *model)
{
    uint64_t total[4] = {0}, said[4] = {0};
    unsigned chunk[4] = {0}, n_wrong = 0;
    char path[512];
    smol_error err = {0};
    for (unsigned i = 0; i < 4; i++) {
        smol_params p;
        smol_plan plan = {0};
        smol_params_default(&p);
        p.memory_bytes = (uint64_t)64 << 20;
        p.ctx = 256;
        p.draft = (smol_draft)i;
        if (smol_plan_file(source_path(path, sizeof path, model), &p, &plan, &err) != SMOL_OK)
            continue;
        total[i] = plan.total_bytes;
        said[i] = plan.draft_bytes;
        chunk[i] = plan.chunk;
        n_wrong += plan.draft != p.draft || (plan.draft_most > 0) != (i > 0);
    }
    for (unsigned i = 1; i < 4; i++) {
        const uint64_t more = total[i] - total[0];
        n_wrong += !said[i] || said[i] > more + 64 || more > said[i] + 12000;
        n_wrong += chunk[i] != chunk[0];
    }
    TAP_OK(!said[0] && n_wrong == 0, "%s: lookups take %llu bytes, the block %llu %s", model,
           (unsigned long long)said[1], (unsigned long long)said[2], err.msg);
}

static void check_streaming(void)
{
    char path[512];
    smol_params p;
    smol_plan plan = {0};
    smol_error err = {0};
    smol_params_default(&p);
    p.memory_bytes = 14u << 20;
    p.ctx = 512;
    p.draft = SMOL_DRAFT_MTP;
    p.flash_mb_s = 1;
    (void)source_path(path, sizeof path, tiny);
    TAP_OK(smol_plan_file(path, &p, &plan, &err) == SMOL_OK &&
               plan.streamed_bytes > 1000000 && plan.predicted_overlap > 0 &&
               plan.predicted_overlap < 0.5,
           "%llu bytes a token are streamed from 1 MB/s, %.4f of the time behind computing %s",
           (unsigned long long)plan.streamed_bytes, plan.predicted_overlap, err.msg);
    p.memory_bytes = 0;
    TAP_OK(smol_plan_file(path, &p, &plan, &err) == SMOL_OK && !plan.streamed_bytes &&
               plan.predicted_overlap < 0,
           "in RAM nothing is");
}

static void check_order(const char *model)
{
    char path[512], name[128];
    struct sm_engine e;
    struct sm_session s = {0};
    smol_params p;
    smol_plan plan;
    smol_error err = {0};
    static const int32_t tokens[] = {10, 20, 30, 40, 50, 60};
    (void)snprintf(name, sizeof name, "tests/data/models/rand-%s.gguf", model);
    (void)source_path(path, sizeof path, name);
    smol_params_default(&p);
    p.ctx = 64;
    p.chunk = 3;
    p.memory_bytes = 1;
    (void)smol_plan_file(path, &p, &plan, &err); /* streams all it can, and says what that needs */
    p.memory_bytes = plan.needed_bytes;
    err = (smol_error){0};
    bool ok = sm_engine_open(&e, path, &p, &err) == SMOL_OK &&
              sm_session_open(&s, &e, &err) == SMOL_OK &&
              sm_session_sync(&s, tokens, 6, &err) == SMOL_OK;
    const uint64_t before = ok ? e.store->stream.n_skips : 0; /* the head is not for every chunk */
    for (int i = 0; ok && i < 3; i++) ok = sm_session_append(&s, 7 + i, &err) == SMOL_OK;
    const uint64_t n_skips = ok ? e.store->stream.n_skips - before : 0;
    TAP_OK(ok && e.store->stream.n_items > 4 && n_skips == 0,
           "%s: %u matrices streamed in their order, %llu times not %s", model,
           ok ? e.store->stream.n_items : 0, (unsigned long long)n_skips, err.msg);
    sm_session_close(&s);
    sm_engine_close(&e);
}

/* The routers are the last to be streamed, and only where nothing looks ahead with copies of
 * them. */
static void check_routers(void)
{
    char path[512];
    smol_params p;
    smol_plan plan;
    smol_error err = {0};
    (void)source_path(path, sizeof path, "models/tiny-moe.gguf");
    smol_params_default(&p);
    p.ctx = 64;
    p.memory_bytes = 1;
    (void)smol_plan_file(path, &p, &plan, &err);
    const uint64_t least = plan.needed_bytes;
    err = (smol_error){0};
    p.prefetch = 1; /* insisted on */
    (void)smol_plan_file(path, &p, &plan, &err);
    TAP_OK(least + 5 * 32 * 256 * sizeof(float) < plan.needed_bytes,
           "streaming five routers saves at least their size: %llu bytes, %llu with prefetching",
           (unsigned long long)least, (unsigned long long)plan.needed_bytes);
    /* automatic: as much as with prefetching does not fit */
    p.memory_bytes = plan.needed_bytes - 1;
    p.prefetch = SMOL_PREFETCH_AUTO;
    err = (smol_error){0};
    struct sm_engine e;
    const bool ok = sm_engine_open(&e, path, &p, &err) == SMOL_OK;
    TAP_OK(ok && !e.plan.prefetch, "and it opens without %s", err.msg);
    sm_engine_close(&e);
}

int main(int argc, char **argv)
{
    static const char *const models[] = {"llama", "qwen3moe", "bailingmoe2", "olmoe", "gpt-oss",
                                         "deepseek2", "lfm2moe", "qwen35",
                                         "qwen35moe", "bailingmoe3", "bailingmoe3-k256"};
    tap_init(argc, argv);
    check_speed();
    check_draft_bytes(tiny);
    check_draft_bytes("tests/data/models/rand-qwen35.gguf");
    check_draft_bytes("tests/data/models/rand-qwen35moe.gguf");
    check_streaming();
    check_learned();
    check_slots();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_order(models[i]);
    check_routers();
    return tap_done();
}
