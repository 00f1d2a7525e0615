/* SPDX-License-Identifier: MIT */
/* Answers of the model as the API writes them: whole objects and chunks of a stream. */
#ifndef SM_SERVE_ANSWER_H
#define SM_SERVE_ANSWER_H

#include "doc.h"
#include "request.h"

#include <time.h>

/* One token with its alternatives, kept until its text is sent. */
struct sm_answer_token {
    int32_t id;
    double logprob;
    size_t begin; /* byte of the text at which it begins */
    unsigned n_top;
    smol_token_logprob top[SM_REQUEST_TOP_MAX];
};

/* What is said, or a part of it. */
struct sm_answer_text {
    const char *bytes; /* of the answer */
    size_t n;
    const char *thoughts; /* of what the model thought before it; n_thoughts 0: nothing */
    size_t n_thoughts;
};

struct sm_answer {
    const struct sm_request *request;
    const char *model;
    const smol_vocab *vocab;
    char id[40];
    time_t created;
    uint32_t seed;
    size_t n_prompt, n_cached, n_generated;
    double seconds_prompt, seconds_decode;
};

void sm_answer_init(struct sm_answer *a);
/* A chunk of a stream: delta text, tokens of that text (n_tokens may be 0). `first`: also says
 * whose turn it is. finish: NULL or "stop", "length". Written as an event to *text, malloc'ed. */
char *sm_answer_chunk(const struct sm_answer *a, bool first, const struct sm_answer_text *text,
                      const struct sm_answer_token *tokens, size_t n_tokens, const char *finish,
                      size_t *n_text);
/* The chunk behind the last that include_usage asks for. */
char *sm_answer_usage_chunk(const struct sm_answer *a, size_t *n_text);
/* The whole answer. */
char *sm_answer_whole(const struct sm_answer *a, const struct sm_answer_text *text,
                      const struct sm_answer_token *tokens, size_t n_tokens, const char *finish,
                      size_t *n_text);

#endif
