/* SPDX-License-Identifier: MIT */
/* bandwidth THREADS [MIB]: what a plain streaming read of memory reaches, in GB/s: the threads add
 * up a buffer that is far larger than the caches, megabyte by megabyte, the best of 5 passes
 * counts. It is the bound that bench/peers holds decoding against. */
#include "base/mem.h"
#include "plat/plat.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { PASSES = 5, LANES = 8, PART = (1 << 20) / 8 };

struct job {
    const uint64_t *data;
    size_t n_parts; /* of PART words */
    atomic_size_t next;
    uint64_t sums[64];
};

/* Independent sums, which compilers turn into vectors. */
static void read_parts(void *arg, unsigned worker, unsigned n_workers)
{
    struct job *j = arg;
    uint64_t sum[LANES] = {0};
    (void)n_workers;
    for (size_t part; (part = atomic_fetch_add(&j->next, 1)) < j->n_parts;) {
        const uint64_t *p = j->data + part * PART;
        for (size_t i = 0; i < PART; i += LANES)
            for (size_t k = 0; k < LANES; k++) sum[k] += p[i + k];
    }
    for (size_t k = 0; k < LANES; k++) j->sums[worker] += sum[k];
}

int main(int argc, char **argv)
{
    const unsigned n_threads = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    const size_t mib = argc > 2 ? strtoul(argv[2], NULL, 10) : 1024;
    struct sm_pool *pool;
    smol_error err = {0};
    if (n_threads < 1 || n_threads > 64 || mib < 1 || mib > 65536) {
        fprintf(stderr, "usage: bandwidth [THREADS [MIB]]\n");
        return 2;
    }
    struct job j = {.n_parts = mib};
    uint64_t *data = sm_mem_new(mib << 20), best = UINT64_MAX;
    if (!data || sm_pool_new(&pool, n_threads, &err) != SMOL_OK) {
        fprintf(stderr, "bandwidth: %s\n", data ? err.msg : "out of memory");
        return 1;
    }
    for (size_t i = 0; i < mib * PART; i++) data[i] = i;
    j.data = data;
    for (int i = 0; i < PASSES; i++) {
        const uint64_t t0 = sm_now_ns();
        atomic_store(&j.next, 0);
        sm_pool_run(pool, read_parts, &j);
        const uint64_t t = sm_now_ns() - t0;
        best = t < best ? t : best;
    }
    printf("%.2f\n", (double)(mib << 20) / (double)best);
    fprintf(stderr, "# checksum %llx\n", (unsigned long long)(j.sums[0] ^ j.sums[n_threads - 1]));
    sm_pool_free(pool);
    sm_mem_free(data, mib << 20);
    return 0;
}
