/* SPDX-License-Identifier: MIT */
#include "http.h"
#include "errors.h"
#include "flash_view.h"
#include "info.h"
#include "page.h"
#include "visitors.h"

#include <event2/buffer.h>
#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- replies ----------------------------------------------------------------------------------
 */

void sm_http_add_header(struct evhttp_request *req, const char *name, const char *value)
{
    (void)evhttp_add_header(evhttp_request_get_output_headers(req), name, value);
}

void sm_http_count(struct sm_server *s, int status)
{
    (void)pthread_mutex_lock(&s->mu);
    if (status >= 100 && status < 600) s->figures.n_status[status / 100]++;
    (void)pthread_mutex_unlock(&s->mu);
}

/* After an error evhttp takes the request out of the connection and leaves it to whoever was to
 * answer; else it is still in there and goes with it. */
void sm_http_lost(struct evhttp_request *req)
{
    if (!evhttp_request_get_connection(req)) evhttp_request_free(req);
}

void sm_http_reply(struct sm_server *s, struct evhttp_request *req, int status, const char *type,
                   const char *body, size_t n)
{
    struct evbuffer *b = evbuffer_new();
    char length[24];
    if (type) sm_http_add_header(req, "Content-Type", type);
    sm_http_add_header(req, "X-Content-Type-Options", "nosniff");
    if (status == 429 || status == 503) sm_http_add_header(req, "Retry-After", "2");
    if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD) {
        (void)snprintf(length, sizeof length, "%zu", n);
        sm_http_add_header(req, "Content-Length", length);
    } else if (b && n) {
        (void)evbuffer_add(b, body, n);
    }
    sm_http_count(s, status);
    evhttp_send_reply(req, status, sm_http_reason(status), b);
    if (b) evbuffer_free(b);
}

void sm_http_refuse(struct sm_server *s, struct evhttp_request *req, const struct sm_refusal *e)
{
    size_t n = 0;
    char *text = sm_error_text(e, &n);
    sm_http_reply(s, req, e->status, "application/json", text, n);
    free(text);
}

static void refuse_unread(struct sm_refusal *e, int status)
{
    switch (status) {
    case 413:
        (void)sm_refuse(e, status, "body_too_large", NULL,
                        "the body has more than %zu bytes, or its chunks are malformed",
                        SM_SERVE_BODY_MAX);
        break;
    case 417:
        (void)sm_refuse(e, status, "expectation_failed", NULL,
                        "of Expect only 100-continue is known");
        break;
    case 501:
        (void)sm_refuse(e, status, "method_unknown", NULL, "there is no such method");
        break;
    default:
        (void)sm_refuse(e, status, "bad_request", NULL,
                        "this is no HTTP request, or its head is malformed or too long");
    }
}

/* Nothing tells us of these errors: we know the page by how it begins. */
void sm_http_restate(struct evbuffer *out, size_t n_added)
{
    static const char page[] = "<HTML><HEAD>\n";
    char text[1024], *head = NULL, *next = text;
    const size_t n = evbuffer_get_length(out);
    struct sm_refusal e = {0};
    if (n_added < sizeof page || n < n_added || n >= sizeof text) return;
    if (evbuffer_copyout(out, text, n) != (ev_ssize_t)n) return;
    text[n] = 0;
    if (memcmp(text + n - n_added, page, sizeof page - 1) != 0) return;
    while ((next = strstr(next, "HTTP/1.")) != NULL) head = next++; /* behind "100 Continue" */
    if (!head || strlen(head) < 12) return;
    refuse_unread(&e, (int)strtol(head + 8, NULL, 10));
    size_t n_json = 0;
    char *json = sm_error_text(&e, &n_json);
    if (!json) return;
    (void)evbuffer_unfreeze(out, 1);
    (void)evbuffer_drain(out, n);
    (void)evbuffer_add(out, text, (size_t)(head - text));
    (void)evbuffer_add_printf(out, "%.9s%d %s\r\nContent-Type: application/json\r\n"
                              "X-Content-Type-Options: nosniff\r\nConnection: close\r\n"
                              "Content-Length: %zu\r\n\r\n", head, e.status,
                              sm_http_reason(e.status), n_json);
    (void)evbuffer_add(out, json, n_json);
    (void)evbuffer_freeze(out, 1);
    free(json);
}

/* ---- routes -------------------------------------------------------------------------------------
 */

static void get_page(struct sm_server *s, struct evhttp_request *req)
{
    /* nothing of the page comes from elsewhere, and nothing that a model writes can run */
    sm_http_add_header(req, "Content-Security-Policy", sm_web_page_policy);
    sm_http_add_header(req, "Referrer-Policy", "no-referrer");
    sm_http_add_header(req, "Cache-Control", "no-cache");
    sm_http_reply(s, req, 200, "text/html; charset=utf-8", (const char *)sm_web_page,
                  sm_web_page_bytes);
}

static void get_health(struct sm_server *s, struct evhttp_request *req)
{
    (void)pthread_mutex_lock(&s->mu);
    const bool loaded = s->loaded;
    (void)pthread_mutex_unlock(&s->mu);
    const char *text = s->draining ? "{\"status\":\"stopping\"}\n"
                       : loaded    ? "{\"status\":\"ok\"}\n"
                                   : "{\"status\":\"loading\"}\n";
    sm_http_reply(s, req, loaded && !s->draining ? 200 : 503, "application/json", text,
                  strlen(text));
}

