/* SPDX-License-Identifier: MIT */
/* Routes, who may ask, replies. All in the event thread. */
#ifndef SM_SERVE_HTTP_H
#define SM_SERVE_HTTP_H

#include "server.h"

void sm_http_on_request(struct evhttp_request *req, void *server);
void sm_http_add_header(struct evhttp_request *req, const char *name, const char *value);
/* Body and length of a complete reply; counts it. HEAD gets the headers alone. */
void sm_http_reply(struct sm_server *s, struct evhttp_request *req, int status, const char *type,
                   const char *body, size_t n);
void sm_http_refuse(struct sm_server *s, struct evhttp_request *req, const struct sm_refusal *e);
/* For a close callback: the connection ends before the request was answered. */
void sm_http_lost(struct evhttp_request *req);
void sm_http_count(struct sm_server *s, int status);

#endif
