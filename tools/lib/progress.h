/* SPDX-License-Identifier: MIT */
/* Progress bars on stderr: only when it is a terminal, no colour under NO_COLOR or TERM=dumb, drawn
 * at most ten times a second, wiped when done. One bar at a time, one thread. */
#ifndef SM_TOOLS_PROGRESS_H
#define SM_TOOLS_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* Call once; quiet: never draw. */
void sm_progress_init(bool quiet);
/* As sm_progress_fn of store.h (arg is not used): "what" and done of total, of any unit. A new
 * "what" starts a new bar; done >= total wipes it. */
void sm_progress_show(void *arg, const char *what, uint64_t done, uint64_t total);
/* The same with the time left, by the pace so far. */
void sm_progress_timed(const char *what, uint64_t done, uint64_t total);
/* Wipe the bar if one stands, before anything else is printed. */
void sm_progress_clear(void);

#endif
