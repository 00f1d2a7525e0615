/* SPDX-License-Identifier: MIT */
/* What every command that loads a model shares: options to parameters, the notes that go to stderr,
 * Ctrl-C, and the statistics object. */
#ifndef SM_TOOLS_MODEL_ARGS_H
#define SM_TOOLS_MODEL_ARGS_H

#include "options.h"
#include <smol/smol.h>

/* Parameters as the options say; progress bars on stderr, Ctrl-C sets the cancel flag. */
void sm_model_params(const struct sm_options *o, smol_params *p);
/* --threads, but no more than there are cores, with a note: the others would only wait. 0: not
 * given. */
unsigned sm_threads_of(const struct sm_options *o);
/* What the header says of contexts, before the model is opened: without a note, and zeros after a
 * failure, as opening will say both. */
void sm_model_context(const struct sm_options *o, const char *model, const smol_params *params,
                      smol_context_cost *out);
/* Begin with the experts that earlier runs of this model used most, and let sm_write_stats add what
 * this run used (unless --no-learn). For commands that answer; measurements must repeat. */
void sm_model_learns(const struct sm_options *o, const char *model, smol_params *p);
/* Catch SIGINT once: the first sets the flag, the second ends the program. SIGTERM and SIGHUP
 * likewise. */
void sm_catch_interrupt(void);
/* The same, and each sets the flag: Ctrl-C never ends the program. */
void sm_catch_interrupts(void);
extern volatile bool sm_interrupted;
/* What a user should know after opening: notes of the plan, reads that are not direct, levers. */
void sm_model_notes(const struct sm_options *o, const smol_model *m);
/* False: --trace could not be written; it is said once, now, when no line of an answer is open. */
bool sm_trace_good(const struct sm_options *o);
/* For a command that has no such line: it is said as it comes. */
void sm_trace_at_once(void);
/* Learn, write --stats and finish --trace when they were asked for. False after a failure, which
 * has been reported. */
bool sm_write_stats(const struct sm_options *o, const smol_model *m);

#endif
