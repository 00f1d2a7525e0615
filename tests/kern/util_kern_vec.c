/* SPDX-License-Identifier: MIT */
/* Checks of the vector slots: sums, norm, functions, rotary, attention, cache formats. */
#include "util_kern.h"
#include "tap.h"

#include <math.h>

enum { B_A, B_B, B_C, B_OUT, B_REF, B_M, B_L, B_M_REF, B_L_REF };

static size_t length(void) { return pick(0, 4) ? pick(1, 75) : 8 * pick(1, 300); }

/* The common end: NULL when y equals y_ref and nothing else was touched. */
static const char *verdict(const float *y, const float *y_ref, size_t n, unsigned kind)
{
    size_t at = 0;
    if (guard_signal()) return failure("signal %d, n %zu", guard_signal(), n);
    for (unsigned b = B_A; b <= B_OUT; b++)
        if (y == NULL || !guard_intact(b)) return failure("written outside, n %zu", n);
    if (same_floats(y, y_ref, n, &at)) return NULL;
    return failure("n %zu, kind %u, at %zu: %a, ref %a", n, kind, at, (double)y[at],
                   (double)y_ref[at]);
}

static void all_buffers(void)
{
    for (unsigned b = B_A; b <= B_OUT; b++) guard_buffer(b, 4, 4);
}

const char *check_dot(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    all_buffers();
    const size_t n = pick(0, 9) ? length() : 0;
    const unsigned kind = kind_of_floats();
    const float *a = floats(B_A, n, 4, kind), *b = floats(B_B, n, 4, kind);
    const float want = ref->dot(a, b, n);
    float got = 0;
    if (GUARD_TRY()) got = k->dot(a, b, n);
    guard_done();
    return verdict(&got, &want, 1, kind) ? failure("n %zu, kind %u: %a, ref %a, signal %d", n, kind,
                                                   (double)got, (double)want, guard_signal())
                                         : NULL;
}

const char *check_rms_norm(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    const bool in_place = pick(0, 1), weighted = pick(0, 2);
    float *x = floats(B_A, n, 4, kind), *w = weighted ? floats(B_B, n, 4, 0) : NULL;
    float *y_ref = floats(B_REF, n, 4, 0), *y = in_place ? x : floats(B_OUT, n, 4, 0);
    float sums[2] = {0, 0};
    size_t at = 0;
    sums[0] = ref->rms_norm(y_ref, x, w, n, 1e-6f);
    if (GUARD_TRY()) sums[1] = k->rms_norm(y, x, w, n, 1e-6f);
    guard_done();
    if (!guard_signal() && !same_floats(sums, sums + 1, 1, &at))
        return failure("sum of squares, n %zu, kind %u", n, kind);
    return verdict(y, y_ref, n, kind);
}

const char *check_gated(const struct sm_kern *k, const struct sm_kern *ref, uint32_t sigmoid)
{
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    float *g = floats(B_A, n, 4, kind), *u = floats(B_B, n, 4, kind_of_floats());
    float *y_ref = floats(B_REF, n, 4, 0), *outs[3] = {g, u, floats(B_OUT, n, 4, 0)};
    float *y = outs[pick(0, 2)];
    for (size_t i = 0; i < n; i++) g[i] *= kind == 0 ? 50.0f : 1.0f;
    (sigmoid ? ref->sigmoid_mul : ref->silu_mul)(y_ref, g, u, n);
    if (GUARD_TRY()) (sigmoid ? k->sigmoid_mul : k->silu_mul)(y, g, u, n);
    guard_done();
    return verdict(y, y_ref, n, kind);
}

const char *check_axpy(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    float *x = floats(B_A, n, 4, kind), *y = floats(B_OUT, n, 4, kind), w;
    float *y_ref = copy_of(B_REF, y, n, 4);
    fill_floats(&w, 1, kind);
    ref->axpy(y_ref, w, x, n);
    if (GUARD_TRY()) k->axpy(y, w, x, n);
    guard_done();
    return verdict(y, y_ref, n, kind);
}

