/* SPDX-License-Identifier: MIT */
/* smol eval MODEL --text FILE | --tokens 1,2,3: perplexity, bits per byte, miss rate, raw logits.
 *
 * The text is cut into windows of --ctx tokens (512 when not given), each read from an empty
 * context; a window scores the tokens of its second half, positions ctx/2 + 1 .. ctx - 1, the rule
 * of llama-perplexity. What does not fill a window is left out; a shorter text is one window. */
#include "lib/command.h"
#include "lib/input.h"
#include "lib/json.h"
#include "lib/model_args.h"
#include "lib/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX_BYTES ((size_t)1 << 30)
#define TEXT_SHARE 8 /* of its bytes: itself, its tokens while their list grows */
#define DEFAULT_WINDOW 512u
#define LOGIT_ROWS 16u

struct eval {
    const struct sm_options *o;
    smol_model *m;
    const smol_vocab *v;
    FILE *logits;       /* --logits, or NULL */
    char *text;         /* --text, until it is tokens */
    int32_t *ids;       /* [n_ids] */
    size_t n_ids, n_bytes;
    size_t window, n_windows, at; /* `at`: first token of the window that is read */
    const int32_t *current;       /* tokens of that window */
    double nll, nll_squares;      /* sums over scored tokens, in nats */
    size_t n_scored;
};

/* ---- input ----------------------------------------------------------------------------------- */

static int parse_tokens(struct eval *e, const char *text)
{
    const size_t cap = strlen(text) / 2 + 1;
    const char *p = text;
    e->ids = malloc(cap * sizeof *e->ids);
    if (!e->ids) return sm_complain(SM_EXIT_FAILED, "no memory for the tokens");
    for (;;) {
        char *end;
        errno = 0;
        const long v = strtol(p, &end, 10);
        if (end == p || errno || v < 0 || v > INT32_MAX || (*end && *end != ',') ||
            e->n_ids == cap)
            return sm_complain(SM_EXIT_USAGE,
                               "--tokens: expected token ids like 1,2,3, found \"%.20s\"", p);
        e->ids[e->n_ids++] = (int32_t)v;
        if (!*end) return SM_EXIT_DONE;
        p = end + 1;
    }
}

/* The text is read before the model, whose plan counts it. */
static int read_text(struct eval *e, smol_params *params)
{
    smol_error err = {0};
    const size_t most = sm_input_limit(e->o->memory_bytes, TEXT_MAX_BYTES);
    if (sm_input_read(e->o->text, most, &e->text, &e->n_bytes, &err) != SMOL_OK)
        return sm_report(&err);
    params->caller_bytes = sm_input_planned(e->n_bytes, TEXT_SHARE);
    return SM_EXIT_DONE;
}

static smol_status tokenize_text(struct eval *e, smol_error *err)
{
    if (!e->v) {
        err->code = SMOL_UNSUPPORTED;
        err->at = UINT64_MAX;
        (void)snprintf(err->msg, sizeof err->msg, "the model has no vocabulary; use --tokens");
        return err->code;
    }
    const smol_status st =
        smol_tokenize(e->v, e->text, e->n_bytes, SMOL_ADD_SPECIAL, &e->ids, &e->n_ids, err);
    free(e->text);
    e->text = NULL;
    return st;
}

/* ---- scoring --------------------------------------------------------------------------------- */

static smol_status score_position(void *arg, size_t pos, const float *logits)
{
    struct eval *e = arg;
    const size_t n_vocab = smol_model_n_vocab(e->m);
    if (e->logits && fwrite(logits, sizeof *logits, n_vocab, e->logits) != n_vocab) return SMOL_IO;
    if (pos >= e->window / 2 && pos + 1 < e->window) {
        const double nll = -smol_logprob(logits, n_vocab, e->current[pos + 1]);
        e->nll += nll;
        e->nll_squares += nll * nll;
        e->n_scored++;
    }
    return SMOL_OK;
}

static smol_status run_windows(struct eval *e, smol_error *err)
{
    smol_session *s = NULL;
    smol_status st = smol_session_new(&s, e->m, err);
    int32_t bos = -1, first = 0;
    if (st == SMOL_OK && e->o->text) bos = smol_added_bos(e->v);
    for (size_t i = 0; st == SMOL_OK && i < e->n_windows; i++) {
        int32_t *w = e->ids + i * e->window;
        first = w[0];
        if (bos >= 0) w[0] = bos; /* every window begins as a text does */
        e->current = w;
        st = smol_session_score(s, w, e->window, score_position, e, err);
        w[0] = first;
        sm_progress_show(NULL, "windows", i + 1, e->n_windows);
    }
    smol_session_free(s);
    sm_progress_clear();
    return st;
}

/* ---- output ---------------------------------------------------------------------------------- */

