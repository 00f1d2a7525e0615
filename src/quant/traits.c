/* SPDX-License-Identifier: MIT */
/* The table of weight formats. */
#include "base/bits.h"
#include "quant/codes.h"
#include "quant/x8_fields.h"

/* ---- scales that are numbers -------------------------------------------------------------- */

static bool f16_finite(const uint8_t *p)
{
    return (p[1] & 0x7c) != 0x7c;
}
static bool finite_at_0(const uint8_t *b) { return f16_finite(b); }
static bool finite_at_0_2(const uint8_t *b) { return f16_finite(b) && f16_finite(b + 2); }
static bool finite_at_52(const uint8_t *b) { return f16_finite(b + 52); }
static bool finite_at_64(const uint8_t *b) { return f16_finite(b + 64); }
static bool finite_at_80_82(const uint8_t *b) { return f16_finite(b + 80) && f16_finite(b + 82); }
static bool finite_at_108(const uint8_t *b) { return f16_finite(b + 108); }
static bool finite_at_208(const uint8_t *b) { return f16_finite(b + 208); }

/* The half of IQ1_M: exponent bits 10..14 are the top nibble of sc[2] from its bit 2 and the low
 * three bits of the top nibble of sc[3]. */
static bool finite_iq1_m(const uint8_t *b)
{
    return (b[53] & 0xc0) != 0xc0 || (b[55] & 0x70) != 0x70;
}

static bool finite_q8_k(const uint8_t *b)
{
    return (sm_ld32(b) & 0x7f800000u) != 0x7f800000u;
}

static bool finite_f32(const uint8_t *b) { return finite_q8_k(b); }
static bool finite_f16(const uint8_t *b) { return f16_finite(b); }
static bool finite_bf16(const uint8_t *b) { return (sm_ld16(b) & 0x7f80u) != 0x7f80u; }

/* ---- the table ---------------------------------------------------------------------------- */

#define X8(fmt) .x8 = sm_x8_fields_##fmt, .n_x8 = (uint8_t)SM_X8_COUNT(fmt)
/* A format held as x8. */
#define WEIGHT(ID, fmt, blk, byt, act, minima, fin)                                                \
    [SM_##ID] = {.name = #ID, .block = (blk), .block_bytes = (byt), .act_block = (act),            \
                 .has_min = (minima), .decodes = true, .codes = sm_codes_##fmt, .finite = (fin),   \
                 X8(fmt)}
/* Rows of floats. */
#define FLOATS(ID, byt, fin)                                                                       \
    [SM_##ID] = {.name = #ID, .block = 1, .block_bytes = (byt), .decodes = true, .finite = (fin)}
/* Known size, neither decoded nor a weight. */
#define SIZED(ID, blk, byt) [SM_##ID] = {.name = #ID, .block = (blk), .block_bytes = (byt)}

static const struct sm_traits traits[SM_TYPE_COUNT] = {
    FLOATS(F32, 4, finite_f32),
    FLOATS(F16, 2, finite_f16),
    FLOATS(BF16, 2, finite_bf16),
    WEIGHT(Q4_0, q4_0, 32, 18, 32, false, finite_at_0),
    WEIGHT(Q4_1, q4_1, 32, 20, 32, true, finite_at_0_2),
    WEIGHT(Q5_0, q5_0, 32, 22, 32, false, finite_at_0),
    WEIGHT(Q5_1, q5_1, 32, 24, 32, true, finite_at_0_2),
    WEIGHT(Q8_0, q8_0, 32, 34, 32, false, finite_at_0),
    WEIGHT(Q1_0, q1_0, 128, 18, 32, false, finite_at_0),
    WEIGHT(Q2_0, q2_0, 64, 18, 32, false, finite_at_0),
    WEIGHT(IQ4_NL, iq4_nl, 32, 18, 32, false, finite_at_0),
    WEIGHT(MXFP4, mxfp4, 32, 17, 32, false, NULL),
    WEIGHT(Q2_K, q2_k, 256, 84, 256, true, finite_at_80_82),
    WEIGHT(Q3_K, q3_k, 256, 110, 256, false, finite_at_108),
    WEIGHT(Q4_K, q4_k, 256, 144, 256, true, finite_at_0_2),
    WEIGHT(Q5_K, q5_k, 256, 176, 256, true, finite_at_0_2),
    WEIGHT(Q6_K, q6_k, 256, 210, 256, false, finite_at_208),
    WEIGHT(TQ1_0, tq1_0, 256, 54, 256, false, finite_at_52),
    WEIGHT(TQ2_0, tq2_0, 256, 66, 256, false, finite_at_64),
    WEIGHT(IQ4_XS, iq4_xs, 256, 136, 256, false, finite_at_0),
    WEIGHT(IQ2_XXS, iq2_xxs, 256, 66, 256, false, finite_at_0),
    WEIGHT(IQ2_XS, iq2_xs, 256, 74, 256, false, finite_at_0),
    WEIGHT(IQ2_S, iq2_s, 256, 82, 256, false, finite_at_0),
    WEIGHT(IQ3_XXS, iq3_xxs, 256, 98, 256, false, finite_at_0),
    WEIGHT(IQ3_S, iq3_s, 256, 110, 256, false, finite_at_0),
    WEIGHT(IQ1_S, iq1_s, 256, 50, 256, false, finite_at_0),
    WEIGHT(IQ1_M, iq1_m, 256, 56, 256, false, finite_iq1_m),
    /* activations of other programs; decodes, but is no weight */
    [SM_Q8_K] = {.name = "Q8_K", .block = 256, .block_bytes = 292, .decodes = true,
                 .codes = sm_codes_q8_k, .finite = finite_q8_k},
    SIZED(Q8_1, 32, 36),
    SIZED(NVFP4, 64, 36),
    SIZED(I8, 1, 1),
    SIZED(I16, 1, 2),
    SIZED(I32, 1, 4),
    SIZED(I64, 1, 8),
    SIZED(F64, 1, 8),
};

const struct sm_traits *sm_traits_of(uint32_t type)
{
    return type < SM_TYPE_COUNT && traits[type].name ? &traits[type] : NULL;
}

const char *sm_type_name(uint32_t type)
{
#define T1(n) "type " #n
#define T10(n)                                                                                     \
    T1(n##0), T1(n##1), T1(n##2), T1(n##3), T1(n##4), T1(n##5), T1(n##6), T1(n##7), T1(n##8),      \
        T1(n##9)
    static const char unknown[260][9] = {
        T1(0),   T1(1),   T1(2),   T1(3),   T1(4),   T1(5),   T1(6),   T1(7),   T1(8),
        T1(9),   T10(1),  T10(2),  T10(3),  T10(4),  T10(5),  T10(6),  T10(7),  T10(8),
        T10(9),  T10(10), T10(11), T10(12), T10(13), T10(14), T10(15), T10(16), T10(17),
        T10(18), T10(19), T10(20), T10(21), T10(22), T10(23), T10(24), T10(25)};
#undef T10
#undef T1
    const struct sm_traits *t = sm_traits_of(type);
    if (t) return t->name;
    return type < 260 ? unknown[type] : "type >= 260";
}

bool sm_type_is_matrix(uint32_t type)
{
    return type == SM_F32 || type == SM_F16 || type == SM_BF16 || sm_type_is_x8(type);
}

uint64_t sm_row_bytes(uint32_t type, uint64_t n_cols)
{
    const struct sm_traits *t = sm_traits_of(type);
    return t ? n_cols / t->block * t->block_bytes : 0;
}
