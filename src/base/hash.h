/* SPDX-License-Identifier: MIT */
/* XXH3-64 of byte ranges: checksums of extents, saved state and manifests. Not cryptographic: it
 * finds accidents, not forgers. Pure functions, any thread; the value is the same on every machine
 * and does not depend on how a stream was cut. */
#ifndef SM_BASE_HASH_H
#define SM_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hash of n bytes; p may be NULL when n is 0. */
uint64_t sm_hash64(const void *p, size_t n, uint64_t seed);

/* The same hash in pieces: begin, put any number of times, end (which may be followed by more). */
struct sm_hash {
    _Alignas(64) unsigned char state[640];
};
void sm_hash_begin(struct sm_hash *h, uint64_t seed);
void sm_hash_put(struct sm_hash *h, const void *p, size_t n);
uint64_t sm_hash_end(const struct sm_hash *h);

#endif
