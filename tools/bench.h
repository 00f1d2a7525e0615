/* SPDX-License-Identifier: MIT */
/* The three kinds of `smol bench`, shared by cmd_bench.c and bench_*.c only. */
#ifndef SM_TOOLS_BENCH_H
#define SM_TOOLS_BENCH_H

#include "lib/command.h"

#include <stdbool.h>
#include <stddef.h>

#define BENCH_RUNS_MAX 100u

/* Mean and standard deviation (of a sample) of n numbers; the deviation of one is 0. */
struct bench_mean {
    double mean, spread;
};
struct bench_mean bench_mean_of(const double *v, size_t n);

/* Each prints its result on stdout and returns the exit code. */
int bench_model(const struct sm_options *o, const char *path);
int bench_kernels(const struct sm_options *o);
int bench_flash(const struct sm_options *o, const char *path);

#endif