const char *check_add(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    float *x = floats(B_A, n, 4, kind), *y = floats(B_OUT, n, 4, kind);
    float *y_ref = copy_of(B_REF, y, n, 4);
    ref->add(y_ref, x, n);
    if (GUARD_TRY()) k->add(y, x, n);
    guard_done();
    return verdict(y, y_ref, n, kind);
}

const char *check_exp(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    (void)unused;
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    float *x = floats(B_A, n, 4, kind), *y = floats(B_OUT, n, 4, 0);
    float *y_ref = floats(B_REF, n, 4, 0);
    if (kind == 0)
        for (size_t i = 0; i < n; i++) x[i] = tap_random_float(-110, 95);
    ref->exp(y_ref, x, n);
    if (GUARD_TRY()) k->exp(y, x, n);
    guard_done();
    return verdict(y, y_ref, n, kind);
}

const char *check_rope(const struct sm_kern *k, const struct sm_kern *ref, uint32_t adjacent)
{
    all_buffers();
    const size_t n = 2 * pick(1, 80);
    const unsigned kind = kind_of_floats();
    float *x = floats(B_OUT, n, 4, kind), *cs = floats(B_A, n, 4, 0);
    float *y_ref = copy_of(B_REF, x, n, 4);
    (adjacent ? ref->rope_adjacent : ref->rope_half)(y_ref, cs, n);
    if (GUARD_TRY()) (adjacent ? k->rope_adjacent : k->rope_half)(x, cs, n);
    guard_done();
    return verdict(x, y_ref, n, kind);
}

static size_t kv_bytes(uint32_t kv_type, size_t n)
{
    return kv_type == SM_KV_F32 ? 4 * n : kv_type == SM_KV_F16 ? 2 * n : n / 32 * 34;
}

const char *check_kv_store(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type)
{
    all_buffers();
    const size_t n = kv_type == SM_KV_Q8_0 ? 32 * pick(1, 9) : length();
    const unsigned kind = kind_of_floats();
    const size_t bytes = kv_bytes(kv_type, n);
    float *x = floats(B_A, n, 4, kind);
    uint8_t *y = guard_buffer(B_OUT, bytes, 1), *y_ref = guard_buffer(B_REF, bytes, 1);
    if (pick(0, 3) == 0) /* down to what a half cannot hold */
        for (size_t i = 0; i < n; i++) x[i] *= 0x1p-18f;
    ref->kv_store[kv_type](y_ref, x, n);
    if (GUARD_TRY()) k->kv_store[kv_type](y, x, n);
    guard_done();
    if (guard_signal() || !guard_intact(B_OUT) || memcmp(y, y_ref, bytes))
        return failure("n %zu, kind %u: signal %d, intact %d", n, kind, guard_signal(),
                       guard_intact(B_OUT));
    return NULL;
}

/* Keys and values of one chunk: n rows, made by ref's kv_store from random floats. */
static uint8_t *kv_rows(const struct sm_kern *ref, unsigned number, uint32_t kv_type, size_t n,
                        size_t width, size_t stride, unsigned kind)
{
    static float x[1024];
    uint8_t *rows = guard_buffer(number, (n - 1) * stride + kv_bytes(kv_type, width), 1);
    for (size_t i = 0; i < n; i++) {
        fill_floats(x, width, kind);
        ref->kv_store[kv_type](rows + i * stride, x, width);
    }
    return rows;
}

/* The sign of a zero maximum, and a maximum beside scores that are NaN, are not specified. */
static bool same_maxima(const float *m, const float *want, const float *l, size_t n, size_t *at)
{
    for (size_t i = 0; i < n; i++) {
        size_t ignored = 0;
        *at = i;
        if (isnan(l[i]) || (m[i] == 0 && want[i] == 0)) continue;
        if (!same_floats(m + i, want + i, 1, &ignored)) return false;
    }
    return true;
}

