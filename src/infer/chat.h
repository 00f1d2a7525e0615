/* SPDX-License-Identifier: MIT */
/* Conversations to token ids. */
#ifndef SM_CHAT_H
#define SM_CHAT_H

#include "tok/tok.h"

/* By `template_text` (tokenizer.chat_template): markup may become control tokens, contents never.
 * See smol_chat_encode in smol.h. *ids is malloc'ed. */
SM_NODISCARD smol_status sm_chat_encode(const struct sm_tok *tok, struct sm_str template_text,
                                        const smol_message *messages, size_t n,
                                        const smol_chat_params *p, int32_t **ids, size_t *n_ids,
                                        smol_chat_info *info, smol_error *err);

#endif