static int print_results(const struct eval *e)
{
    const double n = (double)e->n_scored, mean = e->n_scored ? e->nll / n : 0;
    const double var = e->n_scored > 1 ? (e->nll_squares / n - mean * mean) / (n - 1) : 0;
    const double ppl = exp(mean), err = sqrt(var > 0 ? var : 0) * ppl;
    const double bpb =
        e->n_bytes ? mean / log(2) * (double)e->n_ids / (double)e->n_bytes : 0;
    smol_stats s;
    struct sm_json j;
    smol_model_stats(e->m, &s);
    const double miss = s.expert_uses ? (double)s.expert_misses / (double)s.expert_uses : 0;
    if (!e->o->json) {
        printf("tokens       %zu, %zu windows of %zu, %zu scored\n", e->n_ids, e->n_windows,
               e->window, e->n_scored);
        if (e->n_scored) printf("perplexity   %.4f +/- %.4f\n", ppl, err);
        if (e->n_scored && e->n_bytes) printf("bits/byte    %.4f\n", bpb);
        if (s.expert_uses)
            printf("miss rate    %.4f (%llu of %llu expert uses, %u slots per layer)\n", miss,
                   (unsigned long long)s.expert_misses, (unsigned long long)s.expert_uses,
                   s.pool_slots_per_layer);
        if (s.expert_dropped)
            printf("dropped      %.4f (%llu of %llu choices)\n",
                   (double)s.expert_dropped / (double)(s.expert_dropped + s.expert_uses),
                   (unsigned long long)s.expert_dropped,
                   (unsigned long long)(s.expert_dropped + s.expert_uses));
        return fflush(stdout) ? sm_output_failed("the result") : SM_EXIT_DONE;
    }
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_uint(&j, "tokens", e->n_ids);
    sm_json_uint(&j, "bytes", e->n_bytes);
    sm_json_uint(&j, "windows", e->n_windows);
    sm_json_uint(&j, "window", e->window);
    sm_json_uint(&j, "scored", e->n_scored);
    sm_json_num(&j, "perplexity", ppl);
    sm_json_num(&j, "perplexity_error", err);
    sm_json_num(&j, "bits_per_byte", bpb);
    sm_json_uint(&j, "expert_uses", s.expert_uses);
    sm_json_uint(&j, "expert_misses", s.expert_misses);
    sm_json_uint(&j, "expert_dropped", s.expert_dropped);
    sm_json_num(&j, "miss_rate", miss);
    sm_json_close(&j);
    return sm_json_end(&j) ? SM_EXIT_DONE : sm_output_failed("the result");
}

/* ---- the command ----------------------------------------------------------------------------- */

static int open_logits(struct eval *e)
{
    if (!e->o->logits) return SM_EXIT_DONE;
    e->logits = fopen(e->o->logits, "wb");
    if (e->logits) return SM_EXIT_DONE;
    return sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", e->o->logits, strerror(errno));
}

static int close_logits(struct eval *e, int code)
{
    if (!e->logits || fclose(e->logits) == 0 || code != SM_EXIT_DONE) return code;
    return sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", e->o->logits, strerror(errno));
}

static void cut_windows(struct eval *e)
{
    const size_t ctx = smol_model_plan(e->m)->ctx;
    e->window = e->n_ids < ctx ? e->n_ids : ctx;
    e->n_windows = e->window ? e->n_ids / e->window : 0;
}

static int evaluate(struct eval *e)
{
    smol_error err = {0};
    const smol_status got = e->o->tokens ? SMOL_OK : tokenize_text(e, &err);
    if (got != SMOL_OK) return sm_report(&err);
    if (e->n_ids < 2) return sm_complain(SM_EXIT_FAILED, "the text has fewer than two tokens");
    cut_windows(e);
    if (e->o->tokens && e->n_windows != 1)
        return sm_complain(SM_EXIT_FAILED, "%zu tokens do not fit the context of %zu (--ctx)",
                           e->n_ids, e->window);
    const int code = open_logits(e);
    if (code != SM_EXIT_DONE) return code;
    if (run_windows(e, &err) != SMOL_OK) {
        if (err.code == SMOL_OK)
            return sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", e->o->logits,
                               strerror(errno));
        return sm_report(&err);
    }
    return print_results(e);
}

int sm_cmd_eval(const struct sm_options *o, int argc, char **argv)
{
    struct eval e = {.o = o};
    smol_params params;
    smol_error err = {0};
    int code = SM_EXIT_DONE;
    (void)argc;
    if (!o->text == !o->tokens)
        return sm_complain(SM_EXIT_USAGE, "eval needs --text FILE or --tokens IDS, and not both");
    sm_catch_interrupt();
    sm_model_params(o, &params);
    params.logit_rows = LOGIT_ROWS;
    code = o->tokens ? parse_tokens(&e, o->tokens) : read_text(&e, &params);
    if (code == SM_EXIT_DONE && !params.ctx)
        params.ctx = o->tokens && e.n_ids > DEFAULT_WINDOW ? (unsigned)e.n_ids : DEFAULT_WINDOW;
    if (code == SM_EXIT_DONE) {
        if (smol_model_open(&e.m, argv[0], &params, &err) != SMOL_OK) {
            sm_progress_clear();
            code = sm_report(&err);
        } else {
            sm_model_notes(o, e.m);
            e.v = smol_model_vocab(e.m);
            code = close_logits(&e, evaluate(&e));
            if (!sm_write_stats(o, e.m) && code == SM_EXIT_DONE) code = SM_EXIT_FAILED;
        }
    }
    smol_model_free(e.m);
    free(e.text);
    free(e.ids);
    return code;
}
