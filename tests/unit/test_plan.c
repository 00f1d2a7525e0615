/* SPDX-License-Identifier: MIT */
/* The memory plan: every rule of store/plan.h by numbers worked out by hand. */
#include "store/plan.h"
#include "tap.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t scratch(void *arg, uint32_t chunk)
{
    return *(const uint64_t *)arg * chunk;
}

/* Nineteen pools of 256 experts of 1 MiB, 300 MiB resident, 40 KiB of KV a token, 100 KiB of
 * scratch a token of the chunk, 20 MiB of fixed things, 3 readers of 1 MiB, 2 threads. */
static struct sm_plan_pool pools[19];
static const struct sm_plan_item fixed[] = {{"process", 12 * MIB}, {"tokeniser", 8 * MIB}};
static uint64_t scratch_per_token = 100 * 1024;

static struct sm_plan_input ling(uint64_t budget)
{
    for (unsigned i = 0; i < 19; i++) pools[i] = (struct sm_plan_pool){MIB, 256};
    return (struct sm_plan_input){
        .budget_bytes = budget,
        .store = {.resident_bytes = 300 * MIB, .io_bytes = MIB, .row_bytes = 512 * 1024,
                  .table_bytes = 512 * 1024},
        .pools = pools, .n_pools = 19, .n_expert_used = 8, .fixed = fixed, .n_fixed = 2,
        .stack_bytes = 256 * 1024, .n_threads = 2, .kv_bytes_per_token = 40 * 1024,
        .scratch_bytes = scratch, .scratch_arg = &scratch_per_token, .ctx_model = 32768};
}

static uint64_t sum_items(const struct sm_plan *p)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < p->n_items; i++) sum += p->items[i].bytes;
    return sum;
}

/* Rows of the embedding table take what no slot can use, and never more than their share. */
static void test_rows(void)
{
    struct sm_plan p;
    smol_error err = {0};
    bool within = true, some = false;
    for (uint64_t b = 600 * MIB; b < 8000 * MIB; b += 7 * MIB + 12345) {
        struct sm_plan_input in = ling(b);
        in.store.row_cell_bytes = 1168;
        within = within && sm_plan_make(&in, &p, &err) == SMOL_OK && p.total_bytes <= b &&
                 sum_items(&p) == p.total_bytes && p.rows_bytes == p.n_row_cells * 1168u &&
                 p.rows_bytes <= b / SM_PLAN_ROWS_SHARE && p.n_row_cells <= SM_PLAN_ROWS_MAX;
        some = some || p.n_row_cells > 100;
        in.budget_bytes = p.needed_bytes;
        within = within && sm_plan_make(&in, &p, &err) == SMOL_OK;
    }
    TAP_OK(within && some, "kept rows stay within their share and the budget: %s", err.msg);
}

/* constant part: 300 + 3 + 1 + 20 + 4 stacks of 256 KiB (1 worker + 3 readers) = 325 MiB; a fourth
 * reader: 1.25 MiB */
