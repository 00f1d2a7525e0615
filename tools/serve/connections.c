/* SPDX-License-Identifier: MIT */
#include "connections.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>

/* We hold a reference to each bufferevent of evhttp. evhttp clears its callbacks when it frees one:
 * that is how the sweep learns that a connection has ended. Its socket closes with our reference.
 * While a reply is written evhttp keeps reading (to notice a close) but has no callback for it. */
struct connection {
    struct connection *next;
    struct sm_connections *all;
    struct bufferevent *b;
    uint64_t ns_reading; /* since when a request is awaited; 0: one is being answered */
    bool surplus;        /* to be ended */
};

struct sm_connections {
    struct event_base *base;
    struct connection *first;
    unsigned n;
    size_t input_bytes; /* arrived and not taken, of all */
};

struct sm_connections *sm_connections_new(struct event_base *base)
{
    struct sm_connections *c = calloc(1, sizeof *c);
    if (c) c->base = base;
    return c;
}

/* Requests that are still arriving count too: whoever makes the sum too big is ended. */
static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info, void *arg)
{
    struct connection *k = arg;
    k->all->input_bytes += info->n_added;
    k->all->input_bytes -= info->n_deleted;
    if (k->all->input_bytes <= SM_SERVE_ARRIVING_MAX || evbuffer_get_length(in) < 32768) return;
    k->surplus = true;
    (void)bufferevent_disable(k->b, EV_READ);
}

static void forget(struct sm_connections *c, struct connection **at)
{
    struct connection *gone = *at;
    *at = gone->next;
    struct evbuffer *in = bufferevent_get_input(gone->b);
    (void)evbuffer_remove_cb(in, on_input, gone);
    c->input_bytes -= evbuffer_get_length(in);
    (void)bufferevent_decref(gone->b);
    free(gone);
    c->n--;
}

void sm_connections_free(struct sm_connections *c)
{
    if (!c) return;
    while (c->first) forget(c, &c->first);
    free(c);
}

enum phase { ENDED, READING, ANSWERING };

static enum phase phase_of(const struct connection *k)
{
    bufferevent_data_cb read = NULL;
    bufferevent_event_cb event = NULL;
    bufferevent_getcb(k->b, &read, NULL, &event, NULL);
    if (!read && !event) return ENDED;
    return read && (bufferevent_get_enabled(k->b) & EV_READ) ? READING : ANSWERING;
}

struct bufferevent *sm_connections_open(struct event_base *base, void *connections)
{
    struct sm_connections *c = connections;
    struct connection *k = calloc(1, sizeof *k);
    struct bufferevent *b = bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    if (!k || !b) {
        free(k);
        return b;
    }
    bufferevent_incref(b);
    k->b = b;
    k->all = c;
    (void)evbuffer_add_cb(bufferevent_get_input(b), on_input, k);
    k->ns_reading = sm_serve_now_ns();
    k->surplus = c->n >= SM_SERVE_CONNECTIONS_MAX;
    k->next = c->first;
    c->first = k;
    c->n++;
    return b; /* a surplus one is ended by the next sweep, when evhttp has taken it */
}

void sm_connections_sweep(struct sm_connections *c)
{
    const uint64_t now = sm_serve_now_ns();
    const uint64_t most = (uint64_t)SM_SERVE_ARRIVE_SECONDS * 1000000000u;
    for (struct connection **at = &c->first; *at;) {
        struct connection *k = *at;
        const enum phase phase = phase_of(k);
        if (phase == ENDED) {
            forget(c, at);
            continue;
        }
        at = &k->next;
        if (phase == ANSWERING) k->ns_reading = 0;
        else if (!k->ns_reading) k->ns_reading = now;
        if (k->surplus || (k->ns_reading && now - k->ns_reading > most))
            bufferevent_trigger_event(k->b, BEV_EVENT_EOF | BEV_EVENT_READING,
                                      BEV_TRIG_DEFER_CALLBACKS);
    }
}

void sm_connections_answering(struct bufferevent *b)
{
    static const struct timeval most = {SM_SERVE_ARRIVE_SECONDS, 0};
    /* an answer may take as long as it takes, if only the client reads it */
    (void)bufferevent_set_timeouts(b, NULL, &most);
}

unsigned sm_connections_count(const struct sm_connections *c) { return c->n; }
