/* SPDX-License-Identifier: MIT */
/* smol inspect FILE: what a GGUF file holds. smol inspect --cpu: what this CPU offers. */
#include "cpu/cpu.h"
#include "inspect.h"
#include "kern/kern.h"
#include "lib/command.h"
#include "lib/json.h"

#include <stdlib.h>
#include <string.h>

double inspect_bits(uint64_t bytes, uint64_t n_weights)
{
    return n_weights ? (double)bytes * 8 / (double)n_weights : 0;
}

/* ---- experts ------------------------------------------------------------------------------- */

/* ARCH.NAME as a count, 0 when it is absent or odd. */
static uint64_t arch_count(const struct sm_gguf *g, const char *name)
{
    char key[160];
    struct sm_str arch = {0};
    uint64_t n = 0;
    bool found = false;
    if (sm_gguf_str(g, "general.architecture", &arch, &found, NULL) != SMOL_OK || !found) return 0;
    if (arch.n > 64) return 0;
    (void)snprintf(key, sizeof key, "%.*s.%s", (int)arch.n, arch.p, name);
    if (sm_gguf_u64_at(g, key, 0, 0, 1000000, &n, &found, NULL) != SMOL_OK) return 0;
    return n;
}

#define N_LAYERS 65536u

/* "blk.12.ffn_up.weight": 12; N_LAYERS when the name is no layer's. */
static uint32_t layer_of(const struct sm_tensor_info *t)
{
    char *end;
    if (strncmp(t->name, "blk.", 4) || t->name[4] < '0' || t->name[4] > '9') return N_LAYERS;
    const unsigned long n = strtoul(t->name + 4, &end, 10);
    return *end == '.' && n < N_LAYERS ? (uint32_t)n : N_LAYERS;
}

/* One matrix or bias per expert: the last dimension counts them. */
static bool is_expert_tensor(const struct sm_tensor_info *t, uint64_t n_experts)
{
    return n_experts && strstr(t->name, "_exps.") && t->n_dims >= 2 &&
           t->dim[t->n_dims - 1] == n_experts && layer_of(t) < N_LAYERS;
}

static uint64_t n_weights(const struct sm_tensor_info *t) /* below 2^63: the reader's check */
{
    return t->dim[0] * t->dim[1] * t->dim[2] * t->dim[3];
}

static void add_size(struct inspect *in, uint64_t bytes)
{
    uint32_t i = 0;
    while (i < in->n_sizes && in->size[i].expert_bytes < bytes) i++;
    if (i == in->n_sizes || in->size[i].expert_bytes != bytes) {
        if (in->n_sizes == INSPECT_SIZES_MAX) i = in->n_sizes - 1;
        else {
            memmove(&in->size[i + 1], &in->size[i], (in->n_sizes - i) * sizeof in->size[0]);
            in->size[i] = (struct inspect_size){bytes, 0};
            in->n_sizes++;
        }
    }
    in->size[i].n_layers++;
}

