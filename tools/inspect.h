/* SPDX-License-Identifier: MIT */
/* What `smol inspect` found out about a file, shared by its printers. */
#ifndef SM_TOOLS_INSPECT_H
#define SM_TOOLS_INSPECT_H

#include "gguf/gguf.h"
#include "quant/quant.h"
#include <smol/smol.h>

struct inspect_type { uint64_t n_tensors, n_weights, bytes; };

/* Layers whose experts have one size. */
struct inspect_size { uint64_t expert_bytes; uint32_t n_layers; };
#define INSPECT_SIZES_MAX 16u /* more different sizes are added to the last */

struct inspect {
    const struct sm_gguf *g;
    const char *path;
    uint64_t file_bytes; /* of all parts */
    uint64_t n_weights, weight_bytes;
    uint64_t n_active;         /* weights that take part in one token without drafts */
    uint64_t n_draft;          /* weights of next-token blocks, which only make drafts */
    uint64_t n_experts, n_used; /* 0: no routed experts, or not known */
    uint32_t n_expert_layers, n_draft_expert_layers; /* the first counts all */
    struct inspect_type type[SM_TYPE_COUNT];
    struct inspect_size size[INSPECT_SIZES_MAX]; /* ascending */
    uint32_t n_sizes;
    bool can_run;              /* else `why` says why not; both empty without weights */
    char why[200];
    smol_context_cost cost;    /* f16 */
};

double inspect_bits(uint64_t bytes, uint64_t n_weights); /* bits per weight, 0 without weights */
void inspect_print_text(const struct inspect *in);
void inspect_print_json(const struct inspect *in);

#endif
