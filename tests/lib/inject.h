/* SPDX-License-Identifier: MIT */
/* Faults below the file layer: the raw open and pread of sm_plat_io are replaced, and a short list
 * of rules says which calls go wrong and how. Thread-safe. Use:
 *
 *   inject_start();                                  before the file is opened
 *   inject_add(&(struct inject_rule){ .kind = INJECT_EIO, .on = INJECT_DIRECT, .first = 3 });
 *   ... run ...
 *   TAP_OK(inject_fired(0) == 1, "the rule was met");
 *   inject_stop();                                   the real calls again, all rules forgotten
 *
 * Calls are counted from 1 and separately for direct reads, buffered reads, both together, and
 * opens. Opening a file with direct reads makes one or two direct reads of its own (the trial read
 * and the look at the page cache); inject_zero_counts() after sm_file_open leaves them out. */
#ifndef SM_TESTS_INJECT_H
#define SM_TESTS_INJECT_H

#include <stdbool.h>
#include <stdint.h>

enum inject_kind {
    INJECT_EINTR,
    INJECT_EIO,
    INJECT_EINVAL, /* what a file system says that refuses direct reads */
    INJECT_SHORT,  /* at most `amount` bytes of what was asked (at least 1) */
    INJECT_END,    /* 0 bytes; with `at` set, the file seems to end there */
    INJECT_FLIP,   /* bit 0 of the byte at file offset `at` (must be read by the call) flipped;
                    * without `at` of the first byte of the call */
    INJECT_DELAY,  /* the call takes `amount` microseconds longer; nothing is wrong */
    INJECT_ENOENT, /* opens */
    INJECT_EMFILE  /* opens */
};
enum inject_calls { INJECT_READ, INJECT_DIRECT, INJECT_BUFFERED, INJECT_OPEN, INJECT_OPEN_DIRECT };

struct inject_rule {
    enum inject_kind kind;
    enum inject_calls on;
    uint64_t first; /* number of the first call that goes wrong; 0 means 1 */
    uint64_t count; /* how many times it fires; 0 means once, UINT64_MAX for ever */
    uint64_t every; /* of the calls from `first`, every n-th; 0 means each */
    uint64_t at;    /* only calls that read the byte at this file offset... */
    bool has_at;    /* ...when this is set (INJECT_END: reads that go past it) */
    uint64_t amount;
};

void inject_start(void);
void inject_stop(void);
/* Returns the number of the rule, 0 first; at most 16. */
unsigned inject_add(const struct inject_rule *rule);
/* How often a rule has fired. */
uint64_t inject_fired(unsigned rule);
/* Calls of a kind since the start or the last zeroing. */
uint64_t inject_count(enum inject_calls calls);
void inject_zero_counts(void);

#endif
