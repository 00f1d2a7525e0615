/* SPDX-License-Identifier: MIT */
/* The server. Three threads:
 *
 *   event    evhttp: connections, routes, replies. Never waits and never touches the model.
 *   text     bodies: JSON, checks, tokens of prompts; answers /tokenize and /detokenize. A request
 *            that is wrong is told so at once, however busy the model is.
 *   decode   opens the model, runs one request after the other.
 *
 * A job is one POST. It belongs to the event thread, which alone frees it; `mu` guards the lines,
 * the marked fields of jobs, and the figures. Text and decode thread write a job's output under
 * `mu` and ring a bell (an eventfd) for the event thread. */
#ifndef SM_SERVE_SERVER_H
#define SM_SERVE_SERVER_H

#include "keys.h"
#include "queue.h"
#include "request.h"
#include "states.h"

#include <pthread.h>

struct evhttp_request;
struct event_base;
struct evhttp;
struct event;

struct sm_serve_config {
    const char *model_path, *model_name;
    const char *host;
    uint16_t port;
    const char *key_file; /* NULL: no keys */
    const char *state_folder; /* of conversations; NULL: they are not kept */
    const char *cors;     /* origin whose pages may use the API, "*": all, NULL: none */
    unsigned queue_max;
    bool quiet;
    smol_params params; /* of the model; progress and cancel are set by the server */
    double flash_mb_s;  /* limit to show, 0: unknown */
    struct sm_request_defaults defaults;
    /* The model is open and requests are answered. Called by the decode thread. */
    void (*ready)(const struct sm_serve_config *c, const smol_model *m);
    void (*done)(const smol_model *m); /* it is about to be closed; NULL: nothing to do */
};

/* Bytes the server holds beside the model, for the plan (Law 2); SM_SERVE_BYTES covers the sum. */
#define SM_SERVE_BODY_MAX ((size_t)1 << 20)   /* one request */
#define SM_SERVE_BODIES_MAX ((size_t)2 << 20) /* all that wait or run */
#define SM_SERVE_ARRIVING_MAX ((size_t)3 << 20) /* all that are still arriving */
#define SM_SERVE_JSON_MAX ((size_t)6 << 20)   /* parsed requests, all together */
#define SM_SERVE_OUT_MAX ((size_t)256 << 10)  /* unsent of one stream, else it is given up */
#define SM_SERVE_OUT_ALL_MAX ((size_t)2 << 20) /* of one whole answer */
#define SM_SERVE_LEAVING_MAX ((size_t)3 << 20) /* all that clients have not taken yet */
#define SM_SERVE_BYTES ((uint64_t)18 << 20)
#define SM_SERVE_CONNECTIONS_MAX 256u
#define SM_SERVE_ARRIVE_SECONDS 30 /* for a request to arrive whole, or the next to begin */
#define SM_SERVE_DRAIN_SECONDS 30  /* to finish after SIGTERM */

enum sm_job_place { SM_JOB_TEXT, SM_JOB_LINE, SM_JOB_RUNNING, SM_JOB_DONE };

struct sm_job {
    struct sm_queue_item item; /* first: the line hands this back */
    struct sm_server *server;
    struct sm_job *next;       /* in the text line; mu */
    struct sm_job *next_ready; /* in the list of those with output; mu */

    /* event thread */
    struct evhttp_request *req; /* NULL: the client is gone or has its answer */
    struct event *gone;         /* fires when the client hangs up */
    char client[SM_QUEUE_CLIENT_BYTES];
    enum sm_request_kind kind;
    bool replying; /* headers of a stream are out */
    uint64_t ns_arrived;

    /* written before the job changes hands */
    char *body;
    size_t n_body;
    struct sm_request request;
    int32_t *ids;
    size_t n_ids;
    bool inside; /* the answer begins inside a reasoning part that the template opened */

    /* mu */
    enum sm_job_place place;
    bool cancelled, ready; /* ready: in the list */
    bool stream, finished;
    int status; /* 0: nothing to say yet */
    char *out;
    size_t n_out, cap_out;
};

struct sm_figures {
    uint64_t n_status[6];   /* answers by hundreds of their status */
    uint64_t n_requests[4]; /* by enum sm_request_kind */
    uint64_t n_cancelled;
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /* of finished requests */
    double view_seconds;      /* processor time spent on pictures of the pools */
    double wait_seconds;                                     /* in the line */
    smol_stats stats;                                        /* as of the last look */
};

struct sm_flash_view; /* flash_view.h */

struct sm_server {
    struct sm_serve_config config;
    struct sm_keys keys;
    pthread_mutex_t mu;
    pthread_cond_t text_work, decode_work;
    int bell; /* eventfd */

    /* mu */
    struct sm_job *text_first, *text_last;
    unsigned n_text;
    struct sm_queue line;
    struct sm_job *running;
    struct sm_job *ready_first;
    size_t bodies_bytes;
    bool loaded, stopping, closing; /* stopping: the line is shut; closing: threads end */
    bool failed;
    smol_error load_error;
    struct sm_figures figures;
    volatile bool cancel; /* the running job's, and of loading */

    bool noted_template; /* text thread */

    /* set once by the decode thread before `loaded` */
    smol_model *model;
    const smol_vocab *vocab;

    struct sm_states states; /* decode thread */
    struct sm_flash_view *view;
    pthread_t text_thread, decode_thread;
    bool text_started, decode_started;

    /* event thread */
    struct event_base *base;
    struct evhttp *http;
    struct evhttp_bound_socket *socket;
    struct event *bell_event, *term_event, *int_event, *tick, *deadline;
    struct sm_connections *connections;
    unsigned n_jobs;
    bool draining;
    uint64_t ns_start;
    int64_t s_started; /* since 1970 */
};

/* Run until a signal ends it. Returns the exit code; sentences go to stderr. */
int sm_serve_run(const struct sm_serve_config *c);

uint64_t sm_serve_now_ns(void);

/* ---- work.c: text and decode threads ---- */
bool sm_work_start(struct sm_server *s);
void sm_work_stop(struct sm_server *s); /* ends both threads */

/* ---- outbox.c: from the threads to the event thread (mu is taken inside) ---- */
/* Add to the answer. False: the client is gone or does not read; stop working for it. */
bool sm_job_write(struct sm_job *j, const char *bytes, size_t n);
/* Begin a stream of events. */
bool sm_job_begin_stream(struct sm_job *j);
/* The answer is complete. `status` counts unless a stream was begun. */
void sm_job_finish(struct sm_job *j, int status);
void sm_job_refuse(struct sm_job *j, const struct sm_refusal *e);
bool sm_job_cancelled(struct sm_job *j);

/* ---- generation.c ---- */
void sm_decode_run(struct sm_server *s, smol_session *session, struct sm_job *j);
/* ---- jobs.c, event thread ---- */
void sm_jobs_begin(struct sm_server *s, struct evhttp_request *req, enum sm_request_kind kind,
                   const char *client);
void sm_jobs_send_ready(struct sm_server *s);
void sm_jobs_cancel_all(struct sm_server *s);
/* Drop a job that nobody works on any more. */
void sm_job_free(struct sm_job *j);

#endif
