/* SPDX-License-Identifier: MIT */
/* The fields of every x8 format: how a file-order block is cut for the layout with 8 rows side by
 * side (docs/arithmetic.md, "Held in memory"). Each table covers every byte of a block exactly
 * once, in the order the fields have in memory; scales come first. Included by traits.c only;
 * everyone else reads struct sm_traits. */
#ifndef SM_QUANT_X8_FIELDS_H
#define SM_QUANT_X8_FIELDS_H

#include "quant/quant.h"

#define SM_X8_COUNT(fmt) (sizeof sm_x8_fields_##fmt / sizeof sm_x8_fields_##fmt[0])

/* {offset in the block, bytes, unit} */
static const struct sm_x8_field sm_x8_fields_q4_0[] = {{0, 2, 2}, {2, 16, 4}};
static const struct sm_x8_field sm_x8_fields_q4_1[] = {{0, 2, 2}, {2, 2, 2}, {4, 16, 4}};
static const struct sm_x8_field sm_x8_fields_q5_0[] = {{0, 2, 2}, {2, 4, 4}, {6, 16, 4}};
static const struct sm_x8_field sm_x8_fields_q5_1[] = {
    {0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 16, 4}};
static const struct sm_x8_field sm_x8_fields_q8_0[] = {{0, 2, 2}, {2, 32, 4}};
static const struct sm_x8_field sm_x8_fields_q1_0[] = {{0, 2, 2}, {2, 16, 4}};
static const struct sm_x8_field sm_x8_fields_q2_0[] = {{0, 2, 2}, {2, 16, 4}};
static const struct sm_x8_field sm_x8_fields_iq4_nl[] = {{0, 2, 2}, {2, 16, 4}};
static const struct sm_x8_field sm_x8_fields_mxfp4[] = {{0, 1, 1}, {1, 16, 4}};
/* d, dmin, scales, codes */
static const struct sm_x8_field sm_x8_fields_q2_k[] = {
    {80, 2, 2}, {82, 2, 2}, {0, 16, 4}, {16, 64, 4}};
/* d, scales, high bits, codes */
static const struct sm_x8_field sm_x8_fields_q3_k[] = {
    {108, 2, 2}, {96, 12, 4}, {0, 32, 4}, {32, 64, 4}};
static const struct sm_x8_field sm_x8_fields_q4_k[] = {
    {0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 128, 4}};
static const struct sm_x8_field sm_x8_fields_q5_k[] = {
    {0, 2, 2}, {2, 2, 2}, {4, 12, 4}, {16, 32, 4}, {48, 128, 4}};
/* d, scales, low bits, high bits */
static const struct sm_x8_field sm_x8_fields_q6_k[] = {
    {208, 2, 2}, {192, 16, 4}, {0, 128, 4}, {128, 64, 4}};
static const struct sm_x8_field sm_x8_fields_tq1_0[] = {{52, 2, 2}, {0, 48, 4}, {48, 4, 4}};
static const struct sm_x8_field sm_x8_fields_tq2_0[] = {{64, 2, 2}, {0, 64, 4}};
/* d, high scale bits, low scale bits, codes */
static const struct sm_x8_field sm_x8_fields_iq4_xs[] = {
    {0, 2, 2}, {2, 2, 2}, {4, 4, 4}, {8, 128, 4}};
static const struct sm_x8_field sm_x8_fields_iq2_xxs[] = {{0, 2, 2}, {2, 64, 4}};
static const struct sm_x8_field sm_x8_fields_iq2_xs[] = {{0, 2, 2}, {66, 8, 4}, {2, 64, 4}};
/* d, scales, indices, signs, high index bits */
static const struct sm_x8_field sm_x8_fields_iq2_s[] = {
    {0, 2, 2}, {74, 8, 4}, {2, 32, 4}, {34, 32, 4}, {66, 8, 4}};
static const struct sm_x8_field sm_x8_fields_iq3_xxs[] = {{0, 2, 2}, {66, 32, 4}, {2, 64, 4}};
static const struct sm_x8_field sm_x8_fields_iq3_s[] = {
    {0, 2, 2}, {106, 4, 4}, {2, 64, 4}, {66, 8, 4}, {74, 32, 4}};
static const struct sm_x8_field sm_x8_fields_iq1_s[] = {{0, 2, 2}, {34, 16, 4}, {2, 32, 4}};
/* the scale is spread over the scale words */
static const struct sm_x8_field sm_x8_fields_iq1_m[] = {{48, 8, 4}, {0, 32, 4}, {32, 16, 4}};

#endif
