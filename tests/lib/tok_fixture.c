/* SPDX-License-Identifier: MIT */
#include "tok_fixture.h"

#include <stdio.h>
#include <stdlib.h>

struct sm_tok *fixture_tok(const char *path, smol_error *err)
{
    struct sm_gguf *g = NULL;
    struct sm_tok *t = NULL;
    *err = (smol_error){0};
    if (sm_gguf_open(&g, path, err) != SMOL_OK) return NULL;
    if (sm_tok_new(&t, g, err) != SMOL_OK) t = NULL;
    sm_gguf_free(g);
    return t;
}

bool fixture_same_ids(const int32_t *ids, size_t n, const struct json *want, char *why, size_t cap)
{
    const size_t n_want = json_len(want);
    size_t i = 0;
    while (i < n && i < n_want && json_int(json_at(want, i), -9) == ids[i]) i++;
    if (i == n && i == n_want) return true;
    snprintf(why, cap, "%zu ids, expected %zu; at %zu: %d, expected %lld", n, n_want, i,
             i < n ? ids[i] : -1, (long long)json_int(json_at(want, i), -1));
    return false;
}

bool fixture_encodes(const struct sm_tok *t, const char *text, size_t n, unsigned flags,
                     const struct json *want, char *why, size_t cap)
{
    int32_t *ids;
    size_t n_ids;
    smol_error err = {0};
    if (sm_tok_encode(t, text, n, flags, &ids, &n_ids, &err) != SMOL_OK) {
        snprintf(why, cap, "%s", err.msg);
        return false;
    }
    const bool good = fixture_same_ids(ids, n_ids, want, why, cap);
    free(ids);
    return good;
}
