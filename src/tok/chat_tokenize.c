/* SPDX-License-Identifier: MIT */
#include "tok/chat_tokenize.h"

#include <stdlib.h>
#include <string.h>

smol_status sm_chat_tokenize(const struct sm_tok *tok, const struct sm_chat_segments *s,
                             int32_t **ids, size_t *n_ids, smol_error *err)
{
    char *text = NULL;
    size_t n = 0, at = 0;
    *ids = NULL;
    *n_ids = 0;
    SM_TRY(sm_chat_join(s, INT32_MAX / 3, &text, &n, err));
    uint8_t *typed = calloc(n + 1, 1);
    smol_status st = SMOL_OK;
    if (!typed) {
        st = SM_FAIL(err, NOMEM, "no memory for a conversation of %zu bytes", n);
        goto out;
    }
    for (size_t i = 0; i < s->n; i++) {
        if (!s->v[i].markup) memset(typed + at, 1, s->v[i].n);
        at += s->v[i].n;
    }
    SM_TRY_OUT(st, sm_tok_encode_typed(tok, text, typed, n,
                                       SM_TOK_PARSE_SPECIAL | SM_TOK_ADD_SPECIAL, ids, n_ids, err));
    if (sm_tok_add_eos(tok) && *n_ids > 0) --*n_ids; /* an answer comes next */
out:
    free(typed);
    free(text);
    return st;
}
