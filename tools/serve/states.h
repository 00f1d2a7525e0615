/* SPDX-License-Identifier: MIT */
/* States of conversations on disk, so that a prompt which goes on from one need not be read again,
 * also after a restart. Decode thread.
 *
 * A state is written when it would otherwise be lost: when a conversation of two turns or more
 * gives way to another, and at the end of the server. Single requests that follow each other, as of
 * a program that asks thousands of things, write nothing meanwhile. */
#ifndef SM_SERVE_STATES_H
#define SM_SERVE_STATES_H

#include <smol/smol.h>

struct sm_states {
    const char *folder; /* NULL: none are kept */
    bool quiet;
    size_t n_prompt;  /* tokens of the last prompt */
    unsigned n_turns; /* of the conversation that the session holds */
    bool kept;        /* what the session holds is on disk */
};

/* These tokens are to be read next: keep what they would overwrite, load what they go on from. */
void sm_states_turn(struct sm_states *k, smol_session *session, const int32_t *ids, size_t n);
/* The session ends. */
void sm_states_end(struct sm_states *k, smol_session *session);

#endif
