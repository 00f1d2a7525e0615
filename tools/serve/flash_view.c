/* SPDX-License-Identifier: MIT */
#include "flash_view.h"
#include "connections.h"
#include "doc.h"
#include "errors.h"
#include "http.h"
#include "info.h"

#include <event2/buffer.h>
#include <event2/bufferevent.h>
#include <event2/event.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FRAMES_PER_SECOND 12u
#define WATCHERS_MAX 8u
#define WATCHER_BACKLOG_MAX ((size_t)64 << 10) /* a slow watcher misses frames */

struct watcher {
    struct evhttp_request *req; /* NULL: free */
    struct event *gone;
    uint64_t sent; /* number of the last frame */
    struct sm_flash_view *view;
};

struct sm_flash_view {
    struct sm_server *server;
    /* decode thread */
    smol_slot *now, *before; /* all pools one after the other */
    char *states;
    unsigned n_pools;
    size_t slots_per_pool;
    uint64_t ns_last;
    /* server->mu */
    unsigned n_watchers;
    char *frame;
    size_t n_frame;
    uint64_t number;
    /* event thread */
    struct watcher watcher[WATCHERS_MAX];
};

struct sm_flash_view *sm_view_new(struct sm_server *s)
{
    struct sm_flash_view *v = calloc(1, sizeof *v);
    if (v) v->server = s;
    return v;
}

void sm_view_free(struct sm_flash_view *v)
{
    if (!v) return;
    free(v->now);
    free(v->before);
    free(v->states);
    free(v->frame);
    free(v);
}

/* ---- frames (decode thread) ----------------------------------------------------------------- */

bool sm_view_open(struct sm_flash_view *v)
{
    const smol_plan *p = smol_model_plan(v->server->model);
    smol_slot none;
    v->n_pools = p->n_pool;
    for (unsigned i = 0; i < v->n_pools; i++) {
        const size_t n = smol_model_slots(v->server->model, i, &none, 0);
        if (n > v->slots_per_pool) v->slots_per_pool = n;
    }
    const size_t all = v->n_pools * v->slots_per_pool + 1;
    v->now = calloc(all, sizeof *v->now);
    v->before = calloc(all, sizeof *v->before);
    v->states = malloc(v->slots_per_pool + 1);
    return v->now && v->before && v->states;
}

static char state_of(const smol_slot *now, const smol_slot *before)
{
    const bool loaded = now->loads != before->loads, used = now->uses != before->uses;
    if (now->state == SMOL_SLOT_LOADING) return '~';
    if (now->state == SMOL_SLOT_EMPTY) return ' ';
    if (loaded && now->ahead) return used ? 'P' : 'p';
    if (loaded) return 'm';
    return used ? 'h' : '.';
}

static void write_pools(struct sm_flash_view *v, struct sm_json *j)
{
    sm_json_open(j, "pools", '[');
    for (unsigned i = 0; i < v->n_pools; i++) {
        smol_slot *now = v->now + i * v->slots_per_pool,
                  *before = v->before + i * v->slots_per_pool;
        const size_t n = smol_model_slots(v->server->model, i, now, v->slots_per_pool);
        for (size_t k = 0; k < n; k++) v->states[k] = state_of(&now[k], &before[k]);
        sm_json_bytes(j, NULL, v->states, n);
        memcpy(before, now, n * sizeof *now);
    }
    sm_json_close(j);
}

static void write_totals(struct sm_json *j, const smol_stats *t)
{
    sm_json_uint(j, "prompt_tokens", t->tokens_prompt);
    sm_json_uint(j, "tokens", t->tokens_generated);
    sm_json_num(j, "decode_s", t->seconds_decode);
    sm_json_uint(j, "bytes", t->bytes_read);
    sm_json_uint(j, "uses", t->expert_uses);
    sm_json_uint(j, "misses", t->expert_misses);
    sm_json_num(j, "wait_s", t->demand_wait_seconds);
}

