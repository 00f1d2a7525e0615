/* SPDX-License-Identifier: MIT */
#include "connections.h"
#include "http.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <stdlib.h>

/* We hold a reference to each bufferevent of evhttp. evhttp clears its callbacks when it frees one:
 * that is how we learn that a connection has ended; nobody tells us. Its socket closes with our
 * reference, and until then it goes on reading. While a reply is written evhttp keeps reading too
 * (to notice a close) but has no callback for it. */
struct connection {
    struct connection *next;
    struct sm_connections *all;
    struct bufferevent *b;
    uint64_t ns_reading; /* since when a request is awaited; 0: one is being answered */
    bool surplus;        /* to be ended; what it holds counts no more */
};

struct sm_connections {
    struct event_base *base;
    struct event *soon; /* sweeps when this round of events is over */
    struct connection *first;
    unsigned n;
    size_t input_bytes;  /* arrived and not taken, of all */
    size_t output_bytes; /* to be sent, of all */
};

enum phase { ENDED, READING, ANSWERING };

static enum phase phase_of(const struct connection *k)
{
    bufferevent_data_cb read = NULL;
    bufferevent_event_cb event = NULL;
    bufferevent_getcb(k->b, &read, NULL, &event, NULL);
    if (!read && !event) return ENDED;
    return read && (bufferevent_get_enabled(k->b) & EV_READ) ? READING : ANSWERING;
}

static size_t input_of(const struct connection *k)
{
    return evbuffer_get_length(bufferevent_get_input(k->b));
}

static size_t output_of(const struct connection *k)
{
    return evbuffer_get_length(bufferevent_get_output(k->b));
}

static void on_soon(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    sm_connections_sweep(arg);
}

struct sm_connections *sm_connections_new(struct event_base *base)
{
    struct sm_connections *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->base = base;
    c->soon = event_new(base, -1, 0, on_soon, c);
    if (!c->soon) {
        free(c);
        return NULL;
    }
    return c;
}

static void sweep_in(struct sm_connections *c, unsigned ms)
{
    const struct timeval delay = {0, (suseconds_t)ms * 1000};
    (void)event_add(c->soon, &delay);
}

static void give_up(struct connection *k)
{
    k->surplus = true;
    k->all->input_bytes -= input_of(k);
    k->all->output_bytes -= output_of(k);
    (void)bufferevent_disable(k->b, EV_READ);
    sweep_in(k->all, 0);
}

/* Of those that are not being ended the one that holds most, k itself when none holds more. */
static void end_largest(struct connection *k, size_t (*held)(const struct connection *k))
{
    struct connection *most = k;
    for (struct connection *i = k->all->first; i; i = i->next)
        if (!i->surplus && held(i) > held(most)) most = i;
    give_up(most);
}

static void forget_ended(struct sm_connections *c);

/* Requests that are still arriving count too. When the sum is too big the one that holds most of it
 * is ended: whoever sends a small one then does not pay for others. */
static void on_input(struct evbuffer *in, const struct evbuffer_cb_info *info, void *arg)
{
    struct connection *k = arg;
    struct sm_connections *c = k->all;
    if (k->surplus) return;
    c->input_bytes += info->n_added;
    c->input_bytes -= info->n_deleted;
    if (!info->n_added) return;
    if (phase_of(k) == ENDED) {
        /* thrown away until the next sweep: closed now, the client might lose what it was told */
        (void)evbuffer_drain(in, evbuffer_get_length(in));
        return;
    }
    if (c->input_bytes > SM_SERVE_ARRIVING_MAX) forget_ended(c);
    if (c->input_bytes > SM_SERVE_ARRIVING_MAX) end_largest(k, input_of);
}

/* Answers that nobody reads: likewise. */
static void on_output(struct evbuffer *out, const struct evbuffer_cb_info *info, void *arg)
{
    struct connection *k = arg;
    struct sm_connections *c = k->all;
    if (info->n_added) k->ns_reading = 0; /* quick answers come and go between two sweeps */
    if (k->surplus) return;
    c->output_bytes += info->n_added;
    c->output_bytes -= info->n_deleted;
    if (info->n_added && c->output_bytes > SM_SERVE_LEAVING_MAX) end_largest(k, output_of);
    else if (info->n_added) sm_http_restate(out, info->n_added);
}

static void forget(struct sm_connections *c, struct connection **at)
{
    struct connection *gone = *at;
    *at = gone->next;
    (void)evbuffer_remove_cb(bufferevent_get_input(gone->b), on_input, gone);
    (void)evbuffer_remove_cb(bufferevent_get_output(gone->b), on_output, gone);
    if (!gone->surplus) {
        c->input_bytes -= input_of(gone);
        c->output_bytes -= output_of(gone);
    }
    (void)bufferevent_decref(gone->b);
    free(gone);
    c->n--;
}

static void forget_ended(struct sm_connections *c)
{
    for (struct connection **at = &c->first; *at;) {
        if (phase_of(*at) == ENDED) forget(c, at);
        else at = &(*at)->next;
    }
}

void sm_connections_free(struct sm_connections *c)
{
    if (!c) return;
    while (c->first) forget(c, &c->first);
    event_free(c->soon);
    free(c);
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
    (void)evbuffer_add_cb(bufferevent_get_output(b), on_output, k);
    k->ns_reading = sm_serve_now_ns();
    if (c->n >= SM_SERVE_CONNECTIONS_MAX) forget_ended(c);
    if (c->n >= SM_SERVE_CONNECTIONS_MAX) give_up(k);
    k->next = c->first;
    c->first = k;
    c->n++;
    return b; /* a surplus one is ended by the sweep, when evhttp has taken it */
}

void sm_connections_sweep(struct sm_connections *c)
{
    const uint64_t now = sm_serve_now_ns();
    const uint64_t most = (uint64_t)SM_SERVE_ARRIVE_SECONDS * 1000000000u;
    forget_ended(c);
    for (struct connection *k = c->first; k; k = k->next) {
        const enum phase phase = phase_of(k);
        if (phase == ANSWERING) k->ns_reading = 0;
        else if (!k->ns_reading) k->ns_reading = now;
        if (!k->surplus && (!k->ns_reading || now - k->ns_reading <= most)) continue;
        bufferevent_trigger_event(k->b, BEV_EVENT_EOF | BEV_EVENT_READING,
                                  BEV_TRIG_DEFER_CALLBACKS);
        sweep_in(c, 10); /* to forget it */
    }
}

void sm_connections_answering(struct bufferevent *b)
{
    static const struct timeval most = {SM_SERVE_ARRIVE_SECONDS, 0};
    /* an answer may take as long as it takes, if only the client reads it */
    (void)bufferevent_set_timeouts(b, NULL, &most);
}

unsigned sm_connections_count(const struct sm_connections *c) { return c->n; }
