/* SPDX-License-Identifier: MIT */
/* Notes from inside the library. Nothing below tools/ prints: whoever embeds it may take the notes
 * through one callback; without one they cost a comparison. */
#ifndef SM_BASE_LOG_H
#define SM_BASE_LOG_H

#include "base/status.h"

enum sm_log_level {
    SM_LOG_WARN = 1, /* the user should know: slower or less than asked for */
    SM_LOG_NOTE = 2, /* said once per run: what was found and decided */
    SM_LOG_DEBUG = 3
};

/* `text` is one line without an end, printable, valid only during the call. Called from any thread
 * of the library, one at a time is not promised. */
typedef void (*sm_log_fn)(void *arg, int level, const char *text);

/* Take notes up to `max_level` (fn == NULL: none). Set it before models are opened: not while
 * other threads of the library run. */
void sm_log_set(sm_log_fn fn, void *arg, int max_level);
SM_PRINTF(2, 3) void sm_log_note(int level, const char *fmt, ...);

#endif
