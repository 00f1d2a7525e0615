/* SPDX-License-Identifier: MIT */
/* One product of an x8 kernel with one token, for bench/a55_counts: count_arm FORMAT BLOCKS
 * multiplies 32 groups of 8 rows of BLOCKS x 256 columns, all zeros. */
#include "cpu/cpu.h"
#include "kern/kern.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GROUPS = 32 };

int main(int argc, char **argv)
{
    struct sm_kern k;
    uint32_t type = 0;
    const long blocks = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
    if (blocks < 1 || blocks > 64) return 2;
    while (type < 64 && !(sm_type_is_x8(type) && !strcmp(sm_type_name(type), argv[1]))) type++;
    sm_kern_init(&k, sm_cpu_levels());
    if (type == 64 || !k.mul_x8[type]) return 2;
    const size_t n = (size_t)blocks * 256;
    struct sm_acts x = {.n_tok = 1, .n_cols = (uint32_t)n, .block = sm_traits_of(type)->act_block};
    uint8_t *w = calloc(1, (size_t)sm_x8_bytes(type, 8 * GROUPS, n) + 4096);
    float *y = calloc(8 * GROUPS, sizeof *y);
    x.q = calloc(n, 1);
    x.d = calloc(n / 32 + 1, sizeof *x.d);
    x.s = calloc(n / 16 + 1, sizeof *x.s);
    if (!w || !y || !x.q || !x.d || !x.s) return 1;
    k.mul_x8[type](y, 8, w, GROUPS, &x);
    printf("%d\n", y[0] == 0.0f);
    return 0;
}
