/* SPDX-License-Identifier: MIT */
#include "infer/chat.h"
#include "tok/chat_template.h"
#include "tok/chat_tokenize.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Text of a control token, "" when there is none; false when it is too long to be one. */
static bool text_of(const struct sm_tok *tok, int32_t id, char *buf, size_t cap)
{
    const size_t n = id < 0 ? 0 : sm_tok_piece(tok, id, true, buf, cap - 1);
    if (n >= cap) return false;
    buf[n] = 0;
    return n > 0;
}

/* The built-in format that the template resembles; `why`: what the template itself failed with. */
static smol_status render_builtin(struct sm_str t, const smol_message *messages, size_t n,
                                  const smol_chat_params *p, const smol_error *why,
                                  struct sm_chat_segments *out, smol_chat_info *info,
                                  smol_error *err)
{
    const struct sm_chat_format *f = sm_chat_format_find(t.p, t.n);
    if (!f)
        return SM_FAIL(err, UNSUPPORTED, "%.120s; no built-in format resembles the template",
                       why->msg);
    if (p->tools)
        return SM_FAIL(err, UNSUPPORTED, "%.120s; built-in formats have no tools", why->msg);
    info->own = false;
    info->format = sm_chat_format_name(f);
    (void)snprintf(info->note, sizeof info->note, "%.140s; the built-in format %s is used",
                   why->msg, info->format);
    return sm_chat_render(f, messages, n, !p->no_answer, out, err);
}

static smol_status render(const struct sm_tok *tok, struct sm_str t, const smol_message *messages,
                          size_t n, const smol_chat_params *p, struct sm_chat_segments *out,
                          smol_chat_info *info, smol_error *err)
{
    char bos[256], eos[256];
    smol_error why = {0};
    const struct sm_chat_options o = {
        .answer = !p->no_answer,
        .thinking = p->thinking,
        .tools = p->tools,
        .bos = text_of(tok, sm_tok_bos(tok), bos, sizeof bos) ? bos : NULL,
        .eos = text_of(tok, sm_tok_eos(tok), eos, sizeof eos) ? eos : NULL,
        .now = p->now ? p->now : (int64_t)time(NULL)};
    const smol_status st = sm_chat_template(t.p, t.n, messages, n, &o, out, &why);
    if (st == SMOL_OK) return st;
    if (st == SMOL_ARG || st == SMOL_NOMEM) {
        if (err && err->code == SMOL_OK) *err = why;
        return st;
    }
    return render_builtin(t, messages, n, p, &why, out, info, err);
}

/* Whether the markup ends with an open "<think>". */
static bool ends_thinking(const struct sm_chat_segments *s)
{
    static const char tag[] = "<think>";
    if (!s->n || !s->v[s->n - 1].markup) return false;
    const char *p = s->v[s->n - 1].text;
    size_t n = s->v[s->n - 1].n;
    while (n && (p[n - 1] == '\n' || p[n - 1] == ' ')) n--;
    return n >= sizeof tag - 1 && !memcmp(p + n - (sizeof tag - 1), tag, sizeof tag - 1);
}

/* ---- going on behind tokens that were read before ---- */

/* How many kept tokens begin the text, and their bytes: all, or those up to the last control token
 * before the first difference. A control token must stand for markup. */
static size_t matching(const struct sm_tok *tok, const char *text, const uint8_t *typed, size_t n,
                       const int32_t *kept, size_t n_kept, size_t *n_bytes)
{
    char piece[SM_TOK_PIECE_MAX];
    size_t at = 0, best = 0;
    *n_bytes = 0;
    for (size_t i = 0; i < n_kept; i++) {
        const size_t k = sm_tok_piece(tok, kept[i], true, piece, sizeof piece);
        const bool control = sm_tok_is_special(tok, kept[i]);
        bool same = k <= n - at && k <= sizeof piece && !memcmp(text + at, piece, k);
        for (size_t b = 0; same && control && b < k; b++) same = !typed[at + b];
        if (!same && i == 0 && kept[0] == sm_tok_bos(tok) && sm_tok_add_bos(tok)) {
            best = 1; /* added, not in the text */
            continue;
        }
        if (!same) return best;
        at += k;
        if (control || i + 1 == n_kept) {
            best = i + 1;
            *n_bytes = at;
        }
    }
    return best;
}

static smol_status go_on(const struct sm_tok *tok, const struct sm_chat_segments *s,
                         const smol_chat_params *p, int32_t **ids, size_t *n_ids, smol_error *err)
{
    char *text = NULL;
    uint8_t *typed = NULL;
    int32_t *rest = NULL, *all = NULL;
    size_t n = 0, n_bytes = 0, n_rest = 0;
    smol_status st = SMOL_OK;
    SM_TRY(sm_chat_join(s, INT32_MAX / 3, &text, &typed, &n, err));
    const size_t same = matching(tok, text, typed, n, p->kept, p->n_kept, &n_bytes);
    if (same == 0) goto out;
    SM_TRY_OUT(st, sm_tok_encode_typed(tok, text + n_bytes, typed + n_bytes, n - n_bytes,
                                       SM_TOK_PARSE_SPECIAL, &rest, &n_rest, err));
    all = malloc((same + n_rest + 1) * sizeof *all);
    if (!all) {
        st = SM_FAIL(err, NOMEM, "no memory for %zu tokens", same + n_rest);
        goto out;
    }
    memcpy(all, p->kept, same * sizeof *all);
    if (n_rest) memcpy(all + same, rest, n_rest * sizeof *all);
    free(*ids);
    *ids = all;
    *n_ids = same + n_rest;
out:
    free(rest);
    free(text);
    return st;
}

smol_status sm_chat_encode(const struct sm_tok *tok, struct sm_str template_text,
                           const smol_message *messages, size_t n, const smol_chat_params *p,
                           int32_t **ids, size_t *n_ids, smol_chat_info *info, smol_error *err)
{
    static const smol_chat_params usual = {.thinking = -1};
    struct sm_chat_segments segments = {0};
    smol_chat_info unused;
    if (!info) info = &unused;
    if (!p) p = &usual;
    *info = (smol_chat_info){.own = true};
    *ids = NULL;
    *n_ids = 0;
    info->can_think = sm_chat_template_thinks(template_text.p, template_text.n);
    SM_TRY(render(tok, template_text, messages, n, p, &segments, info, err));
    info->reasoning = !p->no_answer && ends_thinking(&segments);
    smol_status st = sm_chat_tokenize(tok, &segments, ids, n_ids, err);
    /* SPM puts a space before a text: its pieces do not join where a text was cut */
    const bool joins = strcmp(sm_tok_model(tok), "gpt2") == 0;
    if (st == SMOL_OK && p->n_kept && joins &&
        (p->n_kept > *n_ids || memcmp(*ids, p->kept, p->n_kept * sizeof **ids) != 0))
        st = go_on(tok, &segments, p, ids, n_ids, err);
    sm_chat_segments_free(&segments);
    if (st != SMOL_OK) {
        free(*ids);
        *ids = NULL;
        *n_ids = 0;
    }
    return st;
}
