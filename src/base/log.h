/* SPDX-License-Identifier: MIT */
/* Notes for people from inside the library. Nothing below tools/ prints: whoever embeds it may take
 * them through one callback; without one they cost a comparison. */
#ifndef SM_BASE_LOG_H
#define SM_BASE_LOG_H

#include "base/status.h"

/* fn == NULL: no notes. Not while other threads of the library run. */
void sm_log_set(smol_note_fn fn, void *arg);
/* One line without an end; control bytes are replaced. Any thread. */
SM_PRINTF(1, 2) void sm_log_note(const char *fmt, ...);

#endif
