/* SPDX-License-Identifier: MIT */
/* The loop that writes an answer: sample, decode to text, cut at stop strings, append. */
#ifndef SM_GENERATE_H
#define SM_GENERATE_H

#include "infer/sampler.h"
#include "infer/session.h"

/* See smol_generate in smol.h. The sampler must have accepted the prompt's tokens. */
SM_NODISCARD smol_status sm_generate(struct sm_session *s, struct sm_sampler *sampler,
                                     const smol_generation *g, smol_outcome *out, smol_error *err);

#endif
