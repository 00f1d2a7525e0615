/* SPDX-License-Identifier: MIT */
/* Weights that come from a file in the x8 layout already are checked as they lie. */
#ifndef SM_X8_FINITE_H
#define SM_X8_FINITE_H

#include "quant/quant.h"

/* True when every scale of n x8 blocks (8 file-order blocks each) is finite. type: an x8 format. */
bool sm_x8_finite(uint32_t type, const uint8_t *x8, size_t n);

#endif