const char *check_attn(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type)
{
    all_buffers();
    const bool q8 = kv_type == SM_KV_Q8_0;
    const size_t dk = q8 ? 32 * pick(1, 6) : pick(0, 1) ? 16 * pick(1, 12) : pick(1, 150);
    const size_t dv = q8 ? 32 * pick(1, 6) : pick(0, 1) ? 16 * pick(1, 12) : pick(1, 150);
    const size_t last = pick(0, 2) ? pick(1, 40) : pick(1, 256),
                 first = pick(0, 1) * pick(0, last - 1);
    const size_t align = kv_type == SM_KV_F32 ? 4 : 2;
    const size_t ks = kv_bytes(kv_type, dk) + align * pick(0, 9);
    const size_t vs = kv_bytes(kv_type, dv) + align * pick(0, 9);
    const size_t n_q = pick(1, 9), ldq = dk + pick(0, 5), ldo = dv + pick(0, 5);
    const unsigned kind = pick(0, 2) ? 0 : kind_of_floats();
    const size_t n_o = (n_q - 1) * ldo + dv;
    struct sm_attn_chunk c = {.ldq = ldq,
                              .k_stride = ks,
                              .v_stride = vs,
                              .n_q = (uint32_t)n_q,
                              .first = (uint32_t)first,
                              .last = (uint32_t)last,
                              .dk = (uint32_t)dk,
                              .dv = (uint32_t)dv,
                              .scale = 0.125f,
                              .ldo = ldo};
    size_t at = 0;
    c.q = floats(B_A, (n_q - 1) * ldq + dk, 4, kind);
    c.k = kv_rows(ref, B_B, kv_type, last, dk, ks, kind);
    c.v = kv_rows(ref, B_C, kv_type, last, dv, vs, kind);
    struct sm_attn_chunk want = c;
    c.o = guard_buffer(B_OUT, 4 * n_o, 4), want.o = guard_buffer(B_REF, 4 * n_o, 4);
    c.m = guard_buffer(B_M, 4 * n_q, 4), want.m = guard_buffer(B_M_REF, 4 * n_q, 4);
    c.l = guard_buffer(B_L, 4 * n_q, 4), want.l = guard_buffer(B_L_REF, 4 * n_q, 4);
    ref->attn_chunk[kv_type](&want);
    if (GUARD_TRY()) k->attn_chunk[kv_type](&c);
    guard_done();
    if (guard_signal() || !guard_intact(B_M) || !guard_intact(B_L) || !guard_intact(B_OUT))
        return failure("signal %d or written outside: dk %zu, dv %zu, %zu..%zu, %zu heads",
                       guard_signal(), dk, dv, first, last, n_q);
    if (!same_maxima(c.m, want.m, want.l, n_q, &at))
        return failure("m[%zu] %a, ref %a, kind %u", at, (double)c.m[at], (double)want.m[at], kind);
    if (!same_floats(c.l, want.l, n_q, &at))
        return failure("l[%zu] %a, ref %a, kind %u", at, (double)c.l[at], (double)want.l[at], kind);
    if (!same_floats(c.o, want.o, n_o, &at))
        return failure("o: dk %zu, dv %zu, %zu..%zu, %zu heads, kind %u, at %zu: %a, ref %a", dk,
                       dv, first, last, n_q, kind, at, (double)c.o[at], (double)want.o[at]);
    return NULL;
}

