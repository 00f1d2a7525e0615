/* SPDX-License-Identifier: MIT */
/* Checks of the slots of the recurrent mixers: convolution, delta rule. */
#include "tap.h"
#include "util_kern.h"

enum { B_A, B_B, B_C, B_OUT, B_REF, B_S, B_S_REF };

const char *check_conv(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    const size_t n = pick(0, 2) ? pick(1, 40) : 8 * pick(1, 32), taps = pick(2, SM_MAX_TAPS);
    const size_t n_tok = pick(1, 9), ldx = n + pick(0, 9), ldy = n + pick(0, 9);
    const unsigned kind = kind_of_floats();
    const size_t n_x = (taps + n_tok - 2) * ldx + n, n_y = (n_tok - 1) * ldy + n;
    float *x = floats(B_A, n_x, 4, kind), *y = floats(B_OUT, n_y, 4, 0);
    struct sm_conv c = {.x = x, .y = copy_of(B_REF, y, n_y, 4), .ldx = ldx, .ldy = ldy,
                        .w = floats(B_B, n * taps, 4, 0), .n_tok = (uint32_t)n_tok,
                        .n = (uint32_t)n, .taps = (uint32_t)taps, .silu = pick(0, 1) == 1};
    const float *want = c.y;
    size_t at = 0;
    ref->conv(&c);
    const bool in_place = pick(0, 1) == 1;
    c.y = in_place ? x + (taps - 1) * ldx : y;
    c.ldy = in_place ? ldx : ldy;
    if (GUARD_TRY()) k->conv(&c);
    guard_done();
    if (guard_signal() || !guard_intact(B_A) || !guard_intact(B_B) || !guard_intact(B_OUT))
        return failure("signal %d or written outside: %zu channels, %zu taps, %zu tokens",
                       guard_signal(), n, taps, n_tok);
    for (size_t t = 0; t < n_tok; t++)
        if (!same_floats(c.y + t * c.ldy, want + t * ldy, n, &at))
            return failure("%zu channels, %zu taps, token %zu of %zu, kind %u: at %zu %a, ref %a",
                           n, taps, t, n_tok, kind, at, (double)c.y[t * c.ldy + at],
                           (double)want[t * ldy + at]);
    return NULL;
}

/* Every float of the state in the lanes of rows that exist. */
static bool same_state(const float *a, const float *b, size_t dk, size_t n_rows, size_t *at)
{
    for (size_t j = 0; j < dk; j++)
        if (!same_floats(a + j * SM_DELTA_ROWS, b + j * SM_DELTA_ROWS, n_rows, at)) return false;
    return true;
}

const char *check_delta(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    const size_t dk = pick(0, 1) ? pick(1, 40) : 128, n_rows = pick(1, SM_DELTA_ROWS);
    const size_t n_tok = pick(1, 5), n_s = dk * SM_DELTA_ROWS, ld_o = n_rows + pick(0, 5);
    const bool per_key = pick(0, 1) == 1;
    const size_t at_k = dk, at_v = 2 * dk, at_g = at_v + n_rows,
                 at_beta = at_g + (per_key ? dk : 1);
    const size_t ld = at_beta + 1 + pick(0, 3), n_in = (n_tok - 1) * ld + at_beta + 1;
    const unsigned kind = pick(0, 2) ? 0 : kind_of_floats();
    const float *in = floats(B_A, n_in, 4, kind);
    float *s = floats(B_S, n_s, 64, kind), *s_ref = copy_of(B_S_REF, s, n_s, 64);
    float *o = floats(B_OUT, (n_tok - 1) * ld_o + n_rows, 4, 0);
    float *want = copy_of(B_REF, o, (n_tok - 1) * ld_o + n_rows, 4);
    struct sm_delta_tile d = {.s = s_ref, .q = in, .k = in + at_k, .v = in + at_v, .g = in + at_g,
                              .beta = in + at_beta, .ld = ld, .ld_o = ld_o, .o = want,
                              .n_tok = (uint32_t)n_tok, .dk = (uint32_t)dk,
                              .n_rows = (uint32_t)n_rows, .per_key = per_key};
    size_t at = 0;
    ref->delta_tile(&d);
    d.s = s;
    d.o = pick(0, 4) ? o : NULL;
    if (GUARD_TRY()) k->delta_tile(&d);
    guard_done();
    if (guard_signal() || !guard_intact(B_S) || !guard_intact(B_OUT))
        return failure("signal %d or written outside: %zu keys, %zu rows, %zu tokens",
                       guard_signal(), dk, n_rows, n_tok);
    if (!same_state(s, s_ref, dk, n_rows, &at))
        return failure("state: %zu keys, %zu rows, %zu tokens, kind %u", dk, n_rows, n_tok, kind);
    if (d.o && !same_floats(o, want, (n_tok - 1) * ld_o + n_rows, &at))
        return failure("o: %zu keys, %zu rows, %zu tokens, kind %u, at %zu: %a, ref %a", dk, n_rows,
                       n_tok, kind, at, (double)o[at], (double)want[at]);
    return NULL;
}