/* Processor time of this thread: what a look costs, however busy the machine is. */
static uint64_t thread_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sm_view_look(struct sm_flash_view *v, const char *phase, uint64_t done, uint64_t total)
{
    struct sm_server *s = v->server;
    struct sm_doc d;
    smol_stats t;
    const uint64_t now = sm_serve_now_ns();
    if (strcmp(phase, "idle") != 0 && now - v->ns_last < 1000000000u / FRAMES_PER_SECOND) return;
    (void)pthread_mutex_lock(&s->mu);
    const unsigned n_watchers = v->n_watchers, waiting = s->line.n + s->n_text;
    (void)pthread_mutex_unlock(&s->mu);
    v->ns_last = now;
    if (!n_watchers) return;
    const uint64_t began = thread_ns();
    smol_model_stats(s->model, &t);
    if (!sm_doc_begin(&d)) return;
    sm_json_open(&d.j, NULL, '{');
    sm_json_uint(&d.j, "t_ms", (now - s->ns_start) / 1000000u);
    sm_json_str(&d.j, "phase", phase);
    if (total) {
        sm_json_uint(&d.j, "done", done);
        sm_json_uint(&d.j, "total", total);
    }
    sm_json_uint(&d.j, "waiting", waiting);
    sm_json_uint(&d.j, "rss", sm_info_rss_bytes());
    write_totals(&d.j, &t);
    write_pools(v, &d.j);
    sm_json_close(&d.j);
    if (!sm_doc_end(&d)) {
        free(d.text);
        return;
    }
    (void)pthread_mutex_lock(&s->mu);
    free(v->frame);
    v->frame = d.text;
    v->n_frame = d.n;
    v->number++;
    s->figures.view_seconds += (double)(thread_ns() - began) * 1e-9;
    (void)pthread_mutex_unlock(&s->mu);
    const uint64_t one = 1;
    if (write(s->bell, &one, sizeof one) < 0) return; /* it rings already */
}

/* ---- watchers (event thread) ---------------------------------------------------------------- */

/* evhttp has freed the request already when it says that a connection closes: only its address is
 * used here. */
static void leave(struct watcher *w)
{
    struct sm_server *s = w->view->server;
    if (w->gone) event_free(w->gone);
    w->gone = NULL;
    w->req = NULL;
    (void)pthread_mutex_lock(&s->mu);
    w->view->n_watchers--;
    (void)pthread_mutex_unlock(&s->mu);
}

static void on_close(struct evhttp_connection *c, void *arg)
{
    struct watcher *w = arg;
    (void)c;
    sm_http_lost(w->req);
    leave(w);
}

static void on_hang_up(evutil_socket_t fd, short what, void *arg)
{
    struct watcher *w = arg;
    (void)fd;
    (void)what;
    struct evhttp_connection *c = evhttp_request_get_connection(w->req);
    evhttp_connection_set_closecb(c, NULL, NULL);
    leave(w);
    evhttp_connection_free(c);
}

static void send_text(struct watcher *w, const char *name, const char *text, size_t n)
{
    struct evbuffer *b = evbuffer_new();
    if (!b) return;
    (void)evbuffer_add_printf(b, "event: %s\ndata: ", name);
    (void)evbuffer_add(b, text, n); /* ends with a newline */
    (void)evbuffer_add(b, "\n", 1);
    evhttp_send_reply_chunk(w->req, b);
    evbuffer_free(b);
}

static void send_plan(struct watcher *w)
{
    struct sm_server *s = w->view->server;
    const smol_plan *p = smol_model_plan(s->model);
    struct sm_doc d;
    if (!sm_doc_begin(&d)) return;
    sm_json_open(&d.j, NULL, '{');
    sm_json_str(&d.j, "model", s->config.model_name);
    sm_json_str(&d.j, "arch", p->arch);
    sm_json_uint(&d.j, "ctx", p->ctx);
    sm_json_uint(&d.j, "threads", p->threads);
    sm_json_uint(&d.j, "layers", p->n_layer);
    sm_json_uint(&d.j, "pools", p->n_pool);
    sm_json_uint(&d.j, "experts", p->n_expert);
    sm_json_uint(&d.j, "used", p->n_used);
    sm_json_uint(&d.j, "slots", p->n_pool ? w->view->slots_per_pool : 0);
    sm_json_bool(&d.j, "resident", p->experts_resident);
    sm_json_uint(&d.j, "expert_bytes", p->expert_bytes);
    sm_json_uint(&d.j, "budget", p->budget_bytes);
    sm_json_uint(&d.j, "planned", p->total_bytes);
    sm_json_num(&d.j, "predicted_tok_s", p->predicted_tok_s);
    sm_json_num(&d.j, "flash_mb_s", s->config.flash_mb_s);
    sm_json_open(&d.j, "items", '[');
    for (unsigned i = 0; i < p->n_items; i++) {
        sm_json_open(&d.j, NULL, '{');
        sm_json_str(&d.j, "what", p->items[i].what);
        sm_json_uint(&d.j, "bytes", p->items[i].bytes);
        sm_json_close(&d.j);
    }
    sm_json_close(&d.j);
    sm_json_close(&d.j);
    if (sm_doc_end(&d)) send_text(w, "plan", d.text, d.n);
    free(d.text);
}

