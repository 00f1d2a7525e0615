/* SPDX-License-Identifier: MIT */
/* Quick measurements of this device for the prediction: a few milliseconds each. They never touch
 * an answer. */
#ifndef SM_MEASURE_H
#define SM_MEASURE_H

#include "gguf/gguf.h"
#include "kern/kern.h"
#include "plat/plat.h"

/* 10^6 bytes of quantised weights a second that all workers of `pool` multiply from RAM, decoding
 * one token. Uses at most max_bytes of memory while it runs; 0 when there is none. */
double sm_measure_weights(const struct sm_kern *k, struct sm_pool *pool, uint64_t max_bytes);
/* 10^6 bytes a second that n_readers threads read from the model's files, directly, in pieces of
 * 1 MiB at scattered places. At most about 40 ms; 0 when nothing could be read. */
double sm_measure_flash(const struct sm_gguf *g, unsigned n_readers);

#endif
