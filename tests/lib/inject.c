/* SPDX-License-Identifier: MIT */
#include "inject.h"

#include "plat/plat.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>

#define MAX_RULES 16
#define MAX_FDS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sm_io_ops real;
static bool active;
static struct inject_rule rules[MAX_RULES];
static uint64_t fired[MAX_RULES];
static unsigned n_rules;
static uint64_t counts[INJECT_OPEN_DIRECT + 1];
static bool fd_is_direct[MAX_FDS];

static bool meets(const struct inject_rule *r, uint64_t number, uint64_t times, uint64_t at,
                  uint64_t n)
{
    const uint64_t first = r->first ? r->first : 1, limit = r->count ? r->count : 1;
    if (number < first || times >= limit) return false;
    if (r->every && (number - first) % r->every) return false;
    if (!r->has_at) return true;
    return r->kind == INJECT_END ? at + n > r->at : at <= r->at && r->at - at < n;
}

/* Counts the call under both of its names; the first rule that it meets is copied to *out. */
static bool next_rule(enum inject_calls own, enum inject_calls wider, uint64_t at, uint64_t n,
                      struct inject_rule *out)
{
    bool found = false;
    (void)pthread_mutex_lock(&lock);
    counts[own]++;
    if (wider != own) counts[wider]++;
    for (unsigned i = 0; i < n_rules && !found; i++) {
        const struct inject_rule *r = &rules[i];
        if ((r->on != own && r->on != wider) || !meets(r, counts[r->on], fired[i], at, n)) continue;
        fired[i]++;
        *out = *r;
        found = true;
    }
    (void)pthread_mutex_unlock(&lock);
    return found;
}

static int fault_errno(enum inject_kind kind)
{
    switch (kind) {
    case INJECT_EINTR: return EINTR;
    case INJECT_EIO: return EIO;
    case INJECT_EINVAL: return EINVAL;
    case INJECT_ENOENT: return ENOENT;
    case INJECT_EMFILE: return EMFILE;
    default: return 0;
    }
}

static int fake_open(const char *path, int flags)
{
    const bool direct = (flags & O_DIRECT) != 0;
    struct inject_rule r;
    if (next_rule(direct ? INJECT_OPEN_DIRECT : INJECT_OPEN, INJECT_OPEN, 0, 0, &r) &&
        fault_errno(r.kind)) {
        errno = fault_errno(r.kind);
        return -1;
    }
    const int fd = real.open(path, flags);
    if (fd >= 0 && fd < MAX_FDS) {
        (void)pthread_mutex_lock(&lock);
        fd_is_direct[fd] = direct;
        (void)pthread_mutex_unlock(&lock);
    }
    return fd;
}

static ssize_t fake_pread(int fd, void *buf, size_t n, off_t at)
{
    struct inject_rule r;
    (void)pthread_mutex_lock(&lock);
    const bool direct = fd >= 0 && fd < MAX_FDS && fd_is_direct[fd];
    (void)pthread_mutex_unlock(&lock);
    if (!next_rule(direct ? INJECT_DIRECT : INJECT_BUFFERED, INJECT_READ, (uint64_t)at, n, &r))
        return real.pread(fd, buf, n, at);
    if (fault_errno(r.kind)) {
        errno = fault_errno(r.kind);
        return -1;
    }
    if (r.kind == INJECT_END) {
        const uint64_t left = r.has_at && r.at > (uint64_t)at ? r.at - (uint64_t)at : 0;
        const ssize_t got = left ? real.pread(fd, buf, n, at) : 0; /* direct: n must stay whole */
        return got > (ssize_t)left ? (ssize_t)left : got;
    }
    if (r.kind == INJECT_DELAY) sm_sleep_ns(r.amount * 1000u);
    const ssize_t got = real.pread(fd, buf, n, at);
    if (r.kind == INJECT_SHORT) {
        const uint64_t most = r.amount ? r.amount : 1;
        return got > 0 && (uint64_t)got > most ? (ssize_t)most : got;
    }
    if (r.kind == INJECT_FLIP) {
        const uint64_t byte = r.has_at ? r.at - (uint64_t)at : 0;
        if (got > 0 && byte < (uint64_t)got) ((uint8_t *)buf)[byte] ^= 1;
    }
    return got;
}

void inject_start(void)
{
    assert(!active);
    active = true;
    n_rules = 0;
    memset(fired, 0, sizeof fired);
    memset(counts, 0, sizeof counts);
    memset(fd_is_direct, 0, sizeof fd_is_direct);
    real = *sm_plat_io();
    *sm_plat_io() = (struct sm_io_ops){fake_open, fake_pread};
}

void inject_stop(void)
{
    assert(active);
    active = false;
    n_rules = 0;
    *sm_plat_io() = real;
}

unsigned inject_add(const struct inject_rule *rule)
{
    (void)pthread_mutex_lock(&lock);
    assert(n_rules < MAX_RULES);
    const unsigned number = n_rules++;
    rules[number] = *rule;
    fired[number] = 0;
    (void)pthread_mutex_unlock(&lock);
    return number;
}

uint64_t inject_fired(unsigned rule)
{
    (void)pthread_mutex_lock(&lock);
    const uint64_t n = rule < MAX_RULES ? fired[rule] : 0;
    (void)pthread_mutex_unlock(&lock);
    return n;
}

uint64_t inject_count(enum inject_calls calls)
{
    (void)pthread_mutex_lock(&lock);
    const uint64_t n = counts[calls];
    (void)pthread_mutex_unlock(&lock);
    return n;
}

void inject_zero_counts(void)
{
    (void)pthread_mutex_lock(&lock);
    memset(counts, 0, sizeof counts);
    (void)pthread_mutex_unlock(&lock);
}
