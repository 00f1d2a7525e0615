/* SPDX-License-Identifier: MIT */
/* smol chat: a conversation (chat_talk.c), one answer of it (chat_turn.c), the words with a slash
 * (chat_words.c), and the loop (cmd_chat.c). */
#ifndef SM_TOOLS_TALK_H
#define SM_TOOLS_TALK_H

#include "lib/options.h"
#include <smol/smol.h>

/* ---- the conversation ---- */

enum sm_talk_role { SM_TALK_SYSTEM, SM_TALK_USER, SM_TALK_ASSISTANT };

/* What a conversation may hold at least, and beside it what a message takes on its way to tokens
 * (at most SM_LINE_BYTES; measured: 9 times its bytes) or a file that is loaded, in conversations.
 * They are part of the memory plan. */
#define SM_TALK_BYTES ((size_t)512 << 10)
#define SM_TALK_SHARE 4

struct sm_talk_message {
    enum sm_talk_role role;
    char *text, *reasoning; /* malloc'ed, with a NUL; reasoning may be NULL */
    size_t n;
};
struct sm_talk {
    struct sm_talk_message *v;
    size_t n, cap;
    size_t n_dropped; /* oldest messages behind the system's that no longer fit the context */
};

/* Copies; false: no memory. */
bool sm_talk_add(struct sm_talk *t, enum sm_talk_role role, const char *text, size_t n,
                 const char *reasoning);
void sm_talk_pop(struct sm_talk *t); /* the last message */
/* The last message becomes the caller's, who gives it back before anything is added, or releases
 * it. False: there is none. */
bool sm_talk_take(struct sm_talk *t, struct sm_talk_message *out);
void sm_talk_return(struct sm_talk *t, struct sm_talk_message m);
void sm_talk_release(struct sm_talk_message *m);
void sm_talk_clear(struct sm_talk *t, bool keep_system);
/* The system message: set, replaced or (NULL) removed. */
bool sm_talk_system(struct sm_talk *t, const char *text);
/* As the library takes it, without what was dropped: a malloc'ed list, NULL: no memory. */
smol_message *sm_talk_messages(const struct sm_talk *t, size_t *n);
/* Drop the oldest turn (a question and its answer); false: only the last one is left. */
bool sm_talk_drop(struct sm_talk *t);
size_t sm_talk_bytes(const struct sm_talk *t); /* of all texts */
/* Forget the oldest turns until at most max_bytes are held, the system message excepted; true: some
 * were. */
bool sm_talk_forget(struct sm_talk *t, size_t max_bytes);
/* Text of a saved conversation and back; a broken one is refused and leaves *t alone. */
bool sm_talk_save(const struct sm_talk *t, const char *path, char *why, size_t cap);
bool sm_talk_load(struct sm_talk *t, const char *path, size_t max_bytes, char *why, size_t cap);

/* ---- the chat ---- */

struct sm_chat {
    const struct sm_options *o;
    smol_model *model;
    smol_session *session;
    struct sm_talk talk;
    smol_sampling sampling;
    uint32_t seed; /* of the first answer; each answer adds one */
    unsigned n_answers;
    int thinking; /* -1: as the template does, 0, 1 */
    bool can_think;
    bool terminal, colour; /* of standard output */
    bool person;           /* standard input is a terminal */
    int code;              /* what the program ends with */
    bool noted_template, noted_forgotten;
    size_t talk_bytes; /* what the conversation may hold */
    char cache[4096]; /* folder of states kept on disk, "" : none */
    bool fresh;       /* the session may have older company on disk */
    bool quit;
};

/* Answer the last message of the conversation and add the answer. False: there is none, which has
 * been said; `quit` and `code` are set when the chat cannot go on. */
bool sm_chat_answer(struct sm_chat *c);
/* A line that begins with a slash. */
void sm_chat_word(struct sm_chat *c, char *line);
/* Keep the session's state on disk, if that is wanted. */
void sm_chat_keep(struct sm_chat *c);
/* Begin and end text that is beside the answer. */
const char *sm_chat_dim(const struct sm_chat *c);
const char *sm_chat_plain(const struct sm_chat *c);

#endif
