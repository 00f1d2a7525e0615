/* SPDX-License-Identifier: MIT */
#include "logprobs.h"

#include <math.h>

#define PIECE_MAX 512u

struct piece {
    char bytes[PIECE_MAX];
    size_t n;
};

static struct piece piece_of(const smol_vocab *v, int32_t id)
{
    struct piece p;
    const size_t n = smol_piece(v, id, true, p.bytes, PIECE_MAX);
    p.n = n < PIECE_MAX ? n : PIECE_MAX;
    return p;
}

/* The API has no infinity: what is impossible is -9999. */
static double shown(double logprob) { return isfinite(logprob) ? logprob : -9999.0; }

/* Token and logprob; bytes too, since a token may be a part of a character. */
static void write_members(struct sm_json *j, const smol_vocab *v, int32_t id, double logprob)
{
    const struct piece p = piece_of(v, id);
    sm_json_bytes(j, "token", p.bytes, p.n);
    sm_json_num(j, "logprob", shown(logprob));
    sm_json_open(j, "bytes", '[');
    for (size_t i = 0; i < p.n; i++) sm_json_int(j, NULL, (unsigned char)p.bytes[i]);
    sm_json_close(j);
}

void sm_logprobs_chat(struct sm_json *j, const smol_vocab *v, const struct sm_answer_token *t,
                      size_t n)
{
    sm_json_open(j, "logprobs", '{');
    sm_json_open(j, "content", '[');
    for (size_t i = 0; i < n; i++) {
        sm_json_open(j, NULL, '{');
        write_members(j, v, t[i].id, t[i].logprob);
        sm_json_open(j, "top_logprobs", '[');
        for (unsigned k = 0; k < t[i].n_top; k++) {
            sm_json_open(j, NULL, '{');
            write_members(j, v, t[i].top[k].id, t[i].top[k].logprob);
            sm_json_close(j);
        }
        sm_json_close(j);
        sm_json_close(j);
    }
    sm_json_close(j);
    sm_json_str(j, "refusal", NULL);
    sm_json_close(j);
}

/* Alternatives are members of an object: two tokens with the same text would clash, the likelier
 * one stays. */
static bool shown_before(const smol_vocab *v, const struct sm_answer_token *t, unsigned k)
{
    char a[PIECE_MAX], b[PIECE_MAX];
    const size_t n = smol_piece(v, t->top[k].id, true, a, sizeof a);
    for (unsigned i = 0; i < k; i++) {
        if (smol_piece(v, t->top[i].id, true, b, sizeof b) != n) continue;
        size_t same = 0;
        while (same < n && same < sizeof a && a[same] == b[same]) same++;
        if (same == n) return true;
    }
    return false;
}

static void write_key(const struct piece *p, char key[2 * PIECE_MAX])
{
    /* bytes that are no text are written as OpenAI writes them: "bytes:\xf0\x9f" */
    size_t at = 0;
    bool plain = true;
    for (size_t i = 0; i < p->n; i++) plain &= (unsigned char)p->bytes[i] < 0x80;
    if (plain || p->n > 200) {
        for (; at < p->n; at++) key[at] = p->bytes[at];
    } else {
        at = (size_t)snprintf(key, 2 * PIECE_MAX, "bytes:");
        for (size_t i = 0; i < p->n; i++)
            at += (size_t)snprintf(key + at, 2 * PIECE_MAX - at, "\\x%02x",
                                   (unsigned)(unsigned char)p->bytes[i]);
    }
    key[at] = '\0';
}

void sm_logprobs_completion(struct sm_json *j, const smol_vocab *v, const struct sm_answer_token *t,
                            size_t n)
{
    char key[2 * PIECE_MAX];
    sm_json_open(j, "logprobs", '{');
    sm_json_open(j, "tokens", '[');
    for (size_t i = 0; i < n; i++) {
        const struct piece p = piece_of(v, t[i].id);
        sm_json_bytes(j, NULL, p.bytes, p.n);
    }
    sm_json_close(j);
    sm_json_open(j, "token_logprobs", '[');
    for (size_t i = 0; i < n; i++) sm_json_num(j, NULL, shown(t[i].logprob));
    sm_json_close(j);
    sm_json_open(j, "top_logprobs", '[');
    for (size_t i = 0; i < n; i++) {
        sm_json_open(j, NULL, '{');
        for (unsigned k = 0; k < t[i].n_top; k++) {
            if (shown_before(v, &t[i], k)) continue;
            const struct piece p = piece_of(v, t[i].top[k].id);
            write_key(&p, key);
            sm_json_num(j, key, shown(t[i].top[k].logprob));
        }
        sm_json_close(j);
    }
    sm_json_close(j);
    sm_json_open(j, "text_offset", '[');
    for (size_t i = 0; i < n; i++) sm_json_uint(j, NULL, t[i].begin);
    sm_json_close(j);
    sm_json_close(j);
}
