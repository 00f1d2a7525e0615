/* SPDX-License-Identifier: MIT */
/* smol plan MODEL: what would live where, and the predicted speed, from the header alone. */
#include "lib/command.h"
#include "lib/json.h"
#include "lib/model_args.h"

#include <stdio.h>

static void print_text(const smol_plan *p, const char *path)
{
    printf("%s: %s, %u layers", path, p->arch, p->n_layer);
    if (p->n_pool)
        printf(", %u of them with %u experts of %.2f MiB, %u used per token", p->n_pool,
               p->n_expert, (double)p->expert_bytes / 1048576.0, p->n_used);
    printf("\n\n");
    for (unsigned i = 0; i < p->n_items; i++)
        printf("  %-28s %9.1f MiB\n", p->items[i].what, (double)p->items[i].bytes / 1048576.0);
    printf("  %-28s %9.1f MiB of %.1f\n\n", "together", (double)p->total_bytes / 1048576.0,
           (double)p->budget_bytes / 1048576.0);
    printf("context    %u of %u tokens, %.1f KiB each\n", p->ctx, p->ctx_model,
           (double)p->kv_bytes_per_token / 1024.0);
    printf("prompt     waves of %u tokens\n", p->chunk);
    if (p->n_pool && p->experts_resident)
        printf("experts    all in memory\n");
    else if (p->n_pool)
        printf("experts    %u of %u per layer in memory, the rest read on demand\n", p->slots,
               p->n_expert);
    printf("threads    %u compute, %u read\n", p->threads, p->readers);
    if (p->predicted_tok_s > 0)
        printf("predicted  %.1f tokens/s (%.0f %% of expert uses read from flash)\n",
               p->predicted_tok_s, p->predicted_miss * 100);
    printf("smallest   %.1f MiB would do\n", (double)p->needed_bytes / 1048576.0 + 0.05); /* up */
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
    if (!o->json) print_text(&plan, argv[0]);
    else if (!print_json(&plan, argv[0]))
        return sm_output_failed("the plan");
    return SM_EXIT_DONE;
}
