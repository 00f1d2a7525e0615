/* SPDX-License-Identifier: MIT */
/* Importance matrices of test models. */
#ifndef TESTS_UTIL_CALIBRATE_H
#define TESTS_UTIL_CALIBRATE_H

#include "gguf/gguf.h"
#include <smol/smol.h>

/* All of a tensor of F32, *n values, malloc'ed; NULL: there is none. */
float *floats_of(const struct sm_gguf *g, const char *name, size_t *n);
/* Read n tokens in chunks and write the importance matrix to `path`; SMOL_OK with *info filled. */
smol_status calibrate_model(const char *model, const smol_params *how, const int32_t *t, size_t n,
                            size_t chunk, const char *path, smol_calibration *info,
                            smol_error *err);

#endif
