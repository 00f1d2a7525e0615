/* SPDX-License-Identifier: MIT */
/* smol quantize IN OUT --experts TYPE --rest TYPE [--imatrix F]: the same model in fewer bits, then
 * a look at what that cost. */
#include "lib/command.h"
#include "lib/model_args.h"
#include "lib/progress.h"
#include "lib/quant_check.h"

#include "plat/plat.h"
#include "store/requant.h"

#include <inttypes.h>
#include <string.h>

/* ---- before: what should be known ----------------------------------------------------------- */

static void warn_of_format(const struct sm_requant_options *ro, uint32_t type)
{
    if (sm_type_bits(type) >= 3) return;
    if (sm_type_is_trained(type))
        fprintf(stderr,
                "smol: warning: %s is for weights that were trained for it; others lose nearly "
                "everything%s\n",
                sm_type_name(type), ro->imatrix_path ? ", and importance does not help" : "");
    else if (!ro->imatrix_path)
        fprintf(stderr,
                "smol: warning: %s without an importance matrix (--imatrix) loses much: such "
                "models repeat themselves or stop early\n",
                sm_type_name(type));
}

static void warn(const struct sm_requant_options *ro, const struct sm_requant_report *r)
{
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++)
        if (r->encodes[i]) warn_of_format(ro, i);
    if (r->n_again)
        fprintf(stderr,
                "smol: warning: %" PRIu64 " tensors are quantised again from fewer than 8 bits "
                "(%s): both losses add up, the original model would give a better one\n",
                r->n_again, sm_type_name(r->again_type));
    if (r->n_without)
        fprintf(stderr,
                "smol: note: the importance matrix has no entry for %" PRIu64 " of %" PRIu64
                " tensors that are quantised (%s%s)\n",
                r->n_without, r->n_encoded, r->without, r->n_without > 1 ? ", ..." : "");
    if (r->n_other)
        fprintf(stderr,
                "smol: note: weights that this model does not have: %" PRIu32 " of the importance "
                "matrix\n",
                r->n_other);
    if (!r->n_encoded) fprintf(stderr, "smol: note: no tensor changes its format\n");
}

/* ---- after: what was done ------------------------------------------------------------------- */

static void print_kind(const struct sm_requant_report *r, enum sm_mix_why why, const char *what)
{
    const uint64_t n = r->why[why].n_tensors;
    if (!n) return;
    fprintf(stderr, "smol: note: %" PRIu64 " tensor%s %s: %s %s %s\n", n, n > 1 ? "s" : "", what,
            r->example[why], n > 1 ? "and others," : "is", sm_type_name(r->example_type[why]));
}

static void print_summary(const char *in, const char *out, const struct sm_requant_report *r,
                          double seconds)
{
    const double n = (double)r->n_weights;
    fprintf(stderr,
            "smol: %s: %.1f MiB, %.3f bits per weight\nsmol: %s: %.1f MiB, %.3f bits per weight, "
            "in %.1f s\n",
            in, sm_mib(r->in_file_bytes), 8.0 * (double)r->in_bytes / n, out,
            sm_mib(r->out_file_bytes), 8.0 * (double)r->out_bytes / n, seconds);
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++) {
        const struct sm_requant_tally *t = &r->type[i];
        if (t->n_tensors)
            fprintf(stderr, "smol: %-7s %5" PRIu64 " tensors %9.1f MiB %5.1f %% of the weights\n",
                    sm_type_name(i), t->n_tensors, sm_mib(t->bytes),
                    100.0 * (double)t->n_weights / n);
    }
    print_kind(r, SM_MIX_HEAD, "of the embedding and the head kept more bits");
    print_kind(r, SM_MIX_DRAFT, "of blocks that draft kept 8 bits, for drafts that are right");
    print_kind(r, SM_MIX_COLUMNS, "with rows that the format does not fit got the next larger");
    print_kind(r, SM_MIX_LESS, "had fewer bits already and stayed");
}

/* ---- a look at the result ------------------------------------------------------------------- */

/* The token that the model's texts begin with, as far as the file says. */
static int32_t start_token(const struct sm_gguf *g)
{
    static const char *const keys[] = {"tokenizer.ggml.bos_token_id",
                                       "tokenizer.ggml.eos_token_id"};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        uint64_t id = 0;
        bool found = false;
        if (sm_gguf_u64(g, keys[i], 0, INT32_MAX, &id, &found, NULL) == SMOL_OK && found)
            return (int32_t)id;
    }
    return 0;
}

