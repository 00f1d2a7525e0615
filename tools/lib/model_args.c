/* SPDX-License-Identifier: MIT */
#include "model_args.h"
#include "cache_path.h"
#include "command.h"
#include "json.h"
#include "learn_path.h"
#include "outputs.h"
#include "plat/plat.h"
#include "progress.h"
#include "sampling_args.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#define SLOW_TOK_S 1.0 /* what is slower is said before one waits for it */

volatile bool sm_interrupted;

static void on_interrupt(int sig)
{
    (void)sig;
    sm_interrupted = true;
}

static void on_first_interrupt(int sig)
{
    sm_interrupted = true;
    (void)signal(sig, SIG_DFL); /* a second Ctrl-C ends the program */
}

static void catch_signal(int sig, void (*handler)(int))
{
    struct sigaction sa;
    memset(&sa, 0, sizeof sa);
    sa.sa_handler = handler;
    sigemptyset(&sa.sa_mask);
    (void)sigaction(sig, &sa, NULL);
}

static void catch_interrupts(void (*handler)(int))
{
    catch_signal(SIGINT, handler);
    (void)signal(SIGPIPE, SIG_IGN); /* writes report EPIPE instead */
}

void sm_catch_interrupt(void)
{
    static const int ends[] = {SIGTERM, SIGHUP}; /* a file half written is removed then, too */
    catch_interrupts(on_first_interrupt);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        struct sigaction was;
        if (sigaction(ends[i], NULL, &was) || was.sa_handler == SIG_IGN) continue; /* nohup */
        catch_signal(ends[i], on_first_interrupt);
    }
}

void sm_catch_interrupts(void) { catch_interrupts(on_interrupt); }

static void print_note(void *arg, const char *text)
{
    (void)arg;
    fprintf(stderr, "smol: note: %s\n", text);
}

void sm_model_context(const struct sm_options *o, const char *model, const smol_params *params,
                      smol_context_cost *out)
{
    smol_error ignored = {0}; /* opening the model will say it, notes too */
    smol_params p = *params;
    p.progress = NULL;
    smol_notes_set(NULL, NULL);
    (void)!smol_context_cost_file(model, &p, out, &ignored);
    if (!o->quiet) smol_notes_set(print_note, NULL);
}

static char learned[4096]; /* path of the list of experts; "": none */

void sm_model_learns(const struct sm_options *o, const char *model, smol_params *p)
{
    if (!o->no_learn && sm_learn_path(model, learned, sizeof learned)) p->learned_path = learned;
}

/* The trace of the run. Its file is made with the first bytes, which come when the model has been
 * planned: a wrong argument or model must not cost an earlier trace. A failure makes the run a
 * failed one; it comes in the middle of an answer and is said behind it. */
static FILE *trace_file;
static int trace_error; /* errno of the first failure */
static bool trace_failed, trace_said, trace_at_once;

static void say_trace(const char *path)
{
    if (!trace_failed || trace_said) return;
    trace_said = true;
    (void)sm_complain(SM_EXIT_FAILED, "cannot write the trace to %s: %s", path,
                      strerror(trace_error));
}

static void fail_trace(const char *path)
{
    if (!trace_failed) trace_error = errno;
    trace_failed = true;
    if (trace_at_once) say_trace(path);
}

void sm_trace_at_once(void) { trace_at_once = true; }

bool sm_trace_good(const struct sm_options *o)
{
    say_trace(o->trace);
    return !trace_failed;
}

static void put_trace(void *arg, const void *bytes, size_t n)
{
    const char *path = arg;
    if (trace_failed) return;
    if (!trace_file) trace_file = fopen(path, "wb");
    if (!trace_file || fwrite(bytes, 1, n, trace_file) != n) fail_trace(path);
}

static bool close_trace(const struct sm_options *o)
{
    if (!o->trace) return true;
    if (!trace_file && !trace_failed && !o->quiet)
        fprintf(stderr, "smol: note: no trace: the model has no experts to choose\n");
    if (trace_file && fclose(trace_file) != 0) fail_trace(o->trace);
    trace_file = NULL;
    return sm_trace_good(o);
}

