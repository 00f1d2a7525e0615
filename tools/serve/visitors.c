/* SPDX-License-Identifier: MIT */
#include "visitors.h"
#include "http.h"

#include <event2/http.h>
#include <event2/keyvalq_struct.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *header(struct evhttp_request *req, const char *name)
{
    return evhttp_find_header(evhttp_request_get_input_headers(req), name);
}

bool sm_visitor_is_local(const char *host)
{
    return !strcasecmp(host, "localhost") || !strncmp(host, "127.", 4) || !strcmp(host, "::1") ||
           !strcmp(host, "[::1]");
}

/* ---- origins ----------------------------------------------------------------------------------
 */

static const char *after_scheme(const char *origin)
{
    if (!strncasecmp(origin, "http://", 7)) return origin + 7;
    if (!strncasecmp(origin, "https://", 8)) return origin + 8;
    return NULL;
}

static bool cors_allows(const struct sm_server *s, const char *origin)
{
    return s->config.cors && (!strcmp(s->config.cors, "*") || !strcasecmp(s->config.cors, origin));
}

static void add_cors(struct sm_server *s, struct evhttp_request *req, const char *origin)
{
    const char *wanted = header(req, "Access-Control-Request-Headers");
    const bool all = !strcmp(s->config.cors, "*");
    sm_http_add_header(req, "Access-Control-Allow-Origin", all ? "*" : origin);
    if (!all) sm_http_add_header(req, "Vary", "Origin");
    if (wanted && strlen(wanted) < 1000)
        sm_http_add_header(req, "Access-Control-Allow-Headers", wanted);
}

/* The name in a Host header without its port. */
static bool host_is(const char *given, const char *name)
{
    const size_t n = strlen(name);
    return !strncasecmp(given, name, n) && (given[n] == '\0' || given[n] == ':');
}

static bool host_known(const struct sm_server *s, const char *given)
{
    const char *origin = s->config.cors ? after_scheme(s->config.cors) : NULL;
    return host_is(given, "localhost") || host_is(given, "127.0.0.1") || host_is(given, "[::1]") ||
           host_is(given, s->config.host) || (origin && !strcasecmp(given, origin)) ||
           (s->config.cors && !strcmp(s->config.cors, "*"));
}

bool sm_visitor_origin(struct sm_server *s, struct evhttp_request *req, struct sm_refusal *e)
{
    const char *origin = header(req, "Origin"), *host = header(req, "Host");
    if (!s->keys.n && host && sm_visitor_is_local(s->config.host) && !host_known(s, host))
        return sm_refuse(e, 403, "host_not_allowed", NULL,
                         "this server is not known as '%.100s'; use --api-key-file behind a proxy",
                         host);
    if (!origin) return true;
    if (cors_allows(s, origin)) {
        add_cors(s, req, origin);
        return true;
    }
    const char *name = after_scheme(origin);
    if (name && host && !strcasecmp(name, host)) return true;
    return sm_refuse(e, 403, "origin_not_allowed", NULL,
                     "pages of '%.100s' may not use this server (see --cors)", origin);
}

/* ---- keys ----------------------------------------------------------------------------------- */

bool sm_visitor_key(struct sm_server *s, struct evhttp_request *req, bool open,
                    char client[SM_QUEUE_CLIENT_BYTES], struct sm_refusal *e)
{
    char *address = NULL;
    ev_uint16_t port = 0;
    evhttp_connection_get_peer(evhttp_request_get_connection(req), &address, &port);
    (void)snprintf(client, SM_QUEUE_CLIENT_BYTES, "%.40s", address ? address : "");
    if (!s->keys.n || open) return true;
    const char *given = header(req, "Authorization");
    if (!given)
        return sm_refuse(e, 401, "missing_api_key", NULL,
                         "this server needs a key: Authorization: Bearer KEY");
    const int key = strncasecmp(given, "Bearer ", 7) ? -1 : sm_keys_find(&s->keys, given + 7);
    if (key < 0) return sm_refuse(e, 401, "invalid_api_key", NULL, "the key is not valid");
    (void)snprintf(client, SM_QUEUE_CLIENT_BYTES, "key %d", key);
    return true;
}
