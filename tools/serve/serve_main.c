/* SPDX-License-Identifier: MIT */
/* Start, signals, end. */
#include "connections.h"
#include "flash_view.h"
#include "http.h"
#include "jansson_memory.h"
#include "server.h"
#include "visitors.h"

#include "../lib/command.h"
#include "../lib/progress.h"

#include <errno.h>
#include <event2/event.h>
#include <event2/http.h>
#include <event2/util.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

uint64_t sm_serve_now_ns(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- the end ------------------------------------------------------------------------------------
 */

static bool nothing_left(struct sm_server *s)
{
    (void)pthread_mutex_lock(&s->mu);
    const bool loading = !s->loaded && !s->failed;
    (void)pthread_mutex_unlock(&s->mu);
    return s->n_jobs == 0 && !loading;
}

/* The first signal: no new connections, what is under way is finished. The second, or the end of
 * the time for that, stops the answers where they are. */
static void drain(struct sm_server *s)
{
    const struct timeval most = {SM_SERVE_DRAIN_SECONDS, 0};
    if (s->draining) {
        sm_jobs_cancel_all(s);
        return;
    }
    s->draining = true;
    if (s->socket) evhttp_del_accept_socket(s->http, s->socket);
    s->socket = NULL;
    sm_view_end(s->view);
    (void)pthread_mutex_lock(&s->mu);
    const bool loaded = s->loaded;
    if (!loaded) s->cancel = true;
    (void)pthread_mutex_unlock(&s->mu);
    if (!s->config.quiet)
        fprintf(stderr, "smol: stopping%s\n",
                s->n_jobs ? " when the requests under way are answered" : "");
    (void)event_add(s->deadline, &most);
}

static void on_signal(evutil_socket_t sig, short what, void *arg)
{
    (void)sig;
    (void)what;
    drain(arg);
}

static void on_deadline(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    sm_jobs_cancel_all(arg);
}

/* Out of the loop once the last answer has left; a little later, so that it is on its way. */
static void end_when_done(struct sm_server *s)
{
    const struct timeval soon = {0, 100000};
    if (s->draining && nothing_left(s)) (void)event_base_loopexit(s->base, &soon);
}

static void on_bell(evutil_socket_t fd, short what, void *arg)
{
    struct sm_server *s = arg;
    uint64_t count;
    (void)what;
    if (read(fd, &count, sizeof count) < 0) return;
    sm_jobs_send_ready(s);
    sm_view_send(s->view);
    (void)pthread_mutex_lock(&s->mu);
    const bool failed = s->failed;
    (void)pthread_mutex_unlock(&s->mu);
    if (failed) (void)event_base_loopbreak(s->base);
    else end_when_done(s);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
    struct sm_server *s = arg;
    (void)fd;
    (void)what;
    sm_connections_sweep(s->connections);
    sm_view_tick(s->view);
    end_when_done(s);
}

/* ---- the start ------------------------------------------------------------------------------ */

static bool make_events(struct sm_server *s)
{
    const struct timeval second = {1, 0};
    s->base = event_base_new();
    if (!s->base) return false;
    s->http = evhttp_new(s->base);
    s->bell_event = event_new(s->base, s->bell, EV_READ | EV_PERSIST, on_bell, s);
    s->term_event = evsignal_new(s->base, SIGTERM, on_signal, s);
    s->int_event = evsignal_new(s->base, SIGINT, on_signal, s);
    s->tick = event_new(s->base, -1, EV_PERSIST, on_tick, s);
    s->deadline = event_new(s->base, -1, 0, on_deadline, s);
    s->connections = sm_connections_new(s->base);
    s->view = sm_view_new(s);
    return s->http && s->bell_event && s->term_event && s->int_event && s->tick && s->deadline &&
           s->connections && s->view && !event_add(s->bell_event, NULL) &&
           !event_add(s->term_event, NULL) && !event_add(s->int_event, NULL) &&
           !event_add(s->tick, &second);
}

static void set_up_http(struct sm_server *s)
{
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST |
                                            EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE | EVHTTP_REQ_PATCH |
                                            EVHTTP_REQ_OPTIONS);
    evhttp_set_max_headers_size(s->http, 16 << 10);
    evhttp_set_max_body_size(s->http, (ev_ssize_t)SM_SERVE_BODY_MAX);
    evhttp_set_timeout(s->http, SM_SERVE_ARRIVE_SECONDS);
    evhttp_set_bevcb(s->http, sm_connections_open, s->connections);
    evhttp_set_gencb(s->http, sm_http_on_request, s);
}

