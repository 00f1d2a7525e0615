/* SPDX-License-Identifier: MIT */
/* The reference kernels against direct formulas in double precision (right to a few roundings), and
 * against the exact order of operations of docs/arithmetic.md where that is short to write down. */
#include "base/bits.h"
#include "base/fmath.h"
#include "kern/kern.h"
#include "tap.h"

#include <math.h>

static struct sm_kern kern;

static bool same_bits(float a, float b)
{
    return sm_bits_of_f32(a) == sm_bits_of_f32(b) || (isnan(a) && isnan(b));
}

static void fill(float *x, size_t n, float size)
{
    for (size_t i = 0; i < n; i++) x[i] = tap_random_float(-size, size);
}

/* ---- quantised products -------------------------------------------------------------------- */

enum { COLS = 1024, ROWS = 19, GROUPS = 3, TOKENS = 3, LDY = 8 * GROUPS + 5 };

struct acts_room {
    int8_t q[TOKENS * COLS];
    float d[TOKENS * COLS / 32];
    int16_t s[TOKENS * COLS / 16];
};

static struct sm_acts quantize_all(struct acts_room *room, const float *x, uint32_t block)
{
    const sm_quantize_fn quantize = block == 256 ? kern.quantize_256 : kern.quantize_32;
    for (size_t t = 0; t < TOKENS; t++)
        quantize(x + t * COLS, COLS, room->q + t * COLS, room->d + t * COLS / block,
                 room->s + t * COLS / 16);
    return (struct sm_acts){room->q, room->d, room->s, TOKENS, COLS, block};
}

/* Random bytes whose scales are finite. */
static void random_rows(const struct sm_traits *t, uint8_t *rows, size_t n_blocks)
{
    for (size_t b = 0; b < n_blocks; b++) {
        uint8_t *p = rows + b * t->block_bytes;
        do {
            for (size_t i = 0; i < t->block_bytes; i++) p[i] = (uint8_t)tap_random();
            if (!strcmp(t->name, "MXFP4")) p[0] = (uint8_t)(120 + tap_random() % 16);
        } while (t->finite && !t->finite(p));
    }
}

/* Largest error of y [TOKENS][LDY] as a part of the sum of |terms|. */
static double product_error(uint32_t type, const uint8_t *rows, const struct sm_acts *a,
                            const float *y)
{
    static float w[COLS];
    double worst = 0;
    for (size_t r = 0; r < ROWS; r++) {
        sm_decode_row(type, rows + r * sm_row_bytes(type, COLS), w, COLS);
        for (size_t tok = 0; tok < TOKENS; tok++) {
            double sum = 0, size = 0;
            for (size_t i = 0; i < COLS; i++) {
                const size_t at = tok * COLS + i;
                const double term = (double)w[i] * a->q[at] * (double)a->d[at / a->block];
                sum += term;
                size += fabs(term);
            }
            const double error = fabs(sum - (double)y[tok * LDY + r]) / size;
            worst = tap_worse(worst, error);
        }
    }
    return worst;
}

static void check_mul_x8(uint32_t type)
{
    static struct acts_room room;
    static float x[TOKENS * COLS], y[TOKENS * LDY];
    const struct sm_traits *t = sm_traits_of(type);
    const size_t row_bytes = (size_t)sm_row_bytes(type, COLS);
    uint8_t *rows = malloc(ROWS * row_bytes), *x8 = malloc((size_t)sm_x8_bytes(type, ROWS, COLS));
    random_rows(t, rows, ROWS * COLS / t->block);
    fill(x, TOKENS * COLS, 3);
    const struct sm_acts a = quantize_all(&room, x, t->act_block);
    kern.pack_x8(type, x8, rows, row_bytes, ROWS, COLS);
    for (size_t i = 0; i < TOKENS * LDY; i++) y[i] = 12345;
    kern.mul_x8[type](y, LDY, x8, GROUPS, &a);
    const double worst = product_error(type, rows, &a, y);
    TAP_OK(worst < 3e-7, "%s: product within %.1e of the terms", t->name, worst);
    size_t touched = 0, padded = 0;
    for (size_t tok = 0; tok < TOKENS; tok++) {
        for (size_t k = 8 * GROUPS; k < LDY; k++) touched += y[tok * LDY + k] != 12345;
        for (size_t k = ROWS; k < 8 * GROUPS; k++) padded += y[tok * LDY + k] != 0;
    }
    TAP_OK(!touched && !padded, "%s: writes its rows only, rows of padding are zero", t->name);
    free(rows);
    free(x8);
}

