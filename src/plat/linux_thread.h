/* SPDX-License-Identifier: MIT */
/* Between the files of src/plat and their test only. */
#ifndef SM_LINUX_THREAD_H
#define SM_LINUX_THREAD_H

#include "plat/plat.h"

#include <sched.h>
#include <stdatomic.h>

/* Sleep as long as *word is `old`, or a little shorter: the caller looks again. Wake up to n
 * sleepers after a change of the word. A word is never freed while someone may sleep on it. */
void sm_word_sleep(atomic_uint *word, unsigned old);
void sm_word_wake(atomic_uint *word, unsigned n);

/* Place thread i of n: its own core when there are n cores, the n largest cores (as a set) when
 * there are more and they differ, else anywhere. A refusal is ignored: a mask is a request. */
void sm_thread_place(struct sm_thread *t, unsigned i, unsigned n);

/* Give the calling thread the first of n cores, when it has n: the scheduler likes to wake a thread
 * on the core of who wakes it, and with all others bound it would share that core for milliseconds.
 * False: not done. Undone by sm_caller_release; here: by the same thread. */
bool sm_caller_place(unsigned n);
void sm_caller_release(bool here);

/* Of the allowed cores, those at least as large as the n-th largest; all when that is not known.
 * `root` is put before /sys ("" is the real system). */
void sm_cores_choose(const char *root, const cpu_set_t *allowed, unsigned n, cpu_set_t *out);
unsigned sm_cores_fast_at(const char *root, const cpu_set_t *allowed);

#endif
