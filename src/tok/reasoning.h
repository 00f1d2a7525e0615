/* SPDX-License-Identifier: MIT */
/* Telling what a model thinks from what it answers, while the text streams: see smol_reasoning in
 * smol.h. */
#ifndef SM_REASONING_H
#define SM_REASONING_H

#include "base/status.h"

void sm_reasoning_begin(smol_reasoning *r, bool inside);
bool sm_reasoning_put(smol_reasoning *r, const char *bytes, size_t n, smol_part_fn fn, void *arg);
bool sm_reasoning_end(smol_reasoning *r, smol_part_fn fn, void *arg);

#endif
