/* SPDX-License-Identifier: MIT */
/* The reference kernels of the recurrent mixers against their formulas in double precision, and a
 * batch against its tokens one by one, bit for bit. */
#include "base/fmath.h"
#include "kern/kern.h"
#include "tap.h"

#include <math.h>
#include <string.h>

enum { DK = 24, ROWS = 20, TOK = 17, LD = 2 * DK + ROWS + DK + 1, CH = 19, TAPS = 4 };

static struct sm_kern kern;

static void fill(float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++) x[i] = tap_random_float(-size, size);
}

static void check_gate(void)
{
    float g[33], u[33], h[33];
    double worst = 0;
    fill(g, 33, 20);
    fill(u, 33, 3);
    kern.sigmoid_mul(h, g, u, 33);
    for (size_t i = 0; i < 33; i++) {
        const double want = (double)u[i] / (1 + exp(-(double)g[i]));
        worst = tap_worse(worst, fabs((double)h[i] - want) / (fabs(want) + 1e-30));
    }
    TAP_OK(worst < 1e-6, "sigmoid gate (%.1e)", worst);
}

static void check_conv(bool silu)
{
    float x[(TAPS - 1 + TOK) * CH], y[TOK * CH], one[CH], w[CH * TAPS];
    double worst = 0;
    size_t wrong = 0;
    fill(x, sizeof x / sizeof *x, 2);
    fill(w, sizeof w / sizeof *w, 1);
    struct sm_conv c = {.y = y, .x = x, .ldy = CH, .ldx = CH, .w = w, .n_tok = TOK, .n = CH,
                        .taps = TAPS, .silu = silu};
    kern.conv(&c);
    for (size_t t = 0; t < TOK; t++) {
        for (size_t i = 0; i < CH; i++) {
            double want = 0;
            for (size_t j = 0; j < TAPS; j++)
                want += (double)w[i * TAPS + j] * (double)x[(t + j) * CH + i];
            if (silu) want = want / (1 + exp(-want));
            worst = tap_worse(worst, fabs((double)y[t * CH + i] - want));
        }
        struct sm_conv alone = c;
        alone.x = x + t * CH;
        alone.y = one;
        alone.n_tok = 1;
        kern.conv(&alone);
        wrong += memcmp(one, y + t * CH, sizeof one) != 0;
    }
    c.y = x + (TAPS - 1) * CH;
    kern.conv(&c);
    wrong += memcmp(c.y, y, sizeof y) != 0;
    TAP_OK(worst < 2e-6 && !wrong, "convolution%s (%.1e, %zu differ token by token or in place)",
           silu ? " with silu" : "", worst, wrong);
}

/* The formulas in double precision. */
static void delta_exact(const float *in, bool per_key, double s[DK][ROWS], double *o)
{
    const float *q = in, *k = in + DK, *v = in + 2 * DK, *g = v + ROWS;
    const double beta = (double)in[LD - 1];
    double u[ROWS] = {0};
    memset(o, 0, ROWS * sizeof *o);
    for (size_t j = 0; j < DK; j++)
        for (size_t i = 0; i < ROWS; i++) {
            s[j][i] *= (double)g[per_key ? j : 0];
            u[i] += s[j][i] * (double)k[j];
        }
    for (size_t j = 0; j < DK; j++)
        for (size_t i = 0; i < ROWS; i++) {
            s[j][i] += ((double)v[i] - u[i]) * beta * (double)k[j];
            o[i] += s[j][i] * (double)q[j];
        }
}

static void check_delta(bool per_key)
{
    static float in[TOK * LD], s[DK * SM_DELTA_ROWS], again[DK * SM_DELTA_ROWS], o[TOK * ROWS];
    static double exact[DK][ROWS];
    double want[ROWS], worst = 0;
    float one[ROWS];
    size_t wrong = 0;
    memset(s, 0, sizeof s);
    memset(again, 0, sizeof again);
    memset(exact, 0, sizeof exact);
    fill(in, sizeof in / sizeof *in, 0.4f);
    for (size_t t = 0; t < TOK; t++)
        for (size_t i = LD - DK - 1; i < LD; i++) in[t * LD + i] = tap_random_float(0.3f, 1);
    struct sm_delta_tile d = {.s = s, .q = in, .k = in + DK, .v = in + 2 * DK,
                              .g = in + 2 * DK + ROWS, .beta = in + LD - 1, .ld = LD, .o = o,
                              .ld_o = ROWS, .n_tok = TOK, .dk = DK, .n_rows = ROWS,
                              .per_key = per_key};
    kern.delta_tile(&d);
    for (size_t t = 0; t < TOK; t++) {
        delta_exact(in + t * LD, per_key, exact, want);
        for (size_t i = 0; i < ROWS; i++) {
            worst = tap_worse(worst, fabs((double)o[t * ROWS + i] - want[i]));
        }
        struct sm_delta_tile alone = d;
        alone.s = again;
        alone.q += t * LD;
        alone.k += t * LD;
        alone.v += t * LD;
        alone.g += t * LD;
        alone.beta += t * LD;
        alone.o = one;
        alone.n_tok = 1;
        kern.delta_tile(&alone);
        wrong += memcmp(one, o + t * ROWS, sizeof one) != 0;
    }
    for (size_t j = 0; j < DK; j++)
        wrong += memcmp(s + j * SM_DELTA_ROWS, again + j * SM_DELTA_ROWS, ROWS * sizeof *s) != 0;
    TAP_OK(worst < 1e-5 && !wrong, "delta rule, a decay per %s (%.1e, %zu differ token by token)",
           per_key ? "key" : "head", worst, wrong);
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    sm_kern_init(&kern, 1);
    check_gate();
    check_conv(false);
    check_conv(true);
    check_delta(false);
    check_delta(true);
    return tap_done();
}
