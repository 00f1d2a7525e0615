/* SPDX-License-Identifier: MIT */
/* Jobs in the event thread: from an arrived POST to its answer, or to the client that hung up. */
#include "connections.h"
#include "errors.h"
#include "http.h"
#include "server.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

void sm_job_free(struct sm_job *j)
{
    struct sm_server *s = j->server;
    (void)pthread_mutex_lock(&s->mu);
    s->bodies_bytes -= j->n_body;
    (void)pthread_mutex_unlock(&s->mu);
    s->n_jobs--;
    if (j->gone) event_free(j->gone);
    sm_request_free(&j->request);
    smol_free(j->ids);
    free(j->body);
    free(j->out);
    free(j);
}

/* The connection serves something else from now on, or nothing. */
static struct evhttp_connection *let_go(struct sm_job *j)
{
    struct evhttp_connection *c = evhttp_request_get_connection(j->req);
    evhttp_connection_set_closecb(c, NULL, NULL);
    if (j->gone) (void)event_del(j->gone);
    j->req = NULL;
    return c;
}

/* ---- clients that hang up ----------------------------------------------------------------------
 */

/* mu is held. True: nobody works on it, it may be freed. */
static bool abandon(struct sm_job *j)
{
    struct sm_server *s = j->server;
    s->figures.n_cancelled++;
    j->cancelled = true;
    if (j->place == SM_JOB_LINE) return sm_queue_remove(&s->line, &j->item);
    if (j->place == SM_JOB_RUNNING && s->running == j) s->cancel = true;
    if (j->place != SM_JOB_TEXT) return false;
    struct sm_job *before = NULL;
    for (struct sm_job *i = s->text_first; i; before = i, i = i->next) {
        if (i != j) continue;
        if (before) before->next = j->next;
        else s->text_first = j->next;
        if (s->text_last == j) s->text_last = before;
        s->n_text--;
        return true;
    }
    return false;
}

static void client_gone(struct sm_job *j)
{
    (void)pthread_mutex_lock(&j->server->mu);
    const bool free_now = abandon(j) && !j->ready;
    (void)pthread_mutex_unlock(&j->server->mu);
    if (free_now) sm_job_free(j);
}

static void on_close(struct evhttp_connection *c, void *arg)
{
    struct sm_job *j = arg;
    (void)c;
    if (j->gone) (void)event_del(j->gone);
    sm_http_lost(j->req);
    j->req = NULL;
    client_gone(j);
}

/* The other side has closed its end: it will not wait for the answer. */
static void on_hang_up(evutil_socket_t fd, short what, void *arg)
{
    struct sm_job *j = arg;
    (void)fd;
    (void)what;
    struct evhttp_connection *c = let_go(j);
    client_gone(j);
    evhttp_connection_free(c);
}

static void watch(struct sm_job *j)
{
    struct evhttp_connection *c = evhttp_request_get_connection(j->req);
    struct bufferevent *b = evhttp_connection_get_bufferevent(c);
    sm_connections_answering(b);
    evhttp_connection_set_closecb(c, on_close, j);
    j->gone = event_new(j->server->base, bufferevent_getfd(b), EV_CLOSED, on_hang_up, j);
    if (j->gone) (void)event_add(j->gone, NULL);
}

/* ---- arrival ------------------------------------------------------------------------------------
 */

static bool may_enter(struct sm_server *s, size_t n, struct sm_refusal *e)
{
    (void)pthread_mutex_lock(&s->mu);
    const bool loaded = s->loaded, full = s->bodies_bytes + n > SM_SERVE_BODIES_MAX ||
                                          s->n_text >= s->config.queue_max + 16;
    (void)pthread_mutex_unlock(&s->mu);
    if (s->draining) {
        sm_refuse_stopping(e);
        return false;
    }
    if (!loaded) return sm_refuse(e, 503, "loading", NULL, "the model is still being loaded");
    if (full)
        return sm_refuse(e, 429, "queue_full", NULL,
                         "too many requests are waiting; try again later");
    return true;
}

static struct sm_job *make_job(struct sm_server *s, struct evhttp_request *req, size_t n)
{
    struct sm_job *j = calloc(1, sizeof *j);
    if (!j) return NULL;
    j->server = s;
    j->body = malloc(n + 1);
    if (!j->body) {
        free(j);
        return NULL;
    }
    j->n_body = n;
    (void)evbuffer_remove(evhttp_request_get_input_buffer(req), j->body, n);
    j->req = req;
    j->ns_arrived = sm_serve_now_ns();
    return j;
}

