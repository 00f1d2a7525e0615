/* SPDX-License-Identifier: MIT */
/* smol run MODEL: one answer on stdout. */
#include "lib/command.h"
#include "lib/input.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "lib/sampling_args.h"
#include "lib/stats_text.h"
#include "lib/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROMPT_MAX_BYTES ((size_t)64 << 20)
/* of its bytes: itself, as the template writes it, its tokens; 11 measured */
#define PROMPT_SHARE 12

/* ---- the prompt ------------------------------------------------------------------------------ */

/* -p, -f or standard input; *owned is what to free. */
static int read_prompt(const struct sm_options *o, const char **text, size_t *n, char **owned)
{
    smol_error err = {0};
    *owned = NULL;
    if (o->prompt) {
        *text = o->prompt;
        *n = strlen(o->prompt);
        return SM_EXIT_DONE;
    }
    const size_t most = sm_input_limit(o->memory_bytes, PROMPT_MAX_BYTES);
    if (sm_input_read(o->prompt_file ? o->prompt_file : "-", most, owned, n, &err) != SMOL_OK)
        return sm_report(&err);
    *text = *owned;
    return SM_EXIT_DONE;
}

/* Memory for a long prompt; one that no context holds is told as that, not as a lack of memory. */
static int plan_prompt(const struct sm_options *o, const char *model, size_t n,
                       smol_params *params)
{
    smol_context_cost cost;
    params->caller_bytes = sm_input_planned(n, PROMPT_SHARE);
    if (!params->caller_bytes) return SM_EXIT_DONE;
    sm_model_context(o, model, params, &cost);
    const uint64_t most = (uint64_t)cost.ctx * cost.token_bytes_max;
    if (!most || n <= most) return SM_EXIT_DONE;
    return sm_complain(SM_EXIT_FAILED,
                       "the prompt of %zu bytes is longer than any that fits the context of %u "
                       "tokens (--ctx)", n, cost.ctx);
}

/* Token ids of the prompt: through the chat template unless --raw or the model has none. */
static smol_status encode(const struct sm_options *o, const smol_vocab *v, const char *text,
                          size_t n, int32_t **ids, size_t *n_ids, smol_error *err)
{
    const smol_message m[2] = {
        {.role = "system", .content = o->system, .n_bytes = o->system ? strlen(o->system) : 0},
        {.role = "user", .content = text, .n_bytes = n}};
    smol_chat_info info;
    if (!o->raw) {
        smol_error chat = {0};
        const smol_status st = smol_chat_encode(v, o->system ? m : m + 1, o->system ? 2 : 1, NULL,
                                                ids, n_ids, &info, &chat);
        if (st == SMOL_OK && info.note[0] && !o->quiet)
            fprintf(stderr, "smol: note: %s\n", info.note);
        if (st != SMOL_UNSUPPORTED) {
            if (st != SMOL_OK) *err = chat;
            return st;
        }
        if (o->system) {
            *err = chat;
            return st;
        }
        if (!o->quiet)
            fprintf(stderr, "smol: note: %s; the prompt is continued as it is\n", chat.msg);
    }
    return smol_tokenize(v, text, n, SMOL_ADD_SPECIAL, ids, n_ids, err);
}

/* ---- the answer ------------------------------------------------------------------------------ */

struct printer { bool terminal, broken; int error; };

static bool print_text(void *arg, const char *bytes, size_t n)
{
    struct printer *p = arg;
    if (sm_print_text(stdout, bytes, n, p->terminal) && fflush(stdout) == 0) return true;
    p->broken = true;
    p->error = errno;
    return false;
}

static smol_status make_sampler(const struct sm_options *o, const smol_model *m,
                                smol_sampler **out, smol_error *err)
{
    smol_sampling s;
    sm_sampling_args(o, &s);
    return smol_sampler_new(out, m, &s, err);
}

