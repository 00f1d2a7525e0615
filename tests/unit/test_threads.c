/* SPDX-License-Identifier: MIT */
#include "tap.h"

#include "plat/linux_thread.h"
#include "plat/plat.h"
#include "temp.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_N 64

#define N_ITEMS 200u

struct shared {
    struct sm_pool *pool;
    sm_job_fn fn;
    atomic_uint next, arrived, ran[MAX_N], outside;
    unsigned meet;          /* so many workers wait for each other in the job, at most 10 s */
    unsigned item[N_ITEMS]; /* plain: the end of the job is what orders them */
    unsigned n_seen;
    cpu_set_t mask[MAX_N];
    double sum[MAX_N];
};

static double cpu_seconds(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Every item is claimed by one worker and counted once. */
static void job_items(void *arg, unsigned worker, unsigned n)
{
    struct shared *s = arg;
    atomic_fetch_add(worker < n ? &s->ran[worker] : &s->outside, 1);
    if (worker == 0) s->n_seen = n;
    for (unsigned i; (i = atomic_fetch_add(&s->next, 1)) < N_ITEMS;) s->item[i]++;
}

/* s->fn on as many workers as are to meet, and those that come anyway. */
static void job_meeting(void *arg, unsigned worker, unsigned n)
{
    struct shared *s = arg;
    const uint64_t end = sm_now_ns() + 10000000000u;
    atomic_fetch_add(&s->arrived, 1);
    while (atomic_load(&s->arrived) < s->meet && sm_now_ns() < end) sm_sleep_ns(20000);
    if (s->fn) s->fn(s, worker, n);
    atomic_fetch_add(&s->ran[worker], 1);
}

/* Jobs until all n workers have been in one. With more workers than cores they take turns: all are
 * asleep between two jobs, and those who have slept longest are woken (who spins would be next). */
static bool all_have_run(struct shared *s, sm_job_fn fn, unsigned n, unsigned meet)
{
    unsigned seen = 0;
    s->fn = fn;
    s->meet = meet;
    for (unsigned w = 0; w < n; w++) atomic_store(&s->ran[w], 0);
    for (unsigned tries = 0; tries < 5000 && seen < n; tries++) {
        atomic_store(&s->arrived, 0);
        sm_pool_run(s->pool, job_meeting, s);
        if (atomic_load(&s->arrived) < meet) return false;
        for (seen = 0; seen < n && atomic_load(&s->ran[seen]); seen++) continue;
        if (seen < n) sm_sleep_ns(300000);
    }
    return seen == n;
}

static void test_size(unsigned n)
{
    struct shared s;
    smol_error err = {0};
    memset(&s, 0, sizeof s);
    if (!TAP_OK(sm_pool_new(&s.pool, n, &err) == SMOL_OK, "%u threads %s", n, err.msg)) return;
    TAP_IS_INT(sm_pool_size(s.pool), n, "size");
    const unsigned n_jobs = n > 8 ? 200 : 2000;
    unsigned wrong = 0;
    for (unsigned i = 1; i <= n_jobs; i++) {
        atomic_store(&s.next, 0);
        sm_pool_run(s.pool, job_items, &s);
        for (unsigned k = 0; k < N_ITEMS; k++) wrong += s.item[k] != i;
    }
    TAP_OK(wrong == 0, "%u jobs: each item once, seen by the caller", n_jobs);
    for (unsigned w = 0; w < MAX_N; w++) {
        const unsigned ran = atomic_load(&s.ran[w]);
        wrong += ran > (w < n ? n_jobs : 0) || (w == 0 && ran != n_jobs);
    }
    TAP_OK(wrong == 0 && s.n_seen == n && !atomic_load(&s.outside),
           "on the caller each time, on %u others at most", n - 1);

    sm_sleep_ns(2000000); /* workers fall asleep and must wake up again */
    TAP_OK(all_have_run(&s, NULL, n, n > 1 ? 2 : 1), "each of them wakes up and has its turn");
    sm_pool_free(s.pool);
}

static void test_idle(unsigned n)
{
    struct shared s;
    memset(&s, 0, sizeof s);
    if (!TAP_OK(!sm_pool_new(&s.pool, n, NULL), "%u threads", n)) return;
    sm_pool_run(s.pool, job_items, &s);
    sm_sleep_ns(5000000);
    const double before = cpu_seconds();
    sm_sleep_ns(300000000);
    const double used = cpu_seconds() - before;
    TAP_OK(used < 0.010, "%u idle threads use %.3f ms of CPU in 300 ms", n, used * 1e3);
    sm_pool_free(s.pool);
}

/* One worker is late (it reads from flash): the others must not burn their cores meanwhile. */
static void job_late(void *arg, unsigned worker, unsigned n)
{
    (void)arg;
    (void)n;
    if (worker) sm_sleep_ns(200000000);
}

static void test_late(void)
{
    struct shared s;
    memset(&s, 0, sizeof s);
    if (!TAP_OK(!sm_pool_new(&s.pool, 2, NULL), "2 threads")) return;
    TAP_OK(all_have_run(&s, NULL, 2, 2), "both are there");
    const double before = cpu_seconds();
    TAP_OK(all_have_run(&s, job_late, 2, 2), "one of them late");
    const double used = cpu_seconds() - before;
    TAP_OK(used < 0.010, "waiting 200 ms for it uses %.3f ms of CPU", used * 1e3);
    sm_pool_free(s.pool);
}

static void job_mask(void *arg, unsigned worker, unsigned n)
{
    struct shared *s = arg;
    (void)n;
    if (sched_getaffinity(0, sizeof s->mask[worker], &s->mask[worker])) CPU_ZERO(&s->mask[worker]);
}

/* Called a moment after the start: who starts a thread sets its mask behind it. */
static void look_at_mask(void *mask)
{
    (void)usleep(50000);
    (void)sched_getaffinity(0, sizeof(cpu_set_t), mask);
}

/* With a core for each, every worker and the caller have one of their own until the pool is freed,
 * and threads started meanwhile may run anywhere; with more threads than cores nobody is pinned; a
 * narrower mask is respected. */
static void test_masks(void)
{
    struct shared s;
    cpu_set_t old, both, one;
    memset(&s, 0, sizeof s);
    const unsigned cores = sm_cores_allowed();
    if (sched_getaffinity(0, sizeof old, &old) || cores > MAX_N / 2) {
        TAP_SKIP(1, "too many cores");
        return;
    }
    TAP_IS_INT(cores, CPU_COUNT(&old), "allowed cores");
    if (cores > 1 && !sm_pool_new(&s.pool, cores, NULL)) {
        unsigned wrong = !all_have_run(&s, job_mask, cores, cores);
        for (unsigned w = 0; w < cores; w++) {
            wrong += CPU_COUNT(&s.mask[w]) != 1;
            for (unsigned v = 0; v < w; v++) wrong += CPU_EQUAL(&s.mask[w], &s.mask[v]);
            CPU_AND(&both, &s.mask[w], &old);
            wrong += CPU_COUNT(&both) != 1;
        }
        TAP_OK(wrong == 0, "%u workers on %u cores", cores, cores);
        TAP_IS_INT(sm_cores_allowed(), cores, "the process still has all cores");
        struct sm_thread *t = NULL;
        TAP_OK(!sm_thread_new(&t, look_at_mask, &both, "look", NULL), "a thread beside the pool");
        sm_thread_join(t);
        TAP_OK(CPU_EQUAL(&both, &old), "is not bound to the caller's core");
        sm_pool_free(s.pool);
        TAP_OK(!sched_getaffinity(0, sizeof both, &both) && CPU_EQUAL(&both, &old),
               "the caller has its mask back");
    } else {
        TAP_SKIP(5, "one core");
    }
    if (!sm_pool_new(&s.pool, cores + 1, NULL)) {
        TAP_OK(all_have_run(&s, job_mask, cores + 1, 2) && CPU_EQUAL(&s.mask[cores], &old),
               "no pins with more threads than cores");
        sm_pool_free(s.pool);
    }
    CPU_ZERO(&one);
    for (unsigned cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
        if (CPU_ISSET(cpu, &old)) CPU_SET(cpu, &one);
    if (sched_setaffinity(0, sizeof one, &one)) return;
    TAP_IS_INT(sm_cores_allowed(), 1, "a mask of one core is seen");
    if (!sm_pool_new(&s.pool, 2, NULL)) {
        TAP_OK(all_have_run(&s, job_mask, 2, 2) && CPU_EQUAL(&s.mask[1], &one),
               "and kept by every worker");
        sm_pool_free(s.pool);
    }
    (void)sched_setaffinity(0, sizeof old, &old);
}

/* A phone: four small cores, three large ones, one larger still. */
static void test_unequal_cores(void)
{
    static const char *const cap[] = {"250",   "250\n", "250\n", "250\n",
                                      "760\n", "760\n", "760\n", "1024\n"};
    static const unsigned want[] = {0xff, 0x80, 0xf0, 0xf0, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xff};
    cpu_set_t allowed, out;
    CPU_ZERO(&allowed);
    for (unsigned cpu = 0; cpu < 8; cpu++) {
        char name[80];
        CPU_SET(cpu, &allowed);
        (void)snprintf(name, sizeof name, "sys/devices/system/cpu/cpu%u/cpu_capacity", cpu);
        (void)temp_write_text(name, cap[cpu]);
    }
    TAP_IS_INT(sm_cores_fast_at(temp_dir(), &allowed), 4, "four of eight cores are fast");
    for (unsigned n = 0; n < 10; n++) {
        unsigned bits = 0;
        sm_cores_choose(temp_dir(), &allowed, n, &out);
        for (unsigned cpu = 0; cpu < 8; cpu++) bits |= (unsigned)!!CPU_ISSET(cpu, &out) << cpu;
        TAP_IS_INT(bits, want[n], "the n largest cores");
    }
    CPU_CLR(7, &allowed);
    sm_cores_choose(temp_dir(), &allowed, 1, &out);
    TAP_OK(CPU_COUNT(&out) == 3 && CPU_ISSET(4, &out), "within the allowed ones");
    TAP_IS_INT(sm_cores_fast_at("/nowhere", &allowed), 7, "not told: all");
    sm_cores_choose("/nowhere", &allowed, 2, &out);
    TAP_OK(CPU_EQUAL(&out, &allowed), "all again");
}

static void thread_signals(void *arg)
{
    sigset_t *set = arg;
    (void)pthread_sigmask(SIG_BLOCK, NULL, set);
}

static void job_subnormal(void *arg, unsigned worker, unsigned n)
{
    struct shared *s = arg;
    volatile float tiny = 0x1p-126f;
    (void)n;
    s->sum[worker] = (double)(tiny * 0.5f);
}

static void test_threads(void)
{
    struct sm_thread *t = NULL;
    sigset_t set;
    smol_error err = {0};
    (void)sigemptyset(&set);
    TAP_IS_INT(sm_thread_new(&t, thread_signals, &set, "a-name-longer-than-fifteen", &err), SMOL_OK,
               "a plain thread");
    sm_thread_join(t);
    sm_thread_join(NULL);
    TAP_OK(sigismember(&set, SIGINT) && sigismember(&set, SIGTERM) && !sigismember(&set, SIGSEGV),
           "signals from outside are left to the program's threads");

    struct shared s;
    memset(&s, 0, sizeof s);
    if (!sm_pool_new(&s.pool, 3, NULL)) {
        TAP_OK(all_have_run(&s, job_subnormal, 3, 2) && s.sum[0] > 0 && s.sum[1] > 0 &&
                   s.sum[2] > 0,
               "subnormals are kept in each worker");
        sm_pool_free(s.pool);
    }
    static const unsigned bad[] = {0, 65, 1000000, UINT32_MAX};
    for (unsigned i = 0; i < 4; i++) {
        memset(&err, 0, sizeof err);
        TAP_IS_INT(sm_pool_new(&s.pool, bad[i], &err), SMOL_ARG, err.msg);
        TAP_OK(!s.pool, "nothing is made");
    }
    sm_pool_free(NULL);
}

/* Numbers 0 … total - 1 in batches of up to 7: each is made once and written in order. */
struct line {
    unsigned total, cut, n[2], number[2][7], written, end_after, bad;
    bool in_order, made_first;
    atomic_uint made[100];
};

static unsigned line_cut(void *arg, unsigned side)
{
    struct line *l = arg;
    for (l->n[side] = 0; l->n[side] < 7 && l->cut < l->total;)
        l->number[side][l->n[side]++] = l->cut++;
    return l->n[side];
}

static bool line_make(void *arg, unsigned side, unsigned item, unsigned worker)
{
    struct line *l = arg;
    const unsigned number = l->number[side][item];
    (void)worker;
    if (number == l->bad) return false;
    atomic_fetch_add(&l->made[number], 1);
    return true;
}

static void line_write(void *arg, unsigned side)
{
    struct line *l = arg;
    for (unsigned i = 0; i < l->n[side]; i++) {
        l->in_order = l->in_order && l->number[side][i] == l->written;
        l->made_first = l->made_first && atomic_load(&l->made[l->written]) == 1;
        l->written++;
    }
}

static bool line_go_on(void *arg)
{
    struct line *l = arg;
    return l->written < l->end_after && (l->bad >= l->total || l->cut <= l->bad);
}

static struct line run_line(struct sm_pool *p, unsigned total, unsigned end_after, unsigned bad)
{
    static struct line l;
    memset(&l, 0, sizeof l);
    l.total = total;
    l.end_after = end_after;
    l.bad = bad;
    l.in_order = l.made_first = true;
    sm_pool_batches(p, &(struct sm_batches){line_cut, line_make, line_write, line_go_on, &l});
    return l;
}

static void test_batches(void)
{
    for (unsigned n = 1; n <= 3; n++) {
        struct sm_pool *p;
        if (sm_pool_new(&p, n, NULL) != SMOL_OK) abort();
        const struct line all = run_line(p, 100, UINT32_MAX, UINT32_MAX),
                          some = run_line(p, 100, 30, UINT32_MAX),
                          bad = run_line(p, 100, UINT32_MAX, 50),
                          none = run_line(p, 0, UINT32_MAX, UINT32_MAX);
        TAP_OK(all.written == 100 && all.in_order && all.made_first,
               "%u workers: batches are made once and written in order", n);
        TAP_OK(some.written == 35 && some.in_order && some.made_first, "and end when told");
        TAP_OK(bad.written == 49 && bad.in_order && bad.made_first, "a batch that failed is not");
        TAP_OK(none.written == 0, "no items, no batches");
        sm_pool_free(p);
    }
}

int main(int argc, char **argv)
{
    static const unsigned sizes[] = {1, 2, 3, 4, 8, 64};
    tap_init(argc, argv);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) test_size(sizes[i]);
    test_idle(2);
    test_idle(8);
    test_late();
    test_masks();
    test_unequal_cores();
    test_threads();
    test_batches();
    const uint64_t t0 = sm_now_ns();
    sm_sleep_ns(3000000);
    TAP_OK(sm_now_ns() - t0 >= 3000000, "sleeps as long as told");
    return tap_done();
}