/* One row of one block of largest codes: the int32 sums are exact (and do not overflow). Bytes are
 * `all`, except 16 bytes at sub_at, which are `sub`. */
static void check_largest(uint32_t type, uint8_t all, size_t sub_at, uint8_t sub, double largest)
{
    const struct sm_traits *t = sm_traits_of(type);
    uint8_t block[SM_BLOCK_BYTES_MAX], x8[8 * SM_BLOCK_BYTES_MAX];
    struct sm_codes c;
    int8_t q[256];
    int16_t s[16];
    float y[8], d = 1;
    memset(block, all, sizeof block);
    memset(block + sub_at, sub, 16);
    sm_st16(block + t->x8[0].offset, 0x3c00); /* d = 1 */
    if (t->has_min) sm_st16(block + t->x8[1].offset, 0);
    t->codes(block, &c);
    for (size_t i = 0; i < 256; i++) q[i] = (int8_t)(c.q[i] * c.sub[i / 16] < 0 ? -127 : 127);
    for (size_t g = 0; g < 16; g++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += q[16 * g + i];
        s[g] = (int16_t)sum;
    }
    const struct sm_acts a = {q, &d, s, 1, 256, 256};
    kern.pack_x8(type, x8, block, t->block_bytes, 1, 256);
    kern.mul_x8[type](y, 8, x8, 1, &a);
    TAP_OK(y[0] == (float)largest, "%s: the largest block gives %.0f", t->name, (double)y[0]);
}

/* The order of roundings, written out for one format. */
static void check_order(void)
{
    enum { BLOCKS = 64, BYTES = 20, N = 32 * BLOCKS };
    uint8_t rows[BLOCKS * BYTES], x8[8 * BLOCKS * BYTES];
    float x[N], y[8], d[BLOCKS], acc = 0;
    int8_t q[N];
    int16_t s[N / 16];
    for (unsigned b = 0; b < BLOCKS; b++) {
        for (unsigned i = 4; i < BYTES; i++) rows[BYTES * b + i] = (uint8_t)tap_random();
        sm_st16(rows + BYTES * b, sm_f16_of_f32(tap_random_float(-1, 1)));
        sm_st16(rows + BYTES * b + 2, sm_f16_of_f32(tap_random_float(-1, 1)));
    }
    fill(x, N, 1);
    kern.quantize_32(x, N, q, d, s);
    const struct sm_acts a = {q, d, s, 1, N, 32};
    kern.pack_x8(SM_Q4_1, x8, rows, sizeof rows, 1, N);
    kern.mul_x8[SM_Q4_1](y, 8, x8, 1, &a);
    for (unsigned b = 0; b < BLOCKS; b++) {
        const uint8_t *p = rows + BYTES * b;
        int i_sum = 0, m_sum = 0;
        for (unsigned j = 0; j < 32; j++) {
            const int w = j < 16 ? p[4 + j] & 15 : p[4 + j - 16] >> 4;
            i_sum += w * q[32 * b + j];
            m_sum += q[32 * b + j];
        }
        const float t = sm_f32_of_f16(sm_ld16(p)) * (float)i_sum;
        acc = fmaf(d[b], fmaf(sm_f32_of_f16(sm_ld16(p + 2)), (float)m_sum, t), acc);
    }
    TAP_OK(same_bits(acc, y[0]), "Q4_1: 64 steps in the documented order");
}

/* ---- quantising ---------------------------------------------------------------------------- */

enum { QUANT_N = 2048 };

/* Blocks of every kind: zeros, not numbers, too small, just not too small, ties, largest. */
static void fill_kinds(float *x, size_t block)
{
    fill(x, QUANT_N, 7);
    for (size_t i = 0; i < QUANT_N; i += 3) x[i] *= 1e-3f;
    memset(x, 0, block * sizeof *x);
    x[block] = INFINITY;
    x[2 * block + 5] = -NAN;
    for (size_t i = 0; i < block; i++) {
        x[3 * block + i] = -0x1.fffffep-101f;
        x[4 * block + i] = i & 1 ? -0x1p-100f : 0x1p-107f;
        x[5 * block + i] = i == 0 ? -127 : (float)(i % 128) / 2;
    }
    x[6 * block] = -0x1.fffffep127f;
}