static void test_paged(void)
{
    struct sm_plan p;
    smol_error err = {0};
    struct sm_plan_input in = ling(1000 * MIB);
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK, "1000 MiB works");
    /* 2048 tokens of KV: 80 MiB; shared 595; chunk 512 needs 50 MiB <= 0.8 + 595/8 */
    TAP_IS_INT(p.ctx, 2048, "context is lowered before slots are cut");
    TAP_IS_INT(p.chunk, 512, "largest chunk while its scratch is modest");
    TAP_IS_INT(p.n_slots, 28, "(1000 - 325 - 1.25 - 80 - 50) / 19 slots");
    TAP_IS_INT(p.total_bytes, (325 + 80 + 50 + 28 * 19) * MIB + 5 * MIB / 4, "total");
    TAP_IS_INT(sum_items(&p), p.total_bytes, "the items sum to the total");
    TAP_IS_INT(p.n_readers, 4, "a reader more than where nothing is paged");
    TAP_OK(!p.experts_resident && strstr(p.note, "context lowered to 2048"), "note: %s", p.note);
    TAP_OK(p.miss_predicted > 0.80 && p.miss_predicted < 0.82, "miss estimate %f",
           p.miss_predicted);

    in = ling(700 * MIB); /* shared 295: 1/8 is 36.9, chunk 512 beyond the least is 49.2 */
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.chunk == 256,
           "a chunk of 512 would take more than an eighth: 256");
    TAP_IS_INT(p.n_slots, 14, "(295 - 25) / 19");

    in.ctx_user = 4096; /* shared 215; 256 tokens: 25 MiB - 0.8 <= 26.9 */
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.ctx == 4096 && p.note[0] == '\0',
           "an asked for context is kept");
    TAP_IS_INT(p.n_slots, 9, "(215 - 1.25 - 25) / 19");
    in.ctx_user = 40000;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_ARG && strstr(err.msg, "40000"),
           "context above the model's: %s", err.msg);
}

static void test_resident(void)
{
    struct sm_plan p;
    smol_error err = {0};
    /* all: 325 + 19*256 + 160 (4096) + 50 = 5399 MiB */
    struct sm_plan_input in = ling(5399 * MIB);
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.experts_resident && p.n_slots == 256 &&
               p.ctx == 4096 && p.chunk == 512 && p.total_bytes == 5399 * MIB,
           "everything fits to the byte");
    in.budget_bytes--;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.experts_resident && p.ctx == 4096 &&
               p.chunk == 256, "one byte less: a smaller chunk, all experts stay");
    in.budget_bytes = (325 + 19 * 256 + 80 + 50) * MIB;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.experts_resident && p.ctx == 2048 &&
               p.chunk == 512, "then the context is lowered");
    in.budget_bytes = UINT64_MAX;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.experts_resident && p.miss_predicted == 0,
           "no budget");
    in.pool_user = 40;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.n_slots == 40 && !p.experts_resident,
           "--pool 40 holds although all would fit");
    TAP_IS_INT(p.chunk, 512, "chunk under --pool");
    in.pool_user = 3;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.n_slots == 9 &&
               strstr(p.note, "raised to 9"),
           "--pool 3 is raised: %s", p.note);
    in.pool_user = 1000;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.n_slots == 256 && p.experts_resident &&
               strstr(p.note, "lowered to 256"), "--pool 1000 is clamped: %s", p.note);
}

static void test_refusal(void)
{
    struct sm_plan p;
    smol_error err = {0};
    struct sm_plan_input in = ling(1024);
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_NOMEM && strstr(err.msg, "at least"), "%s", err.msg);
    /* floor: 325 + 80 + 9*19 + 8 tokens of scratch (800 KiB) */
    TAP_IS_INT(p.needed_bytes, (325 + 80 + 171) * MIB + 800 * 1024, "the number needed");
    in.budget_bytes = p.needed_bytes;
    err = (smol_error){0};
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_OK && p.n_slots == 9 && p.chunk == 8,
           "the number needed is enough");
    in.budget_bytes--;
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_NOMEM, "one byte less is not");
    in = ling(1000 * MIB);
    in.pool_user = 100;
    err = (smol_error){0};
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_NOMEM && p.needed_bytes > 2000 * MIB,
           "--pool beyond the budget is refused: %s", err.msg);
    in = ling(UINT64_MAX - 1);
    in.kv_bytes_per_token = UINT64_MAX / 2;
    err = (smol_error){0};
    TAP_OK(sm_plan_make(&in, &p, &err) == SMOL_NOMEM, "sums that overflow do not fit");
}

