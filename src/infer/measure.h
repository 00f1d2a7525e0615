/* SPDX-License-Identifier: MIT */
/* Quick measurements of this device for the prediction: a few milliseconds each. They never touch
 * an answer. */
#ifndef SM_MEASURE_H
#define SM_MEASURE_H

#include "gguf/gguf.h"
#include "kern/kern.h"
#include "plat/plat.h"
#include "store/store.h"

/* Microseconds that the products of one decoding step take with everything in RAM, from the
 * declared weights of `store` and n_used experts of each pool; their values are made up, of
 * max_bytes at most. Large models are measured in part. 0 when there is no memory for it. */
double sm_measure_step(const struct sm_kern *k, struct sm_pool *pool, struct sm_store *store,
                       uint32_t n_used, uint64_t max_bytes);

struct sm_measure_reads {
    size_t piece_bytes;          /* 0 or more than 1 MiB: 1 MiB */
    unsigned ms;                 /* at most, about; 0: 40 */
    const struct sm_kern *kern;  /* pack what was read into kernel layout; NULL: as it is */
    uint32_t type, n_in;         /* of the rows that are packed */
    double mb_s;                 /* out: 10^6 bytes a second, 0 when nothing could be read */
    double cpu_us_per_mb;        /* out: time of a core that 10^6 bytes take meanwhile */
};
/* n_readers threads read from the model's files, directly, at scattered places. */
void sm_measure_flash(const struct sm_gguf *g, unsigned n_readers, struct sm_measure_reads *how);

#endif
