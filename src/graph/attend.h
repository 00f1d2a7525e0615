/* SPDX-License-Identifier: MIT */
/* The core of attention: query heads against the keys and values of a cache, chunk by chunk
 * (docs/arithmetic.md section 5). Every mixer that attends ends here. */
#ifndef SM_ATTEND_H
#define SM_ATTEND_H

#include "graph/kv.h"

struct sm_attend {
    uint32_t n_head, n_kv;  /* n_head is a multiple of n_kv */
    uint32_t dk, dv;
    uint32_t window;        /* positions seen, 0: all */
    float scale;
    const float *sinks;     /* [n_head] scores that carry no value, or NULL */
};

/* Work for one token is cut into items of query heads that share a key/value head: */
struct sm_attend_split {
    uint32_t n_q;           /* heads of an item, the last of a key/value head may have fewer */
    uint32_t per_kv;        /* items of a key/value head */
    uint32_t n_item;        /* items of a token */
};
/* As few items as keep all workers busy; the cut cannot change a bit. */
struct sm_attend_split sm_attend_cut(const struct sm_graph *g, const struct sm_attend *a,
                                     uint32_t n_tok);
/* Up to SM_ATTN_TOK neighbouring tokens (one when the cache is a ring), whose keys and values are
 * in the cache already. q: first query head of the first token, heads ldq floats apart, tokens
 * tok_q; out: dv floats a query head, ldo apart, tokens tok_out. */
struct sm_attend_rows {
    uint32_t pos, n_tok; /* position of the first token */
    const float *q;
    size_t ldq, tok_q;
    float *out;
    size_t ldo, tok_out;
};
/* Tokens of an item: several where few heads share a key, so that scratch stays small. */
static inline uint32_t sm_attend_tokens(uint32_t n_head, uint32_t n_kv)
{
    return n_head / n_kv <= 16 ? SM_ATTN_TOK : 1;
}
/* One item of these tokens. */
void sm_attend_item(struct sm_graph *g, unsigned worker, const struct sm_attend *a,
                    const struct sm_kv_cache *kv, const struct sm_attend_split *cut, uint32_t item,
                    const struct sm_attend_rows *r);

#endif
