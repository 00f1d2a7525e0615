/* SPDX-License-Identifier: MIT */
/* Every weight format against golden vectors of another implementation (tests/data/quants): rows
 * decode bit for bit, products with given 8-bit activations agree, and the integers stay inside the
 * ranges that docs/arithmetic.md states. */
#include "base/bits.h"
#include "json_read.h"
#include "kern/kern.h"
#include "quant/codes.h"
#include "quant/iq_grids.h"
#include "tap.h"

#include <math.h>

#define N_ROWS 8
#define N_COLS 1024
#define DATA "tests/data/quants"

static struct sm_kern kern;

/* A fixture of the folder; the program ends when it is not there. */
static uint8_t *load(const char *name, const char *suffix, size_t *n)
{
    char rel[128], path[512];
    (void)snprintf(rel, sizeof rel, DATA "/%s%s", name, suffix);
    uint8_t *p = (uint8_t *)json_read_file(tap_src(path, sizeof path, rel), n);
    if (!p) {
        printf("Bail out! cannot read %s\n", path);
        exit(1);
    }
    return p;
}

/* ---- decoding ------------------------------------------------------------------------------ */

/* Weights that differ in a bit; NaN equals NaN. */
static size_t n_different(const float *a, const float *b, size_t n)
{
    size_t k = 0;
    for (size_t i = 0; i < n; i++)
        k += sm_bits_of_f32(a[i]) != sm_bits_of_f32(b[i]) && !(isnan(a[i]) && isnan(b[i]));
    return k;
}

static void check_decode(uint32_t type, const char *kind)
{
    char suffix[32];
    size_t n_bin, n_f32;
    const struct sm_traits *t = sm_traits_of(type);
    (void)snprintf(suffix, sizeof suffix, "%s.bin", kind);
    uint8_t *bin = load(t->name, suffix, &n_bin);
    (void)snprintf(suffix, sizeof suffix, "%s.f32", kind);
    uint8_t *want = load(t->name, suffix, &n_f32);
    const size_t n = n_f32 / 4;
    float *got = malloc(n_f32);
    TAP_OK(sm_row_bytes(type, n) == n_bin, "%s%s: size of %zu weights", t->name, kind, n);
    sm_decode_row(type, bin, got, n);
    const size_t wrong = n_different(got, (const float *)(const void *)want, n);
    TAP_OK(wrong == 0, "%s%s: %zu of %zu weights differ", t->name, kind, wrong, n);
    if (!strcmp(kind, ".rnd"))
        TAP_OK(sm_blocks_finite(type, bin, n / t->block), "%s: random blocks are finite", t->name);
    free(bin);
    free(want);
    free(got);
}

/* ---- products ------------------------------------------------------------------------------ */

static int8_t act_q[N_COLS];
static float act_d[N_COLS / 32];
static int16_t act_s[N_COLS / 16];

/* The golden 8-bit form of the test vector in the given activation format. */
static struct sm_acts load_acts(const char *act, uint32_t block)
{
    char name[32];
    size_t n;
    (void)snprintf(name, sizeof name, "vector.%s", act);
    uint8_t *bin = load(name, ".bin", &n);
    const bool k = block == 256;
    const size_t head = k ? 4 : !strcmp(act, "Q8_1") ? 4 : 2, stride = n / (N_COLS / block);
    for (size_t b = 0; b < N_COLS / block; b++) {
        const uint8_t *p = bin + b * stride;
        act_d[b] = k ? sm_ldf32(p) : sm_f32_of_f16(sm_ld16(p));
        memcpy(act_q + b * block, p + head, block);
    }
    for (size_t g = 0; g < N_COLS / 16; g++) {
        int sum = 0;
        for (size_t i = 0; i < 16; i++) sum += act_q[16 * g + i];
        act_s[g] = (int16_t)sum;
    }
    free(bin);
    return (struct sm_acts){act_q, act_d, act_s, 1, N_COLS, block};
}

