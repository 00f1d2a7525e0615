/* SPDX-License-Identifier: MIT */
/* The compute threads. One word per thing to wait for: whoever waits spins on it for a while, then
 * sleeps in the system; whoever changes it wakes sleepers only if there are any.
 *
 * A job is open from the moment it is given out until its caller has found no more work in it.
 * Workers that are awake by then have joined it and are waited for; the others have missed it, and
 * nobody waits for a thread that the system has not let run. */
#include "plat/plat.h"

#include "base/mem.h"
#include "cpu/cpu.h"
#include "plat/linux_thread.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

/* Longer than the gaps between the steps of one layer (1-10 us) and than the wake of a sleeping
 * core (50-80 us in a virtual machine: sleeps would breed sleeps), shorter than any read. */
#define SPIN_NS 100000u
/* On a single core the one waited for is not running: let it, a few times. */
#define YIELDS 4u

struct gate {
    _Alignas(SM_ALIGN) atomic_uint word;
    atomic_uint sleepers;
};

struct worker {
    struct sm_pool *pool;
    struct sm_thread *thread;
    unsigned index;
};

/* sm_pool.joined: the number of the job (its lower bits), whether it can still be joined, and how
 * many workers are in it. */
#define COUNT_MASK 0x7fu
#define OPEN 0x80u
#define NUMBER_SHIFT 8
_Static_assert(SM_POOL_MAX <= COUNT_MASK, "the count has seven bits");

