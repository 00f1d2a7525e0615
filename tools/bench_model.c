/* SPDX-License-Identifier: MIT */
/* Speed of a model: reading a prompt, and generating, at several depths of context. Tokens are
 * drawn at random (the same in every run), so nothing hangs on a text. Prompts are timed as one
 * call of smol_session_sync, tokens as n calls of smol_session_append; one round before each is not
 * counted (of a prompt its first WARM_UP tokens). */
#include "bench.h"

#include "lib/json.h"
#include "lib/model_args.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DEPTHS_MAX 16u
#define WARM_UP 64u

struct row {
    bool prompt; /* else generation */
    uint32_t n, depth;
    unsigned n_runs;
    struct bench_mean tok_s;
    double misses, wait; /* per token: experts, seconds */
    double bytes;        /* read from flash per token */
};

struct bench {
    const struct sm_options *o;
    const char *path;
    smol_model *model;
    smol_session *session;
    int32_t *tokens; /* what the context holds, or will */
    size_t n_room;
    uint64_t random;
    uint32_t depth[DEPTHS_MAX];
    unsigned n_depths;
    struct row row[2 * DEPTHS_MAX];
    unsigned n_rows;
    smol_error err;
};

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Knuth's MMIX generator; its upper half is good enough to pick tokens. */
static int32_t draw(struct bench *b)
{
    b->random = b->random * 6364136223846793005u + 1442695040888963407u;
    return (int32_t)((b->random >> 32) % smol_model_n_vocab(b->model));
}

static void draw_tokens(struct bench *b, size_t from, size_t n)
{
    for (size_t i = from; i < from + n; i++) b->tokens[i] = draw(b);
}

/* "0,512,4096" */
static bool read_depths(struct bench *b, const char *text)
{
    char word[16];
    do {
        int64_t v;
        const size_t n = strcspn(text, ",");
        if (n >= sizeof word || b->n_depths == DEPTHS_MAX) return false;
        memcpy(word, text, n);
        word[n] = 0;
        if (!sm_parse_int(word, 0, 1 << 24, &v)) return false;
        b->depth[b->n_depths++] = (uint32_t)v;
        text += n;
    } while (*text++ == ',');
    return true;
}

/* One timed run of n tokens of a row: seconds, or a negative number after an error. */
static double time_prompt(struct bench *b, const struct row *r, uint32_t n)
{
    draw_tokens(b, r->depth, n);
    const double start = now();
    const smol_status st = smol_session_sync(b->session, b->tokens, (size_t)r->depth + n, &b->err);
    return st == SMOL_OK ? now() - start : -1;
}

static double time_tokens(struct bench *b, const struct row *r)
{
    draw_tokens(b, r->depth, r->n);
    const double start = now();
    for (uint32_t i = 0; i < r->n; i++)
        if (smol_session_append(b->session, b->tokens[r->depth + i], &b->err) != SMOL_OK) return -1;
    return now() - start;
}

/* Back to the depth, which has one token at least behind it: a session cannot be empty. */
static bool go_to_depth(struct bench *b, uint32_t depth)
{
    if (depth) return smol_session_sync(b->session, b->tokens, depth, &b->err) == SMOL_OK;
    smol_session_free(b->session);
    return smol_session_new(&b->session, b->model, &b->err) == SMOL_OK;
}

/* What was missed, waited for and read between two looks comes to the row, per token of all its
 * runs. */
static void add_cost(struct row *r, const smol_stats *before, const smol_stats *after)
{
    const double n = (double)r->n * r->n_runs;
    r->misses += (double)(after->expert_misses - before->expert_misses) / n;
    r->wait += (after->demand_wait_seconds - before->demand_wait_seconds) / n;
    r->bytes += (double)(after->bytes_read - before->bytes_read) / n;
}

