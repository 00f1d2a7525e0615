/* SPDX-License-Identifier: MIT */
#include "sampling_args.h"

void sm_sampling_args(const struct sm_options *o, smol_sampling *s)
{
    smol_sampling_default(s);
    s->temp = o->temp;
    s->top_k = o->top_k;
    s->top_p = o->top_p;
    s->min_p = o->min_p;
    s->typical = o->typical;
    s->seed = o->seed;
    s->repeat_penalty = o->repeat_penalty;
    s->repeat_last = o->repeat_last;
    s->frequency_penalty = o->frequency_penalty;
    s->presence_penalty = o->presence_penalty;
    s->dry_multiplier = o->dry_multiplier;
    s->dry_base = o->dry_base;
    s->dry_allowed = o->dry_allowed;
    s->dry_last = o->dry_last;
}
