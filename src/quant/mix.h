/* SPDX-License-Identifier: MIT */
/* Which format each tensor of a model gets when it is quantised: what is asked for the experts and
 * for the rest, but never for what must stay as it is (norms, biases, routers, convolutions), more
 * bits for the head and for blocks that draft, and another format where rows do not fit the block.
 * Pure functions, any thread. */
#ifndef SM_QUANT_MIX_H
#define SM_QUANT_MIX_H

#include "quant/quant.h"

#define SM_MIX_KEEP UINT32_MAX /* instead of a type: such tensors are copied */

struct sm_mix {
    uint32_t experts, rest; /* types that can be encoded, or SM_MIX_KEEP */
    uint32_t first_next;    /* first next-token block of the model; UINT32_MAX: none */
};

/* Why a tensor has the type it has. */
enum sm_mix_why {
    SM_MIX_ASKED,   /* what was asked for */
    SM_MIX_HEAD,    /* embedding or head: at least Q6_K */
    SM_MIX_DRAFT,   /* of a next-token block: at least Q8_0, or its drafts are never right */
    SM_MIX_COLUMNS, /* the format's block does not divide the rows */
    SM_MIX_SMALL,   /* copied: no matrix, or one that is never quantised */
    SM_MIX_UNASKED, /* copied: nothing was asked for its kind */
    SM_MIX_SAME,    /* copied: it has the format already */
    SM_MIX_LESS,    /* copied: its own format has fewer bits already */
    SM_MIX_WHY_COUNT
};

struct sm_mix_tensor {
    const char *name;
    uint32_t type, n_dims;
    uint64_t n_cols;
};

/* The type that tensor `t` gets; its own when it is copied. *why may be NULL. */
uint32_t sm_mix_choose(const struct sm_mix *mix, const struct sm_mix_tensor *t,
                       enum sm_mix_why *why);
/* A stack of experts. */
bool sm_mix_is_experts(const struct sm_mix_tensor *t);

/* Bits of a weight; 0 for unknown types. */
double sm_type_bits(uint32_t type);
/* Formats made for weights that were trained for them: one or two bits without a search. */
bool sm_type_is_trained(uint32_t type);
/* Formats whose encoder looks at importance. */
bool sm_type_uses_importance(uint32_t type);
/* "q4_k", in any case; false: not the name of a type that can be encoded. */
bool sm_mix_type_read(const char *text, uint32_t *type);
/* "F32, F16, ...": those that can be, in at most n bytes with the zero. */
void sm_mix_type_names(char *buf, size_t n);
/* general.file_type of a model whose most frequent format this is. */
uint32_t sm_mix_file_type(uint32_t type);

#endif
