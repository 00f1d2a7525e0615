/* SPDX-License-Identifier: MIT */
/* Conversations to token ids. */
#ifndef SM_CHAT_H
#define SM_CHAT_H

#include "tok/tok.h"

/* In the format of `template_text` (tokenizer.chat_template, n_template bytes): markup may become
 * control tokens, contents never. *ids is malloc'ed. UNSUPPORTED when the template is none that is
 * known. */
SM_NODISCARD smol_status sm_chat_encode(const struct sm_tok *tok, struct sm_str template_text,
                                        const smol_message *messages, size_t n, int32_t **ids,
                                        size_t *n_ids, smol_error *err);

#endif
