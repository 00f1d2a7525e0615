/* SPDX-License-Identifier: MIT */
/* Sequence breakers of the DRY sampler: texts (a newline, a colon, ...) across which a repeat does
 * not count. A breaker text becomes token sequences: every token whose text contains it (alone),
 * and every token whose text ends with a beginning of it, followed by the tokens of the rest.
 * Read-only once made; may be shared between threads. */
#ifndef SM_DRY_BREAKERS_H
#define SM_DRY_BREAKERS_H

#include "base/status.h"
#include <stdbool.h>

#define SM_BREAKER_BYTES 40u /* longest breaker text used, longer ones are cut */
#define SM_BREAKER_TAIL 20u  /* most tokens after the first */
#define SM_BREAKERS_MAX 64u  /* texts */

struct sm_tok;
struct sm_dry_breakers;

/* From texts and a tokeniser. */
SM_NODISCARD smol_status sm_dry_breakers_new(struct sm_dry_breakers **out, const struct sm_tok *tok,
                                             const char *const *texts, size_t n_texts,
                                             smol_error *err);
/* From the default texts: newline, colon, double quote, asterisk. */
SM_NODISCARD smol_status sm_dry_breakers_default(struct sm_dry_breakers **out,
                                                 const struct sm_tok *tok, smol_error *err);
/* From token sequences given directly: sequence i is ids[start[i]] ... ids[start[i + 1] - 1], each
 * 1 ... 1 + SM_BREAKER_TAIL tokens. */
SM_NODISCARD smol_status sm_dry_breakers_of_ids(struct sm_dry_breakers **out, const int32_t *ids,
                                                const size_t *start, size_t n_sequences,
                                                smol_error *err);
void sm_dry_breakers_free(struct sm_dry_breakers *b); /* NULL is fine */
size_t sm_dry_breakers_memory(const struct sm_dry_breakers *b); /* bytes held */

/* Sequences that begin with this token: *first is set, the number is returned. */
struct sm_breaker {
    int32_t head;
    uint32_t n_tail;
    const int32_t *tail;
};
size_t sm_dry_breakers_find(const struct sm_dry_breakers *b, int32_t head,
                            const struct sm_breaker **first);

#endif