static void check_quantize(uint32_t block)
{
    static float x[QUANT_N], d[QUANT_N / 32];
    static int8_t q[QUANT_N];
    static int16_t s[QUANT_N / 16];
    size_t wrong = 0, sums = 0;
    fill_kinds(x, block);
    (block == 256 ? kern.quantize_256 : kern.quantize_32)(x, QUANT_N, q, d, s);
    for (size_t b = 0; b < QUANT_N / block; b++) {
        float a = 0;
        bool number = true;
        for (size_t i = 0; i < block; i++) {
            const float v = fabsf(x[b * block + i]);
            number = number && isfinite(v);
            a = v > a ? v : a;
        }
        const bool live = number && a >= 0x1p-100f;
        wrong += !same_bits(d[b], !number ? NAN : live ? a / 127 : 0);
        for (size_t i = b * block; i < (b + 1) * block; i++)
            wrong += (live ? nearbyintf(x[i] * (127 / a)) : 0) != (float)q[i];
    }
    for (size_t g = 0; g < QUANT_N / 16; g++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += q[16 * g + i];
        sums += sum != s[g];
    }
    TAP_OK(!wrong && !sums, "quantize_%u: %zu codes or scales, %zu sums differ", block, wrong,
           sums);
    TAP_OK(q[5 * block] == -127 && q[5 * block + 1] == 0 && q[5 * block + 3] == 2 &&
               q[5 * block + 5] == 2 && q[5 * block + 7] == 4,
           "quantize_%u: ties go to even", block);
    TAP_OK(q[4 * block + 1] == -127 && d[4] > 0 && d[3] == 0, "quantize_%u: 2^-100", block);
}

static void check_kv_store(void)
{
    float x[96], back[96], a = 0;
    uint8_t f16[192], q8[102];
    double worst = 0;
    size_t wrong = 0;
    fill(x, 96, 2);
    for (size_t i = 32; i < 64; i++) x[i] = 127 * 0x1p-24f * 0.99f; /* below the smallest scale */
    x[64] = -INFINITY;
    kern.kv_store[SM_KV_F32](back, x, 96);
    TAP_OK(!memcmp(back, x, sizeof x), "kv_store f32: a copy");
    kern.kv_store[SM_KV_F16](f16, x, 96);
    for (size_t i = 0; i < 96; i++) wrong += sm_ld16(f16 + 2 * i) != sm_f16_of_f32(x[i]);
    TAP_OK(!wrong, "kv_store f16: rounded to nearest");
    kern.kv_store[SM_KV_Q8_0](q8, x, 96);
    sm_decode_row(SM_Q8_0, q8, back, 96);
    for (size_t i = 0; i < 32; i++) {
        a = fabsf(x[i]) > a ? fabsf(x[i]) : a;
        worst = tap_worse(worst, fabs((double)back[i] - (double)x[i]));
    }
    /* half a step, and up to 127 times the rounding of the scale to 11 bits */
    TAP_OK(worst <= (double)a * (0.5 / 127 + 0x1p-11), "kv_store q8_0: within half a step (%.1e)",
           worst);
    for (size_t i = 32; i < 64; i++) wrong += back[i] != 0;
    for (size_t i = 64; i < 96; i++) wrong += isnan(back[i]) == 0;
    TAP_OK(!wrong, "kv_store q8_0: tiny values become 0, an infinity is not lost");
}

/* ---- sums of products ---------------------------------------------------------------------- */

/* sum16 written by lanes instead of by terms. */
static float sum16(const float *a, const float *b, size_t n)
{
    float p[16];
    for (size_t lane = 0; lane < 16; lane++) {
        p[lane] = 0;
        for (size_t i = lane; i < n; i += 16) p[lane] = fmaf(a[i], b[i], p[lane]);
    }
    for (size_t k = 0; k < 8; k++) p[k] += p[k + 8];
    for (size_t k = 0; k < 4; k++) p[k] += p[k + 4];
    return (p[0] + p[2]) + (p[1] + p[3]);
}

