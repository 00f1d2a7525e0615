/* SPDX-License-Identifier: MIT */
/* Token memory: the experts that each token had in each layer when it was last seen. Routing
 * follows the token itself more than what is around it, in early layers most of all: of the
 * trained tiny-moe's misses in its first layer the experts that the same token had before foresee
 * two of three, and are right in 5 of 6 cases; its router on the bare embedding in 1 of 5.
 *
 * A cache of fixed size: 4 places a set, the token that was seen longest ago makes room. One thread
 * at a time. */
#ifndef SM_TOKEN_MEMORY_H
#define SM_TOKEN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#define SM_TOKEN_MEMORY_USED 64u /* experts of a token and layer at most */

struct sm_token_memory {
    uint32_t n_tokens, n_layers; /* places, a power of two; layers with experts */
    uint32_t n_used;             /* experts of a token and layer */
    uint32_t id_bytes;           /* 1 or 2 */
    size_t record_bytes;
    uint32_t clock;              /* counts notes of the first layer */
    int32_t *token;              /* [n_tokens] -1: free */
    uint32_t *seen;              /* [n_tokens] clock when it was last noted */
    uint8_t *records;            /* [n_tokens][n_layers]: count, bits of `twice`, ids */
};

/* What a token had in a layer. */
struct sm_token_experts {
    uint32_t n;
    uint64_t twice; /* bit i: it had id[i] the time before, too */
    uint16_t id[SM_TOKEN_MEMORY_USED];
};

/* Places for a vocabulary: at least an eighth of it, a power of two, at most 2048 (190 bytes each
 * for 19 layers of 256 experts, of which 8 are used). */
uint32_t sm_token_memory_places(uint32_t n_vocab);
/* n_tokens: 0 or a power of two >= 4; n_used <= SM_TOKEN_MEMORY_USED; n_expert <= 65535. */
size_t sm_token_memory_bytes(uint32_t n_tokens, uint32_t n_layers, uint32_t n_expert,
                             uint32_t n_used);
/* Lay m out in `mem` (sm_token_memory_bytes long, aligned to 4 bytes), knowing nothing. */
void sm_token_memory_init(struct sm_token_memory *m, uint32_t n_tokens, uint32_t n_layers,
                          uint32_t n_expert, uint32_t n_used, void *mem);

/* The token's place, -1: not known. Valid until the next note of another token. */
int32_t sm_token_memory_find(const struct sm_token_memory *m, int32_t token);
/* What is known of a place (-1: nothing) and layer; out->n may be 0. */
void sm_token_memory_get(const struct sm_token_memory *m, int32_t place, uint32_t layer,
                         struct sm_token_experts *out);
/* The token had these n experts (distinct; what is beyond n_used is left out) in `layer`. */
void sm_token_memory_note(struct sm_token_memory *m, int32_t token, uint32_t layer,
                          const uint16_t *ids, uint32_t n);

#endif
