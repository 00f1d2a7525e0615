/* SPDX-License-Identifier: MIT */
/* Who asks, and whether they may: origins of web pages, host names, keys. */
#ifndef SM_SERVE_VISITORS_H
#define SM_SERVE_VISITORS_H

#include "server.h"

/* Web pages of other origins are refused unless --cors allows them (then the headers for it are
 * added), also for requests that a browser sends without asking; and so are host names that this
 * server does not go by, which is how a page makes a browser take it for its own (DNS rebinding).
 */
bool sm_visitor_origin(struct sm_server *s, struct evhttp_request *req, struct sm_refusal *e);
/* A valid key, or none is needed. `client` becomes the name under which requests wait in line. */
bool sm_visitor_key(struct sm_server *s, struct evhttp_request *req, bool open,
                    char client[SM_QUEUE_CLIENT_BYTES], struct sm_refusal *e);
/* True for addresses and names that only this machine reaches. */
bool sm_visitor_is_local(const char *host);

#endif