static void check_rows(uint32_t type)
{
    enum { N_ROW = 7, N_MAX = 200, N_TOK = 2 };
    static float w[N_ROW * N_MAX], x[N_TOK * N_MAX], y[N_TOK * N_ROW], conv[N_ROW * N_MAX];
    static uint16_t w16[N_ROW * N_MAX];
    static const size_t sizes[] = {1, 15, 16, 17, 64, 100, 200};
    size_t wrong = 0;
    for (size_t j = 0; j < sizeof sizes / sizeof *sizes; j++) {
        const size_t n = sizes[j];
        fill(w, N_ROW * n, 1);
        fill(x, N_TOK * N_MAX, 1);
        for (size_t i = 0; i < N_ROW * n; i++)
            w16[i] = type == SM_F16 ? sm_f16_of_f32(w[i]) : (uint16_t)(sm_bits_of_f32(w[i]) >> 16);
        const void *rows = type == SM_F32 ? (const void *)w : w16;
        sm_decode_row(type, rows, conv, N_ROW * n);
        kern.mul_rows[type](y, N_ROW, rows, N_ROW, n, x, N_MAX, N_TOK);
        for (size_t r = 0; r < N_ROW; r++)
            for (size_t t = 0; t < N_TOK; t++)
                wrong += !same_bits(y[t * N_ROW + r], sum16(conv + r * n, x + t * N_MAX, n));
    }
    TAP_OK(!wrong, "mul_rows %s: %zu results are not sum16", sm_type_name(type), wrong);
}

static void check_dot(void)
{
    float a[77], b[77];
    fill(a, 77, 1);
    fill(b, 77, 1);
    TAP_OK(same_bits(kern.dot(a, b, 77), sum16(a, b, 77)), "dot");
    TAP_OK(same_bits(kern.dot(a, b, 77), sm_sum16_dot(a, b, 77)), "sm_sum16_dot");
    TAP_OK(kern.dot(a, b, 0) == 0, "dot of nothing");
}

/* ---- vector steps -------------------------------------------------------------------------- */

enum { VEC = 133 };

static void check_norm(void)
{
    float x[VEC], w[VEC], y[VEC], z[VEC];
    double sum = 0, worst = 0;
    size_t wrong = 0;
    fill(x, VEC, 2);
    fill(w, VEC, 2);
    for (size_t i = 0; i < VEC; i++) sum += (double)x[i] * (double)x[i];
    const float s = kern.rms_norm(y, x, w, VEC, 1e-5f);
    const double root = sqrt(sum / VEC + 1e-5);
    for (size_t i = 0; i < VEC; i++)
        worst = tap_worse(worst, fabs((double)y[i] - (double)x[i] / root * (double)w[i]));
    TAP_OK(worst < 1e-6 && fabs((double)s / sum - 1) < 1e-6, "rms_norm (%.1e)", worst);
    TAP_OK(same_bits(s, sum16(x, x, VEC)), "rms_norm returns the sum of squares");
    memcpy(z, x, sizeof x);
    (void)kern.rms_norm(z, z, NULL, VEC, 1e-5f);
    const float r = 1 / sqrtf(s / (float)VEC + 1e-5f);
    for (size_t i = 0; i < VEC; i++)
        wrong += !same_bits(z[i], x[i] * r) || !same_bits(y[i], x[i] * r * w[i]);
    TAP_OK(!wrong, "rms_norm: order, in place, and without weights");
}

static void check_vectors(void)
{
    float x[VEC], w[VEC], y[VEC], z[VEC];
    double worst = 0;
    size_t wrong = 0;
    fill(x, VEC, 40);
    fill(w, VEC, 2);
    kern.silu_mul(y, x, w, VEC);
    for (size_t i = 0; i < VEC; i++) {
        const double want = (double)x[i] / (1 + exp(-(double)x[i])) * (double)w[i];
        worst = tap_worse(worst, fabs((double)y[i] - want) / fabs(want));
    }
    TAP_OK(worst < 1e-6, "silu_mul (%.1e)", worst);
    kern.exp(y, x, VEC);
    worst = 0;
    for (size_t i = 0; i < VEC; i++) {
        worst = tap_worse(worst, fabs((double)y[i] / exp((double)x[i]) - 1));
        wrong += !same_bits(y[i], sm_exp_f32(x[i]));
    }
    TAP_OK(worst < 1e-6 && !wrong, "exp (%.1e)", worst);
    memcpy(y, w, sizeof w);
    kern.axpy(y, 0.7f, x, VEC);
    memcpy(z, w, sizeof w);
    kern.add(z, x, VEC);
    for (size_t i = 0; i < VEC; i++)
        wrong += !same_bits(y[i], fmaf(0.7f, x[i], w[i])) || !same_bits(z[i], w[i] + x[i]);
    TAP_OK(!wrong, "axpy and add");
}