static void print_summary(const struct sm_options *o, const smol_model *m, const smol_outcome *out,
                          uint32_t seed)
{
    static const char *const reasons[] = {"ended", "stopped at a stop string", "reached the limit",
                                          "filled the context", "interrupted"};
    smol_stats s;
    const bool drafts = smol_model_plan(m)->draft != SMOL_DRAFT_OFF;
    if (o->quiet) return;
    smol_model_stats(m, &s);
    fprintf(stderr, "\nsmol: prompt %llu tokens in %.2f s; answer %llu tokens at %.1f/s",
            (unsigned long long)s.tokens_prompt, s.seconds_prompt,
            (unsigned long long)out->n_tokens,
            s.seconds_decode > 0 ? (double)s.tokens_generated / s.seconds_decode : 0.0);
    sm_print_prediction(stderr, &s);
    fprintf(stderr, ", %s", reasons[out->reason]);
    fprintf(stderr, "\nsmol: memory %.1f of %.1f MiB", (double)s.peak_rss_bytes / 1048576.0,
            (double)s.budget_bytes / 1048576.0);
    sm_print_experts(stderr, "; ", &s);
    if (o->seed < 0 && o->temp > 0) fprintf(stderr, "; seed %u", seed);
    sm_print_streamed(stderr, "\nsmol: ", &s);
    sm_print_drafts(stderr, "\nsmol: ", &s, drafts);
    if (s.prefetch_issued)
        fprintf(stderr,
                "\nsmol: looked ahead: %llu experts read early, %llu of them used, %.1f MB for "
                "nothing",
                (unsigned long long)s.prefetch_issued, (unsigned long long)s.prefetch_used,
                (double)s.prefetch_wasted_bytes * 1e-6);
    if (s.given_back_bytes)
        fprintf(stderr, "\nsmol: memory ran short; %.1f MiB of the pools were given back",
                (double)s.given_back_bytes / 1048576.0);
    fprintf(stderr, "\n");
}

static smol_status answer(const struct sm_options *o, smol_model *m, const char *text, size_t n,
                          struct printer *printer, smol_outcome *out, uint32_t *seed,
                          smol_error *err)
{
    smol_session *session = NULL;
    smol_sampler *sampler = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0;
    const smol_generation g = {.max_tokens = o->n_predict, .stop = o->stop, .n_stop = o->n_stop,
                               .text = print_text, .arg = printer, .cancel = &sm_interrupted};
    smol_status st = encode(o, smol_model_vocab(m), text, n, &ids, &n_ids, err);
    if (st == SMOL_OK && n_ids == 0) {
        err->code = st = SMOL_ARG;
        (void)snprintf(err->msg, sizeof err->msg, "the prompt is empty");
        err->at = UINT64_MAX;
    }
    if (st == SMOL_OK) st = make_sampler(o, m, &sampler, err);
    if (st == SMOL_OK) *seed = smol_sampler_seed(sampler);
    for (size_t i = 0; st == SMOL_OK && i < n_ids; i++) smol_sampler_accept(sampler, ids[i]);
    if (st == SMOL_OK) st = smol_session_new(&session, m, err);
    if (st == SMOL_OK) st = smol_session_sync(session, ids, n_ids, err);
    sm_progress_clear();
    if (st == SMOL_OK) st = smol_generate(session, sampler, &g, out, err);
    smol_session_free(session);
    smol_sampler_free(sampler);
    smol_free(ids);
    return st;
}

int sm_cmd_run(const struct sm_options *o, int argc, char **argv)
{
    smol_params params;
    smol_model *m = NULL;
    smol_outcome out = {0, SMOL_ENDED};
    smol_error err = {0};
    struct printer printer = {.terminal = isatty(STDOUT_FILENO) == 1};
    const char *text = NULL;
    char *owned = NULL;
    size_t n = 0;
    uint32_t seed = 0;
    if (!o->prompt && !o->prompt_file && isatty(STDIN_FILENO)) return sm_cmd_chat(o, argc, argv);
    int code = read_prompt(o, &text, &n, &owned);
    if (code != SM_EXIT_DONE) return code;
    sm_catch_interrupt();
    sm_model_params(o, &params);
    sm_model_learns(o, argv[0], &params);
    code = plan_prompt(o, argv[0], n, &params);
    if (code != SM_EXIT_DONE) {
        free(owned);
        return code;
    }
    smol_status st = smol_model_open(&m, argv[0], &params, &err);
    if (st == SMOL_OK) {
        sm_model_notes(o, m);
        st = answer(o, m, text, n, &printer, &out, &seed, &err);
        if (!printer.broken && out.n_tokens) /* what is said next has a line of its own */
            (void)print_text(&printer, "\n", 1);
    }
    sm_progress_clear();
    if (printer.broken && printer.error == EPIPE) code = SM_EXIT_DONE; /* the reader had enough */
    else if (printer.broken)
        code = sm_complain(SM_EXIT_FAILED, "cannot write the answer: %s", strerror(printer.error));
    else if (st != SMOL_OK) code = sm_report(&err);
    else print_summary(o, m, &out, seed);
    if (sm_interrupted && st == SMOL_OK && out.reason == SMOL_CANCEL) code = SM_EXIT_INTERRUPTED;
    if (m && (st == SMOL_OK || st == SMOL_NOMEM) && !sm_write_stats(o, m) && code == SM_EXIT_DONE)
        code = SM_EXIT_FAILED;
    smol_model_free(m);
    free(owned);
    return code;
}