void sm_jobs_begin(struct sm_server *s, struct evhttp_request *req, enum sm_request_kind kind,
                   const char *client)
{
    struct sm_refusal e = {0};
    const size_t n = evbuffer_get_length(evhttp_request_get_input_buffer(req));
    struct sm_job *j = may_enter(s, n, &e) ? make_job(s, req, n) : NULL;
    if (!j) {
        if (!e.status) (void)sm_refuse(&e, 503, "no_memory", NULL, "no memory for this request");
        sm_http_refuse(s, req, &e);
        return;
    }
    j->kind = kind;
    memcpy(j->client, client, strlen(client) + 1);
    s->n_jobs++;
    watch(j);
    (void)pthread_mutex_lock(&s->mu);
    s->figures.n_requests[kind]++;
    s->bodies_bytes += n;
    s->n_text++;
    if (s->text_last) s->text_last->next = j;
    else s->text_first = j;
    s->text_last = j;
    (void)pthread_cond_signal(&s->text_work);
    (void)pthread_mutex_unlock(&s->mu);
}

/* ---- answers ------------------------------------------------------------------------------------
 */

/* What a job has to say now, taken from it under mu. */
struct parcel {
    char *bytes;
    size_t n;
    int status;
    bool stream, finished, cancelled;
};

static void begin_reply(struct sm_job *j)
{
    if (j->replying) return;
    j->replying = true;
    sm_http_add_header(j->req, "Content-Type", "text/event-stream; charset=utf-8");
    sm_http_add_header(j->req, "Cache-Control", "no-cache");
    sm_http_add_header(j->req, "X-Accel-Buffering", "no"); /* nginx: pass on at once */
    sm_http_count(j->server, 200);
    evhttp_send_reply_start(j->req, 200, "OK");
}

static size_t backlog(struct evhttp_request *req)
{
    struct bufferevent *b = evhttp_connection_get_bufferevent(evhttp_request_get_connection(req));
    return evbuffer_get_length(bufferevent_get_output(b));
}

/* False: the client does not read and was dropped. */
static bool send_stream(struct sm_job *j, const struct parcel *p)
{
    struct evbuffer *b = evbuffer_new();
    begin_reply(j);
    if (b && p->n && !evbuffer_add(b, p->bytes, p->n)) evhttp_send_reply_chunk(j->req, b);
    if (b) evbuffer_free(b);
    if (j->req && backlog(j->req) > SM_SERVE_OUT_MAX) {
        evhttp_connection_free(let_go(j));
        return false;
    }
    return true;
}

static void end_reply(struct sm_job *j, const struct parcel *p)
{
    struct evhttp_request *req = j->req;
    (void)let_go(j);
    if (p->cancelled && !p->stream && !p->n) { /* given up by us: nothing to say */
        struct sm_refusal e = {0};
        (void)sm_refuse(&e, 503, "cancelled", NULL, "the request was given up");
        sm_http_refuse(j->server, req, &e);
    } else if (p->stream) {
        evhttp_send_reply_end(req);
    } else {
        sm_http_reply(j->server, req, p->status, "application/json", p->bytes, p->n);
    }
}

static void send_parcel(struct sm_job *j, const struct parcel *p)
{
    if (j->req && p->stream && !send_stream(j, p)) {
        (void)pthread_mutex_lock(&j->server->mu);
        (void)abandon(j);
        (void)pthread_mutex_unlock(&j->server->mu);
    }
    if (!p->finished) return;
    if (j->req) end_reply(j, p);
    sm_job_free(j);
}

void sm_jobs_send_ready(struct sm_server *s)
{
    for (;;) {
        struct parcel p = {0};
        (void)pthread_mutex_lock(&s->mu);
        struct sm_job *j = s->ready_first;
        if (j) {
            s->ready_first = j->next_ready;
            j->ready = false;
            p = (struct parcel){j->out,      j->stream || j->finished ? j->n_out : 0,
                                j->status,   j->stream,
                                j->finished, j->cancelled};
            j->out = NULL;
            j->n_out = j->cap_out = 0;
        }
        (void)pthread_mutex_unlock(&s->mu);
        if (!j) return;
        send_parcel(j, &p);
        free(p.bytes);
    }
}

/* The time for finishing is over: what waits is refused, what runs is stopped. */
void sm_jobs_cancel_all(struct sm_server *s)
{
    struct sm_refusal e = {0};
    sm_refuse_stopping(&e);
    for (;;) {
        (void)pthread_mutex_lock(&s->mu);
        s->stopping = true; /* what the text thread still holds does not get into the line */
        struct sm_queue_item *item = sm_queue_pop(&s->line);
        if (s->running) s->cancel = true;
        (void)pthread_mutex_unlock(&s->mu);
        if (!item) return;
        sm_job_refuse((struct sm_job *)(void *)item, &e);
    }
}