static void check_rope(bool adjacent)
{
    enum { N_ROT = 64, N = 80 };
    float x[N], y[N], cs[N_ROT];
    double worst = 0;
    fill(x, N, 10);
    for (size_t j = 0; j < N_ROT / 2; j++) {
        cs[j] = (float)cos((double)j);
        cs[N_ROT / 2 + j] = (float)sin((double)j);
    }
    memcpy(y, x, sizeof x);
    (adjacent ? kern.rope_adjacent : kern.rope_half)(y, cs, N_ROT);
    size_t wrong = 0;
    for (size_t j = 0; j < N_ROT / 2; j++) {
        const size_t ia = adjacent ? 2 * j : j, ib = adjacent ? 2 * j + 1 : j + N_ROT / 2;
        const float a = x[ia], b = x[ib], c = cs[j], s = cs[N_ROT / 2 + j];
        worst = tap_worse(worst, fabs((double)a * cos((double)j) - (double)b * sin((double)j) -
                                 (double)y[ia]));
        worst = tap_worse(worst, fabs((double)a * sin((double)j) + (double)b * cos((double)j) -
                                 (double)y[ib]));
        wrong += !same_bits(y[ia], fmaf(a, c, -(b * s))) || !same_bits(y[ib], fmaf(a, s, b * c));
    }
    wrong += memcmp(y + N_ROT, x + N_ROT, (N - N_ROT) * sizeof *x) != 0;
    TAP_OK(worst < 3e-6 && !wrong, "rope_%s (%.1e)", adjacent ? "adjacent" : "half", worst);
}

/* ---- attention ----------------------------------------------------------------------------- */

enum { D = 64, V = 32, HEADS = 3, POS = 256, LDQ = D + 3, LDO = V + 5 };

struct attention {
    float q[HEADS * LDQ], k[POS * D], v[POS * V], o[HEADS * LDO], m[HEADS], l[HEADS];
    uint8_t kc[POS * 4 * (D + 2)], vc[POS * 4 * V];
    size_t k_stride, v_stride;
};

/* Random keys and values in a KV format; k and v are what is read back. */
static void fill_attention(struct attention *a, enum sm_kv_type kv, uint32_t type)
{
    float raw[D];
    a->k_stride = (size_t)sm_row_bytes(type, D) + 8; /* a gap between rows */
    a->v_stride = (size_t)sm_row_bytes(type, V);
    fill(a->q, HEADS * LDQ, 3);
    for (size_t i = 0; i < POS; i++) {
        fill(raw, D, 2);
        kern.kv_store[kv](a->kc + i * a->k_stride, raw, D);
        sm_decode_row(type, a->kc + i * a->k_stride, a->k + i * D, D);
        fill(raw, V, 2);
        kern.kv_store[kv](a->vc + i * a->v_stride, raw, V);
        sm_decode_row(type, a->vc + i * a->v_stride, a->v + i * V, V);
    }
}

