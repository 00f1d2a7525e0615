/* SPDX-License-Identifier: MIT */
#include "infer/chat.h"
#include "tok/chat_tokenize.h"

smol_status sm_chat_encode(const struct sm_tok *tok, struct sm_str template_text,
                           const smol_message *messages, size_t n, int32_t **ids, size_t *n_ids,
                           smol_error *err)
{
    const struct sm_chat_format *f = sm_chat_format_find(template_text.p, template_text.n);
    struct sm_chat_segments segments = {0};
    *ids = NULL;
    *n_ids = 0;
    if (!f) return SM_FAIL(err, UNSUPPORTED, "the chat template of this model is not known");
    SM_TRY(sm_chat_render(f, messages, n, true, &segments, err));
    const smol_status st = sm_chat_tokenize(tok, &segments, ids, n_ids, err);
    sm_chat_segments_free(&segments);
    return st;
}
