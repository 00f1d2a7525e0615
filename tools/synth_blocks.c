/* SPDX-License-Identifier: MIT */
/* Blocks of weights made up directly in their format: random bytes, then the few bytes of scales
 * overwritten. The deviation of a format's weights at scale 1 is measured on some blocks of it, so
 * no format needs more here than where its scales are. */
#include "synth.h"

#include "base/bits.h"
#include "base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- random numbers ------------------------------------------------------------------------ */

void synth_rng_seed(struct synth_rng *r, uint64_t seed, uint64_t stream)
{
    uint64_t x = seed * SM_MIX64_STEP ^ stream * 0xd1342543de82ef95u;
    for (int i = 0; i < 4; i++) {
        x += SM_MIX64_STEP;
        r->s[i] = sm_mix64(x);
    }
}

static uint64_t rotate(uint64_t x, int k) { return x << k | x >> (64 - k); }

uint64_t synth_rng_next(struct synth_rng *r)
{
    uint64_t *s = r->s;
    const uint64_t out = rotate(s[0] + s[3], 23) + s[0], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return out;
}

float synth_rng_normal(struct synth_rng *r)
{
    float sum = -6;
    for (int i = 0; i < 4; i++) {
        const uint64_t x = synth_rng_next(r);
        sum += (float)(x & 0x1fffff) * 0x1p-21f + (float)(x >> 21 & 0x1fffff) * 0x1p-21f +
               (float)(x >> 42 & 0x1fffff) * 0x1p-21f;
    }
    return sum;
}

static void fill_random(struct synth_rng *r, uint8_t *out, size_t n)
{
    for (; n >= 8; n -= 8, out += 8) {
        const uint64_t x = synth_rng_next(r);
        memcpy(out, &x, 8);
    }
    const uint64_t x = synth_rng_next(r);
    memcpy(out, &x, n);
}

/* ---- where the scales are ------------------------------------------------------------------ */

/* Bytes of d, of the factor of the minimum, and what the minimum is in units of d: half the largest
 * code, so that the mean is zero when each group's minimum equals its scale. */
static const struct place {
    uint32_t type;
    int16_t d, m;
    float half;
} places[] = {
    {SM_Q4_0, 0, -1, 0},   {SM_Q4_1, 0, 2, -7.5f},   {SM_Q5_0, 0, -1, 0},   {SM_Q5_1, 0, 2, -15.5f},
    {SM_Q8_0, 0, -1, 0},   {SM_Q1_0, 0, -1, 0},      {SM_Q2_0, 0, -1, 0},   {SM_IQ4_NL, 0, -1, 0},
    {SM_Q2_K, 80, 82, 1.5f}, {SM_Q3_K, 108, -1, 0},  {SM_Q4_K, 0, 2, 7.5f}, {SM_Q5_K, 0, 2, 15.5f},
    {SM_Q6_K, 208, -1, 0}, {SM_TQ1_0, 52, -1, 0},    {SM_TQ2_0, 64, -1, 0}, {SM_IQ4_XS, 0, -1, 0},
    {SM_IQ2_XXS, 0, -1, 0}, {SM_IQ2_XS, 0, -1, 0},   {SM_IQ2_S, 0, -1, 0},  {SM_IQ3_XXS, 0, -1, 0},
    {SM_IQ3_S, 0, -1, 0},  {SM_IQ1_S, 0, -1, 0},
};

static const struct place *place_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (places[i].type == type) return &places[i];
    return NULL;
}

/* The group scales of the K formats: upper half of their range, minimum equal to the scale. */
static void group_scales(uint32_t type, uint8_t *b)
{
    if (type == SM_Q2_K) {
        for (int i = 0; i < 16; i++) b[i] = (uint8_t)(((b[i] & 7) | 8) * 17);
    } else if (type == SM_Q4_K || type == SM_Q5_K) {
        for (int i = 0; i < 4; i++) {
            const uint8_t lo = (uint8_t)((b[4 + i] & 31) | 32),
                          hi = (uint8_t)((b[8 + i] & 31) | 32);
            b[4 + i] = b[8 + i] = (uint8_t)(lo | (hi >> 4) << 6);
            b[12 + i] = (uint8_t)((hi & 15) * 17);
        }
    } else if (type == SM_Q6_K) {
        for (int i = 192; i < 208; i++) {
            const int mag = (b[i] & 31) | 64;
            b[i] = (uint8_t)(b[i] & 128 ? -mag : mag);
        }
    } else if (type == SM_Q3_K) { /* six bits less 32: 16 to 31 or -32 to -17 */
        for (int i = 104; i < 108; i++) {
            const uint8_t sign = b[i] & 0xaa;
            b[i] = (uint8_t)(sign | sign >> 1);
        }
    }
}

