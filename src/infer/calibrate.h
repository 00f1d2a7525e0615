/* SPDX-License-Identifier: MIT */
/* Calibration: what quantisers want to know of a model. While text is read, the squares of all
 * values that go into a matrix are added up by column; for stacked experts by expert, over the
 * tokens that came to it. gate and up see the same rows and share their sums.
 *
 * The sums are doubles: a square of a float is exact in one, and of 10^6 of them the sum is still
 * right to 2^-33, where a float would be wrong in the fourth digit. Each column belongs to one
 * worker and its tokens are added in their order, so that neither threads nor waves nor pools can
 * change a bit. Matrices of blocks only: quantisers keep the head by other rules. One thread. */
#ifndef SM_CALIBRATE_H
#define SM_CALIBRATE_H

#include "infer/session.h"

/* What the sums of this model take, from the header alone; 0 unless wanted. */
uint64_t sm_calibration_bytes(const struct sm_engine *e, bool wanted);
/* Take that memory, all sums 0. NOMEM. */
SM_NODISCARD smol_status sm_calibration_begin(struct sm_engine *e, smol_error *err);
void sm_calibration_end(struct sm_engine *e);
/* See smol_calibrate, smol_calibration_info, smol_calibration_write. */
SM_NODISCARD smol_status sm_calibration_read(struct sm_session *s, const int32_t *tokens, size_t n,
                                             smol_error *err);
void sm_calibration_info(const struct sm_engine *e, smol_calibration *out);
SM_NODISCARD smol_status sm_calibration_write(const struct sm_engine *e, const char *path,
                                              const char *text, unsigned chunk, smol_error *err);

#endif
