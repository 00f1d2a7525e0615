/* SPDX-License-Identifier: MIT */
/* What the text and the decode thread say to the event thread. */
#include "errors.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void ring(struct sm_server *s)
{
    const uint64_t one = 1;
    if (write(s->bell, &one, sizeof one) < 0) return; /* the counter is full: it rings already */
}

/* mu is held. */
static void make_ready(struct sm_job *j)
{
    if (j->ready) return;
    j->ready = true;
    j->next_ready = j->server->ready_first;
    j->server->ready_first = j;
    ring(j->server);
}

static bool append(struct sm_job *j, const char *bytes, size_t n)
{
    const size_t most = j->stream ? SM_SERVE_OUT_MAX : SM_SERVE_OUT_ALL_MAX;
    if (n > most || j->n_out > most - n) return false;
    if (j->n_out + n > j->cap_out) {
        const size_t cap = (j->n_out + n) << j->stream; /* a whole answer comes once */
        char *more = realloc(j->out, cap);
        if (!more) return false;
        j->out = more;
        j->cap_out = cap;
    }
    memcpy(j->out + j->n_out, bytes, n);
    j->n_out += n;
    return true;
}

bool sm_job_write(struct sm_job *j, const char *bytes, size_t n)
{
    struct sm_server *s = j->server;
    (void)pthread_mutex_lock(&s->mu);
    const bool good = !j->cancelled && append(j, bytes, n);
    if (!good) j->cancelled = true;
    if (j->stream && good) make_ready(j);
    (void)pthread_mutex_unlock(&s->mu);
    return good;
}

bool sm_job_begin_stream(struct sm_job *j)
{
    struct sm_server *s = j->server;
    (void)pthread_mutex_lock(&s->mu);
    j->stream = true;
    j->status = 200;
    make_ready(j);
    const bool good = !j->cancelled;
    (void)pthread_mutex_unlock(&s->mu);
    return good;
}

void sm_job_finish(struct sm_job *j, int status)
{
    struct sm_server *s = j->server;
    (void)pthread_mutex_lock(&s->mu);
    if (!j->stream) j->status = status;
    j->finished = true;
    j->place = SM_JOB_DONE;
    if (s->running == j) s->running = NULL;
    make_ready(j);
    (void)pthread_mutex_unlock(&s->mu);
}

void sm_job_refuse(struct sm_job *j, const struct sm_refusal *e)
{
    size_t n;
    char *text = sm_error_text(e, &n);
    if (text) {
        (void)pthread_mutex_lock(&j->server->mu);
        j->n_out = 0; /* nothing half-said before it */
        (void)append(j, text, n);
        (void)pthread_mutex_unlock(&j->server->mu);
    }
    free(text);
    sm_job_finish(j, e->status);
}

bool sm_job_cancelled(struct sm_job *j)
{
    (void)pthread_mutex_lock(&j->server->mu);
    const bool cancelled = j->cancelled;
    (void)pthread_mutex_unlock(&j->server->mu);
    return cancelled;
}
