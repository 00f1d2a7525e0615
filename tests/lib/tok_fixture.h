/* SPDX-License-Identifier: MIT */
/* Vocabularies for tests. */
#ifndef TESTS_TOK_FIXTURE_H
#define TESTS_TOK_FIXTURE_H

#include "json_read.h"
#include "tok/tok.h"

/* The tokeniser of a GGUF file; NULL and a sentence in err when it cannot be had. */
struct sm_tok *fixture_tok(const char *path, smol_error *err);

/* Whether the ids are those of a JSON array. On failure `why` has both lists, shortened. */
bool fixture_same_ids(const int32_t *ids, size_t n, const struct json *want, char *why, size_t cap);

/* Encode and compare with a JSON array of ids. */
bool fixture_encodes(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                     const struct json *want, char *why, size_t cap);

#endif
