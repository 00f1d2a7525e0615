/* SPDX-License-Identifier: MIT */
/* Built-in chat formats: how a conversation is written down for a model, chosen by recognising the
 * template in its file. A format is a row of a table (chat_formats.c); it is read-only and may be
 * shared between threads.
 *
 * A rendered conversation is a list of segments, each markup or content. Only markup may become
 * control tokens: what a user types stays text, also when it looks like "<|im_end|>". Segments
 * point into static strings and into the caller's messages. */
#ifndef SM_CHAT_FORMAT_H
#define SM_CHAT_FORMAT_H

#include "base/status.h"
#include <stdbool.h>

struct sm_chat_format;

/* From the text of tokenizer.chat_template (n bytes); NULL when it is none that is known. */
const struct sm_chat_format *sm_chat_format_find(const char *text, size_t n);
const struct sm_chat_format *sm_chat_format_by_name(const char *name); /* NULL: unknown */
const char *sm_chat_format_name(const struct sm_chat_format *f);
/* The i-th format, NULL past the last. */
const struct sm_chat_format *sm_chat_format_at(size_t i);

struct sm_chat_segment {
    const char *text; /* any bytes, not terminated; never NULL */
    size_t n;         /* > 0 */
    bool markup;      /* parse control tokens in it */
};
struct sm_chat_segments {
    struct sm_chat_segment *v;
    size_t n;
    size_t n_bytes; /* of all texts together */
    char *owned;    /* text made by the renderer itself, NULL: none */
};

#define SM_CHAT_MESSAGES_MAX 65536u

/* `messages` must live as long as the segments. Roles: "system" (or "developer"), "user",
 * "assistant"; another one is refused: UNSUPPORTED. `answer`: also the beginning of an assistant's
 * answer. Allocates the list once, at its final size; free it with sm_chat_segments_free. */
SM_NODISCARD smol_status sm_chat_render(const struct sm_chat_format *f,
                                        const smol_message *messages, size_t n, bool answer,
                                        struct sm_chat_segments *out, smol_error *err);
void sm_chat_segments_free(struct sm_chat_segments *s);

/* All texts in one, malloc'ed, with a NUL behind it; LIMIT above max bytes. *typed (typed may be
 * NULL) lies in the same block: a byte for each, 1 where it is no markup. */
SM_NODISCARD smol_status sm_chat_join(const struct sm_chat_segments *s, size_t max, char **text,
                                      uint8_t **typed, size_t *n, smol_error *err);

#endif
