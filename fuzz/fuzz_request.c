/* SPDX-License-Identifier: MIT */
/* Bodies of requests: refused with a reason and a status of 4xx, or accepted with everything in
 * range. The first byte chooses the kind. */
#include "serve/jansson_memory.h"
#include "serve/request.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { N_VOCAB = 6144 };

static void check_refusal(const struct sm_refusal *e)
{
    if ((e->status < 400 || e->status > 499) && e->status != 503) abort();
    if (!e->message[0] || strlen(e->param) >= sizeof e->param) abort();
}

static void check_sampling(const smol_sampling *s)
{
    if (!(s->temp >= 0) || !(s->top_p >= 0 && s->top_p <= 1) || !(s->min_p >= 0 && s->min_p <= 1))
        abort();
    if (s->top_k < 0 || s->seed < -1 || s->seed > (int64_t)UINT32_MAX || s->repeat_last < 0)
        abort();
    for (uint32_t i = 0; i < s->n_bias; i++)
        if (s->bias[i].id < 0 || s->bias[i].id >= N_VOCAB) abort();
}

static void check_request(const struct sm_request *r)
{
    size_t bytes = 0;
    for (size_t i = 0; i < r->n_messages; i++) {
        if (!r->messages[i].role || !r->messages[i].content) abort();
        if (strlen(r->messages[i].content) != r->messages[i].n_bytes) abort();
        bytes += r->messages[i].n_bytes;
    }
    if (r->kind == SM_REQUEST_CHAT && !r->n_messages) abort();
    if (r->thinking < -1 || r->thinking > 1) abort();
    if (r->kind == SM_REQUEST_COMPLETION && !r->text == !r->ids) abort();
    if (r->text && strlen(r->text) != r->n_text) abort();
    for (size_t i = 0; i < r->n_ids; i++)
        if (r->ids[i] < 0 || r->ids[i] >= N_VOCAB) abort();
    for (unsigned i = 0; i < r->n_stop; i++)
        if (!r->stop[i][0]) abort();
    if (r->n_logprobs < -1 || r->n_logprobs > (int)SM_REQUEST_TOP_MAX || r->max_tokens < -1)
        abort();
    if (r->kind == SM_REQUEST_CHAT || r->kind == SM_REQUEST_COMPLETION)
        check_sampling(&r->sampling);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const stop[] = {"END"};
    static bool limited;
    struct sm_request_defaults d = {.model = "m",
                                    .max_tokens = -1,
                                    .system = "Be brief.",
                                    .stop = stop,
                                    .n_stop = 1,
                                    .n_vocab = N_VOCAB};
    struct sm_request r;
    struct sm_refusal e;
    if (!limited) sm_jansson_limit((size_t)4 << 20);
    limited = true;
    if (!size) return 0;
    smol_sampling_default(&d.sampling);
    if (sm_request_parse(&r, (enum sm_request_kind)(data[0] & 3), (const char *)data + 1, size - 1,
                         &d, &e)) {
        check_request(&r);
        sm_request_free(&r);
    } else {
        check_refusal(&e);
    }
    return 0;
}
