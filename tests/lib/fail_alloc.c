/* SPDX-License-Identifier: MIT */
#include "fail_alloc.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/types.h>

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t align, size_t n);
int __real_posix_memalign(void **out, size_t align, size_t n);
char *__real_strdup(const char *s);
void __real_free(void *p);
void *__real_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
int __real_munmap(void *p, size_t n);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t align, size_t n);
int __wrap_posix_memalign(void **out, size_t align, size_t n);
char *__wrap_strdup(const char *s);
void __wrap_free(void *p);
void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at);
void *__wrap_mmap64(void *p, size_t n, int prot, int flags, int fd, off_t at);
int __wrap_munmap(void *p, size_t n);

static atomic_uint_fast64_t count, fail_number;
static atomic_bool failed;
static atomic_int_fast64_t live;

void alloc_fail_at(uint64_t n)
{
    atomic_store(&count, 0);
    atomic_store(&failed, false);
    atomic_store(&fail_number, n);
}

bool alloc_failed(void) { return atomic_load(&failed); }
uint64_t alloc_count(void) { return atomic_load(&count); }
int64_t alloc_live(void) { return atomic_load(&live); }

/* True when this call is the one to fail. */
static bool due(void)
{
    const uint64_t number = atomic_fetch_add(&count, 1) + 1;
    if (number != atomic_load(&fail_number)) return false;
    atomic_store(&failed, true);
    errno = ENOMEM;
    return true;
}

static void *held(void *p)
{
    if (p) atomic_fetch_add(&live, 1);
    return p;
}

void *__wrap_malloc(size_t n) { return due() ? NULL : held(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { return due() ? NULL : held(__real_calloc(n, size)); }
void *__wrap_aligned_alloc(size_t align, size_t n)
{
    return due() ? NULL : held(__real_aligned_alloc(align, n));
}
char *__wrap_strdup(const char *s) { return due() ? NULL : held(__real_strdup(s)); }

void *__wrap_realloc(void *p, size_t n)
{
    if (due()) return NULL;
    void *q = __real_realloc(p, n);
    return p ? q : held(q);
}

int __wrap_posix_memalign(void **out, size_t align, size_t n)
{
    if (due()) return ENOMEM;
    const int rc = __real_posix_memalign(out, align, n);
    if (rc == 0) (void)held(*out);
    return rc;
}

void __wrap_free(void *p)
{
    if (p) atomic_fetch_sub(&live, 1);
    __real_free(p);
}

void *__wrap_mmap(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
    if (due()) return MAP_FAILED;
    void *q = __real_mmap(p, n, prot, flags, fd, at);
    if (q != MAP_FAILED) atomic_fetch_add(&live, 1);
    return q;
}

/* What mmap is called with -D_FILE_OFFSET_BITS=64; the same function where long has 64 bits. */
void *__wrap_mmap64(void *p, size_t n, int prot, int flags, int fd, off_t at)
{
    return __wrap_mmap(p, n, prot, flags, fd, at);
}

int __wrap_munmap(void *p, size_t n)
{
    const int rc = __real_munmap(p, n);
    if (rc == 0) atomic_fetch_sub(&live, 1);
    return rc;
}