static bool run_row(struct bench *b, struct row *r)
{
    double speed[BENCH_RUNS_MAX];
    smol_stats before, after;
    r->n_runs = b->o->bench_runs;
    const uint32_t warm_up = r->n < WARM_UP ? r->n : WARM_UP;
    for (unsigned i = 0; i <= r->n_runs; i++) { /* the first is not counted */
        if (!go_to_depth(b, r->depth)) return false;
        smol_model_stats(b->model, &before); /* going to a depth reads, too */
        if (sm_interrupted) return false;
        const double s = r->prompt ? time_prompt(b, r, i ? r->n : warm_up) : time_tokens(b, r);
        if (s < 0) return false;
        smol_model_stats(b->model, &after);
        if (i) speed[i - 1] = r->n / (s > 1e-9 ? s : 1e-9), add_cost(r, &before, &after);
    }
    r->tok_s = bench_mean_of(speed, r->n_runs);
    return true;
}

/* Of a model that is not all in memory. */
static void print_cost(const smol_plan *p, const struct row *r)
{
    if (p->experts_resident && !p->streamed_bytes) return;
    printf("   ");
    if (!p->experts_resident) printf("%.1f misses, ", r->misses);
    printf("%.2f MB, %.1f ms waited a token", r->bytes * 1e-6, r->wait * 1e3);
}

static bool run_all(struct bench *b)
{
    const struct sm_options *o = b->o;
    for (unsigned i = 0; i < b->n_depths; i++) {
        draw_tokens(b, 0, b->depth[i]);
        for (int prompt = 1; prompt >= 0; prompt--) {
            const uint32_t n = prompt ? o->bench_prompt : o->bench_gen;
            if (!n) continue;
            struct row *r = &b->row[b->n_rows];
            *r = (struct row){.prompt = prompt, .n = n, .depth = b->depth[i]};
            if (!run_row(b, r)) return false;
            b->n_rows++;
            if (!o->json) {
                printf("%-6s %6u %8u  %9.2f ± %.2f", prompt ? "prompt" : "gen", n, r->depth,
                       r->tok_s.mean, r->tok_s.spread);
                print_cost(smol_model_plan(b->model), r);
                putchar('\n');
                fflush(stdout);
            }
        }
    }
    return true;
}

static bool print_json(const struct bench *b)
{
    struct sm_json j;
    smol_stats s;
    smol_model_stats(b->model, &s);
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_str(&j, "model", b->path);
    sm_json_str(&j, "architecture", smol_model_plan(b->model)->arch);
    sm_json_uint(&j, "threads", smol_model_plan(b->model)->threads);
    sm_json_str(&j, "kernel_level", s.kernel_level);
    sm_json_uint(&j, "budget_bytes", s.budget_bytes);
    sm_json_uint(&j, "peak_rss_bytes", s.peak_rss_bytes);
    sm_json_uint(&j, "pool_slots_per_layer", s.pool_slots_per_layer);
    sm_json_num(&j, "predicted_tok_s", s.predicted_tok_s);
    sm_json_open(&j, "rows", '[');
    for (unsigned i = 0; i < b->n_rows; i++) {
        const struct row *r = &b->row[i];
        sm_json_open(&j, NULL, '{');
        sm_json_str(&j, "test", r->prompt ? "prompt" : "gen");
        sm_json_uint(&j, "tokens", r->n);
        sm_json_uint(&j, "depth", r->depth);
        sm_json_uint(&j, "runs", r->n_runs);
        sm_json_num(&j, "tok_s", r->tok_s.mean);
        sm_json_num(&j, "tok_s_spread", r->tok_s.spread);
        sm_json_num(&j, "misses_per_token", r->misses);
        sm_json_num(&j, "bytes_read_per_token", r->bytes);
        sm_json_num(&j, "demand_wait_seconds_per_token", r->wait);
        sm_json_close(&j);
    }
    sm_json_close(&j);
    sm_json_close(&j);
    return sm_json_end(&j);
}

