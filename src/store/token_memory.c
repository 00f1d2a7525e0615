/* SPDX-License-Identifier: MIT */
#include "store/token_memory.h"
#include "base/bits.h"
#include "store/choice.h"

#include <assert.h>
#include <string.h>

#define WAYS 4u
#define PLACES_MAX 2048u

static size_t twice_bytes(uint32_t n_used) { return (n_used + 7) / 8; }

static uint32_t id_bytes(uint32_t n_expert) { return n_expert > 256 ? 2 : 1; }

static size_t record_bytes(uint32_t n_expert, uint32_t n_used)
{
    return 1 + twice_bytes(n_used) + (size_t)n_used * id_bytes(n_expert);
}

uint32_t sm_token_memory_places(uint32_t n_vocab)
{
    uint32_t n = WAYS;
    while (n < PLACES_MAX && n < n_vocab / 8) n *= 2;
    return n;
}

size_t sm_token_memory_bytes(uint32_t n_tokens, uint32_t n_layers, uint32_t n_expert,
                             uint32_t n_used)
{
    return n_tokens * (sizeof(int32_t) + sizeof(uint32_t) +
                       n_layers * record_bytes(n_expert, n_used));
}

void sm_token_memory_init(struct sm_token_memory *m, uint32_t n_tokens, uint32_t n_layers,
                          uint32_t n_expert, uint32_t n_used, void *mem)
{
    assert(n_used && n_used <= SM_TOKEN_MEMORY_USED && n_tokens % WAYS == 0);
    *m = (struct sm_token_memory){.n_tokens = n_tokens, .n_layers = n_layers, .n_used = n_used,
                                  .id_bytes = id_bytes(n_expert),
                                  .record_bytes = record_bytes(n_expert, n_used), .token = mem};
    m->seen = (uint32_t *)(m->token + n_tokens);
    m->records = (uint8_t *)(m->seen + n_tokens);
    memset(mem, 0, sm_token_memory_bytes(n_tokens, n_layers, n_expert, n_used));
    for (uint32_t i = 0; i < n_tokens; i++) m->token[i] = -1;
}

/* The first place of the token's set (Knuth's multiplicative hash). */
static uint32_t set_of(const struct sm_token_memory *m, int32_t token)
{
    return (((uint32_t)token * 2654435761u) >> 8) % (m->n_tokens / WAYS) * WAYS;
}

int32_t sm_token_memory_find(const struct sm_token_memory *m, int32_t token)
{
    if (!m->n_tokens || token < 0) return -1;
    const uint32_t first = set_of(m, token);
    for (uint32_t i = first; i < first + WAYS; i++)
        if (m->token[i] == token) return (int32_t)i;
    return -1;
}

static uint8_t *record_of(const struct sm_token_memory *m, uint32_t place, uint32_t layer)
{
    return m->records + ((size_t)place * m->n_layers + layer) * m->record_bytes;
}

void sm_token_memory_get(const struct sm_token_memory *m, int32_t place, uint32_t layer,
                         struct sm_token_experts *out)
{
    out->n = 0;
    out->twice = 0;
    if (place < 0 || layer >= m->n_layers) return;
    const uint8_t *r = record_of(m, (uint32_t)place, layer);
    const uint8_t *ids = r + 1 + twice_bytes(m->n_used);
    out->n = r[0];
    for (uint32_t i = 0; i < out->n; i++) {
        out->id[i] = m->id_bytes == 1 ? ids[i] : sm_ld16(ids + 2 * (size_t)i);
        out->twice |= (uint64_t)(r[1 + i / 8] >> i % 8 & 1) << i;
    }
}

/* A place for a token that has none: of its set, the one that was noted longest ago. */
static uint32_t take_place(struct sm_token_memory *m, int32_t token)
{
    const uint32_t first = set_of(m, token);
    uint32_t best = first;
    for (uint32_t i = first; i < first + WAYS; i++)
        if (m->token[i] < 0 || (m->token[best] >= 0 && m->seen[i] < m->seen[best])) best = i;
    m->token[best] = token;
    for (uint32_t l = 0; l < m->n_layers; l++) record_of(m, best, l)[0] = 0;
    return best;
}

void sm_token_memory_note(struct sm_token_memory *m, int32_t token, uint32_t layer,
                          const uint16_t *ids, uint32_t n)
{
    struct sm_token_experts before;
    if (!m->n_tokens || token < 0 || layer >= m->n_layers) return;
    const int32_t found = sm_token_memory_find(m, token);
    const uint32_t place = found >= 0 ? (uint32_t)found : take_place(m, token);
    sm_token_memory_get(m, (int32_t)place, layer, &before);
    uint8_t *r = record_of(m, place, layer), *to = r + 1 + twice_bytes(m->n_used);
    if (n > m->n_used) n = m->n_used;
    m->clock += layer == 0;
    m->seen[place] = m->clock;
    memset(r, 0, 1 + twice_bytes(m->n_used));
    r[0] = (uint8_t)n;
    for (uint32_t i = 0; i < n; i++) {
        if (sm_ids_have(before.id, before.n, ids[i])) r[1 + i / 8] |= (uint8_t)(1u << i % 8);
        if (m->id_bytes == 1) to[i] = (uint8_t)ids[i];
        else sm_st16(to + 2 * (size_t)i, ids[i]);
    }
}
