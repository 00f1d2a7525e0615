/* SPDX-License-Identifier: MIT */
#include "answer.h"
#include "logprobs.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void sm_answer_init(struct sm_answer *a)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char random[12] = {0};
    if (getrandom(random, sizeof random, 0) < 0) memset(random, 0, sizeof random);
    const bool chat = a->request->kind == SM_REQUEST_CHAT;
    int at = snprintf(a->id, sizeof a->id, chat ? "chatcmpl-" : "cmpl-");
    for (size_t i = 0; i < sizeof random; i++) {
        a->id[at++] = hex[random[i] >> 4];
        a->id[at++] = hex[random[i] & 15];
    }
    a->id[at] = '\0';
    a->created = time(NULL);
}

static bool is_chat(const struct sm_answer *a) { return a->request->kind == SM_REQUEST_CHAT; }

static void write_head(const struct sm_answer *a, struct sm_json *j, bool chunk)
{
    sm_json_str(j, "id", a->id);
    sm_json_str(j, "object",
                !is_chat(a) ? "text_completion"
                : chunk     ? "chat.completion.chunk"
                            : "chat.completion");
    sm_json_int(j, "created", (int64_t)a->created);
    sm_json_str(j, "model", a->model);
    sm_json_str(j, "system_fingerprint", "smol");
}

static void write_usage(const struct sm_answer *a, struct sm_json *j)
{
    sm_json_open(j, "usage", '{');
    sm_json_uint(j, "prompt_tokens", a->n_prompt);
    sm_json_uint(j, "completion_tokens", a->n_generated);
    sm_json_uint(j, "total_tokens", a->n_prompt + a->n_generated);
    sm_json_open(j, "prompt_tokens_details", '{');
    sm_json_uint(j, "cached_tokens", a->n_cached);
    sm_json_close(j);
    sm_json_close(j);
}

/* Beyond the API: how long it took, and the seed that repeats it. */
static void write_timings(const struct sm_answer *a, struct sm_json *j)
{
    sm_json_open(j, "timings", '{');
    sm_json_uint(j, "cache_n", a->n_cached);
    sm_json_uint(j, "prompt_n", a->n_prompt - a->n_cached);
    sm_json_num(j, "prompt_ms", a->seconds_prompt * 1e3);
    sm_json_uint(j, "predicted_n", a->n_generated);
    sm_json_num(j, "predicted_ms", a->seconds_decode * 1e3);
    sm_json_num(j, "predicted_per_second",
                a->seconds_decode > 0 ? (double)a->n_generated / a->seconds_decode : 0);
    sm_json_uint(j, "seed", a->seed);
    sm_json_close(j);
}

static void write_logprobs(const struct sm_answer *a, struct sm_json *j,
                           const struct sm_answer_token *tokens, size_t n_tokens)
{
    if (a->request->n_logprobs < 0 || !n_tokens) sm_json_str(j, "logprobs", NULL);
    else if (is_chat(a)) sm_logprobs_chat(j, a->vocab, tokens, n_tokens);
    else sm_logprobs_completion(j, a->vocab, tokens, n_tokens);
}

static void write_choice(const struct sm_answer *a, struct sm_json *j, bool chunk, bool first,
                         const struct sm_answer_text *t, const struct sm_answer_token *tokens,
                         size_t n_tokens, const char *finish)
{
    sm_json_open(j, "choices", '[');
    sm_json_open(j, NULL, '{');
    sm_json_int(j, "index", 0);
    if (is_chat(a)) {
        sm_json_open(j, chunk ? "delta" : "message", '{');
        if (first || !chunk) sm_json_str(j, "role", "assistant");
        if (first || !chunk || t->n) sm_json_bytes(j, "content", t->bytes, t->n);
        if (t->n_thoughts) sm_json_bytes(j, "reasoning_content", t->thoughts, t->n_thoughts);
        if (!chunk) sm_json_str(j, "refusal", NULL);
        sm_json_close(j);
    } else {
        sm_json_bytes(j, "text", t->bytes, t->n);
    }
    write_logprobs(a, j, tokens, n_tokens);
    sm_json_str(j, "finish_reason", finish);
    sm_json_close(j);
    sm_json_close(j);
}

/* "data: {…}\n\n" around a document that ends with a newline. */
static char *as_event(struct sm_doc *d, size_t *n_text)
{
    char *text = sm_doc_end(d) ? malloc(d->n + 8) : NULL;
    if (text) {
        memcpy(text, "data: ", 6);
        memcpy(text + 6, d->text, d->n);
        memcpy(text + 6 + d->n, "\n", 2);
        *n_text = d->n + 7;
    }
    free(d->text);
    return text;
}

char *sm_answer_chunk(const struct sm_answer *a, bool first, const struct sm_answer_text *text,
                      const struct sm_answer_token *tokens, size_t n_tokens, const char *finish,
                      size_t *n_text)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    sm_json_open(&d.j, NULL, '{');
    write_head(a, &d.j, true);
    write_choice(a, &d.j, true, first, text, tokens, n_tokens, finish);
    if (a->request->include_usage) sm_json_str(&d.j, "usage", NULL);
    if (finish) write_timings(a, &d.j);
    sm_json_close(&d.j);
    return as_event(&d, n_text);
}

char *sm_answer_usage_chunk(const struct sm_answer *a, size_t *n_text)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    sm_json_open(&d.j, NULL, '{');
    write_head(a, &d.j, true);
    sm_json_open(&d.j, "choices", '[');
    sm_json_close(&d.j);
    write_usage(a, &d.j);
    sm_json_close(&d.j);
    return as_event(&d, n_text);
}

char *sm_answer_whole(const struct sm_answer *a, const struct sm_answer_text *text,
                      const struct sm_answer_token *tokens, size_t n_tokens, const char *finish,
                      size_t *n_text)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    sm_json_open(&d.j, NULL, '{');
    write_head(a, &d.j, false);
    write_choice(a, &d.j, false, true, text, tokens, n_tokens, finish);
    write_usage(a, &d.j);
    write_timings(a, &d.j);
    sm_json_close(&d.j);
    if (sm_doc_end(&d)) {
        *n_text = d.n;
        return d.text;
    }
    free(d.text);
    return NULL;
}
