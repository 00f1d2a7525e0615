/* SPDX-License-Identifier: MIT */
/* The table behind chat_format.h. */
#ifndef SM_CHAT_FORMATS_H
#define SM_CHAT_FORMATS_H

#include <stddef.h>

enum sm_chat_role { SM_CHAT_SYSTEM, SM_CHAT_USER, SM_CHAT_ASSISTANT, SM_CHAT_ROLES };

#define SM_CHAT_TRIM(role) (1u << (role)) /* white space at both ends of the content goes */
#define SM_CHAT_TRIM_ALL 7u
#define SM_CHAT_NO_SYSTEM 8u /* system messages are left out: the format has no place for them */

struct sm_chat_format {
    const char *name;
    const char *begin;     /* before everything */
    const char *no_system; /* next, when the first message is not from the system */
    /* Formats where system and user text share one block: opens the first and the later blocks.
     * A block is closed by the text behind a user or assistant message. */
    const char *turn, *turn_again;
    const char *between; /* before every message but the first */
    struct {
        const char *before, *after;
    } role[SM_CHAT_ROLES];
    const char *answer; /* begins an answer */
    unsigned flags;
};
extern const struct sm_chat_format sm_chat_formats[];
extern const size_t sm_chat_n_formats;

/* A template that contains all of `has` is of this format. First hit wins. */
struct sm_chat_rule {
    const char *format;
    const char *has[3];
};
extern const struct sm_chat_rule sm_chat_rules[];
extern const size_t sm_chat_n_rules;

#endif
