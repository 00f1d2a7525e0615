/* SPDX-License-Identifier: MIT */
/* Token memory: against a table without limits while everything has a place; who makes room; that a
 * place which was taken over knows nothing of the token before. */
#include "base/mem.h"
#include "store/token_memory.h"
#include "tap.h"

enum { LAYERS = 3, TOKENS = 60 };

/* Per token and layer the last two lists. */
struct table { uint32_t n[2]; uint16_t id[2][8]; };

static bool has(const struct table *t, unsigned which, uint16_t id)
{
    for (uint32_t i = 0; i < t->n[which]; i++)
        if (t->id[which][i] == id) return true;
    return false;
}

static bool same(const struct sm_token_experts *got, const struct table *t)
{
    if (got->n != t->n[0]) return false;
    for (uint32_t i = 0; i < got->n; i++)
        if (got->id[i] != t->id[0][i] || (got->twice >> i & 1) != has(t, 1, got->id[i]))
            return false;
    return true;
}

/* Every get gives the last note, and which of it the note before had. */
static void against_table(uint32_t n_expert)
{
    static struct table table[TOKENS][LAYERS];
    const size_t bytes = sm_token_memory_bytes(2048, LAYERS, n_expert, 8);
    void *mem = sm_mem_new(bytes);
    struct sm_token_memory m;
    bool ok = true;
    memset(table, 0, sizeof table);
    sm_token_memory_init(&m, 2048, LAYERS, n_expert, 8, mem);
    for (unsigned round = 0; round < 3000; round++) {
        const int32_t token = (int32_t)tap_random_below(TOKENS);
        const uint32_t layer = (uint32_t)tap_random_below(LAYERS);
        struct table *t = &table[token][layer];
        struct sm_token_experts got;
        t->n[1] = t->n[0];
        memcpy(t->id[1], t->id[0], sizeof t->id[0]);
        t->n[0] = (uint32_t)tap_random_below(9);
        for (uint32_t i = 0; i < t->n[0]; i++) /* distinct, now and then those of before */
            t->id[0][i] = (uint16_t)((tap_random_below(2) * 8 + i) * (n_expert / 16) + i);
        sm_token_memory_note(&m, token, layer, t->id[0], t->n[0]);
        for (uint32_t l = 0; l < LAYERS; l++) {
            sm_token_memory_get(&m, sm_token_memory_find(&m, token), l, &got);
            ok = ok && same(&got, &table[token][l]);
        }
    }
    TAP_OK(ok, "%u experts: the last note, and what of it the note before had", (unsigned)n_expert);
    sm_mem_free(mem, bytes);
}

static void makes_room(void)
{
    const size_t bytes = sm_token_memory_bytes(4, 2, 32, 4); /* one set */
    void *mem = sm_mem_new(bytes);
    struct sm_token_memory m;
    struct sm_token_experts got;
    const uint16_t ids[6] = {3, 5, 7, 9, 11, 13};
    sm_token_memory_init(&m, 4, 2, 32, 4, mem);
    TAP_OK(sm_token_memory_find(&m, 0) < 0, "nothing is known at first");
    for (int32_t token = 0; token < 4; token++)
        for (uint32_t l = 0; l < 2; l++) sm_token_memory_note(&m, token, l, ids, 3);
    sm_token_memory_note(&m, 0, 0, ids, 6);
    sm_token_memory_get(&m, sm_token_memory_find(&m, 0), 0, &got);
    TAP_OK(got.n == 4 && got.id[3] == 9 && got.twice == 7, "no more than a layer can have");
    sm_token_memory_note(&m, 4, 0, ids, 2);
    TAP_OK(sm_token_memory_find(&m, 1) < 0 && sm_token_memory_find(&m, 0) >= 0 &&
               sm_token_memory_find(&m, 2) >= 0 && sm_token_memory_find(&m, 3) >= 0,
           "the token that was seen longest ago makes room");
    sm_token_memory_get(&m, sm_token_memory_find(&m, 4), 1, &got);
    TAP_OK(got.n == 0 && got.twice == 0, "and nothing of it is left");
    sm_token_memory_get(&m, -1, 0, &got);
    TAP_OK(got.n == 0, "nothing is known of an unknown token");
    sm_token_memory_note(&m, 4, 2, ids, 2);
    sm_token_memory_note(&m, -1, 0, ids, 2);
    TAP_OK(sm_token_memory_find(&m, -1) < 0, "a layer or token that does not exist is not noted");
    sm_mem_free(mem, bytes);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    against_table(256);
    against_table(257);
    makes_room();
    TAP_IS_INT(sm_token_memory_places(4), 4, "places of a tiny vocabulary");
    TAP_IS_INT(sm_token_memory_places(6144), 1024, "of a small one");
    TAP_IS_INT(sm_token_memory_places(200000), 2048, "of a large one");
    return tap_done();
}