static size_t backlog(const struct watcher *w)
{
    struct evhttp_connection *c = evhttp_request_get_connection(w->req);
    return evbuffer_get_length(bufferevent_get_output(evhttp_connection_get_bufferevent(c)));
}

void sm_view_subscribe(struct sm_server *s, struct evhttp_request *req)
{
    struct sm_flash_view *v = s->view;
    struct sm_refusal e = {0};
    struct watcher *w = NULL;
    for (unsigned i = 0; i < WATCHERS_MAX && !w; i++)
        if (!v->watcher[i].req) w = &v->watcher[i];
    (void)pthread_mutex_lock(&s->mu);
    const bool loaded = s->loaded;
    (void)pthread_mutex_unlock(&s->mu);
    if (!loaded || s->draining)
        (void)sm_refuse(&e, 503, "not_ready", NULL, "the model is not ready");
    else if (!w)
        (void)sm_refuse(&e, 429, "too_many_watchers", NULL, "%u are watching already",
                        WATCHERS_MAX);
    if (e.status) {
        sm_http_refuse(s, req, &e);
        return;
    }
    struct evhttp_connection *c = evhttp_request_get_connection(req);
    *w = (struct watcher){.req = req, .view = v};
    sm_connections_answering(evhttp_connection_get_bufferevent(c));
    evhttp_connection_set_closecb(c, on_close, w);
    w->gone = event_new(s->base, bufferevent_getfd(evhttp_connection_get_bufferevent(c)), EV_CLOSED,
                        on_hang_up, w);
    if (w->gone) (void)event_add(w->gone, NULL);
    (void)pthread_mutex_lock(&s->mu);
    v->n_watchers++;
    (void)pthread_mutex_unlock(&s->mu);
    sm_http_add_header(req, "Content-Type", "text/event-stream; charset=utf-8");
    sm_http_add_header(req, "Cache-Control", "no-cache");
    sm_http_add_header(req, "X-Accel-Buffering", "no");
    sm_http_count(s, 200);
    evhttp_send_reply_start(req, 200, "OK");
    send_plan(w);
    if (w->req) sm_view_send(v); /* the last picture there is */
}

void sm_view_send(struct sm_flash_view *v)
{
    struct sm_server *s = v->server;
    char *text = NULL;
    size_t n = 0;
    (void)pthread_mutex_lock(&s->mu);
    const uint64_t number = v->number;
    bool due = false;
    for (unsigned i = 0; i < WATCHERS_MAX; i++)
        due |= v->watcher[i].req && v->watcher[i].sent != number;
    if (due && v->frame && (text = malloc(v->n_frame)) != NULL) {
        n = v->n_frame;
        memcpy(text, v->frame, n);
    }
    (void)pthread_mutex_unlock(&s->mu);
    for (unsigned i = 0; text && i < WATCHERS_MAX; i++) {
        struct watcher *w = &v->watcher[i];
        if (!w->req || w->sent == number || backlog(w) > WATCHER_BACKLOG_MAX) continue;
        w->sent = number;
        send_text(w, "frame", text, n);
    }
    free(text);
}

void sm_view_tick(struct sm_flash_view *v)
{
    struct sm_server *s = v->server;
    char text[128];
    (void)pthread_mutex_lock(&s->mu);
    const unsigned waiting = s->line.n + s->n_text;
    const bool running = s->running != NULL;
    (void)pthread_mutex_unlock(&s->mu);
    if (running) return; /* frames come */
    const int n = snprintf(text, sizeof text, "{\"t_ms\":%llu,\"rss\":%llu,\"waiting\":%u}\n",
                           (unsigned long long)((sm_serve_now_ns() - s->ns_start) / 1000000u),
                           (unsigned long long)sm_info_rss_bytes(), waiting);
    for (unsigned i = 0; i < WATCHERS_MAX; i++)
        if (v->watcher[i].req && backlog(&v->watcher[i]) <= WATCHER_BACKLOG_MAX)
            send_text(&v->watcher[i], "tick", text, (size_t)n);
}

void sm_view_end(struct sm_flash_view *v)
{
    for (unsigned i = 0; i < WATCHERS_MAX; i++) {
        struct evhttp_request *req = v->watcher[i].req;
        if (!req) continue;
        evhttp_connection_set_closecb(evhttp_request_get_connection(req), NULL, NULL);
        leave(&v->watcher[i]);
        evhttp_send_reply_end(req);
    }
}
