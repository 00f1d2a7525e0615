/* SPDX-License-Identifier: MIT */
/* Sequence breakers from texts: every token of the vocabulary against every text. */
#include "infer/dry_breakers_int.h"
#include "tok/tok.h"

#include <stdlib.h>
#include <string.h>

static bool contains(const char *piece, size_t n, const char *text, size_t n_text)
{
    for (size_t i = 0; i + n_text <= n; i++)
        if (!memcmp(piece + i, text, n_text)) return true;
    return false;
}

/* One breaker text against one token. */
static smol_status match_token(struct sm_dry_breakers *b, const struct sm_tok *tok, int32_t id,
                               const char *piece, size_t n_piece, const char *text, size_t n_text,
                               smol_error *err)
{
    if (contains(piece, n_piece, text, n_text)) return sm_dry_breakers_add(b, id, NULL, 0, err);
    for (size_t k = 1; k < n_text && k <= n_piece; k++) {
        int32_t *tail = NULL;
        size_t n_tail = 0;
        if (memcmp(piece + n_piece - k, text, k) != 0) continue;
        SM_TRY(sm_tok_encode(tok, text + k, n_text - k, 0, &tail, &n_tail, err));
        const smol_status st = sm_dry_breakers_add(b, id, tail, n_tail, err);
        free(tail);
        SM_TRY(st);
    }
    return SMOL_OK;
}

smol_status sm_dry_breakers_new(struct sm_dry_breakers **out, const struct sm_tok *tok,
                                const char *const *texts, size_t n_texts, smol_error *err)
{
    smol_status st = SMOL_OK;
    struct sm_dry_breakers *b = calloc(1, sizeof *b);
    *out = NULL;
    if (!b) return SM_FAIL(err, NOMEM, "no memory for sequence breakers");
    if (n_texts > SM_BREAKERS_MAX) {
        st = SM_FAIL(err, ARG, "%zu DRY sequence breakers; at most %u are possible", n_texts,
                     SM_BREAKERS_MAX);
        goto out;
    }
    for (uint32_t id = 0; id < sm_tok_n_vocab(tok); id++) {
        char piece[SM_TOK_PIECE_MAX];
        size_t n = sm_tok_piece(tok, (int32_t)id, true, piece, sizeof piece);
        if (n > sizeof piece) n = sizeof piece;
        for (size_t t = 0; t < n_texts; t++) {
            size_t n_text = strlen(texts[t]);
            if (n_text > SM_BREAKER_BYTES) n_text = SM_BREAKER_BYTES;
            if (n_text == 0) continue;
            SM_TRY_OUT(st, match_token(b, tok, (int32_t)id, piece, n, texts[t], n_text, err));
        }
    }
    sm_dry_breakers_finish(b);
    *out = b;
    b = NULL;
out:
    sm_dry_breakers_free(b);
    return st;
}

smol_status sm_dry_breakers_default(struct sm_dry_breakers **out, const struct sm_tok *tok,
                                    smol_error *err)
{
    static const char *const texts[] = {"\n", ":", "\"", "*"};
    return sm_dry_breakers_new(out, tok, texts, sizeof texts / sizeof *texts, err);
}