/* (8 threads on 2 cores: a third of the speed) */
unsigned sm_threads_of(const struct sm_options *o)
{
    const unsigned cores = sm_cores_allowed();
    if (o->n_threads <= cores) return o->n_threads;
    if (!o->quiet)
        fprintf(stderr,
                "smol: note: %u threads asked for, of which %u %s used: one for each core\n",
                o->n_threads, cores, cores == 1 ? "is" : "are");
    return cores;
}

void sm_model_params(const struct sm_options *o, smol_params *p)
{
    static const char *const policies[] = {"lru", "lfu", "lfru"};
    static smol_sampling sampling;
    smol_params_default(p);
    sm_sampling_args(o, &sampling);
    p->sampling = &sampling;
    p->memory_bytes = o->memory_bytes;
    p->threads = sm_threads_of(o);
    p->ctx = o->n_ctx;
    p->chunk = o->n_chunk;
    p->pool = o->n_pool;
    p->prefetch = o->prefetch;
    p->policy = policies[o->policy];
    p->route_bias = o->route_bias.value;
    p->route_bias_keep = o->route_bias.keep;
    p->route_bias_range = o->route_bias.range;
    p->route_swap = o->route_swap.value;
    p->route_swap_keep = o->route_swap.keep;
    p->route_drop = o->route_drop.value;
    p->route_drop_keep = o->route_drop.keep;
    p->experts_used = o->experts_used;
    if (o->trace) {
        p->trace = put_trace;
        p->trace_arg = (char *)(uintptr_t)o->trace;
    }
    p->ctx_shift = o->ctx_shift;
    p->kv = (smol_kv)o->kv;
    p->draft = (smol_draft)o->draft;
    p->draft_oracle = o->draft_oracle;
    p->cpu = o->cpu;
    p->verify = o->verify;
    p->flash_mb_s = o->flash_mb_s;
    p->flash_us = o->flash_us;
    p->device_profile = sm_device_profile_path(false);
    p->progress = sm_progress_show;
    p->cancel = &sm_interrupted;
    sm_progress_init(o->quiet);
    if (!o->quiet) smol_notes_set(print_note, NULL);
}

void sm_model_notes(const struct sm_options *o, const smol_model *m)
{
    const smol_plan *p = smol_model_plan(m);
    smol_stats st;
    sm_progress_clear();
    if (o->quiet) return;
    smol_model_stats(m, &st);
    if (p->note[0]) fprintf(stderr, "smol: note: %s\n", p->note);
    if (!o->memory_bytes && !o->n_pool && p->n_pool && !p->experts_resident)
        fprintf(stderr,
                "smol: note: the model is larger than the %.1f MiB that the system concedes: %u of "
                "%u experts per layer are kept, the others are read when they are needed\n",
                (double)p->budget_bytes / 1048576.0, p->slots, p->n_expert);
    if (p->predicted_tok_s > 0 && p->predicted_tok_s < SLOW_TOK_S)
        fprintf(stderr, "smol: note: expected: %.1f seconds a token%s\n", 1 / p->predicted_tok_s,
                p->draft_most ? " without drafts" : "");
    if (!st.direct && p->n_pool && !p->experts_resident)
        fprintf(stderr,
                "smol: note: %s refuses direct reads; experts are read through the page cache "
                "and dropped behind\n",
                st.file_system ? st.file_system : "the file system");
    for (unsigned i = 0; i < st.n_loss_levers; i++)
        fprintf(stderr, "smol: note: lossy: %s\n", st.loss_levers[i]);
}

static double rate(uint64_t n, double seconds) { return seconds > 0 ? (double)n / seconds : 0; }