/* Over many budgets: kept, monotone, repeatable. */
static void test_sweep(void)
{
    struct sm_plan p, q;
    uint32_t last = 0;
    bool kept = true, grows = true, repeats = true, fills = true;
    for (uint64_t b = 577 * MIB; b < 5600 * MIB; b += 3 * MIB + 12345) {
        struct sm_plan_input in = ling(b);
        const smol_status a = sm_plan_make(&in, &p, NULL), c = sm_plan_make(&in, &q, NULL);
        kept = kept && a == SMOL_OK && p.total_bytes <= b && sum_items(&p) == p.total_bytes;
        repeats = repeats && a == c && !memcmp(&p, &q, sizeof p);
        /* a larger budget may buy a larger chunk with some slots, never more than its share */
        grows = grows && p.n_slots + 5 >= last && (p.n_slots >= last || p.chunk > 8);
        fills = fills && (p.experts_resident || b - p.total_bytes < 19 * MIB);
        last = p.n_slots;
    }
    TAP_OK(kept, "every plan keeps its budget and its items sum to the total");
    TAP_OK(repeats, "plans repeat");
    TAP_OK(grows, "slots grow with the budget");
    TAP_OK(fills, "less than one slot in every pool is left over");
}

static void test_dense_and_uneven(void)
{
    struct sm_plan p;
    struct sm_plan_input in = ling(325 * MIB + 160 * MIB + 50 * MIB);
    in.n_pools = 0;
    in.n_expert_used = 0;
    in.step_us = 31457.28;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.experts_resident && p.n_slots == 0 &&
               p.ctx == 4096 && p.chunk == 64, "a dense model");
    TAP_OK(p.tok_s_predicted > 31.7 && p.tok_s_predicted < 31.9,
           "%.2f tok/s from the time of a step", p.tok_s_predicted);
    in.budget_bytes = 325 * MIB + 80 * MIB + 4 * MIB;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.ctx == 2048 && p.chunk == 32,
           "dense: context lowered, then the chunk");
    in.chunk_user = 1;
    in.ctx_user = 16;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.chunk == 1 && p.ctx == 16, "chunk of one");
    in.chunk_user = 100;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.chunk == 16, "no chunk above the context");

    in = ling(UINT64_MAX);
    pools[3] = (struct sm_plan_pool){2 * MIB, 64}; /* one pool of fewer, larger experts */
    in.pool_user = 100;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_slots == 100 &&
               p.pool_bytes == (18 * 100 + 64 * 2) * MIB && sm_plan_slots(&p, 64) == 64,
           "pools of different sizes");
    in.pool_user = 0;
    in.n_expert_used = 256;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_slots == 256, "all experts used");
}

/* Readers: what the flash needs and one; one more where the pools hardly notice, never so that a
 * budget no longer does. */
static void test_readers(void)
{
    struct sm_plan p;
    struct sm_plan_input in = ling(1000 * MIB);
    in.budget_bytes = 1;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_NOMEM && p.n_readers == 3, "3 in the smallest plan");
    const uint64_t least = p.needed_bytes;
    in.budget_bytes = least + 20 * MIB - 1;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_readers == 3,
           "16 times its memory but a byte");
    in.budget_bytes++;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_readers == 4, "16 times its memory");
    in.readers_flash = 5;
    in.budget_bytes = 1000 * MIB;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_readers == 7,
           "of a flash that needs five");
    in.budget_bytes = 1;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_NOMEM && p.needed_bytes == least,
           "a flash that needs five asks for no larger budget");
    in.budget_bytes = 1000 * MIB;
    in.readers_user = 2;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_readers == 2, "as many as are asked for");
    in.readers_user = 0;
    in.budget_bytes = UINT64_MAX;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_readers == 6 && p.experts_resident,
           "none more where all is in memory");
}

