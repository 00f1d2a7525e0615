/* SPDX-License-Identifier: MIT */
#include "errors.h"
#include "doc.h"

static const char *type_of(int status)
{
    switch (status) {
    case 401: return "authentication_error";
    case 403: return "permission_error";
    case 429: return "rate_limit_error";
    default: return status >= 500 ? "server_error" : "invalid_request_error";
    }
}

char *sm_error_text(const struct sm_refusal *e, size_t *n)
{
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return NULL;
    sm_json_open(&d.j, NULL, '{');
    sm_json_open(&d.j, "error", '{');
    sm_json_str(&d.j, "message", e->message);
    sm_json_str(&d.j, "type", type_of(e->status));
    sm_json_str(&d.j, "param", e->param[0] ? e->param : NULL);
    sm_json_str(&d.j, "code", e->code);
    sm_json_close(&d.j);
    sm_json_close(&d.j);
    (void)sm_doc_end(&d);
    *n = d.n;
    return d.text;
}

void sm_refuse_failure(struct sm_refusal *e, const smol_error *err)
{
    const char *text = err->msg[0] ? err->msg : smol_status_text(err->code);
    switch (err->code) {
    case SMOL_ARG:
    case SMOL_UNSUPPORTED: (void)sm_refuse(e, 400, "invalid_value", NULL, "%s", text); break;
    case SMOL_LIMIT: (void)sm_refuse(e, 400, "limit_exceeded", NULL, "%s", text); break;
    case SMOL_NOMEM: (void)sm_refuse(e, 503, "no_memory", NULL, "%s", text); break;
    default: (void)sm_refuse(e, 500, "internal_error", NULL, "%s", text);
    }
}

void sm_refuse_stopping(struct sm_refusal *e)
{
    (void)sm_refuse(e, 503, "shutting_down", NULL, "the server is shutting down");
}

const char *sm_http_reason(int status)
{
    switch (status) {
    case 200: return "OK";
    case 204: return "No Content";
    case 400: return "Bad Request";
    case 401: return "Unauthorized";
    case 403: return "Forbidden";
    case 404: return "Not Found";
    case 405: return "Method Not Allowed";
    case 413: return "Content Too Large";
    case 417: return "Expectation Failed";
    case 429: return "Too Many Requests";
    case 500: return "Internal Server Error";
    case 501: return "Not Implemented";
    case 503: return "Service Unavailable";
    default: return "Status";
    }
}