/* A tile of tokens of a prompt against ref's chunks, token by token. */
const char *check_attn_tile(const struct sm_kern *k, const struct sm_kern *ref, uint32_t kv_type)
{
    all_buffers();
    const size_t dk = 32 * pick(1, 5), dv = kv_type == SM_KV_Q8_0 ? 32 * pick(1, 5) : pick(1, 150);
    const size_t n = pick(0, 1) ? pick(4, 40) : pick(4, 256), n_q = pick(1, 6);
    const size_t ks = kv_bytes(kv_type, dk), vs = kv_bytes(kv_type, dv), tok_q = n_q * dk + 3;
    const unsigned kind = pick(0, 2) ? 0 : kind_of_floats();
    struct sm_attn_tile a = {.c = {.ldq = dk, .k_stride = ks, .v_stride = vs,
                                   .n_q = (uint32_t)n_q, .dk = (uint32_t)dk, .dv = (uint32_t)dv,
                                   .scale = 0.25f, .ldo = dv},
                             .tok_q = tok_q, .n_tok = (uint32_t)pick(1, SM_ATTN_TOK)};
    const size_t n_m = a.n_tok * n_q, n_o = n_m * dv, window = pick(0, 1) ? pick(1, 2 * n) : 2 * n;
    size_t at = 0;
    for (uint32_t t = 0; t < a.n_tok; t++) { /* neighbouring tokens; the first may see nothing */
        const size_t end = pick(0, 9) ? n - a.n_tok + t + 1 : t;
        a.last[t] = (uint32_t)end;
        a.first[t] = end > window ? (uint32_t)(end - window) : 0;
    }
    a.c.q = floats(B_A, (a.n_tok - 1) * tok_q + n_q * dk, 4, kind);
    a.c.k = kv_rows(ref, B_B, kv_type, n, dk, ks, kind);
    a.c.v = kv_rows(ref, B_C, kv_type, n, dv, vs, kind);
    struct sm_attn_chunk want = a.c;
    a.c.o = guard_buffer(B_OUT, 4 * n_o, 4), want.o = guard_buffer(B_REF, 4 * n_o, 4);
    a.c.m = guard_buffer(B_M, 4 * n_m, 4), want.m = guard_buffer(B_M_REF, 4 * n_m, 4);
    a.c.l = guard_buffer(B_L, 4 * n_m, 4), want.l = guard_buffer(B_L_REF, 4 * n_m, 4);
    for (uint32_t t = 0; t < a.n_tok; t++) {
        want.first = a.first[t], want.last = a.last[t];
        if (want.first < want.last) ref->attn_chunk[kv_type](&want);
        want.q += tok_q, want.m += n_q, want.l += n_q, want.o += n_q * dv;
    }
    want.m -= n_m, want.l -= n_m, want.o -= n_o;
    if (GUARD_TRY()) k->attn_tile[kv_type](&a);
    guard_done();
    if (guard_signal() || !guard_intact(B_M) || !guard_intact(B_L) || !guard_intact(B_OUT))
        return failure("signal %d or written outside: dk %zu, dv %zu, %zu rows, %zu heads",
                       guard_signal(), dk, dv, n, n_q);
    if (!same_maxima(a.c.m, want.m, want.l, n_m, &at) || !same_floats(a.c.l, want.l, n_m, &at))
        return failure("m or l of %zu differs, kind %u", at, kind);
    if (!same_floats(a.c.o, want.o, n_o, &at))
        return failure("o: dk %zu, dv %zu, %zu rows, %zu heads, %u tokens, at %zu: %a, ref %a", dk,
                       dv, n, n_q, a.n_tok, at, (double)a.c.o[at], (double)want.o[at]);
    return NULL;
}

const char *check_join(const struct sm_kern *k, const struct sm_kern *ref, uint32_t unused)
{
    all_buffers();
    const size_t n = length();
    const unsigned kind = kind_of_floats();
    const float *x = floats(B_A, n, 4, kind), *o = floats(B_B, n, 4, kind);
    float *y = guard_buffer(B_OUT, 4 * n, 4), *y_ref = guard_buffer(B_REF, 4 * n, 4);
    const float keep = tap_random_float(0, 1), part = tap_random_float(0, 1);
    size_t at = 0;
    (void)unused;
    memcpy(y, o, 4 * n);
    memcpy(y_ref, o, 4 * n);
    ref->join(y_ref, keep, x, part, n);
    if (GUARD_TRY()) k->join(y, keep, x, part, n);
    guard_done();
    if (guard_signal() || !guard_intact(B_OUT) || !same_floats(y, y_ref, n, &at))
        return failure("n %zu, kind %u: signal %d, at %zu", n, kind, guard_signal(), at);
    return NULL;
}
