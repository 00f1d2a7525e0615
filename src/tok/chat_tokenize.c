/* SPDX-License-Identifier: MIT */
#include "tok/chat_tokenize.h"

#include <stdlib.h>

smol_status sm_chat_tokenize(const struct sm_tok *tok, const struct sm_chat_segments *s,
                             int32_t **ids, size_t *n_ids, smol_error *err)
{
    char *text = NULL;
    uint8_t *typed = NULL;
    size_t n = 0;
    *ids = NULL;
    *n_ids = 0;
    SM_TRY(sm_chat_join(s, INT32_MAX / 3, &text, &typed, &n, err));
    const smol_status st = sm_tok_encode_typed(
        tok, text, typed, n, SM_TOK_PARSE_SPECIAL | SM_TOK_ADD_SPECIAL, ids, n_ids, err);
    if (st == SMOL_OK && sm_tok_add_eos(tok) && *n_ids > 0) --*n_ids; /* an answer comes next */
    free(text);
    return st;
}
