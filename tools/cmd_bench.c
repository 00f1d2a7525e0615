/* SPDX-License-Identifier: MIT */
/* smol bench MODEL | --kernels | --flash PATH: how fast a model, the kernels or a flash chip is. */
#include "bench.h"

#include <math.h>

struct bench_mean bench_mean_of(const double *v, size_t n)
{
    struct bench_mean m = {0, 0};
    double squares = 0;
    for (size_t i = 0; i < n; i++) m.mean += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) squares += (v[i] - m.mean) * (v[i] - m.mean);
    if (n > 1) m.spread = sqrt(squares / (double)(n - 1));
    return m;
}

int sm_cmd_bench(const struct sm_options *o, int argc, char **argv)
{
    if ((argc == 1) + o->bench_kernels + (o->bench_flash != NULL) != 1)
        return sm_complain(SM_EXIT_USAGE,
                           "one of three: smol bench MODEL | smol bench --kernels | smol bench "
                           "--flash PATH");
    if (o->bench_kernels) return bench_kernels(o);
    if (o->bench_flash) return bench_flash(o, o->bench_flash);
    return bench_model(o, argv[0]);
}