static void get_text(struct sm_server *s, struct evhttp_request *req, const char *type,
                     char *(*make)(struct sm_server *s, size_t *n))
{
    size_t n = 0;
    char *text = make(s, &n);
    sm_http_reply(s, req, text ? 200 : 503, type, text, n);
    free(text);
}

static void get_models(struct sm_server *s, struct evhttp_request *req)
{
    get_text(s, req, "application/json", sm_info_models);
}

static void get_model(struct sm_server *s, struct evhttp_request *req)
{
    get_text(s, req, "application/json", sm_info_model);
}

static void get_metrics(struct sm_server *s, struct evhttp_request *req)
{
    get_text(s, req, "text/plain; version=0.0.4; charset=utf-8", sm_info_metrics);
}

struct route {
    const char *path;
    void (*get)(struct sm_server *s, struct evhttp_request *req); /* NULL: a POST */
    enum sm_request_kind kind;
    bool open; /* without a key */
};

static const struct route routes[] = {
    {"/", get_page, 0, true},
    {"/health", get_health, 0, true},
    {"/v1/models", get_models, 0, false},
    {"/metrics", get_metrics, 0, false},
    {"/events", sm_view_subscribe, 0, false},
    {"/v1/chat/completions", NULL, SM_REQUEST_CHAT, false},
    {"/v1/completions", NULL, SM_REQUEST_COMPLETION, false},
    {"/tokenize", NULL, SM_REQUEST_TOKENIZE, false},
    {"/detokenize", NULL, SM_REQUEST_DETOKENIZE, false},
};

static const struct route *find_route(const struct sm_server *s, const char *path)
{
    static const struct route model = {"/v1/models/", get_model, 0, false};
    const size_t n = strlen(model.path);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (!strcmp(path, routes[i].path)) return &routes[i];
    if (!strncmp(path, model.path, n)) {
        char *name = evhttp_uridecode(path + n, 0, NULL);
        const bool ours = name && !strcmp(name, s->config.model_name);
        free(name);
        if (ours) return &model;
    }
    return NULL;
}

static void serve(struct sm_server *s, struct evhttp_request *req, const struct route *r,
                  const char *client)
{
    const enum evhttp_cmd_type method = evhttp_request_get_command(req);
    const bool get = method == EVHTTP_REQ_GET || method == EVHTTP_REQ_HEAD;
    if (r->get ? get : method == EVHTTP_REQ_POST) {
        if (r->get) r->get(s, req);
        else sm_jobs_begin(s, req, r->kind, client);
        return;
    }
    struct sm_refusal e = {0};
    sm_http_add_header(req, "Allow", r->get ? "GET, HEAD" : "POST");
    (void)sm_refuse(&e, 405, "method_not_allowed", NULL, "use %s for %s", r->get ? "GET" : "POST",
                    r->path);
    sm_http_refuse(s, req, &e);
}

/* Two of them that differ: whoever stands in front may have understood the other one. */
static bool is_ambiguous(struct evhttp_request *req)
{
    static const char *const names[] = {"Content-Length", "Host"};
    const struct evkeyvalq *headers = evhttp_request_get_input_headers(req);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *first = evhttp_find_header(headers, names[i]);
        for (const struct evkeyval *h = headers->tqh_first; first && h; h = h->next.tqe_next)
            if (!strcasecmp(h->key, names[i]) && strcmp(h->value, first) != 0) return true;
    }
    return false;
}

void sm_http_on_request(struct evhttp_request *req, void *server)
{
    struct sm_server *s = server;
    struct sm_refusal e = {0};
    char client[SM_QUEUE_CLIENT_BYTES];
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    const char *path = uri ? evhttp_uri_get_path(uri) : NULL;
    if (!path || !*path) path = "/";
    const struct route *r = find_route(s, path);
    if (is_ambiguous(req)) {
        sm_http_add_header(req, "Connection", "close");
        (void)sm_refuse(&e, 400, "ambiguous_request", NULL,
                        "two headers Content-Length or Host that differ");
        sm_http_refuse(s, req, &e);
    } else if (!sm_visitor_origin(s, req, &e)) {
        sm_http_refuse(s, req, &e);
    } else if (evhttp_request_get_command(req) == EVHTTP_REQ_OPTIONS && s->config.cors) {
        sm_http_add_header(req, "Access-Control-Allow-Methods", "GET, POST, OPTIONS");
        sm_http_add_header(req, "Access-Control-Max-Age", "600");
        sm_http_reply(s, req, 204, NULL, NULL, 0);
    } else if (!sm_visitor_key(s, req, r && r->open, client, &e)) {
        sm_http_add_header(req, "WWW-Authenticate", "Bearer");
        sm_http_refuse(s, req, &e);
    } else if (!r) {
        (void)sm_refuse(&e, 404, "not_found", NULL, "there is nothing at %.200s", path);
        sm_http_refuse(s, req, &e);
    } else {
        serve(s, req, r, client);
    }
}