static void check_dots(uint32_t type, const struct json *info)
{
    const struct sm_traits *t = sm_traits_of(type);
    const struct json *dots = json_get(info, "dots_q8");
    size_t n;
    uint8_t *bin = load(t->name, ".bin", &n);
    const size_t x8_bytes = (size_t)sm_x8_bytes(type, N_ROWS, N_COLS);
    uint8_t *x8 = malloc(x8_bytes);
    float y[N_ROWS], row[N_COLS];
    const struct sm_acts x = load_acts(json_str(json_get(info, "act"), ""), t->act_block);
    kern.pack_x8(type, x8, bin, (size_t)sm_row_bytes(type, N_COLS), N_ROWS, N_COLS);
    kern.mul_x8[type](y, N_ROWS, x8, 1, &x);
    double worst = 0;
    for (size_t r = 0; r < N_ROWS; r++) {
        double size = 0; /* sum of |weight * activation|: what rounding errors are measured by */
        sm_decode_row(type, bin + r * sm_row_bytes(type, N_COLS), row, N_COLS);
        for (size_t i = 0; i < N_COLS; i++)
            size += fabs((double)row[i] * act_q[i] * (double)act_d[i / t->act_block]);
        const double error = fabs(y[r] - json_num(json_at(dots, r), NAN)) / size;
        worst = tap_worse(worst, error);
    }
    TAP_OK(json_len(dots) == N_ROWS && worst < 1e-6, "%s: products differ by %.1e of the terms",
           t->name, worst);
    free(bin);
    free(x8);
}

/* ---- integer ranges ------------------------------------------------------------------------ */

/* Largest |I| and |M| of docs/arithmetic.md; `reached`: a block of that size exists. */
static const struct {
    uint32_t type;
    bool reached;
    int32_t i_max, m_max;
} ranges[] = {
    {SM_Q4_0, true, 32512, 0},         {SM_Q4_1, true, 60960, 4064},
    {SM_Q5_0, true, 65024, 0},         {SM_Q5_1, true, 125984, 4064},
    {SM_Q8_0, true, 520192, 0},        {SM_Q1_0, true, 4064, 0},
    {SM_Q2_0, true, 8128, 0},          {SM_IQ4_NL, true, 516128, 0},
    {SM_MXFP4, true, 48768, 0},        {SM_Q2_K, true, 1463040, 487680},
    {SM_Q3_K, true, 4161536, 0},       {SM_Q4_K, true, 30723840, 2048256},
    {SM_Q5_K, true, 63495936, 2048256}, {SM_Q6_K, true, 133169152, 0},
    {SM_TQ1_0, true, 32512, 0},        {SM_TQ2_0, true, 65024, 0},
    {SM_IQ4_XS, true, 132128768, 0},   {SM_IQ2_XXS, false, 43338496, 0},
    {SM_IQ2_XS, false, 43338496, 0},   {SM_IQ2_S, false, 43338496, 0},
    {SM_IQ3_XXS, false, 62488064, 0},  {SM_IQ3_S, false, 15118080, 0},
    {SM_IQ1_S, false, 4389120, 0},      {SM_IQ1_M, true, 4389120, 0},
};

struct extremes {
    int64_t i, m;
    bool range_ok; /* every q, sub and min in the range its field is stored in */
};

/* Largest I (activations of +-127 with the sign of each term) and M of any step of a block. */
static void measure(const struct sm_traits *t, const uint8_t *block, struct extremes *e)
{
    struct sm_codes c;
    memset(&c, 0, sizeof c);
    t->codes(block, &c);
    for (size_t at = 0; at < t->block; at += t->act_block) {
        int64_t i_sum = 0, m_sum = 0;
        for (size_t g = at / 16; g < (at + t->act_block) / 16; g++) {
            for (size_t i = 16 * g; i < 16 * g + 16; i++)
                i_sum += llabs((int64_t)c.q[i] * c.sub[g]);
            m_sum += abs(c.min[g]) * 16;
            if (c.sub[g] < -128 || c.sub[g] > 127 || c.min[g] < 0 || c.min[g] > 63)
                e->range_ok = false;
        }
        if (i_sum * 127 > e->i) e->i = i_sum * 127;
        if (m_sum * 127 > e->m) e->m = m_sum * 127;
    }
}

