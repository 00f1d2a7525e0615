/* SPDX-License-Identifier: MIT */
/* Plain threads and the cores that this process may use, on Linux. */
#include "plat/plat.h"

#include "base/mem.h"
#include "plat/linux_thread.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct sm_thread {
    pthread_t id;
    void (*fn)(void *);
    void *arg;
    char name[16];
};

/* The mask of the main thread is that of the process (taskset, cpusets). */
static bool allowed_mask(cpu_set_t *set)
{
    CPU_ZERO(set);
    return sched_getaffinity(getpid(), sizeof *set, set) == 0 && CPU_COUNT(set) > 0;
}

unsigned sm_cores_allowed(void)
{
    cpu_set_t set;
    if (allowed_mask(&set)) return (unsigned)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return n > 0 && n <= INT_MAX ? (unsigned)n : 1;
}

void sm_thread_pin(struct sm_thread *t, unsigned i)
{
    cpu_set_t set, one;
    if (!allowed_mask(&set)) return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &set) || i--) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        (void)pthread_setaffinity_np(t->id, sizeof one, &one);
        return;
    }
}

static void *thread_main(void *arg)
{
    struct sm_thread *t = arg;
    (void)pthread_setname_np(pthread_self(), t->name);
    t->fn(t->arg);
    return NULL;
}

/* Signals from outside (Ctrl-C) belong to the program's own threads; faults stay where they are. */
static void block_signals(sigset_t *old)
{
    static const int kept[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF };
    sigset_t all;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) (void)sigdelset(&all, kept[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, old);
}

smol_status sm_thread_new(struct sm_thread **out, void (*fn)(void *), void *arg, const char *name,
                          smol_error *err)
{
    pthread_attr_t attr;
    sigset_t old;
    int rc = 0;
    *out = NULL;
    struct sm_thread *t = sm_mem_new(sizeof *t);
    if (!t) return SM_FAIL(err, NOMEM, "no memory for a thread");
    t->fn = fn;
    t->arg = arg;
    (void)snprintf(t->name, sizeof t->name, "%s", name);

    rc = pthread_attr_init(&attr);
    if (rc == 0) {
        rc = pthread_attr_setstacksize(&attr, SM_STACK_BYTES);
        block_signals(&old);
        if (rc == 0) rc = pthread_create(&t->id, &attr, thread_main, t);
        (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
        (void)pthread_attr_destroy(&attr);
    }
    if (rc) {
        sm_mem_free(t, sizeof *t);
        return sm_fail(err, SMOL_NOMEM, rc, UINT64_MAX, SM_WHERE,
                       "the system refuses to start a thread: %s", strerror(rc));
    }
    *out = t;
    return SMOL_OK;
}

void sm_thread_join(struct sm_thread *t)
{
    if (!t) return;
    (void)pthread_join(t->id, NULL);
    sm_mem_free(t, sizeof *t);
}
