/* SPDX-License-Identifier: MIT */
/* Shared by requant.c and requant_stream.c only. */
#ifndef SM_STORE_REQUANT_INT_H
#define SM_STORE_REQUANT_INT_H

#include "base/mem.h"
#include "gguf/gguf_write.h"
#include "plat/plat.h"
#include "store/requant.h"

struct sm_requant_tensor {
    const struct sm_tensor_info *info;
    uint32_t type; /* the new one */
    bool copied;   /* its bytes stay */
    bool has_entry;
    struct sm_imatrix_entry entry;
};

struct sm_requant {
    struct sm_requant_options opt;
    struct sm_requant_report report;
    struct sm_gguf *g;
    struct sm_imatrix *imatrix; /* NULL: none */
    struct sm_file **file;      /* [n_files] */
    size_t n_files;
    struct sm_requant_tensor *tensor; /* [n_tensors], in file order */
    size_t n_tensors;
};

/* The data of all tensors, in order, into a writer that was begun. */
SM_NODISCARD smol_status sm_requant_stream(const struct sm_requant *r, struct sm_gguf_writer *w,
                                           smol_error *err);

#endif
