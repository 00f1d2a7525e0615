/* SPDX-License-Identifier: MIT */
#include "api/api.h"

#include <stdlib.h>

smol_status smol_vocab_open(smol_vocab **out, const char *path, smol_error *err)
{
    *out = NULL;
    smol_vocab *v = calloc(1, sizeof *v);
    if (!v) return SM_FAIL(err, NOMEM, "no memory for the vocabulary");
    v->owned = true;
    smol_status st = sm_gguf_open(&v->gguf, path, err);
    if (st == SMOL_OK) st = sm_tok_new(&v->tok, v->gguf, err);
    if (st != SMOL_OK) {
        smol_vocab_free(v);
        return st;
    }
    *out = v;
    return SMOL_OK;
}

void smol_vocab_free(smol_vocab *v)
{
    if (!v || !v->owned) return;
    sm_tok_free(v->tok);
    sm_gguf_free(v->gguf);
    free(v);
}

smol_status smol_tokenize(const smol_vocab *v, const char *text, size_t n, unsigned flags,
                          int32_t **ids, size_t *n_ids, smol_error *err)
{
    unsigned f = 0;
    if (flags & SMOL_PARSE_SPECIAL) f |= SM_TOK_PARSE_SPECIAL;
    if (flags & SMOL_ADD_SPECIAL) f |= SM_TOK_ADD_SPECIAL;
    *ids = NULL;
    *n_ids = 0;
    if (!v) return SM_FAIL(err, UNSUPPORTED, "the model has no vocabulary");
    return sm_tok_encode(v->tok, text, n, f, ids, n_ids, err);
}

size_t smol_piece(const smol_vocab *v, int32_t id, bool special, char *buf, size_t cap)
{
    return sm_tok_piece(v->tok, id, special, buf, cap);
}

bool smol_is_end(const smol_vocab *v, int32_t id) { return sm_tok_is_end(v->tok, id); }

int32_t smol_vocab_size(const smol_vocab *v) { return (int32_t)sm_tok_n_vocab(v->tok); }

int32_t smol_added_bos(const smol_vocab *v)
{
    return v && sm_tok_add_bos(v->tok) ? sm_tok_bos(v->tok) : -1;
}

void smol_free(void *p) { free(p); }