/* Fields filled with constant bytes in every combination, then random blocks. */
static struct extremes search(const struct sm_traits *t)
{
    static const uint8_t fills[] = {0x00, 0xff, 0x80, 0x77, 0x7f};
    struct extremes e = {0, 0, true};
    uint8_t block[SM_BLOCK_BYTES_MAX];
    unsigned n = 1;
    for (size_t f = 0; f < t->n_x8; f++) n *= sizeof fills;
    for (unsigned k = 0; k < n; k++) {
        unsigned rest = k;
        for (size_t f = 0; f < t->n_x8; f++, rest /= sizeof fills)
            memset(block + t->x8[f].offset, fills[rest % sizeof fills], t->x8[f].bytes);
        measure(t, block, &e);
    }
    for (unsigned k = 0; k < 500; k++) {
        for (size_t i = 0; i < t->block_bytes; i++) block[i] = (uint8_t)tap_random();
        measure(t, block, &e);
    }
    return e;
}

static void check_ranges(void)
{
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        const struct sm_traits *t = sm_traits_of(ranges[k].type);
        const struct extremes e = search(t);
        TAP_OK(e.range_ok && e.i <= ranges[k].i_max && e.m <= ranges[k].m_max,
               "%s: |I| <= %d, |M| <= %d", t->name, ranges[k].i_max, ranges[k].m_max);
        if (ranges[k].reached)
            TAP_OK(e.i == ranges[k].i_max && e.m == ranges[k].m_max,
                   "%s: reached by a block (found %lld, %lld)", t->name, (long long)e.i,
                   (long long)e.m);
    }
    unsigned n_x8 = 0;
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) n_x8 += sm_type_is_x8(type);
    TAP_IS_INT(n_x8, sizeof ranges / sizeof *ranges, "every x8 format has a range");
}

/* ---- tables -------------------------------------------------------------------------------- */

static void check_grid(const char *name, const uint16_t *grid, size_t n, unsigned size,
                       unsigned bits, int (*value)(unsigned code))
{
    size_t n_bytes, wrong = 0;
    uint8_t *want = load(name, ".i8", &n_bytes);
    for (size_t i = 0; i < n; i++)
        for (unsigned j = 0; j < size; j++)
            wrong += value((grid[i] >> (bits * j)) & ((1u << bits) - 1)) !=
                     (int8_t)want[i * size + j];
    TAP_OK(n_bytes == n * size && wrong == 0, "%s", name);
    free(want);
}
static int iq1_value(unsigned c) { return (int)c - 1; }
static int iq2_value(unsigned c) { return sm_grid_iq2_values[c]; }
static int iq3xxs_value(unsigned c) { return sm_grid_iq3xxs_values[c]; }
static int iq3s_value(unsigned c) { return 2 * (int)c + 1; }

static void check_tables(void)
{
    check_grid("grid-iq1s", sm_grid_iq1s, 2048, 8, 2, iq1_value);
    check_grid("grid-iq2xxs", sm_grid_iq2xxs, 256, 8, 2, iq2_value);
    check_grid("grid-iq2xs", sm_grid_iq2xs, 512, 8, 2, iq2_value);
    check_grid("grid-iq2s", sm_grid_iq2s, 1024, 8, 2, iq2_value);
    check_grid("grid-iq3xxs", sm_grid_iq3xxs, 256, 4, 3, iq3xxs_value);
    check_grid("grid-iq3s", sm_grid_iq3s, 512, 4, 3, iq3s_value);
}

