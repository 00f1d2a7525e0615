/* SPDX-License-Identifier: MIT */
/* smol calibrate MODEL --text FILE OUT: an importance matrix, what quantisers want to know of the
 * inputs of every matrix.
 *
 * The text is cut into chunks of --ctx tokens (512 when not given), each read from an empty context
 * and beginning as a text does, the rule of llama-imatrix. What does not fill a chunk is left
 * out. */
#include "lib/command.h"
#include "lib/input.h"
#include "lib/model_args.h"
#include "lib/outputs.h"
#include "lib/progress.h"

#include <stdlib.h>

#define TEXT_MAX_BYTES ((size_t)1 << 30)
#define TEXT_SHARE 8 /* of its bytes: itself, its tokens while their list grows */
#define DEFAULT_CHUNK 512u

struct calibrate {
    const struct sm_options *o;
    const char *out;
    smol_model *m;
    char *text;   /* until it is tokens */
    size_t n_bytes;
    int32_t *ids; /* [n_ids] */
    size_t n_ids, chunk, n_chunks;
    size_t at;    /* first token of the chunk that is read */
    bool reading; /* the text, no more the model */
};

static void show_progress(void *arg, const char *what, uint64_t done, uint64_t total)
{
    const struct calibrate *c = arg;
    if (!c->reading) sm_progress_show(NULL, what, done, total);
    else sm_progress_timed("tokens", c->at + done, c->n_chunks * c->chunk);
}

static smol_status read_chunks(struct calibrate *c, smol_error *err)
{
    const int32_t bos = smol_added_bos(smol_model_vocab(c->m));
    smol_session *s = NULL;
    smol_status st = smol_session_new(&s, c->m, err);
    c->reading = true;
    for (size_t i = 0; st == SMOL_OK && i < c->n_chunks; i++) {
        int32_t *chunk = c->ids + i * c->chunk;
        c->at = i * c->chunk;
        if (bos >= 0) chunk[0] = bos; /* nothing of the text is read twice: it may go */
        st = smol_calibrate(s, chunk, c->chunk, err);
    }
    smol_session_free(s);
    sm_progress_clear();
    return st;
}

static int tokenize(struct calibrate *c)
{
    const smol_vocab *v = smol_model_vocab(c->m);
    smol_error err = {0};
    if (!v)
        return sm_complain(SM_EXIT_FAILED, "the model has no vocabulary to read a text with");
    if (smol_tokenize(v, c->text, c->n_bytes, SMOL_ADD_SPECIAL, &c->ids, &c->n_ids, &err) !=
        SMOL_OK)
        return sm_report(&err);
    free(c->text);
    c->text = NULL;
    c->chunk = smol_model_plan(c->m)->ctx;
    c->n_chunks = c->n_ids / c->chunk;
    if (c->n_chunks) return SM_EXIT_DONE;
    return sm_complain(SM_EXIT_FAILED, "%s has %zu tokens, fewer than one chunk of %zu (--ctx)",
                       c->o->text, c->n_ids, c->chunk);
}

static void print_summary(const struct calibrate *c)
{
    smol_calibration i;
    smol_stats s;
    if (c->o->quiet) return;
    smol_calibration_info(c->m, &i);
    smol_model_stats(c->m, &s);
    fprintf(stderr,
            "smol: %s: %u matrices, %llu tokens in %llu chunks of %zu, %zu left out, %.1f s",
            c->out, i.matrices, (unsigned long long)i.tokens, (unsigned long long)i.chunks,
            c->chunk, c->n_ids - c->n_chunks * c->chunk, s.seconds_prompt);
    if (s.seconds_prompt > 0)
        fprintf(stderr, ", %.1f tokens/s", (double)i.tokens / s.seconds_prompt);
    fputc('\n', stderr);
    if (i.unseen)
        fprintf(stderr, "smol: %llu of %llu experts saw no token: more text helps\n",
                (unsigned long long)i.unseen, (unsigned long long)i.experts);
}

static int calibrate(struct calibrate *c)
{
    smol_error err = {0};
    const int code = tokenize(c);
    if (code != SM_EXIT_DONE) return code;
    if (read_chunks(c, &err) != SMOL_OK) return sm_report(&err);
    if (smol_calibration_write(c->m, c->out, c->o->text, (unsigned)c->chunk, &err) != SMOL_OK)
        return sm_report(&err);
    print_summary(c);
    return SM_EXIT_DONE;
}

int sm_cmd_calibrate(const struct sm_options *o, int argc, char **argv)
{
    struct calibrate c = {.o = o, .out = argv[1]};
    smol_params params;
    smol_error err = {0};
    int code = SM_EXIT_DONE;
    (void)argc;
    if (!o->text) return sm_complain(SM_EXIT_USAGE, "calibrate needs --text FILE");
    if (!sm_output_is_new(c.out, (const char *[]){argv[0], o->text, NULL})) return SM_EXIT_FAILED;
    sm_catch_interrupt();
    sm_model_params(o, &params);
    params.calibrate = true;
    params.progress = show_progress;
    params.progress_arg = &c;
    if (!params.ctx) params.ctx = DEFAULT_CHUNK;
    /* the text is read before the model, whose plan counts it */
    if (sm_input_read(o->text, sm_input_limit(o->memory_bytes, TEXT_MAX_BYTES), &c.text,
                      &c.n_bytes, &err) != SMOL_OK)
        return sm_report(&err);
    params.caller_bytes = sm_input_planned(c.n_bytes, TEXT_SHARE);
    if (smol_model_open(&c.m, argv[0], &params, &err) != SMOL_OK) {
        sm_progress_clear();
        code = sm_report(&err);
    } else {
        sm_model_notes(o, c.m);
        code = calibrate(&c);
        if (!sm_write_stats(o, c.m) && code == SM_EXIT_DONE) code = SM_EXIT_FAILED;
    }
    smol_model_free(c.m);
    free(c.text);
    free(c.ids);
    return code;
}
