/* SPDX-License-Identifier: MIT */
/* How many slots each pool gets when their sizes may differ: every further slot goes where, by what
 * was learned, it saves the most misses a byte. Pure, any thread. */
#ifndef SM_SHARES_H
#define SM_SHARES_H

#include <stdint.h>

#define SM_SHARES_POOLS 1024u

struct sm_share_pool {
    uint64_t slot_bytes;
    uint32_t n_expert;
    const float *uses; /* [n_expert], any unit that all pools share */
};

/* n <= SM_SHARES_POOLS pools share `bytes`; each has `least` slots at least (or one for every
 * expert), also when that takes more. A pool that holds the s most used experts misses the uses of
 * the others, so slot s + 1 is worth the use of the next one. Ties go to the lower pool. */
void sm_shares(const struct sm_share_pool *pools, uint32_t n, uint32_t least, uint64_t bytes,
               uint32_t *n_slots);

#endif