/* Every scale field, set to infinity or NaN, is seen. */
static void check_finite(void)
{
    for (uint32_t type = 0; type < SM_TYPE_COUNT; type++) {
        const struct sm_traits *t = sm_traits_of(type);
        if (!t || !t->decodes || !t->finite || type == SM_Q8_K) continue;
        size_t n_scales = 0, n_seen = 0, n_missed = 0;
        for (unsigned k = 0; k < 20000; k++) {
            uint8_t block[SM_BLOCK_BYTES_MAX];
            float out[SM_BLOCK_MAX];
            bool number = true;
            for (size_t i = 0; i < t->block_bytes; i++)
                block[i] = (uint8_t)(tap_random_below(2) ? tap_random() : 0x7c + tap_random() % 4);
            sm_decode_row(type, block, out, t->block);
            for (size_t i = 0; i < t->block; i++) number = number && isfinite(out[i]);
            const bool finite = sm_blocks_finite(type, block, 1);
            n_scales += !finite;
            n_seen += !finite && !number; /* (a code or sub-scale of 0 can hide an infinity) */
            n_missed += finite && !number;
        }
        TAP_OK(n_missed == 0 && n_seen > 0 && n_scales < 20000,
               "%s: blocks that are not numbers are refused (%zu, %zu missed)", t->name, n_scales,
               n_missed);
    }
}

static void check_names(const struct json *types)
{
    for (size_t i = 0; i < json_len(types); i++) {
        const struct json *info = json_at(types, i);
        const uint32_t id = (uint32_t)json_int(json_get(info, "id"), -1);
        const struct sm_traits *t = sm_traits_of(id);
        TAP_OK(t && !strcmp(t->name, info->key) && t->name == sm_type_name(id) &&
                   t->block == json_int(json_get(info, "block"), -1) &&
                   t->block_bytes == json_int(json_get(info, "bytes"), -1),
               "%s: id, name, block and bytes", info->key);
        if (!t || !t->decodes) continue;
        if (t->x8) {
            size_t covered[SM_BLOCK_BYTES_MAX] = {0}, n = 0;
            bool whole = true;
            for (size_t f = 0; f < t->n_x8; f++) {
                whole = whole && t->x8[f].bytes % t->x8[f].unit == 0;
                for (size_t b = 0; b < t->x8[f].bytes; b++) covered[t->x8[f].offset + b]++;
            }
            for (size_t b = 0; b < t->block_bytes; b++) n += covered[b] == 1;
            TAP_OK(whole && n == t->block_bytes, "%s: x8 fields cover the block once", t->name);
        }
    }
    TAP_IS_STR(sm_type_name(4), "type 4", "name of a retired id");
    TAP_IS_STR(sm_type_name(142), "type 142", "name of an unknown id");
    TAP_OK(!sm_traits_of(4) && !sm_traits_of(43) && !sm_traits_of(UINT32_MAX), "unknown ids");
    TAP_OK(!sm_type_is_matrix(SM_Q8_K) && !sm_type_is_matrix(SM_NVFP4) &&
               !sm_type_is_matrix(SM_I32) && sm_type_is_matrix(SM_BF16),
           "what a weight matrix may be");
}

int main(int argc, char **argv)
{
    char path[512], why[200];
    tap_init(argc, argv);
    sm_kern_init(&kern, 1);
    struct json_doc *doc = json_load(tap_src(path, sizeof path, DATA "/index.json"), why,
                                     sizeof why);
    if (!doc) {
        printf("Bail out! %s\n", why);
        return 1;
    }
    const struct json *types = json_get(json_root(doc), "types");
    check_names(types);
    for (size_t i = 0; i < json_len(types); i++) {
        const struct json *info = json_at(types, i);
        const uint32_t type = (uint32_t)json_int(json_get(info, "id"), 0);
        if (type == SM_F32 || type == SM_NVFP4) continue;
        check_decode(type, "");
        if (sm_traits_of(type)->block > 1) check_decode(type, ".rnd");
        if (sm_type_is_x8(type)) check_dots(type, info);
    }
    check_tables();
    check_ranges();
    check_finite();
    json_free(doc);
    return tap_done();
}
