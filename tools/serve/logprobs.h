/* SPDX-License-Identifier: MIT */
/* Log probabilities of tokens in the two forms of the API. */
#ifndef SM_SERVE_LOGPROBS_H
#define SM_SERVE_LOGPROBS_H

#include "answer.h"

void sm_logprobs_chat(struct sm_json *j, const smol_vocab *v, const struct sm_answer_token *t,
                      size_t n);
void sm_logprobs_completion(struct sm_json *j, const smol_vocab *v, const struct sm_answer_token *t,
                            size_t n);

#endif