/* The port in use (it was 0 when the system was to choose). */
static uint16_t bound_port(const struct sm_server *s)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof a;
    if (getsockname(evhttp_bound_socket_get_fd(s->socket), (struct sockaddr *)(void *)&a, &n))
        return 0;
    if (a.ss_family == AF_INET6) return ntohs(((struct sockaddr_in6 *)(void *)&a)->sin6_port);
    return ntohs(((struct sockaddr_in *)(void *)&a)->sin_port);
}

/* libevent leaves some older errno behind when it is the address that is wrong. */
static const char *why_not(const char *host)
{
    const int sys = errno;
    const struct evutil_addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct evutil_addrinfo *found = NULL;
    const int no_address = evutil_getaddrinfo(host, NULL, &hints, &found);
    if (found) evutil_freeaddrinfo(found);
    return no_address ? "there is no such address" : strerror(sys);
}

static int listen_on(struct sm_server *s)
{
    const char *host = s->config.host;
    s->socket = evhttp_bind_socket_with_handle(s->http, host, s->config.port);
    if (!s->socket)
        return sm_complain(SM_EXIT_FAILED, "cannot listen on %s port %u: %s", host, s->config.port,
                           why_not(host));
    s->config.port = bound_port(s);
    if (!sm_visitor_is_local(host) && !s->keys.n && !s->config.quiet)
        fprintf(stderr,
                "smol: note: anyone who reaches %s may use this server; --api-key-file asks "
                "for a key\n",
                host);
    return SM_EXIT_DONE;
}

static int read_keys(struct sm_server *s)
{
    smol_error err = {0};
    bool exposed = false;
    if (!s->config.key_file) return SM_EXIT_DONE;
    if (sm_keys_read(&s->keys, s->config.key_file, &exposed, &err) != SMOL_OK)
        return sm_report(&err);
    if (exposed && !s->config.quiet)
        fprintf(stderr, "smol: note: %s can be read by every user of this machine\n",
                s->config.key_file);
    return SM_EXIT_DONE;
}

static void tear_down(struct sm_server *s)
{
    struct event *const events[] = {s->bell_event, s->term_event, s->int_event, s->tick,
                                    s->deadline};
    sm_work_stop(s);
    sm_jobs_send_ready(s);
    if (s->http) evhttp_free(s->http);
    sm_connections_free(s->connections);
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (events[i]) event_free(events[i]);
    sm_view_free(s->view);
    if (s->base) event_base_free(s->base);
    if (s->bell >= 0) (void)close(s->bell);
    sm_keys_free(&s->keys);
    (void)pthread_cond_destroy(&s->text_work);
    (void)pthread_cond_destroy(&s->decode_work);
    (void)pthread_mutex_destroy(&s->mu);
}

static int run_loop(struct sm_server *s)
{
    if (!sm_work_start(s)) return sm_complain(SM_EXIT_FAILED, "cannot start a thread");
    (void)event_base_dispatch(s->base);
    (void)pthread_mutex_lock(&s->mu);
    const bool failed = s->failed;
    (void)pthread_mutex_unlock(&s->mu);
    sm_progress_clear();
    if (!failed || s->load_error.code == SMOL_CANCELLED) return SM_EXIT_DONE;
    return sm_report(&s->load_error);
}

/* What libevent would write to stderr is said by us, where it matters. */
static void keep_quiet(int severity, const char *text)
{
    (void)severity;
    (void)text;
}

int sm_serve_run(const struct sm_serve_config *c)
{
    struct sm_server s = {.config = *c,
                          .bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                          .ns_start = sm_serve_now_ns(),
                          .s_started = (int64_t)time(NULL)};
    (void)pthread_mutex_init(&s.mu, NULL);
    (void)pthread_cond_init(&s.text_work, NULL);
    (void)pthread_cond_init(&s.decode_work, NULL);
    sm_queue_init(&s.line, c->queue_max);
    sm_jansson_limit(SM_SERVE_JSON_MAX);
    event_set_log_callback(keep_quiet);
    int code = read_keys(&s);
    if (code == SM_EXIT_DONE && (s.bell < 0 || !make_events(&s)))
        code = sm_complain(SM_EXIT_FAILED, "cannot set up the event loop: %s", strerror(errno));
    if (code == SM_EXIT_DONE) {
        set_up_http(&s);
        code = listen_on(&s);
    }
    if (code == SM_EXIT_DONE) code = run_loop(&s);
    tear_down(&s);
    return code;
}
