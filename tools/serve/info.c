/* SPDX-License-Identifier: MIT */
#include "info.h"
#include "connections.h"
#include "doc.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint64_t sm_info_rss_bytes(void)
{
    char line[128] = "";
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    const bool good = fgets(line, sizeof line, f) != NULL;
    (void)fclose(f);
    const char *second = good ? strchr(line, ' ') : NULL; /* size resident shared … in pages */
    return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

/* ---- models -------------------------------------------------------------------------------------
 */

static void write_model(struct sm_server *s, struct sm_json *j)
{
    sm_json_open(j, NULL, '{');
    sm_json_str(j, "id", s->config.model_name);
    sm_json_str(j, "object", "model");
    sm_json_int(j, "created", s->s_started);
    sm_json_str(j, "owned_by", "smol");
    (void)pthread_mutex_lock(&s->mu);
    const bool loaded = s->loaded;
    (void)pthread_mutex_unlock(&s->mu);
    if (loaded) {
        const smol_plan *p = smol_model_plan(s->model);
        sm_json_str(j, "architecture", p->arch);
        sm_json_uint(j, "context_length", p->ctx);
    }
    sm_json_close(j);
}

char *sm_info_model(struct sm_server *s, size_t *n)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    write_model(s, &d.j);
    (void)sm_doc_end(&d);
    *n = d.n;
    return d.text;
}

char *sm_info_models(struct sm_server *s, size_t *n)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    sm_json_open(&d.j, NULL, '{');
    sm_json_str(&d.j, "object", "list");
    sm_json_open(&d.j, "data", '[');
    write_model(s, &d.j);
    sm_json_close(&d.j);
    sm_json_close(&d.j);
    (void)sm_doc_end(&d);
    *n = d.n;
    return d.text;
}

/* ---- metrics ------------------------------------------------------------------------------------
 */

static void metric(FILE *f, const char *name, const char *type, const char *help, double value)
{
    fprintf(f, "# HELP smol_%s %s\n# TYPE smol_%s %s\nsmol_%s %.17g\n", name, help, name, type,
            name, value);
}

static void write_requests(FILE *f, const struct sm_figures *g)
{
    static const char *const kinds[] = {"chat", "completion", "tokenize", "detokenize"};
    fputs("# HELP smol_requests_total Requests with a body that arrived.\n"
          "# TYPE smol_requests_total counter\n",
          f);
    for (unsigned i = 0; i < 4; i++)
        fprintf(f, "smol_requests_total{kind=\"%s\"} %llu\n", kinds[i],
                (unsigned long long)g->n_requests[i]);
    fputs("# HELP smol_responses_total Answers by class of their status.\n"
          "# TYPE smol_responses_total counter\n",
          f);
    for (unsigned i = 2; i < 6; i++)
        fprintf(f, "smol_responses_total{class=\"%uxx\"} %llu\n", i,
                (unsigned long long)g->n_status[i]);
}

static void write_engine(FILE *f, const smol_stats *t)
{
    metric(f, "prompt_read_tokens_total", "counter", "Prompt tokens that were read.",
           (double)t->tokens_prompt);
    metric(f, "decoded_tokens_total", "counter", "Tokens appended one by one.",
           (double)t->tokens_generated);
    metric(f, "prompt_seconds_total", "counter", "Time spent reading prompts.", t->seconds_prompt);
    metric(f, "decode_seconds_total", "counter", "Time spent decoding.", t->seconds_decode);
    metric(f, "expert_uses_total", "counter", "Experts that tokens used.", (double)t->expert_uses);
    metric(f, "expert_misses_total", "counter", "Uses of experts that were not in the pool.",
           (double)t->expert_misses);
    metric(f, "flash_read_bytes_total", "counter", "Bytes read from the file after loading.",
           (double)t->bytes_read);
    metric(f, "streamed_bytes_total", "counter", "Of those, dense weights that do not fit.",
           (double)t->streamed_bytes);
    metric(f, "drafts_proposed_total", "counter", "Tokens that were guessed ahead.",
           (double)t->draft_proposed);
    metric(f, "drafts_accepted_total", "counter", "Of those, the ones that were right.",
           (double)t->draft_accepted);
    metric(f, "demand_wait_seconds_total", "counter", "Time in which compute waited for reads.",
           t->demand_wait_seconds);
    metric(f, "memory_peak_bytes", "gauge", "Most memory held so far.", (double)t->peak_rss_bytes);
    metric(f, "memory_budget_bytes", "gauge", "Memory budget.", (double)t->budget_bytes);
}

char *sm_info_metrics(struct sm_server *s, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f) return NULL;
    (void)pthread_mutex_lock(&s->mu);
    const struct sm_figures g = s->figures;
    const unsigned waiting = s->line.n + s->n_text;
    const bool running = s->running != NULL, loaded = s->loaded;
    (void)pthread_mutex_unlock(&s->mu);
    write_requests(f, &g);
    metric(f, "cancelled_total", "counter", "Requests whose client went away.",
           (double)g.n_cancelled);
    metric(f, "requests_waiting", "gauge", "Requests in the line.", waiting);
    metric(f, "requests_running", "gauge", "Requests being answered by the model.", running);
    metric(f, "queue_wait_seconds_total", "counter", "Time requests spent in the line.",
           g.wait_seconds);
    metric(f, "flash_view_seconds_total", "counter",
           "Processor time the decode thread spent on the flash view.", g.view_seconds);
    metric(f, "connections", "gauge", "Open connections.", sm_connections_count(s->connections));
    metric(f, "prompt_tokens_total", "counter", "Prompt tokens of finished requests.",
           (double)g.prompt_tokens);
    metric(f, "cached_tokens_total", "counter", "Of those, tokens that need not be read again.",
           (double)g.cached_tokens);
    metric(f, "generated_tokens_total", "counter", "Tokens generated for finished requests.",
           (double)g.generated_tokens);
    metric(f, "memory_bytes", "gauge", "Memory held now.", (double)sm_info_rss_bytes());
    if (loaded) write_engine(f, &g.stats);
    (void)fclose(f);
    return text;
}