struct sm_pool {
    struct gate job;  /* word: number of the last job that was given out */
    struct gate done; /* word: number of the last job whose last worker left after it was closed */
    _Alignas(SM_ALIGN) atomic_uint joined;
    /* written before the job is opened, read after it was joined */
    _Alignas(SM_ALIGN) sm_job_fn fn;
    void *arg;
    atomic_bool quit; /* set before the last change of job.word */
    bool spin;         /* another core can finish what is waited for */
    unsigned n_useful; /* workers that can run beside the caller at the same time */
    bool placed; /* the caller has one of them */
    pthread_t caller;
    unsigned n;
    unsigned n_started;
    struct worker worker[SM_POOL_MAX];
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("isb" ::: "memory"); /* `yield` is no delay on these cores */
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* ---- gates -------------------------------------------------------------------------------- */

/* A waiter counts itself, then looks at the word; a changer writes the word, then looks at the
 * count. Both in the one order of seq_cst operations, so one of them sees the other. */
static void gate_sleep(struct gate *g, unsigned old)
{
    atomic_fetch_add(&g->sleepers, 1);
    while (atomic_load(&g->word) == old) sm_word_sleep(&g->word, old);
    atomic_fetch_sub(&g->sleepers, 1);
}

static void gate_set(struct gate *g, unsigned value)
{
    atomic_store(&g->word, value);
    if (atomic_load(&g->sleepers)) sm_word_wake(&g->word, SM_POOL_MAX);
}

/* Returns when the word is no longer `old`. */
static void gate_wait(struct gate *g, unsigned old, bool spin)
{
    if (spin) {
        const uint64_t end = sm_now_ns() + SPIN_NS;
        do {
            for (unsigned i = 0; i < 32; i++) {
                if (atomic_load_explicit(&g->word, memory_order_acquire) != old) return;
                relax();
            }
        } while (sm_now_ns() < end);
    } else {
        for (unsigned i = 0; i < YIELDS; i++) {
            if (atomic_load_explicit(&g->word, memory_order_acquire) != old) return;
            (void)sched_yield();
        }
    }
    gate_sleep(g, old);
}

/* ---- the pool ------------------------------------------------------------------------------- */

/* Workers that do not sleep; the woken count as sleepers until they run. */
static unsigned awake(struct sm_pool *p)
{
    return p->n - 1 - atomic_load(&p->job.sleepers);
}

/* As gate_set, but no more are woken than can run beside the caller: with more threads than cores
 * they would take the cores from one another. */
static void give_out(struct sm_pool *p, unsigned number)
{
    atomic_store(&p->job.word, number);
    const unsigned n = awake(p);
    if (n < p->n_useful && n < p->n - 1) sm_word_wake(&p->job.word, p->n_useful - n);
}

/* Workers that are too many to run at once do not spin. */
static void await_job(struct sm_pool *p, unsigned last)
{
    if (awake(p) <= p->n_useful) gate_wait(&p->job, last, p->spin);
    else gate_sleep(&p->job, last);
}

/* False: the job is closed, or another one has begun, which job.word will say in a moment. */
static bool join_job(struct sm_pool *p, unsigned number)
{
    const unsigned open = number << NUMBER_SHIFT | OPEN;
    unsigned v = atomic_load_explicit(&p->joined, memory_order_relaxed);
    while ((v & ~COUNT_MASK) == open)
        if (atomic_compare_exchange_weak(&p->joined, &v, v + 1)) return true;
    return false;
}

static void worker_main(void *arg)
{
    const struct worker *w = arg;
    struct sm_pool *p = w->pool;
    sm_cpu_float_mode();
    for (unsigned last = 0;;) {
        await_job(p, last);
        last = atomic_load_explicit(&p->job.word, memory_order_acquire);
        if (atomic_load_explicit(&p->quit, memory_order_relaxed)) return;
        if (!join_job(p, last)) continue;
        p->fn(p->arg, w->index, p->n);
        const unsigned v = atomic_fetch_sub(&p->joined, 1);
        if (!(v & OPEN) && (v & COUNT_MASK) == 1) gate_set(&p->done, last);
    }
}

smol_status sm_pool_new(struct sm_pool **out, unsigned n_threads, smol_error *err)
{
    smol_status st = SMOL_OK;
    *out = NULL;
    if (n_threads < 1 || n_threads > SM_POOL_MAX)
        return SM_FAIL(err, ARG, "%u threads asked for; 1 to %u are possible", n_threads,
                       SM_POOL_MAX);
    struct sm_pool *p = sm_mem_new(sizeof *p);
    if (!p) return SM_FAIL(err, NOMEM, "no memory for %u threads", n_threads);
    sm_cpu_float_mode(); /* the caller is worker 0 */
    p->n = n_threads;
    p->n_started = 1;
    const unsigned cores = sm_cores_allowed();
    p->spin = cores > 1;
    p->n_useful = n_threads <= cores ? n_threads - 1 : cores > 1 ? cores - 1 : 1;
    for (unsigned i = 1; i < n_threads; i++) {
        struct worker *w = &p->worker[i];
        char name[16];
        *w = (struct worker){p, NULL, i};
        (void)snprintf(name, sizeof name, "smol-cpu-%u", i);
        SM_TRY_OUT(st, sm_thread_new(&w->thread, worker_main, w, name, err));
        p->n_started = i + 1;
        sm_thread_place(w->thread, i, n_threads);
    }
    p->caller = pthread_self();
    p->placed = sm_caller_place(n_threads);
    *out = p;
    return SMOL_OK;
out:
    sm_pool_free(p);
    return st;
}

void sm_pool_free(struct sm_pool *p)
{
    if (!p) return;
    atomic_store_explicit(&p->quit, true, memory_order_relaxed);
    gate_set(&p->job, atomic_load(&p->job.word) + 1);
    for (unsigned i = 1; i < p->n_started; i++) sm_thread_join(p->worker[i].thread);
    if (p->placed) sm_caller_release(pthread_equal(p->caller, pthread_self()));
    sm_mem_free(p, sizeof *p);
}

unsigned sm_pool_size(const struct sm_pool *p) { return p->n; }

void sm_pool_run(struct sm_pool *p, sm_job_fn fn, void *arg)
{
    if (p->n == 1) {
        fn(arg, 0, 1);
        return;
    }
    const unsigned number = atomic_load_explicit(&p->job.word, memory_order_relaxed) + 1;
    const unsigned finished = atomic_load_explicit(&p->done.word, memory_order_relaxed);
    assert((atomic_load(&p->joined) & (COUNT_MASK | OPEN)) == 0);
    p->fn = fn;
    p->arg = arg;
    atomic_store(&p->joined, number << NUMBER_SHIFT | OPEN);
    give_out(p, number);
    fn(arg, 0, p->n);
    if (atomic_fetch_and(&p->joined, ~OPEN) & COUNT_MASK) gate_wait(&p->done, finished, p->spin);
}
