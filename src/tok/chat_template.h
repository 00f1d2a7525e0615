/* SPDX-License-Identifier: MIT */
/* A conversation written down by the model's own template (tokenizer.chat_template). */
#ifndef SM_CHAT_TEMPLATE_H
#define SM_CHAT_TEMPLATE_H

#include "tok/chat_format.h"

struct sm_chat_options {
    bool answer;           /* with the beginning of an answer */
    int thinking;          /* -1: as the template does by itself, 0: off, 1: on */
    const char *tools;     /* JSON array of tools, NULL: none */
    const char *bos, *eos; /* texts of these tokens, NULL: there is none */
    int64_t now;           /* seconds since 1970, for templates that print a date */
};

/* Segments as sm_chat_render makes them, with their text in out->owned. Where the template raises
 * an exception although everything else is fine, what it usually objects to is tried once more: a
 * system message becomes part of the first user message, and contents that are null become empty.
 * ARG: the template refuses the conversation, or extra or tools are no JSON of the right kind.
 * UNSUPPORTED, FORMAT, LIMIT: it could not be run (jinja.h); another format may do. */
SM_NODISCARD smol_status sm_chat_template(const char *text, size_t n, const smol_message *messages,
                                          size_t n_messages, const struct sm_chat_options *options,
                                          struct sm_chat_segments *out, smol_error *err);

/* Whether the template looks at a variable that switches reasoning off. */
bool sm_chat_template_thinks(const char *text, size_t n);

#endif