/* Sizes of one expert, layer by layer. */
static bool find_experts(struct inspect *in, uint64_t n_main_layers)
{
    uint64_t *bytes = calloc(N_LAYERS, sizeof *bytes); /* of all experts of a layer */
    if (!bytes) return false;
    for (size_t i = 0; i < sm_gguf_n_tensors(in->g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(in->g, i);
        if (is_expert_tensor(t, in->n_experts)) bytes[layer_of(t)] += t->bytes;
    }
    for (uint32_t layer = 0; layer < N_LAYERS; layer++) {
        if (!bytes[layer]) continue;
        in->n_expert_layers++;
        if (layer >= n_main_layers) in->n_draft_expert_layers++;
        add_size(in, bytes[layer] / in->n_experts);
    }
    free(bytes);
    return true;
}

static bool gather(struct inspect *in, const struct sm_gguf *g, const char *path)
{
    memset(in, 0, sizeof *in);
    in->g = g;
    in->path = path;
    for (size_t i = 0; i < sm_gguf_n_files(g); i++) in->file_bytes += sm_gguf_file_bytes(g, i);
    in->n_experts = arch_count(g, "expert_count");
    in->n_used = arch_count(g, "expert_used_count");
    if (in->n_used > in->n_experts) in->n_used = 0;
    const uint64_t n_blocks = arch_count(g, "block_count");
    const uint64_t n_draft = arch_count(g, "nextn_predict_layers");
    const uint64_t n_main = n_draft && n_draft < n_blocks ? n_blocks - n_draft : N_LAYERS;
    for (size_t i = 0; i < sm_gguf_n_tensors(g); i++) {
        const struct sm_tensor_info *t = sm_gguf_tensor(g, i);
        struct inspect_type *type = &in->type[t->type];
        const uint64_t n = n_weights(t);
        type->n_tensors++;
        type->n_weights += n;
        type->bytes += t->bytes;
        in->n_weights += n;
        in->weight_bytes += t->bytes;
        const uint32_t layer = layer_of(t);
        if (layer != N_LAYERS && layer >= n_main) in->n_draft += n;
        else if (in->n_used && is_expert_tensor(t, in->n_experts))
            in->n_active += n / in->n_experts * in->n_used;
        else in->n_active += n;
    }
    return find_experts(in, n_main);
}

/* Could this program run the file, and what would a context cost? */
static void judge(struct inspect *in)
{
    smol_params p;
    smol_error err = {0};
    if (!in->n_weights) return;
    smol_params_default(&p);
    in->can_run = smol_context_cost_file(in->path, &p, &in->cost, &err) == SMOL_OK;
    if (!in->can_run) (void)snprintf(in->why, sizeof in->why, "%s", err.msg);
}

/* ---- CPU ----------------------------------------------------------------------------------- */

static int inspect_cpu(bool json)
{
    char features[512];
    struct sm_kern kern;
    struct sm_json j;
    const uint32_t levels = sm_cpu_levels();
    sm_cpu_features(features, sizeof features);
    sm_kern_init(&kern, levels);
    if (!json) {
        printf("features  %s\nlevels   ", features[0] ? features : "none that matter here");
        for (unsigned i = 0; i < 32; i++)
            if (levels >> i & 1u) printf(" %s", sm_cpu_level_name(i));
        printf("\nkernels   %s\n", kern.level);
        for (uint32_t i = 0; i < SM_TYPE_COUNT; i++)
            if (sm_kern_matrix_level(levels, i))
                printf("  %-8s%s\n", sm_type_name(i), sm_kern_matrix_level(levels, i));
        return SM_EXIT_DONE;
    }
    sm_json_begin(&j, stdout, true);
    sm_json_open(&j, NULL, '{');
    sm_json_open(&j, "features", '[');
    for (const char *p = features; *p;) {
        const size_t n = strcspn(p, " ");
        sm_json_bytes(&j, NULL, p, n);
        p += n + (p[n] == ' ');
    }
    sm_json_close(&j);
    sm_json_open(&j, "levels", '[');
    for (unsigned i = 0; i < 32; i++)
        if (levels >> i & 1u) sm_json_str(&j, NULL, sm_cpu_level_name(i));
    sm_json_close(&j);
    sm_json_str(&j, "kernel_level", kern.level);
    sm_json_open(&j, "kernels", '{');
    for (uint32_t i = 0; i < SM_TYPE_COUNT; i++)
        if (sm_kern_matrix_level(levels, i))
            sm_json_str(&j, sm_type_name(i), sm_kern_matrix_level(levels, i));
    sm_json_close(&j);
    sm_json_close(&j);
    (void)sm_json_end(&j); /* main looks at standard output */
    return SM_EXIT_DONE;
}

int sm_cmd_inspect(const struct sm_options *o, int argc, char **argv)
{
    struct inspect in;
    struct sm_gguf *g;
    smol_error err = {0};
    if (o->show_cpu && argc == 0) return inspect_cpu(o->json);
    if (o->show_cpu)
        return sm_complain(SM_EXIT_USAGE, "--cpu looks at this machine, not at a file");
    if (argc == 0)
        return sm_complain(SM_EXIT_USAGE, "no file given; usage: smol inspect FILE | --cpu");
    if (sm_gguf_open(&g, argv[0], &err) != SMOL_OK) return sm_report(&err);
    int code = SM_EXIT_DONE;
    if (!gather(&in, g, argv[0])) code = sm_complain(SM_EXIT_FAILED, "out of memory");
    else {
        judge(&in);
        (o->json ? inspect_print_json : inspect_print_text)(&in);
    }
    sm_gguf_free(g);
    return code;
}