/* Error of one head against double precision; *wrong counts results of another order. */
static double head_error(const struct attention *a, size_t h, size_t first, size_t last,
                         size_t *wrong)
{
    const float *q = a->q + h * LDQ, *o = a->o + h * LDO;
    double s[POS], top = -INFINITY, sum = 0, worst = 0;
    float si[POS], best = -INFINITY, lanes[16] = {0}, ones[16];
    for (size_t i = first; i < last; i++) {
        s[i] = 0;
        for (size_t d = 0; d < D; d++) s[i] += (double)q[d] * (double)a->k[i * D + d] * 0.125;
        top = fmax(top, s[i]);
        si[i] = sum16(q, a->k + i * D, D) * 0.125f;
        best = best > si[i] ? best : si[i];
    }
    for (size_t i = first; i < last; i++) {
        sum += exp(s[i] - top);
        si[i] = sm_exp_f32(si[i] - best);
        lanes[i % 16] += si[i];
    }
    for (size_t i = 0; i < 16; i++) ones[i] = 1;
    *wrong += !same_bits(a->m[h], best) || !same_bits(a->l[h], sum16(lanes, ones, 16));
    worst = fabs((double)a->l[h] / sum - 1);
    for (size_t d = 0; d < V; d++) {
        double want = 0;
        float exact = 0;
        for (size_t i = first; i < last; i++) {
            want += exp(s[i] - top) * (double)a->v[i * V + d];
            exact = fmaf(si[i], a->v[i * V + d], exact);
        }
        *wrong += !same_bits(o[d], exact);
        worst = tap_worse(worst, fabs((double)o[d] - want) / sum);
    }
    for (size_t d = V; d < LDO; d++) *wrong += o[d] != 777; /* beyond the head */
    return worst;
}

static void check_attention(enum sm_kv_type kv, uint32_t type)
{
    static struct attention a;
    static const uint32_t ranges[][2] = {{0, 1}, {0, 256}, {5, 40}, {255, 256}, {100, 229}};
    fill_attention(&a, kv, type);
    for (size_t r = 0; r < sizeof ranges / sizeof *ranges; r++) {
        const uint32_t first = ranges[r][0], last = ranges[r][1];
        const struct sm_attn_chunk c = {
            .q = a.q, .ldq = LDQ, .k = a.kc, .v = a.vc, .k_stride = a.k_stride,
            .v_stride = a.v_stride, .n_q = HEADS, .first = first, .last = last, .dk = D, .dv = V,
            .scale = 0.125f, .m = a.m, .l = a.l, .o = a.o, .ldo = LDO};
        double worst = 0;
        size_t wrong = 0;
        for (size_t i = 0; i < HEADS * LDO; i++) a.o[i] = 777;
        kern.attn_chunk[kv](&c);
        for (size_t h = 0; h < HEADS; h++)
            worst = tap_worse(worst, head_error(&a, h, first, last, &wrong));
        TAP_OK(worst < 1e-5 && !wrong, "attention over %s, positions %u to %u (%.1e)",
               sm_type_name(type), first, last, worst);
    }
}

int main(int argc, char **argv)
{
    tap_init(argc, argv);
    sm_kern_init(&kern, 1);
    TAP_IS_STR(kern.level, "ref", "level");
    size_t strays = 0;
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        if (sm_type_is_x8(type)) check_mul_x8(type);
        else strays += kern.mul_x8[type] != NULL;
    }
    TAP_OK(!strays, "no kernel for what is not an x8 format");
    size_t others = 0; /* a CPU that offers nothing else: SSE2, or ARM without NEON */
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        const char *level = sm_kern_matrix_level(1, type);
        others += sm_type_is_matrix(type) ? !level || strcmp(level, "ref") != 0 : level != NULL;
    }
    TAP_OK(!others, "a CPU without levels takes every matrix kernel from ref");
    check_largest(SM_Q2_K, 0xff, 0, 0xff, 1463040);
    check_largest(SM_Q3_K, 0x00, 0, 0x00, 4161536);
    check_largest(SM_Q4_K, 0xff, 0, 0xff, 30723840);
    check_largest(SM_Q5_K, 0xff, 0, 0xff, 63495936);
    check_largest(SM_Q6_K, 0x00, 192, 0x80, 133169152);
    check_largest(SM_IQ4_XS, 0x00, 0, 0x00, 132128768);
    check_order();
    check_quantize(32);
    check_quantize(256);
    check_kv_store();
    check_rows(SM_F32);
    check_rows(SM_F16);
    check_rows(SM_BF16);
    check_dot();
    check_norm();
    check_vectors();
    check_rope(false);
    check_rope(true);
    check_attention(SM_KV_F32, SM_F32);
    check_attention(SM_KV_F16, SM_F16);
    check_attention(SM_KV_Q8_0, SM_Q8_0);
    return tap_done();
}