/* Depths that nobody asked for are those that the model's context has room for. */
static void leave_deep_ones_out(struct bench *b, const smol_params *params, uint32_t most)
{
    smol_context_cost cost;
    sm_model_context(b->o, b->path, params, &cost);
    const uint32_t ctx = params->ctx ? params->ctx : cost.ctx_model;
    while (ctx && b->n_depths > 1 && (uint64_t)b->depth[b->n_depths - 1] + most > ctx) {
        b->n_depths--;
        if (!b->o->quiet)
            fprintf(stderr, "smol: note: a context of %u tokens: nothing is measured at depth %u\n",
                    ctx, b->depth[b->n_depths]);
    }
}

/* The context that all tests fit: b->n_room tokens. */
static int size_up(struct bench *b, smol_params *params)
{
    const struct sm_options *o = b->o;
    const uint32_t most = o->bench_prompt > o->bench_gen ? o->bench_prompt : o->bench_gen;
    uint32_t deepest = 0;
    if (!most) return sm_complain(SM_EXIT_USAGE, "--prompt-tokens 0 and -n 0 leave nothing to do");
    if (!o->bench_depths) leave_deep_ones_out(b, params, most);
    for (unsigned i = 0; i < b->n_depths; i++)
        if (b->depth[i] > deepest) deepest = b->depth[i];
    b->n_room = (size_t)deepest + most;
    if (!params->ctx) params->ctx = (unsigned)b->n_room;
    if (params->ctx < b->n_room)
        return sm_complain(SM_EXIT_USAGE, "--ctx %u is below the %zu tokens of the deepest test",
                           params->ctx, b->n_room);
    return SM_EXIT_DONE;
}

static int measure(struct bench *b)
{
    const struct sm_options *o = b->o;
    smol_params params;
    sm_model_params(o, &params);
    sm_catch_interrupt();
    const int code = size_up(b, &params);
    if (code != SM_EXIT_DONE) return code;
    b->tokens = calloc(b->n_room, sizeof *b->tokens);
    if (!b->tokens) return sm_complain(SM_EXIT_FAILED, "out of memory");
    if (smol_model_open(&b->model, b->path, &params, &b->err) != SMOL_OK) return sm_report(&b->err);
    sm_model_notes(o, b->model);
    if (smol_model_plan(b->model)->ctx < b->n_room)
        return sm_complain(SM_EXIT_FAILED,
                           "the model's context of %u tokens is below the %zu of the deepest test",
                           smol_model_plan(b->model)->ctx, b->n_room);
    if (smol_session_new(&b->session, b->model, &b->err) != SMOL_OK) return sm_report(&b->err);
    if (!o->json) printf("test   tokens    depth   tokens/s\n");
    if (!run_all(b)) {
        if (sm_interrupted) return sm_complain(SM_EXIT_INTERRUPTED, "stopped");
        return sm_report(&b->err);
    }
    if (!o->json && !o->quiet) {
        smol_stats s;
        smol_model_stats(b->model, &s);
        printf("%s, %u threads, kernels %s, %.1f MiB of %.1f\n", smol_model_plan(b->model)->arch,
               smol_model_plan(b->model)->threads, s.kernel_level,
               (double)s.peak_rss_bytes / 1048576.0, (double)s.budget_bytes / 1048576.0);
    }
    if (o->json && !print_json(b)) return sm_output_failed("the result");
    return sm_write_stats(o, b->model) ? SM_EXIT_DONE : SM_EXIT_FAILED;
}

int bench_model(const struct sm_options *o, const char *path)
{
    struct bench *b = calloc(1, sizeof *b);
    if (!b) return sm_complain(SM_EXIT_FAILED, "out of memory");
    b->o = o;
    b->path = path;
    b->random = 1;
    int code = SM_EXIT_USAGE;
    if (!read_depths(b, o->bench_depths ? o->bench_depths : "0,512"))
        (void)sm_complain(code, "--depths is \"%s\", expected numbers like 0,512,4096",
                          o->bench_depths);
    else code = measure(b);
    smol_session_free(b->session);
    smol_model_free(b->model);
    free(b->tokens);
    free(b);
    return code;
}