/* Chunk: what costs no slot is taken. */
static void test_free_chunk(void)
{
    bool ok = true;
    unsigned n = 0;
    for (uint64_t b = 400 * MIB; b < 1000 * MIB; b += MIB) {
        struct sm_plan_input in = ling(b);
        struct sm_plan p, larger;
        in.readers_user = 3;
        if (sm_plan_make(&in, &p, NULL) != SMOL_OK || p.chunk == SM_PLAN_CHUNK_MAX) continue;
        in.chunk_user = 2 * p.chunk;
        if (p.n_slots >= SM_PLAN_SPARE_SLOTS || sm_plan_make(&in, &larger, NULL) != SMOL_OK)
            continue;
        ok = ok && larger.n_slots < p.n_slots;
        n++;
    }
    TAP_OK(ok && n > 20, "twice the chunk would cost a slot (%u budgets)", n);
}

/* Memory of looking ahead: taken from the slots, left out when nothing else fits. */
static void test_ahead(void)
{
    struct sm_plan p;
    struct sm_plan_input in = ling(1000 * MIB);
    in.prefetch_bytes = 20 * MIB;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.prefetch && p.n_slots == 27 &&
               p.prefetch_bytes == 20 * MIB && sum_items(&p) == p.total_bytes, "it costs slots");
    TAP_OK(p.n_spares == 980 - 325 - 80 - 50 - 27 * 19 - 2 && p.spare_bytes == p.n_spares * MIB &&
               in.budget_bytes - p.total_bytes < MIB,
           "what makes no slot in every pool is %u spare ones", (unsigned)p.n_spares);
    struct sm_plan_pool two[19];
    for (unsigned i = 0; i < 19; i++)
        two[i] = (struct sm_plan_pool){i < 7 ? 2 * MIB : MIB, in.pools[0].n_expert};
    in.pools = two;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.spare_slot_bytes == MIB && p.n_spares > 0,
           "spare slots have the size that most slots have");
    in.pools = ling(0).pools;
    in.pool_user = 20;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.n_slots == 20 && p.n_spares == 0,
           "none where the size of the pools was asked for");
    in.pool_user = 0;
    in.budget_bytes = (325 + 80 + 171) * MIB + 800 * 1024; /* the least without it */
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && !p.prefetch && p.prefetch_bytes == 0 &&
               p.total_bytes == in.budget_bytes, "the smallest plan goes without");
    in.prefetch_insist = true;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_NOMEM &&
               p.needed_bytes == in.budget_bytes + 20 * MIB, "unless the user insists");
    in.budget_bytes = UINT64_MAX;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && !p.prefetch && p.prefetch_bytes == 0,
           "nothing is looked for when all experts are in memory");
}

static double share_of(void *arg, uint32_t n_slots)
{
    (void)n_slots;
    return *(const double *)arg;
}

static void test_prediction(void)
{
    struct sm_plan p = {0};
    struct sm_plan_input in = ling(1000 * MIB);
    double share = 0.1;
    in.expert_bytes_per_token = 150000000;
    in.step_us = 100000;
    in.flash_mb_s = 250;
    in.miss_learned = share_of;
    in.miss_arg = &share; /* 15 MB: 60 ms */
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.miss_predicted == 0.1 &&
               p.tok_s_predicted > 7.69 && p.tok_s_predicted < 7.70, "without looking ahead %.3f",
           p.tok_s_predicted);
    in.prefetch_bytes = MIB;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.tok_s_predicted > 9.43 &&
               p.tok_s_predicted < 9.44, "with it %.3f", p.tok_s_predicted);
    share = 0.5; /* 300 ms */
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.tok_s_predicted > 2.89 &&
               p.tok_s_predicted < 2.90, "bound by the flash %.3f", p.tok_s_predicted);
    share = -1;
    TAP_OK(sm_plan_make(&in, &p, NULL) == SMOL_OK && p.miss_predicted > 0.8, "nothing was learned");
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    test_paged();
    test_rows();
    test_resident();
    test_refusal();
    test_sweep();
    test_dense_and_uneven();
    test_readers();
    test_free_chunk();
    test_ahead();
    test_prediction();
    return tap_done();
}
