/* SPDX-License-Identifier: MIT */
/* Bodies of requests: JSON to what is to be done. Nothing is ignored: a field that is not known, or
 * whose value is not supported, is refused with its name. Depends on jansson and smol.h alone. */
#ifndef SM_SERVE_REQUEST_H
#define SM_SERVE_REQUEST_H

#include <jansson.h>
#include <smol/smol.h>

#define SM_REQUEST_STOP_MAX 16u
#define SM_REQUEST_STOP_BYTES_MAX 1024u
#define SM_REQUEST_BIAS_MAX 1024u
#define SM_REQUEST_MESSAGES_MAX 4096u
#define SM_REQUEST_TOP_MAX 20u /* top_logprobs of a chat */

enum sm_request_kind {
    SM_REQUEST_CHAT,       /* /v1/chat/completions */
    SM_REQUEST_COMPLETION, /* /v1/completions */
    SM_REQUEST_TOKENIZE,
    SM_REQUEST_DETOKENIZE
};

/* Why a request is refused; becomes an OpenAI error object. */
struct sm_refusal {
    int status;       /* HTTP, 0: not refused */
    const char *code; /* static, NULL: none */
    char message[320];
    char param[96]; /* "messages[0].role", "": none */
};
__attribute__((format(printf, 5, 6))) bool sm_refuse(struct sm_refusal *e, int status,
                                                     const char *code, const char *param,
                                                     const char *fmt, ...); /* always false */

/* What holds where a request says nothing. */
struct sm_request_defaults {
    const char *model; /* the name served */
    smol_sampling sampling;
    int64_t max_tokens;
    const char *system;      /* put in front of a chat without a system message; NULL: nothing */
    const char *const *stop; /* always in force beside those of the request */
    unsigned n_stop;
    int32_t n_vocab;
};

struct sm_request {
    enum sm_request_kind kind;
    json_t *root; /* owns the texts below */
    smol_sampling sampling;
    smol_logit_bias *bias;
    int64_t max_tokens; /* -1: until the end or the context is full */
    const char *stop[2 * SM_REQUEST_STOP_MAX];
    unsigned n_stop;
    int n_logprobs; /* alternatives of each token, 0 ... 20; -1: no logprobs */
    bool stream, include_usage;
    const char *user; /* NULL: not given */

    smol_message *messages; /* chat */
    char **joined;          /* [n_messages] contents made of several parts, else NULL */
    size_t n_messages;
    int thinking; /* chat: -1 as the template does by itself, 0 off, 1 on */
    const char *text; /* completion prompt, tokenize content */
    size_t n_text;
    int32_t *ids; /* prompt or tokens as numbers; NULL: as text */
    size_t n_ids;
    bool add_special, parse_special, with_pieces; /* tokenize */
};

/* False: refused, `e` says why; *r is empty then. Free what was accepted with sm_request_free. */
bool sm_request_parse(struct sm_request *r, enum sm_request_kind kind, const char *body, size_t n,
                      const struct sm_request_defaults *d, struct sm_refusal *e);
void sm_request_free(struct sm_request *r);

#endif
