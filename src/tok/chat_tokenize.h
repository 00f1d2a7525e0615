/* SPDX-License-Identifier: MIT */
/* A rendered conversation to token ids. */
#ifndef SM_CHAT_TOKENIZE_H
#define SM_CHAT_TOKENIZE_H

#include "tok/chat_format.h"
#include "tok/tok.h"

/* The segments as one text, so that tokens may span their borders as they did when the model was
 * trained, but with control tokens only in markup. Begins with one BOS where the model wants one;
 * never ends with an EOS of its own. *ids is malloc'ed; free it with free(). */
SM_NODISCARD smol_status sm_chat_tokenize(const struct sm_tok *tok,
                                          const struct sm_chat_segments *s, int32_t **ids,
                                          size_t *n_ids, smol_error *err);

#endif
