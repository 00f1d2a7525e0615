/* SPDX-License-Identifier: MIT */
/* Open connections: how many there may be, and how long a request may take to arrive. evhttp only
 * knows a limit between two bytes, which a client that sends one byte a second never meets. */
#ifndef SM_SERVE_CONNECTIONS_H
#define SM_SERVE_CONNECTIONS_H

#include "server.h"

struct bufferevent;

struct sm_connections *sm_connections_new(struct event_base *base);
void sm_connections_free(struct sm_connections *c);
/* For evhttp_set_bevcb, arg is the connections. */
struct bufferevent *sm_connections_open(struct event_base *base, void *connections);
/* A request has arrived whole and is answered from now on: the client may be silent for
 * as long as that takes, if only it reads. */
void sm_connections_answering(struct bufferevent *b);
/* Once a second: end those that take too long, forget those that ended. */
void sm_connections_sweep(struct sm_connections *c);
unsigned sm_connections_count(const struct sm_connections *c);

#endif