/* Codes that the formats' own writers never make. */
static void valid_codes(uint32_t type, uint8_t *b)
{
    if (type == SM_Q8_0) {
        for (int i = 2; i < 34; i++) b[i] = (uint8_t)(b[i] + (b[i] == 128));
    } else if (type == SM_TQ1_0) { /* five digits as a fraction of 256, rounded up; then four */
        for (int i = 0; i < 48; i++) b[i] = (uint8_t)(((b[i] * 243u >> 8) * 256 + 242) / 243);
        for (int i = 48; i < 52; i++) b[i] = (uint8_t)(((b[i] * 81u >> 8) * 3 * 256 + 242) / 243);
    } else if (type == SM_TQ2_0) { /* 3 becomes 1 */
        for (int i = 0; i < 64; i++) b[i] = (uint8_t)(b[i] & ~((b[i] & b[i] << 1) & 0xaa));
    }
}

/* A random block with d = scale or -scale. IQ1_M spreads its d over four 16-bit words. */
static void finish_block(const struct synth_maker *m, const struct place *p, uint8_t *b, bool minus)
{
    const uint32_t type = m->t->type;
    const uint16_t d = (uint16_t)(m->scale | (minus ? 0x8000 : 0));
    if (type == SM_MXFP4) {
        b[0] = m->scale_byte;
        return;
    }
    if (type == SM_IQ1_M) {
        for (int i = 0; i < 4; i++) {
            uint8_t *top = b + 48 + 2 * i + 1;
            *top = (uint8_t)((*top & 15) | (d >> (4 * i) & 15) << 4);
        }
        return;
    }
    group_scales(type, b);
    valid_codes(type, b);
    if (p->m < 0) {
        sm_st16(b + p->d, d);
    } else {
        sm_st16(b + p->d, m->scale);
        sm_st16(b + p->m, m->minimum);
    }
}

/* ---- the scale that gives the deviation wanted --------------------------------------------- */

static void set_scale(struct synth_maker *m, const struct place *p, float d)
{
    m->scale = sm_f16_of_f32(d);
    m->minimum = p ? sm_f16_of_f32(d * p->half) : 0;
    int exponent;
    (void)frexpf(d * 1.41421356f, &exponent); /* MXFP4: the nearest power of two */
    m->scale_byte = (uint8_t)(exponent + 127);
}

/* Deviation of the weights of some blocks at d = 2^-4. */
static float measure(struct synth_maker *m, const struct place *p)
{
    uint8_t block[SM_BLOCK_BYTES_MAX];
    float w[SM_BLOCK_MAX];
    struct synth_rng r;
    double squares = 0;
    const unsigned n = 200;
    synth_rng_seed(&r, 1, 1);
    set_scale(m, p, 0x1p-4f);
    for (unsigned i = 0; i < n; i++) {
        fill_random(&r, block, m->traits->block_bytes);
        finish_block(m, p, block, i & 1);
        sm_decode_row(m->t->type, block, w, m->traits->block);
        for (unsigned j = 0; j < m->traits->block; j++) squares += (double)w[j] * w[j];
    }
    return (float)sqrt(squares / (n * (double)m->traits->block));
}

/* ---- plain types --------------------------------------------------------------------------- */

static void put_plain(uint32_t type, float v, uint8_t *out)
{
    if (type == SM_F32) memcpy(out, &v, 4);
    else if (type == SM_F16) sm_st16(out, sm_f16_of_f32(v));
    else sm_st16(out, (uint16_t)(sm_bits_of_f32(v) >> 16));
}

static void fill_plain(const struct synth_maker *m, struct synth_rng *r, uint64_t n, uint8_t *out)
{
    const size_t each = m->traits->block_bytes;
    const struct synth_tensor *t = m->t;
    if (t->fill == SYNTH_AROUND || t->fill == SYNTH_SIGNS) {
        for (uint64_t i = 0; i < n; i++)
            put_plain(t->type,
                      t->fill == SYNTH_SIGNS ? (synth_rng_next(r) >> 63 ? t->mean : -t->mean)
                                             : t->mean + t->std * synth_rng_normal(r),
                      out + i * each);
        return;
    }
    for (uint64_t i = 0; i < n; i += 5) { /* twelve bits a weight */
        uint64_t x = synth_rng_next(r);
        for (uint64_t j = i; j < i + 5 && j < n; j++, x >>= 12)
            put_plain(t->type, m->uniform[x & 4095], out + j * each);
    }
}

/* The constant columns of a router's row: its expert's popularity along the embedding's
 * constant. */
static void look_at_constant(const struct synth_maker *m, uint64_t first, uint64_t n, uint8_t *out)
{
    const uint64_t cols = m->blocks_per_row;
    float popularity = 0;
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t row = (first + i) / cols, col = (first + i) % cols;
        if (i == 0 || col == 0) {
            struct synth_rng r;
            synth_rng_seed(&r, m->seed, ~row);
            popularity = m->t->skew * synth_rng_normal(&r);
        }
        if (col >= m->t->constant) continue;
        const float v = popularity * m->look[col];
        memcpy(out + 4 * i, &v, 4);
    }
}

