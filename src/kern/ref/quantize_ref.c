/* SPDX-License-Identifier: MIT */
/* Float vectors to 8-bit codes: activations (docs/arithmetic.md section 3) and the cache of keys
 * and values (section 5, KV formats). */
#include "base/bits.h"
#include "kern/ref/ref.h"
#include <assert.h>
#include <math.h>

/* max |x|, compared as integers on the bits without sign: a NaN is above everything. */
static float largest(const float *x, size_t n)
{
    uint32_t a = 0;
    for (size_t i = 0; i < n; i++) {
        const uint32_t v = sm_bits_of_f32(x[i]) & 0x7fffffffu;
        a = v > a ? v : a;
    }
    return sm_f32_of_bits(a);
}

static bool is_number(float a) /* a >= 0 or NaN */
{
    return sm_bits_of_f32(a) < 0x7f800000u;
}

static void codes_of(const float *x, size_t n, float inv, int8_t *q)
{
    for (size_t i = 0; i < n; i++) q[i] = (int8_t)rintf(x[i] * inv);
}

static void quantize(const float *x, size_t n, size_t block, int8_t *q, float *d, int16_t *s)
{
    assert(n % block == 0);
    for (size_t b = 0; b < n / block; b++) {
        const float a = largest(x + b * block, block);
        if (!is_number(a) || a < 0x1p-100f) {
            d[b] = is_number(a) ? 0.0f : sm_f32_of_bits(0x7fc00000u);
            memset(q + b * block, 0, block);
        } else {
            d[b] = a / 127.0f;
            codes_of(x + b * block, block, 127.0f / a, q + b * block);
        }
    }
    for (size_t g = 0; g < n / 16; g++) {
        int sum = 0;
        for (size_t i = 16 * g; i < 16 * g + 16; i++) sum += q[i];
        s[g] = (int16_t)sum;
    }
}

void sm_quantize_32_ref(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, 32, q, d, s);
}

void sm_quantize_256_ref(const float *x, size_t n, int8_t *q, float *d, int16_t *s)
{
    quantize(x, n, 256, q, d, s);
}

void sm_kv_store_f32_ref(void *dst, const float *x, size_t n)
{
    memcpy(dst, x, n * sizeof *x);
}

void sm_kv_store_f16_ref(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    for (size_t i = 0; i < n; i++) sm_st16(p + 2 * i, sm_f16_of_f32(x[i]));
}

void sm_kv_store_q8_0_ref(void *dst, const float *x, size_t n)
{
    uint8_t *p = dst;
    assert(n % 32 == 0);
    for (size_t b = 0; b < n / 32; b++, p += 34) {
        const float a = largest(x + 32 * b, 32);
        int8_t q[32] = {0};
        uint16_t d = 0;
        if (!is_number(a)) {
            d = 0x7e00; /* NaN */
        } else if (a >= 127 * 0x1p-24f) {
            d = sm_f16_of_f32(a / 127.0f);
            codes_of(x + 32 * b, 32, 127.0f / a, q);
        }
        sm_st16(p, d);
        memcpy(p + 2, q, 32);
    }
}
