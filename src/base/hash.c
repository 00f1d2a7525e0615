/* SPDX-License-Identifier: MIT */
#include "base/hash.h"

#if !defined(__has_include) || __has_include(<xxhash.h>)
#define XXH_INLINE_ALL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wshadow"
#include <xxhash.h>
#pragma GCC diagnostic pop
#else
#error "smol needs the header xxhash.h to build: install libxxhash-dev (Debian) or put it beside"
#endif

#include <assert.h>

static_assert(sizeof(XXH3_state_t) <= sizeof(struct sm_hash), "struct sm_hash is too small");
static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct sm_hash), "struct sm_hash is misaligned");

uint64_t sm_hash64(const void *p, size_t n, uint64_t seed)
{
    return XXH3_64bits_withSeed(n ? p : "", n, seed);
}

static XXH3_state_t *state_of(struct sm_hash *h) { return (XXH3_state_t *)(void *)h->state; }

void sm_hash_begin(struct sm_hash *h, uint64_t seed)
{
    XXH3_INITSTATE(state_of(h));
    (void)XXH3_64bits_reset_withSeed(state_of(h), seed);
}

void sm_hash_put(struct sm_hash *h, const void *p, size_t n)
{
    if (n) (void)XXH3_64bits_update(state_of(h), p, n);
}

uint64_t sm_hash_end(const struct sm_hash *h)
{
    return XXH3_64bits_digest((const XXH3_state_t *)(const void *)h->state);
}
