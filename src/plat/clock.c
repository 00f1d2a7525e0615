/* SPDX-License-Identifier: MIT */
#include "plat/plat.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

uint64_t sm_now_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t sm_thread_cpu_ns(void)
{
    struct timespec t = {0, 0};
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void sm_sleep_ns(uint64_t ns)
{
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) && errno == EINTR) {}
}

size_t sm_page_bytes(void)
{
    const long n = sysconf(_SC_PAGESIZE);
    return n > 0 ? (size_t)n : 4096;
}
