/* SPDX-License-Identifier: MIT */
#include "store/replay.h"

#include "base/bits.h"
#include "base/mem.h"
#include "store/token_memory.h"

#include <assert.h>
#include <string.h>

#define NEVER UINT32_MAX

static struct sm_choice choice_of(const struct sm_trace_data *d, const struct sm_trace_layer *l,
                                  float range)
{
    const struct sm_trace_shape *s = &d->shape;
    return (struct sm_choice){s->n_expert, s->n_used, s->n_group, s->n_group_used,
                              l->bias,     d->logits, range};
}

/* What reading ahead would have done for this use, the pool being what the policy holds. Where no
 * layer is so far before, the token's embedding stood in: that is no prediction of a router. */
static void look_back(const struct sm_trace_data *d, const struct sm_trace_layer *l, uint32_t t,
                      const uint8_t *held, const uint16_t *ids, uint32_t n,
                      struct sm_replay_result *sum)
{
    const uint32_t k = d->shape.n_used;
    const size_t layer = (size_t)(l - d->layer);
    unsigned misses = 0;
    for (uint32_t i = 0; i < n; i++) misses += !held[ids[i]];
    for (unsigned a = 0; a < SM_TRACE_AHEAD && a < layer; a++) {
        const uint16_t *expected = l->ahead[a] + (size_t)t * k;
        if (expected[0] == SM_NO_EXPERT) continue;
        sum->predictable[a] += misses;
        for (uint32_t i = 0; i < k && expected[i] != SM_NO_EXPERT; i++) {
            if (held[expected[i]]) continue;
            sum->asked[a]++;
            sum->foreseen[a] += sm_ids_have(ids, n, expected[i]);
        }
    }
}

/* What the token's memory would have asked for, and what of it was right; then it is noted. */
static void recall(struct sm_token_memory *m, const struct sm_trace_data *d, uint32_t t,
                   const uint8_t *held, const uint16_t *ids, uint32_t n,
                   struct sm_replay_result *sum)
{
    struct sm_token_experts had;
    if (t >= d->n_tokens || d->token[t] > INT32_MAX) return;
    const int32_t token = (int32_t)d->token[t];
    sm_token_memory_get(m, sm_token_memory_find(m, token), 0, &had);
    for (uint32_t i = 0; i < had.n; i++) {
        const unsigned twice = had.twice >> i & 1;
        if (held[had.id[i]]) continue;
        sum->recalled[twice]++;
        sum->recalled_right[twice] += sm_ids_have(ids, n, had.id[i]);
    }
    sm_token_memory_note(m, token, 0, ids, n);
}

static smol_status run_policy(const struct sm_trace_data *d, const struct sm_trace_layer *l,
                              const struct sm_replay *how, struct sm_replay_result *sum,
                              smol_error *err)
{
    const uint32_t n = d->shape.n_expert, k = d->shape.n_used;
    const uint32_t places = sm_token_memory_places(UINT32_MAX);
    const size_t policy_bytes = sm_round_up(sm_policy_bytes(n), SM_ALIGN);
    const size_t bytes = policy_bytes + sm_token_memory_bytes(places, 1, n, k);
    struct sm_policy p;
    struct sm_token_memory memory;
    uint16_t ids[SM_CHOICE_USED];
    uint8_t *tables = sm_mem_new(bytes);
    if (!tables) return SM_FAIL(err, NOMEM, "no memory for a pool of %u experts", (unsigned)n);
    sm_token_memory_init(&memory, places, 1, n, k, tables + policy_bytes);
    sm_policy_init(&p, how->policy, n, how->n_slots, tables);
    for (uint32_t t = 0; t < l->n; t++) {
        const float *score = l->score + (size_t)t * n;
        const struct sm_choice c = choice_of(d, l, sm_policy_range(&p));
        /* a pool with room for all has nothing for levers to look at */
        const uint8_t *held = how->n_slots < n ? p.held : NULL;
        const uint32_t left = sm_choose(&c, &how->lever, held, score, ids, k);
        sm_ids_sort(ids, left); /* as runs tell the pool */
        look_back(d, l, t, p.held, ids, left, sum);
        recall(&memory, d, t, p.held, ids, left, sum);
        if (how->lever.bias_range) sm_policy_add_range(&p, sm_choice_range(&c, score));
        sum->uses += left;
        sum->dropped += k - left;
        sum->misses += sm_policy_touch(&p, ids, left);
    }
    sm_mem_free(tables, bytes);
    return SMOL_OK;
}