/* ---- makers -------------------------------------------------------------------------------- */

static void fill_run(const struct synth_maker *m, uint64_t first, uint64_t n, uint8_t *out)
{
    const size_t each = m->traits->block_bytes;
    struct synth_rng r;
    synth_rng_seed(&r, m->seed, first);
    if (m->traits->block == 1) {
        fill_plain(m, &r, n, out);
        if (m->t->fill == SYNTH_ROUTER && m->look) look_at_constant(m, first, n, out);
        return;
    }
    const struct place *p = place_of(m->t->type);
    fill_random(&r, out, (size_t)n * each);
    uint64_t signs = 0;
    for (uint64_t i = 0; i < n; i++) {
        if (i % 64 == 0) signs = synth_rng_next(&r);
        finish_block(m, p, out + i * each, signs >> i % 64 & 1);
    }
}

/* Rows that are zero, and the first blocks of the embedding's rows. */
static void patch_rows(const struct synth_maker *m, uint64_t first, uint64_t n, uint8_t *out)
{
    const size_t each = m->traits->block_bytes;
    const struct synth_tensor *t = m->t;
    const bool text = t->fill == SYNTH_TEXT || t->fill == SYNTH_TIED;
    for (uint64_t i = 0; i < n;) {
        const uint64_t row = (first + i) / m->blocks_per_row, at = (first + i) % m->blocks_per_row;
        const uint64_t left = m->blocks_per_row - at, k = left < n - i ? left : n - i;
        if (row % t->dim[1] < t->zero_rows || (text && row + SYNTH_CONTROLS >= m->n_rows))
            memset(out + i * each, 0, (size_t)k * each);
        else if (at < m->n_constant)
            memcpy(out + i * each, m->constant + at * each,
                   (size_t)(m->n_constant - at < k ? m->n_constant - at : k) * each);
        i += k;
    }
}

void synth_maker_fill(const struct synth_maker *m, uint64_t first, uint64_t n, uint8_t *out)
{
    for (uint64_t i = 0; i < n; i += SYNTH_RUN)
        fill_run(m, first + i, n - i < SYNTH_RUN ? n - i : SYNTH_RUN,
                 out + i * m->traits->block_bytes);
    if (m->t->zero_rows || m->n_constant || m->t->fill == SYNTH_TEXT || m->t->fill == SYNTH_TIED)
        patch_rows(m, first, n, out);
}

static smol_status make_constant(struct synth_maker *m, smol_error *err)
{
    m->n_constant = m->t->constant / m->traits->block;
    m->constant = calloc((size_t)m->n_constant + 1, m->traits->block_bytes);
    if (!m->constant) return SM_FAIL(err, NOMEM, "no memory for %s", m->t->name);
    fill_run(m, UINT64_MAX, m->n_constant, m->constant);
    return SMOL_OK;
}

/* c / |c|^2 of the constant c, so that the product with c is 1. */
static smol_status make_look(struct synth_maker *m, const struct synth_maker *embd, smol_error *err)
{
    double squares = 0;
    m->look = calloc((size_t)m->t->constant + 1, sizeof *m->look);
    if (!m->look) return SM_FAIL(err, NOMEM, "no memory for %s", m->t->name);
    sm_decode_row(embd->t->type, embd->constant, m->look, m->t->constant);
    for (uint32_t i = 0; i < m->t->constant; i++) squares += (double)m->look[i] * m->look[i];
    for (uint32_t i = 0; i < m->t->constant; i++) m->look[i] = (float)(m->look[i] / squares);
    return SMOL_OK;
}

smol_status synth_maker_init(struct synth_maker *m, const struct synth_tensor *t,
                             const struct synth_maker *embd, uint64_t seed, smol_error *err)
{
    memset(m, 0, sizeof *m);
    m->t = t;
    m->traits = sm_traits_of(t->type);
    m->seed = seed;
    m->blocks_per_row = t->dim[0] / m->traits->block;
    m->n_rows = t->dim[1] * t->dim[2] * t->dim[3];
    m->n_blocks = m->n_rows * m->blocks_per_row;
    for (unsigned i = 0; i < 4096; i++)
        m->uniform[i] = t->std * 1.7320508f * ((float)i - 2047.5f) / 2048.0f;
    if (m->traits->block > 1) {
        const struct place *p = place_of(t->type);
        set_scale(m, p, 0x1p-4f * t->std / measure(m, p));
    }
    if ((t->fill == SYNTH_ROWS || t->fill == SYNTH_TIED) && t->constant)
        SM_TRY(make_constant(m, err));
    if (t->fill == SYNTH_ROUTER && t->constant && embd) SM_TRY(make_look(m, embd, err));
    return SMOL_OK;
}

void synth_maker_free(struct synth_maker *m)
{
    free(m->constant);
    free(m->look);
    m->constant = NULL;
    m->look = NULL;
}
