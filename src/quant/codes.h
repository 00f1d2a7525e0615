/* SPDX-License-Identifier: MIT */
/* One block of each format to integers: the specification of the formats in C. Pure functions; the
 * block needs no alignment. What a format has no use for in struct sm_codes is left as it is,
 * except that sub is always filled (with 1 where the format has one scale) and m and min are filled
 * for the formats with minima. Reached through sm_traits.codes and sm_traits.finite. */
#ifndef SM_QUANT_CODES_H
#define SM_QUANT_CODES_H

#include "quant/quant.h"

/* The values of 4-bit codes: IQ4_NL and IQ4_XS, and MXFP4 (doubled). */
extern const int8_t sm_codes_iq4_values[16];
extern const int8_t sm_codes_mxfp4_values[16];

void sm_codes_q4_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_q4_1(const uint8_t *b, struct sm_codes *c);
void sm_codes_q5_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_q5_1(const uint8_t *b, struct sm_codes *c);
void sm_codes_q8_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq4_nl(const uint8_t *b, struct sm_codes *c);
void sm_codes_mxfp4(const uint8_t *b, struct sm_codes *c);
void sm_codes_q1_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_q2_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_tq1_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_tq2_0(const uint8_t *b, struct sm_codes *c);
void sm_codes_q2_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_q3_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_q4_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_q5_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_q6_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_q8_k(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq4_xs(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq1_s(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq1_m(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq2_xxs(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq2_xs(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq2_s(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq3_xxs(const uint8_t *b, struct sm_codes *c);
void sm_codes_iq3_s(const uint8_t *b, struct sm_codes *c);

#endif
