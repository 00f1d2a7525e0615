/* SPDX-License-Identifier: MIT */
/* Whole-model runs for tests. */
#ifndef TESTS_MODEL_RUN_H
#define TESTS_MODEL_RUN_H

#include <smol/smol.h>

/* Path below the source root (SMOL_SRC) into buf; returns buf. */
const char *source_path(char *buf, size_t n, const char *relative);
/* Path below the shared fixtures (SMOL_SHARED, default ../shared beside the source root). */
const char *shared_path(char *buf, size_t n, const char *relative);
bool file_exists(const char *path);

/* Logits of all positions, malloc'ed [n][*n_vocab]; NULL with err filled. */
float *model_logits(const char *path, const smol_params *p, const int32_t *tokens, size_t n,
                    size_t *n_vocab, smol_error *err);

/* The numbers of a file below the source root, malloc'ed; NULL: none. */
float *read_floats(const char *relative, size_t *n);
/* The largest difference of n logits, NaN when there is one; the index of the best of them. */
double logits_distance(const float *a, const float *b, size_t n);
int32_t logits_best(const float *logits, size_t n);

/* Perplexity of a text by the half-window rule, windows of `window` tokens, and the share of expert
 * uses that missed. */
struct model_score { double perplexity, miss_rate; size_t n_tokens, n_scored; };
smol_status model_score(const char *path, const smol_params *p, const char *text_path,
                        size_t window, struct model_score *out, smol_error *err);

#endif
