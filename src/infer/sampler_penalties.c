/* SPDX-License-Identifier: MIT */
/* What looks at the tokens already in the text: repeat, frequency and presence penalties, and DRY
 * ("don't repeat yourself"). Both touch only the logits of tokens inside their window. */
#include "base/fmath.h"
#include "infer/sampler_stage.h"

#include <float.h>
#include <string.h>

void sm_history_put(struct sm_history *h, int32_t id)
{
    if (h->capacity == 0) return;
    h->id[h->next] = id;
    h->next = (h->next + 1) % h->capacity;
    if (h->n < h->capacity) h->n++;
}

uint32_t sm_token_map_slots(uint32_t n)
{
    uint32_t slots = 16;
    while (slots < 2 * n) slots *= 2;
    return slots;
}

static void map_clear(struct sm_token_map *map)
{
    for (uint32_t i = 0; i < map->slots; i++) map->id[i] = -1;
}

/* The value of a token, 0 when it is new. */
static int32_t *map_at(struct sm_token_map *map, int32_t id)
{
    uint32_t i = (uint32_t)id * 2654435769u >> 7 & (map->slots - 1);
    while (map->id[i] != id) {
        if (map->id[i] < 0) {
            map->id[i] = id;
            map->value[i] = 0;
            break;
        }
        i = (i + 1) & (map->slots - 1);
    }
    return &map->value[i];
}

void sm_stage_penalties(float *logit, const struct sm_history *h, struct sm_token_map *map,
                        uint32_t last, float repeat, float frequency, float presence)
{
    const uint32_t n = last < h->n ? last : h->n;
    if (n == 0 || (repeat == 1.0f && frequency == 0.0f && presence == 0.0f)) return;
    map_clear(map);
    for (uint32_t i = 0; i < n; i++) (*map_at(map, sm_history_at(h, i)))++;
    for (uint32_t i = 0; i < map->slots; i++) {
        if (map->id[i] < 0) continue;
        float *l = &logit[map->id[i]];
        *l = *l <= 0.0f ? *l * repeat : *l / repeat;
        *l = *l - ((float)map->value[i] * frequency + presence);
        if (*l > FLT_MAX) *l = FLT_MAX;
    }
}

/* ---- DRY ---- */

/* Tokens after the newest complete breaker in the window, n when there is none. */
static uint32_t after_breaker(const struct sm_history *h, uint32_t n,
                              const struct sm_dry_breakers *breakers)
{
    uint32_t found = n;
    /* a head further back than this cannot complete later than `found` */
    for (uint32_t i = 0; breakers && i < n && i < found + SM_BREAKER_TAIL; i++) {
        const struct sm_breaker *b = NULL;
        const size_t n_b = sm_dry_breakers_find(breakers, sm_history_at(h, i), &b);
        for (size_t k = 0; k < n_b; k++) {
            uint32_t t = 0;
            if (b[k].n_tail > i || i - b[k].n_tail >= found) continue;
            while (t < b[k].n_tail && sm_history_at(h, i - 1 - t) == b[k].tail[t]) t++;
            if (t == b[k].n_tail) found = i - t;
        }
    }
    return found;
}

/* run[i] = length of the longest common beginning of w[i ...] and w, where w is the window read
 * from the newest token back; the Z-function, linear in n. */
static void common_runs(const struct sm_history *h, uint32_t n, int32_t *run)
{
    uint32_t left = 0, right = 0; /* the match that reaches furthest: w[left ... right - 1] */
    run[0] = (int32_t)n;
    for (uint32_t i = 1; i < n; i++) {
        uint32_t m = 0;
        if (i < right) {
            const uint32_t inner = (uint32_t)run[i - left];
            m = inner < right - i ? inner : right - i;
        }
        while (i + m < n && sm_history_at(h, m) == sm_history_at(h, i + m)) m++;
        run[i] = (int32_t)m;
        if (i + m > right) {
            left = i;
            right = i + m;
        }
    }
}

static bool is_breaker(const struct sm_dry_breakers *breakers, int32_t id)
{
    const struct sm_breaker *b = NULL;
    const size_t n = breakers ? sm_dry_breakers_find(breakers, id, &b) : 0;
    for (size_t i = 0; i < n; i++)
        if (b[i].n_tail == 0) return true;
    return false;
}

void sm_stage_dry(float *logit, const struct sm_history *h, struct sm_token_map *map,
                  const struct sm_dry *dry)
{
    const uint32_t n = dry->last < h->n ? dry->last : h->n;
    if (dry->multiplier == 0.0f || dry->base < 1.0f || n <= dry->allowed) return;
    const uint32_t limit = after_breaker(h, n, dry->breakers);
    if (limit < dry->allowed) return;
    common_runs(h, n, dry->run);
    map_clear(map);
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t m = (uint32_t)dry->run[i] < limit ? (uint32_t)dry->run[i] : limit;
        if (m < dry->allowed) continue;
        int32_t *most = map_at(map, sm_history_at(h, i - 1)); /* what followed the earlier run */
        if ((int32_t)m + 1 > *most) *most = (int32_t)m + 1;
    }
    /* the largest exponent whose power is a float */
    const double most =
        dry->base > 1.000001f ? sm_floor(88.7228391 / sm_log((double)dry->base)) : (double)n;
    for (uint32_t i = 0; i < map->slots; i++) {
        if (map->id[i] < 0 || is_breaker(dry->breakers, map->id[i])) continue;
        double exponent = (double)(map->value[i] - 1) - (double)dry->allowed;
        if (exponent > most) exponent = most;
        const double cost = (double)dry->multiplier * sm_pow((double)dry->base, exponent);
        float *l = &logit[map->id[i]];
        *l = (float)((double)*l - cost);
    }
}
