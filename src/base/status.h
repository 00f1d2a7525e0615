/* SPDX-License-Identifier: MIT */
/* Failure handling inside the library: one status type, one error object, three macros.
 *
 * Rules: everything that can fail returns smol_status and is marked SM_NODISCARD; results go
 * through out-parameters that are set to NULL or zero first; `err` is the last parameter and may
 * be NULL; the first failure is kept. Nothing here allocates. */
#ifndef SM_BASE_STATUS_H
#define SM_BASE_STATUS_H

#include <smol/smol.h>
#include <stddef.h>
#include <stdint.h>

#define SM_NODISCARD __attribute__((warn_unused_result))
#define SM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#define SM_COLD __attribute__((cold, noinline))

#define SM_STR2(x) #x
#define SM_STR(x) SM_STR2(x)
#define SM_WHERE __FILE__ ":" SM_STR(__LINE__)

/* Pass a failure up. */
#define SM_TRY(call)                                                                               \
    do {                                                                                           \
        const smol_status sm_try_status_ = (call);                                                 \
        if (sm_try_status_ != SMOL_OK) return sm_try_status_;                                      \
    } while (0)

/* Pass a failure to the function's single `out:` label. */
#define SM_TRY_OUT(st, call)                                                                       \
    do {                                                                                           \
        (st) = (call);                                                                             \
        if ((st) != SMOL_OK) goto out;                                                             \
    } while (0)

/* SM_FAIL(err, FORMAT, "expected %d, found %d", a, b) returns the code for use in `return`.
 * _AT adds a byte offset in the input, _SYS takes errno and says IO. */
#define SM_FAIL(err, code, ...)                                                                    \
    sm_fail((err), SMOL_##code, 0, UINT64_MAX, SM_WHERE, __VA_ARGS__)
#define SM_FAIL_AT(err, code, at, ...)                                                             \
    sm_fail((err), SMOL_##code, 0, (uint64_t)(at), SM_WHERE, __VA_ARGS__)
#define SM_FAIL_SYS(err, ...) sm_fail_errno((err), SM_WHERE, __VA_ARGS__)

/* Fills `err` only when it is non-NULL and still empty (code OK). Returns `code`. */
SM_COLD SM_PRINTF(6, 7) smol_status sm_fail(smol_error *err, smol_status code, int sys, uint64_t at,
                                            const char *where, const char *fmt, ...);
/* As sm_fail with code IO and the current errno; appends ": " and the errno text. */
SM_COLD SM_PRINTF(3, 4) smol_status sm_fail_errno(smol_error *err, const char *where,
                                                  const char *fmt, ...);

#endif