static bool write_object(FILE *f, const void *stats)
{
    const smol_stats *s = stats;
    struct sm_json j;
    sm_json_begin(&j, f, true);
    sm_json_open(&j, NULL, '{');
    sm_json_uint(&j, "tokens_prompt", s->tokens_prompt);
    sm_json_uint(&j, "tokens_generated", s->tokens_generated);
    sm_json_num(&j, "seconds_load", s->seconds_load);
    sm_json_num(&j, "seconds_prompt", s->seconds_prompt);
    sm_json_num(&j, "seconds_decode", s->seconds_decode);
    sm_json_num(&j, "tok_s_prompt", rate(s->tokens_prompt, s->seconds_prompt));
    sm_json_num(&j, "tok_s_decode", rate(s->tokens_generated, s->seconds_decode));
    sm_json_uint(&j, "peak_rss_bytes", s->peak_rss_bytes);
    sm_json_uint(&j, "budget_bytes", s->budget_bytes);
    sm_json_uint(&j, "pool_slots_per_layer", s->pool_slots_per_layer);
    sm_json_uint(&j, "expert_uses", s->expert_uses);
    sm_json_uint(&j, "expert_misses", s->expert_misses);
    sm_json_uint(&j, "expert_misses_ready", s->expert_misses_ready);
    sm_json_uint(&j, "expert_misses_late", s->expert_misses_late);
    sm_json_uint(&j, "expert_dropped", s->expert_dropped);
    sm_json_uint(&j, "prefetch_issued", s->prefetch_issued);
    sm_json_uint(&j, "prefetch_used", s->prefetch_used);
    sm_json_uint(&j, "prefetch_wasted_bytes", s->prefetch_wasted_bytes);
    sm_json_uint(&j, "given_back_bytes", s->given_back_bytes);
    sm_json_num(&j, "demand_wait_seconds", s->demand_wait_seconds);
    sm_json_num(&j, "flash_busy_seconds", s->flash_busy_seconds);
    sm_json_uint(&j, "bytes_read", s->bytes_read);
    sm_json_uint(&j, "expert_bytes_read", s->expert_bytes_read);
    sm_json_uint(&j, "streamed_bytes", s->streamed_bytes);
    sm_json_num(&j, "streamed_bytes_per_token", s->streamed_bytes_per_token);
    sm_json_num(&j, "stream_wait_seconds", s->stream_wait_seconds);
    sm_json_num(&j, "overlap", s->stream_overlap >= 0 ? s->stream_overlap : (double)NAN);
    sm_json_uint(&j, "load_bytes_read", s->load_bytes_read);
    sm_json_uint(&j, "resident_bytes", s->resident_bytes);
    sm_json_uint(&j, "draft_proposed", s->draft_proposed);
    sm_json_uint(&j, "draft_accepted", s->draft_accepted);
    sm_json_num(&j, "draft_gain", s->draft_gain > 0 ? s->draft_gain : (double)NAN);
    sm_json_bool(&j, "direct_reads", s->direct);
    sm_json_str(&j, "kernel_level", s->kernel_level);
    sm_json_num(&j, "predicted_tok_s", s->predicted_tok_s);
    sm_json_open(&j, "loss_levers", '[');
    for (unsigned i = 0; i < s->n_loss_levers; i++) sm_json_str(&j, NULL, s->loss_levers[i]);
    sm_json_close(&j);
    sm_json_close(&j);
    return sm_json_end(&j);
}

bool sm_write_stats(const struct sm_options *o, const smol_model *m)
{
    smol_stats s;
    const bool traced = close_trace(o);
    smol_error err = {0};
    if (learned[0] && smol_model_learn(m, learned, &err) != SMOL_OK && !o->quiet)
        fprintf(stderr, "smol: note: what was learned is lost: %s\n", err.msg);
    if (!o->stats || !traced) return traced;
    smol_model_stats(m, &s);
    if (!strcmp(o->stats, "-")) {
        if (write_object(stdout, &s)) return true;
        return sm_output_failed("the statistics to standard output") == SM_EXIT_DONE;
    }
    if (sm_output_write(o->stats, write_object, &s)) return true;
    (void)sm_complain(SM_EXIT_FAILED, "cannot write the statistics to %s: %s", o->stats,
                      strerror(errno));
    return false;
}
