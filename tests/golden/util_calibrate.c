/* SPDX-License-Identifier: MIT */
#include "util_calibrate.h"
#include "quant/quant.h"

#include <stdio.h>
#include <stdlib.h>

float *floats_of(const struct sm_gguf *g, const char *name, size_t *n)
{
    const struct sm_tensor_info *t = sm_gguf_find_tensor(g, name);
    if (!t || t->type != SM_F32) return NULL;
    FILE *f = fopen(sm_gguf_file_path(g, 0), "rb");
    float *v = malloc((size_t)t->bytes);
    const bool read = f && v && fseek(f, (long)t->at, SEEK_SET) == 0 &&
                      fread(v, 1, (size_t)t->bytes, f) == t->bytes;
    if (f) (void)fclose(f);
    *n = (size_t)t->bytes / sizeof *v;
    if (read) return v;
    free(v);
    return NULL;
}

smol_status calibrate_model(const char *model, const smol_params *how, const int32_t *t, size_t n,
                            size_t chunk, const char *path, smol_calibration *info,
                            smol_error *err)
{
    smol_model *m = NULL;
    smol_session *s = NULL;
    smol_params p = *how;
    p.calibrate = true;
    p.ctx = 256;
    *err = (smol_error){0};
    (void)remove(path);
    smol_status st = smol_model_open(&m, model, &p, err);
    if (st == SMOL_OK) st = smol_session_new(&s, m, err);
    for (size_t at = 0; st == SMOL_OK && at < n; at += chunk)
        st = smol_calibrate(s, t + at, chunk, err);
    if (st == SMOL_OK) st = smol_calibration_write(m, path, "some text", (unsigned)chunk, err);
    if (st == SMOL_OK) smol_calibration_info(m, info);
    smol_session_free(s);
    smol_model_free(m);
    return st;
}
