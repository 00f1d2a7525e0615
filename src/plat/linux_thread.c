/* SPDX-License-Identifier: MIT */
/* Plain threads and the cores that this process may use, on Linux. */
#include "plat/plat.h"

#include "base/mem.h"
#include "plat/linux_thread.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct sm_thread {
    pthread_t id;
    void (*fn)(void *);
    void *arg;
    char name[16];
};

_Static_assert(sizeof(atomic_uint) == 4, "a futex word has 32 bits");

/* A futex rather than a condition variable: the woken need not queue for a lock again. */
void sm_word_sleep(atomic_uint *word, unsigned old)
{
    (void)syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, old, NULL, NULL, 0);
}

void sm_word_wake(atomic_uint *word, unsigned n)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* Callers of pools that have a core of their own, and the mask of the process before the first. */
static pthread_mutex_t callers_mu = PTHREAD_MUTEX_INITIALIZER;
static unsigned n_callers;
static cpu_set_t before_callers;

/* The mask of the main thread is that of the process (taskset, cpusets), unless we changed it. */
static bool allowed_locked(cpu_set_t *set)
{
    CPU_ZERO(set);
    if (n_callers) *set = before_callers;
    else if (sched_getaffinity(getpid(), sizeof *set, set) != 0) return false;
    return CPU_COUNT(set) > 0;
}

static bool allowed_mask(cpu_set_t *set)
{
    (void)pthread_mutex_lock(&callers_mu);
    const bool known = allowed_locked(set);
    (void)pthread_mutex_unlock(&callers_mu);
    return known;
}

unsigned sm_cores_allowed(void)
{
    cpu_set_t set;
    if (allowed_mask(&set)) return (unsigned)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than a cpu_set_t holds */
    return n > 0 && n <= INT_MAX ? (unsigned)n : 1;
}

/* What the scheduler thinks of a core, 1024 for the fastest; 0 where the system does not say. */
static unsigned capacity(const char *root, unsigned cpu)
{
    char path[300], text[32] = "";
    (void)snprintf(path, sizeof path, "%s/sys/devices/system/cpu/cpu%u/cpu_capacity", root, cpu);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    const ssize_t got = read(fd, text, sizeof text - 1);
    (void)close(fd);
    const long v = got > 0 ? strtol(text, NULL, 10) : 0;
    return v > 0 && v < 100000 ? (unsigned)v : 0;
}

void sm_cores_choose(const char *root, const cpu_set_t *allowed, unsigned n, cpu_set_t *out)
{
    const unsigned n_allowed = (unsigned)CPU_COUNT(allowed);
    unsigned cap[CPU_SETSIZE], least = 0;
    *out = *allowed;
    if (n >= n_allowed || n == 0) return;
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        cap[cpu] = CPU_ISSET(cpu, allowed) ? capacity(root, cpu) : 0;
        if (CPU_ISSET(cpu, allowed) && !cap[cpu]) return; /* not told: all alike */
    }
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) { /* least: the n-th largest capacity */
        unsigned above = 0;
        for (unsigned other = 0; other < CPU_SETSIZE && cap[cpu] > least; other++)
            above += cap[other] >= cap[cpu];
        if (cap[cpu] > least && above >= n) least = cap[cpu];
    }
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (cap[cpu] < least) CPU_CLR(cpu, out);
}

unsigned sm_cores_fast_at(const char *root, const cpu_set_t *allowed)
{
    unsigned best = 0, n = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
            if (!CPU_ISSET(cpu, allowed)) continue;
            const unsigned cap = capacity(root, cpu);
            if (pass == 0 && cap > best) best = cap;
            if (pass == 1 && 2 * cap >= best) n++;
        }
    }
    return n;
}

unsigned sm_cores_fast(void)
{
    cpu_set_t set;
    return allowed_mask(&set) ? sm_cores_fast_at("", &set) : sm_cores_allowed();
}

/* The i-th allowed core alone. */
static cpu_set_t core_of(const cpu_set_t *allowed, unsigned i)
{
    cpu_set_t one;
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, allowed) || i--) continue;
        CPU_SET(cpu, &one);
        break;
    }
    return one;
}

void sm_thread_place(struct sm_thread *t, unsigned i, unsigned n)
{
    cpu_set_t set, chosen;
    if (!allowed_mask(&set)) return;
    const unsigned cores = (unsigned)CPU_COUNT(&set);
    if (n < cores) { /* which of these is free is for the system to say: two programs may run */
        sm_cores_choose("", &set, n, &chosen);
        if (!CPU_EQUAL(&set, &chosen)) (void)pthread_setaffinity_np(t->id, sizeof chosen, &chosen);
    } else if (n == cores) {
        chosen = core_of(&set, i);
        (void)pthread_setaffinity_np(t->id, sizeof chosen, &chosen);
    }
}

bool sm_caller_place(unsigned n)
{
    cpu_set_t set;
    (void)pthread_mutex_lock(&callers_mu);
    bool placed = allowed_locked(&set) && n > 1 && (unsigned)CPU_COUNT(&set) == n;
    if (placed) {
        const cpu_set_t one = core_of(&set, 0);
        placed = pthread_setaffinity_np(pthread_self(), sizeof one, &one) == 0;
    }
    if (placed && !n_callers++) before_callers = set;
    (void)pthread_mutex_unlock(&callers_mu);
    return placed;
}

void sm_caller_release(bool here)
{
    (void)pthread_mutex_lock(&callers_mu);
    if (here) (void)pthread_setaffinity_np(pthread_self(), sizeof before_callers, &before_callers);
    n_callers--;
    (void)pthread_mutex_unlock(&callers_mu);
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
    static const int kept[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, SIGPROF};
    sigset_t all;
    (void)sigfillset(&all);
    for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) (void)sigdelset(&all, kept[i]);
    (void)pthread_sigmask(SIG_SETMASK, &all, old);
}

/* A thread inherits the mask of who starts it: not that of a caller who has a core of its own. */
static void unbind(struct sm_thread *t)
{
    (void)pthread_mutex_lock(&callers_mu);
    if (n_callers) (void)pthread_setaffinity_np(t->id, sizeof before_callers, &before_callers);
    (void)pthread_mutex_unlock(&callers_mu);
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
    unbind(t);
    *out = t;
    return SMOL_OK;
}

void sm_thread_join(struct sm_thread *t)
{
    if (!t) return;
    (void)pthread_join(t->id, NULL);
    sm_mem_free(t, sizeof *t);
}