/* ---- Belady: what will be used latest leaves ------------------------------------------------- */

struct belady {
    uint32_t n_expert, n_used, n_held, n_slots;
    uint32_t *next;     /* [n_expert] when it is used next */
    uint8_t *held;      /* [n_expert] */
    uint16_t *ids;      /* [uses][n_used] */
    uint32_t *after;    /* [uses][n_used] when the same expert is used next */
};

static void layout(struct belady *b, struct sm_arena *a, uint32_t n)
{
    b->next = SM_ARENA_NEW(a, uint32_t, b->n_expert);
    b->held = SM_ARENA_NEW(a, uint8_t, b->n_expert);
    b->ids = SM_ARENA_NEW(a, uint16_t, (size_t)n * b->n_used);
    b->after = SM_ARENA_NEW(a, uint32_t, (size_t)n * b->n_used);
}

static unsigned touch(struct belady *b, const uint16_t *ids, const uint32_t *after)
{
    unsigned misses = 0;
    for (uint32_t i = 0; i < b->n_used; i++) {
        b->next[ids[i]] = after[i];
        if (b->held[ids[i]]) continue;
        misses++;
        if (b->n_held == b->n_slots) {
            uint32_t worst = NEVER;
            for (uint32_t e = 0; e < b->n_expert; e++)
                if (b->held[e] && !sm_ids_have(ids, b->n_used, (uint16_t)e) &&
                    (worst == NEVER || b->next[e] > b->next[worst]))
                    worst = e;
            assert(worst != NEVER);
            b->held[worst] = 0;
            b->n_held--;
        }
        b->held[ids[i]] = 1;
        b->n_held++;
    }
    return misses;
}

static smol_status run_belady(const struct sm_trace_data *d, const struct sm_trace_layer *l,
                              uint32_t n_slots, struct sm_replay_result *sum, smol_error *err)
{
    const struct sm_lever none = {0};
    const uint32_t k = d->shape.n_used;
    const struct sm_choice c = choice_of(d, l, 0);
    struct belady b = {.n_expert = d->shape.n_expert, .n_used = k, .n_slots = n_slots};
    struct sm_arena a = {0};
    layout(&b, &a, l->n);
    const size_t bytes = a.used;
    uint8_t *block = sm_mem_new(bytes);
    if (!block) return SM_FAIL(err, NOMEM, "no memory to replay %u uses", (unsigned)l->n);
    a = (struct sm_arena){.base = block, .capacity = bytes};
    layout(&b, &a, l->n);
    for (uint32_t e = 0; e < b.n_expert; e++) b.next[e] = NEVER;
    for (uint32_t t = l->n; t-- > 0;) {
        uint16_t *ids = b.ids + (size_t)t * k;
        sm_choose(&c, &none, NULL, l->score + (size_t)t * b.n_expert, ids, k);
        for (uint32_t i = 0; i < k; i++) {
            b.after[(size_t)t * k + i] = b.next[ids[i]];
            b.next[ids[i]] = t;
        }
    }
    for (uint32_t t = 0; t < l->n; t++) {
        sum->uses += k;
        sum->misses += touch(&b, b.ids + (size_t)t * k, b.after + (size_t)t * k);
    }
    sm_mem_free(block, bytes);
    return SMOL_OK;
}

smol_status sm_replay_run(const struct sm_trace_data *d, uint32_t layer,
                          const struct sm_replay *how, struct sm_replay_result *sum,
                          smol_error *err)
{
    const struct sm_trace_layer *l = &d->layer[layer];
    assert(layer < d->shape.n_layers && how->n_slots >= d->shape.n_used);
    return how->policy ? run_policy(d, l, how, sum, err) : run_belady(d, l, how->n_slots, sum, err);
}
