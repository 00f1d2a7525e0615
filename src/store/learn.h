/* SPDX-License-Identifier: MIT */
/* The learned list: which experts earlier runs used most, a small text file beside the model.
 *
 *     smol-experts 1 LAYERS EXPERTS TOKENS
 *     uses per 1000 tokens of each expert of the first layer with experts, whole numbers
 *     …one line for each layer
 *
 * Hostile until checked: a list of another shape, with another number or with anything behind it is
 * refused, and the run starts cold. Of a list with more or fewer layers (the model with its draft
 * layer, or without) the engine takes those that both have. */
#ifndef SM_LEARN_H
#define SM_LEARN_H

#include "base/status.h"
#include <stdbool.h>
#include <stdint.h>

#define SM_LEARN_BYTES_MAX ((size_t)8 << 20)
#define SM_LEARN_TOKENS_MAX 65536u /* what is older counts less and less */

/* It begins as a list does: somebody else's file does not, and is never written over. */
bool sm_learn_is_list(const char *text, size_t n);
/* The shape that the first line names; false: it is broken, or the list is too short for it. */
bool sm_learn_shape(const char *text, size_t n, uint32_t *n_layers, uint32_t *n_expert);
/* Read a list of n bytes for a model of this shape into per_1000 [n_layers * n_expert]. */
SM_NODISCARD smol_status sm_learn_parse(const char *text, size_t n, uint32_t n_layers,
                                        uint32_t n_expert, float *per_1000, uint64_t *tokens,
                                        smol_error *err);
/* Write one; returns its bytes, of which at most cap are written. */
size_t sm_learn_format(char *buf, size_t cap, uint32_t n_layers, uint32_t n_expert,
                       const float *per_1000, uint64_t tokens);
/* old = the weighted mean of both; *old_tokens grows, up to SM_LEARN_TOKENS_MAX. */
void sm_learn_merge(float *old, uint64_t *old_tokens, const float *now, uint64_t now_tokens,
                    size_t n);

#endif
