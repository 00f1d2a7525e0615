/* SPDX-License-Identifier: MIT */
/* smol: big language models on small hardware. The only public header. */
#ifndef SMOL_H
#define SMOL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- errors ------------------------------------------------------------------------------- */

/* Numbered once and never reused. */
#define SMOL_STATUS_LIST(X)                                                                        \
    X(OK, 0, "success")                                                                            \
    X(ARG, 1, "bad argument")                                                                      \
    X(NOMEM, 2, "over budget")                                                                     \
    X(IO, 3, "read or map")                                                                        \
    X(FORMAT, 4, "malformed file")                                                                 \
    X(UNSUPPORTED, 5, "valid, not implemented")                                                    \
    X(LIMIT, 6, "declared limit")                                                                  \
    X(CANCELLED, 7, "stopped by caller")

typedef enum {
#define X(name, num, text) SMOL_##name = (num),
    SMOL_STATUS_LIST(X)
#undef X
} smol_status;

/* Caller-owned; all zero = nothing yet. The first failure is kept. */
typedef struct {
    smol_status code;
    int sys;           /* errno, 0 if none */
    uint64_t at;       /* byte offset in the input, UINT64_MAX if none */
    const char *where; /* "file.c:123", static */
    char msg[200];     /* one sentence: what, where, expected, found */
} smol_error;

/* Short text of a status; never NULL, static. */
const char *smol_status_text(smol_status code);

#ifdef __cplusplus
}
#endif
#endif
