/* SPDX-License-Identifier: MIT */
/* smol plan MODEL: what would live where, and the predicted speed, from the header alone. */
#include "lib/command.h"
#include "lib/json.h"
#include "lib/model_args.h"

#include <math.h>
#include <stdio.h>

static const char *const draft_names[] = {"off", "lookup", "mtp", "auto"};

static void print_experts(const smol_plan *p)
{
    printf(", %u of them with %u experts of %.2f", p->n_pool, p->n_expert,
           sm_mib(p->expert_bytes));
    if (p->expert_bytes_most > p->expert_bytes)
        printf(" to %.2f", sm_mib(p->expert_bytes_most));
    printf(" MiB, %u used per token", p->n_used);
}

static void print_streaming(const smol_plan *p)
{
    if (!p->streamed_bytes) return;
    printf("streamed   %.2f MB a token", (double)p->streamed_bytes * 1e-6);
    if (p->predicted_overlap >= 0)
        printf(", %.0f %% of the reading behind computing", 100 * p->predicted_overlap);
    putchar('\n');
}

/* What drafts bring depends on the text: no header says it. */
static void print_drafts(const smol_plan *p, int asked)
{
    if (p->draft != SMOL_DRAFT_OFF)
        printf("drafts     %s, up to %u tokens at once, %.1f MiB; what they bring is measured "
               "while running\n",
               draft_names[p->draft], p->draft_most, sm_mib(p->draft_bytes));
    else if (asked != SM_OPT_DRAFT_OFF)
        printf("drafts     none: they would take memory from the experts\n");
}

static void print_prediction(const smol_plan *p)
{
    printf("predicted  %.1f tokens/s%s", p->predicted_tok_s,
           p->draft_most ? " without drafts" : "");
    if (p->n_pool && !p->experts_resident)
        printf(" (%.0f %% of expert uses read from flash)", p->predicted_miss * 100);
    putchar('\n');
}

static void print_text(const struct sm_options *o, const smol_plan *p, const char *path)
{
    printf("%s: %s, %u layers", path, p->arch, p->n_layer);
    if (p->n_pool)
        print_experts(p);
    printf("\n\n");
    for (unsigned i = 0; i < p->n_items; i++)
        printf("  %-31s %9.1f MiB\n", p->items[i].what, sm_mib(p->items[i].bytes));
    printf("  %-31s %9.1f MiB of %.1f\n\n", "together", sm_mib(p->total_bytes),
           sm_mib(p->budget_bytes));
    printf("context    %u of %u tokens, %.1f KiB each\n", p->ctx, p->ctx_model,
           (double)p->kv_bytes_per_token / 1024.0);
    printf("prompt     waves of %u tokens\n", p->chunk);
    if (p->n_pool && p->experts_resident)
        printf("experts    all in memory\n");
    else if (p->n_pool)
        printf("experts    %u of %u per layer in memory, the rest read on demand\n", p->slots,
               p->n_expert);
    print_streaming(p);
    print_drafts(p, o->draft);
    printf("threads    %u compute, %u read\n", p->threads, p->readers);
    if (p->predicted_tok_s > 0)
        print_prediction(p);
    printf("smallest   %.1f MiB would do\n", sm_mib(p->needed_bytes) + 0.05); /* up */
    if (p->note[0]) printf("note       %s\n", p->note);
}

static bool print_json(const smol_plan *p, const char *path)
{
    struct sm_json j;
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_str(&j, "model", path);
    sm_json_str(&j, "architecture", p->arch);
    sm_json_uint(&j, "layers", p->n_layer);
    sm_json_uint(&j, "expert_layers", p->n_pool);
    sm_json_uint(&j, "experts", p->n_expert);
    sm_json_uint(&j, "experts_used", p->n_used);
    sm_json_uint(&j, "expert_bytes", p->expert_bytes);
    sm_json_uint(&j, "expert_bytes_most", p->expert_bytes_most);
    sm_json_uint(&j, "pool_slots_per_layer", p->slots);
    sm_json_bool(&j, "experts_resident", p->experts_resident);
    sm_json_uint(&j, "ctx", p->ctx);
    sm_json_uint(&j, "ctx_model", p->ctx_model);
    sm_json_uint(&j, "kv_bytes_per_token", p->kv_bytes_per_token);
    sm_json_uint(&j, "chunk", p->chunk);
    sm_json_uint(&j, "threads", p->threads);
    sm_json_uint(&j, "readers", p->readers);
    sm_json_uint(&j, "budget_bytes", p->budget_bytes);
    sm_json_uint(&j, "total_bytes", p->total_bytes);
    sm_json_uint(&j, "needed_bytes", p->needed_bytes);
    sm_json_num(&j, "predicted_tok_s", p->predicted_tok_s);
    sm_json_num(&j, "predicted_miss", p->predicted_miss);
    sm_json_uint(&j, "streamed_bytes_per_token", p->streamed_bytes);
    sm_json_num(&j, "predicted_overlap",
                p->predicted_overlap >= 0 ? p->predicted_overlap : (double)NAN);
    sm_json_open(&j, "drafts", '{');
    sm_json_str(&j, "kind", draft_names[p->draft]);
    sm_json_uint(&j, "most", p->draft_most);
    sm_json_uint(&j, "memory_bytes", p->draft_bytes);
    sm_json_close(&j);
    sm_json_open(&j, "memory", '{');
    for (unsigned i = 0; i < p->n_items; i++)
        sm_json_uint(&j, p->items[i].what, p->items[i].bytes);
    sm_json_close(&j);
    sm_json_str(&j, "note", p->note);
    sm_json_close(&j);
    return sm_json_end(&j);
}

int sm_cmd_plan(const struct sm_options *o, int argc, char **argv)
{
    smol_params params;
    smol_plan plan;
    smol_error err = {0};
    (void)argc;
    sm_model_params(o, &params);
    sm_model_learns(o, argv[0], &params);
    params.progress = NULL;
    if (smol_plan_file(argv[0], &params, &plan, &err) != SMOL_OK) return sm_report(&err);
    if (!o->json) print_text(o, &plan, argv[0]);
    else if (!print_json(&plan, argv[0]))
        return sm_output_failed("the plan");
    return SM_EXIT_DONE;
}
