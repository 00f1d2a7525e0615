/* SPDX-License-Identifier: MIT */
#include "store/learn.h"

#include <stdio.h>
#include <string.h>

struct reader { const char *text; size_t n, at; };

static bool at_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);
    if (r->n - r->at < n || memcmp(r->text + r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

/* A whole number up to `most`, with one `end` byte behind it. */
static bool read_number(struct reader *r, uint64_t most, char end, uint64_t *out)
{
    uint64_t v = 0;
    const size_t first = r->at;
    for (; r->at < r->n && r->text[r->at] >= '0' && r->text[r->at] <= '9'; r->at++) {
        v = v * 10 + (uint64_t)(r->text[r->at] - '0');
        if (v > most) return false;
    }
    if (r->at == first || r->at == r->n || r->text[r->at] != end) return false;
    r->at++;
    *out = v;
    return true;
}

bool sm_learn_is_list(const char *text, size_t n)
{
    struct reader r = {text, n, 0};
    return at_word(&r, "smol-experts 1 ");
}

bool sm_learn_shape(const char *text, size_t n, uint32_t *n_layers, uint32_t *n_expert)
{
    struct reader r = {text, n, 0};
    uint64_t layers = 0, experts = 0;
    if (!at_word(&r, "smol-experts 1 ") || !read_number(&r, 1u << 20, ' ', &layers) ||
        !read_number(&r, 1u << 20, ' ', &experts) || layers * experts > n / 2)
        return false;
    *n_layers = (uint32_t)layers;
    *n_expert = (uint32_t)experts;
    return true;
}

smol_status sm_learn_parse(const char *text, size_t n, uint32_t n_layers, uint32_t n_expert,
                           float *per_1000, uint64_t *tokens, smol_error *err)
{
    struct reader r = {text, n, 0};
    uint64_t layers = 0, experts = 0, v = 0;
    if (!at_word(&r, "smol-experts 1 "))
        return SM_FAIL_AT(err, FORMAT, 0, "not a list of learned experts");
    if (!read_number(&r, 1u << 20, ' ', &layers) || !read_number(&r, 1u << 20, ' ', &experts) ||
        !read_number(&r, SM_LEARN_TOKENS_MAX, '\n', tokens))
        return SM_FAIL_AT(err, FORMAT, r.at, "the first line is broken at byte %zu", r.at);
    if (layers != n_layers || experts != n_expert)
        return SM_FAIL(err, FORMAT,
                       "the list is for %u layers of %u experts, the model has %u of %u",
                       (unsigned)layers, (unsigned)experts, (unsigned)n_layers, (unsigned)n_expert);
    for (uint32_t l = 0; l < n_layers; l++) {
        for (uint32_t e = 0; e < n_expert; e++) {
            if (!read_number(&r, 1000, e + 1 < n_expert ? ' ' : '\n', &v))
                return SM_FAIL_AT(err, FORMAT, r.at,
                                  "a number from 0 to 1000 was expected at byte %zu", r.at);
            per_1000[(size_t)l * n_expert + e] = (float)v;
        }
    }
    if (r.at != n)
        return SM_FAIL_AT(err, FORMAT, r.at, "something follows the list at byte %zu", r.at);
    return SMOL_OK;
}

struct printer { char *buf; size_t cap, used; };

static void put(struct printer *p, const char *text, size_t n)
{
    if (p->used < p->cap)
        memcpy(p->buf + p->used, text, n < p->cap - p->used ? n : p->cap - p->used);
    p->used += n;
}

size_t sm_learn_format(char *buf, size_t cap, uint32_t n_layers, uint32_t n_expert,
                       const float *per_1000, uint64_t tokens)
{
    struct printer p = {buf, cap, 0};
    char text[80];
    int n = snprintf(text, sizeof text, "smol-experts 1 %u %u %llu\n", (unsigned)n_layers,
                     (unsigned)n_expert, (unsigned long long)tokens);
    put(&p, text, (size_t)n);
    for (size_t i = 0; i < (size_t)n_layers * n_expert; i++) {
        const float v = per_1000[i] > 0 ? per_1000[i] : 0;
        n = snprintf(text, sizeof text, "%u%c", (unsigned)((v < 1000 ? v : 1000) + 0.5f),
                     (i + 1) % n_expert ? ' ' : '\n');
        put(&p, text, (size_t)n);
    }
    return p.used;
}

void sm_learn_merge(float *old, uint64_t *old_tokens, const float *now, uint64_t now_tokens,
                    size_t n)
{
    const uint64_t all = *old_tokens + now_tokens;
    const float share = all ? (float)((double)now_tokens / (double)all) : 0;
    for (size_t i = 0; i < n; i++) old[i] += share * (now[i] - old[i]);
    *old_tokens = all < SM_LEARN_TOKENS_MAX ? all : SM_LEARN_TOKENS_MAX;
}
