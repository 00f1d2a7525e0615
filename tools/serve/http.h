/* SPDX-License-Identifier: MIT */
/* Routes, who may ask, replies. All in the event thread. */
#ifndef SM_SERVE_HTTP_H
#define SM_SERVE_HTTP_H

#include "server.h"

struct evbuffer;

void sm_http_on_request(struct evhttp_request *req, void *server);
void sm_http_add_header(struct evhttp_request *req, const char *name, const char *value);
/* Body and length of a complete reply; counts it. HEAD gets the headers alone. */
void sm_http_reply(struct sm_server *s, struct evhttp_request *req, int status, const char *type,
                   const char *body, size_t n);
void sm_http_refuse(struct sm_server *s, struct evhttp_request *req, const struct sm_refusal *e);
/* evhttp answers what it cannot take (no HTTP, too long) with a page of its own, and has just added
 * its last n_added bytes to what a connection sends: it becomes an error object. */
void sm_http_restate(struct evbuffer *out, size_t n_added);
/* For a close callback: the connection ends before the request was answered. */
void sm_http_lost(struct evhttp_request *req);
void sm_http_count(struct sm_server *s, int status);

#endif
