/* SPDX-License-Identifier: MIT */
/* The compute threads. One word per thing to wait for: whoever waits spins on it for a while, then
 * sleeps in the system; whoever changes it wakes sleepers only if there are any. */
#include "plat/plat.h"

#include "base/mem.h"
#include "cpu/cpu.h"
#include "plat/linux_thread.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#define MAX_WORKERS 64u
/* Longer than the gaps between the steps of one layer (1-10 us) and than the wake of a sleeping
 * core (50-80 us in a virtual machine: sleeps would breed sleeps), shorter than any read. */
#define SPIN_NS 100000u
/* With more threads than cores the one waited for may not be running: let it, a few times. */
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

struct sm_pool {
    struct gate job;     /* word: number of the last job that was given out */
    struct gate done;    /* word: number of the last job that all others have finished */
    struct gate barrier; /* word: barriers passed */
    _Alignas(SM_ALIGN) atomic_uint working; /* others that have not finished this job */
    _Alignas(SM_ALIGN) atomic_uint arrived; /* at the barrier */
    _Alignas(SM_ALIGN) sm_job_fn fn;        /* written before job.word, read after it */
    void *arg;
    bool quit;
    bool spin; /* a core for each worker */
    bool placed; /* the caller has one of them */
    pthread_t caller;
    unsigned n;
    unsigned n_started;
    struct worker worker[MAX_WORKERS];
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
    if (atomic_load(&g->sleepers)) sm_word_wake(&g->word);
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

static void worker_main(void *arg)
{
    const struct worker *w = arg;
    struct sm_pool *p = w->pool;
    sm_cpu_float_mode();
    for (unsigned last = 0;;) {
        gate_wait(&p->job, last, p->spin);
        last = atomic_load_explicit(&p->job.word, memory_order_acquire);
        if (p->quit) return;
        p->fn(p->arg, w->index, p->n);
        if (atomic_fetch_sub(&p->working, 1) == 1) gate_set(&p->done, last);
    }
}

smol_status sm_pool_new(struct sm_pool **out, unsigned n_threads, smol_error *err)
{
    smol_status st = SMOL_OK;
    *out = NULL;
    if (n_threads < 1 || n_threads > MAX_WORKERS)
        return SM_FAIL(err, ARG, "%u threads asked for; 1 to %u are possible", n_threads,
                       MAX_WORKERS);
    struct sm_pool *p = sm_mem_new(sizeof *p);
    if (!p) return SM_FAIL(err, NOMEM, "no memory for %u threads", n_threads);
    sm_cpu_float_mode(); /* the caller is worker 0 */
    p->n = p->n_started = 1;
    p->spin = n_threads <= sm_cores_allowed();
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
    p->n = n_threads; /* read by the workers after the first job is given out */
    *out = p;
    return SMOL_OK;
out:
    sm_pool_free(p);
    return st;
}

void sm_pool_free(struct sm_pool *p)
{
    if (!p) return;
    p->quit = true;
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
    assert(atomic_load(&p->working) == 0);
    p->fn = fn;
    p->arg = arg;
    atomic_store_explicit(&p->working, p->n - 1, memory_order_relaxed);
    gate_set(&p->job, number);
    fn(arg, 0, p->n);
    gate_wait(&p->done, number - 1, p->spin);
}

void sm_pool_barrier(struct sm_pool *p)
{
    if (p->n == 1) return;
    const unsigned passed = atomic_load_explicit(&p->barrier.word, memory_order_relaxed);
    if (atomic_fetch_add(&p->arrived, 1) + 1 < p->n) {
        gate_wait(&p->barrier, passed, p->spin);
    } else { /* nobody can arrive again before the word changes */
        atomic_store_explicit(&p->arrived, 0, memory_order_relaxed);
        gate_set(&p->barrier, passed + 1);
    }
}
