/* SPDX-License-Identifier: MIT */
#include "infer/chat.h"
#include "tok/chat_format.h"

#include <stdlib.h>
#include <string.h>

struct id_list { int32_t *v; size_t n, cap; };

static smol_status append(struct id_list *l, const int32_t *ids, size_t n, smol_error *err)
{
    if (l->n + n > l->cap) {
        const size_t cap = (l->n + n) * 2;
        int32_t *v = realloc(l->v, cap * sizeof *v);
        if (!v) return SM_FAIL(err, NOMEM, "no memory for %zu tokens", cap);
        l->v = v;
        l->cap = cap;
    }
    if (n) memcpy(l->v + l->n, ids, n * sizeof *ids);
    l->n += n;
    return SMOL_OK;
}

static smol_status append_text(struct id_list *l, const struct sm_tok *tok, const char *text,
                               size_t n, unsigned flags, smol_error *err)
{
    int32_t *ids = NULL;
    size_t n_ids = 0;
    smol_status st = sm_tok_encode(tok, text, n, flags, &ids, &n_ids, err);
    if (st == SMOL_OK) st = append(l, ids, n_ids, err);
    free(ids);
    return st;
}

smol_status sm_chat_encode(const struct sm_tok *tok, struct sm_str template_text,
                           const smol_message *messages, size_t n, int32_t **ids, size_t *n_ids,
                           smol_error *err)
{
    const struct sm_chat_format *f = sm_chat_format_find(template_text.p, template_text.n);
    struct sm_chat_segments seg = {0};
    struct id_list l = {0};
    smol_status st;
    *ids = NULL;
    *n_ids = 0;
    if (!f) return SM_FAIL(err, UNSUPPORTED, "the chat template of this model is not known");
    SM_TRY(sm_chat_render(f, messages, n, true, &seg, err));
    if (sm_tok_add_bos(tok) && sm_tok_bos(tok) >= 0) {
        const int32_t bos = sm_tok_bos(tok);
        SM_TRY_OUT(st, append(&l, &bos, 1, err));
    }
    for (size_t i = 0; i < seg.n; i++) {
        const struct sm_chat_segment *s = &seg.v[i];
        SM_TRY_OUT(st, append_text(&l, tok, s->text, s->n, s->markup ? SM_TOK_PARSE_SPECIAL : 0, err));
    }
    /* a format that writes the BOS itself has it once all the same */
    if (l.n > 1 && sm_tok_add_bos(tok) && l.v[0] == l.v[1]) memmove(l.v, l.v + 1, --l.n * sizeof *l.v);
    *ids = l.v;
    *n_ids = l.n;
    l.v = NULL;
    st = SMOL_OK;
out:
    free(l.v);
    sm_chat_segments_free(&seg);
    return st;
}
