/* SPDX-License-Identifier: MIT */
/* The part of a request that the model reads: messages of a chat, or a prompt. */
#ifndef SM_SERVE_REQUEST_PROMPT_H
#define SM_SERVE_REQUEST_PROMPT_H

#include "request.h"

/* r->root is there; fills messages, joined, n_messages. */
bool sm_request_messages(struct sm_request *r, const char *system, struct sm_refusal *e);
/* Fills text or ids. */
bool sm_request_prompt(struct sm_request *r, int32_t n_vocab, struct sm_refusal *e);

#endif
