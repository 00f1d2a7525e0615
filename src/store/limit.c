/* SPDX-License-Identifier: MIT */
/* A built-in slow flash, so that waiting can be studied anywhere: every read takes its latency plus
 * its bytes at the speed one stream gets, and all reads together share one bus. */
#include "store/store_int.h"

void sm_limit_init(struct sm_limit *l, double mb_s, double stream_mb_s, double latency_us)
{
    *l = (struct sm_limit){.bytes_per_ns = mb_s > 0 ? mb_s * 1e-3 : 0,
                           .latency_ns = latency_us > 0 ? latency_us * 1e3 : 0};
    l->stream_bytes_per_ns = stream_mb_s > 0 ? stream_mb_s * 1e-3 : l->bytes_per_ns;
    l->ready = pthread_mutex_init(&l->mu, NULL) == 0;
}

void sm_limit_destroy(struct sm_limit *l)
{
    if (l->ready) (void)pthread_mutex_destroy(&l->mu);
    l->ready = false;
}

uint64_t sm_limit_enter(struct sm_limit *l, size_t n, uint64_t now_ns)
{
    if (!l->ready || l->bytes_per_ns <= 0) return 0;
    const double now = (double)now_ns, size = (double)n;
    const double alone = now + l->latency_ns + size / l->stream_bytes_per_ns;
    (void)pthread_mutex_lock(&l->mu);
    const double start = l->bus_free_ns > now ? l->bus_free_ns : now;
    l->bus_free_ns = start + size / l->bytes_per_ns;
    const double bus = l->bus_free_ns;
    (void)pthread_mutex_unlock(&l->mu);
    return (uint64_t)(alone > bus ? alone : bus);
}
