/* SPDX-License-Identifier: MIT */
/* Figures of a run in words, without line ends: `before` (a separator) and the words, or nothing
 * when there is nothing to say. */
#ifndef SM_TOOLS_STATS_TEXT_H
#define SM_TOOLS_STATS_TEXT_H

#include <smol/smol.h>
#include <stdio.h>

/* " (predicted 8.1, +3 %)": with drafts, which the prediction leaves out, no error of it. */
void sm_print_prediction(FILE *f, const smol_stats *s);
/* "experts: 7.1 % of uses missed, 120.0 MB read, waited 0.21 s" */
void sm_print_experts(FILE *f, const char *before, const smol_stats *s);
/* "streamed: 297.1 MB, 1.80 MB a token, waited 0.52 s, 71 % of the reading behind computing" */
void sm_print_streamed(FILE *f, const char *before, const smol_stats *s);
/* "drafts: 104 of 332 were right, 1.35 tokens a pass, 1.2 times the speed without"; on: they were
 * asked for, so none is worth saying. */
void sm_print_drafts(FILE *f, const char *before, const smol_stats *s, bool on);

#endif