static int compare(const char *in, const char *out, int32_t start, const smol_params *params)
{
    struct quant_check c;
    smol_error err = {0};
    bool in_failed = false;
    const smol_status st = quant_check_run(&c, in, out, start, params, &in_failed, &err);
    sm_progress_clear();
    if (st == SMOL_CANCELLED)
        return sm_complain(SM_EXIT_INTERRUPTED, "stopped while it was compared; %s is complete",
                           out);
    if (st != SMOL_OK && (in_failed || st == SMOL_NOMEM || st == SMOL_IO)) {
        fprintf(stderr, "smol: note: %s was not compared with its source: %s\n", out, err.msg);
        return SM_EXIT_DONE;
    }
    if (st != SMOL_OK) return sm_complain(SM_EXIT_FAILED, "%s cannot be run: %s", out, err.msg);
    fprintf(stderr,
            "smol: %u tokens that the source wrote: perplexity %.4f, now %.4f (%+.1f %%), mean KL "
            "divergence %.4f\n",
            c.n, c.ppl_in, c.ppl_out, 100.0 * (c.ppl_out / c.ppl_in - 1.0), c.kl);
    const char *bad = quant_check_bad(&c);
    if (bad) fprintf(stderr, "smol: warning: %s is bad: %s\n", out, bad);
    return SM_EXIT_DONE;
}

/* ---- the command ----------------------------------------------------------------------------- */

void sm_quantize_help(FILE *f)
{
    char names[256];
    sm_mix_type_names(names, sizeof names);
    char *cut = strstr(names, "Q5_K");
    if (cut) cut[-1] = '\n';
    fprintf(f,
            "\nTypes: %s.\nNorms, biases and routers stay as they are; the embedding and the head "
            "get at\nleast Q6_K, blocks that draft Q8_0. The result is compared with IN on %u "
            "tokens\nthat IN writes, unless --quiet.\n",
            names, QUANT_CHECK_TOKENS);
}

static bool read_type(const char *flag, const char *text, uint32_t *type)
{
    char names[256];
    *type = SM_MIX_KEEP;
    if (!text || sm_mix_type_read(text, type)) return true;
    sm_mix_type_names(names, sizeof names);
    (void)sm_complain(SM_EXIT_USAGE, "%s \"%.32s\": expected one of %s", flag, text, names);
    return false;
}

static int quantize(const struct sm_options *o, const struct sm_requant_options *ro, const char *in,
                    const char *out, const smol_params *params)
{
    struct sm_requant *r;
    smol_error err = {0};
    if (sm_requant_open(&r, in, ro, &err) != SMOL_OK) return sm_report(&err);
    const struct sm_requant_report *rep = sm_requant_report(r);
    if (!o->quiet) warn(ro, rep);
    const uint64_t start = sm_now_ns();
    const smol_status st = sm_requant_write(r, out, &err);
    sm_progress_clear();
    if (st == SMOL_OK && !o->quiet)
        print_summary(in, out, rep, (double)(sm_now_ns() - start) * 1e-9);
    const int32_t first = start_token(sm_requant_gguf(r));
    const bool changed = rep->n_encoded > 0;
    sm_requant_free(r);
    if (st != SMOL_OK) return sm_report(&err);
    return o->quiet || !changed ? SM_EXIT_DONE : compare(in, out, first, params);
}

int sm_cmd_quantize(const struct sm_options *o, int argc, char **argv)
{
    smol_params params;
    struct sm_requant_options ro = {
        .imatrix_path = o->imatrix, .progress = sm_progress_show, .cancel = &sm_interrupted};
    (void)argc;
    if (!o->experts && !o->rest)
        return sm_complain(SM_EXIT_USAGE, "quantize needs --experts TYPE, --rest TYPE or both");
    if (!read_type("--experts", o->experts, &ro.experts) || !read_type("--rest", o->rest, &ro.rest))
        return SM_EXIT_USAGE;
    sm_catch_interrupt();
    sm_model_params(o, &params);
    ro.n_threads = params.threads ? params.threads : sm_cores_allowed();
    if (ro.n_threads > SM_POOL_MAX) ro.n_threads = SM_POOL_MAX;
    return quantize(o, &ro, argv[0], argv[1], &params);
}
