/* SPDX-License-Identifier: MIT */
/* Stop strings in a stream of text: what arrives is handed on at once, except the longest tail that
 * could still become a stop string. The cut is exactly before the stop string that is complete
 * first (of several that end at the same byte: the one that begins first). Bytes in, bytes out:
 * when the pieces put in are whole characters and the stop strings are valid UTF-8, so is what
 * comes out. A matcher belongs to one thread; nothing allocates after sm_stop_new. */
#ifndef SM_STOP_H
#define SM_STOP_H

#include "base/status.h"
#include <stdbool.h>

#define SM_STOP_MAX 64u         /* stop strings */
#define SM_STOP_BYTES_MAX 4096u /* bytes of one */

struct sm_stop_string {
    const char *text;
    size_t n;
};

struct sm_stop;
/* Copies the strings. Empty ones, too many or too long ones are refused: ARG. n == 0 is fine: then
 * everything passes. */
SM_NODISCARD smol_status sm_stop_new(struct sm_stop **out, const struct sm_stop_string *strings,
                                     size_t n, smol_error *err);
void sm_stop_free(struct sm_stop *s); /* NULL is fine */
void sm_stop_reset(struct sm_stop *s);

/* Where text goes, in order; n > 0. Valid only during the call. */
typedef void (*sm_stop_out)(void *arg, const char *text, size_t n);

/* Put n more bytes in. True when a stop string is complete: everything before it has been handed
 * out, and nothing more will be until sm_stop_reset (later bytes are dropped). */
bool sm_stop_put(struct sm_stop *s, const char *text, size_t n, sm_stop_out out, void *arg);
/* The text has ended: hand out what was held back. */
void sm_stop_end(struct sm_stop *s, sm_stop_out out, void *arg);
/* Index of the stop string that was found, -1: none yet. */
int sm_stop_found(const struct sm_stop *s);
/* Bytes held back now. */
size_t sm_stop_held(const struct sm_stop *s);

#endif
