/* SPDX-License-Identifier: MIT */
#include "base/status.h"

#include "base/text.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void fill(smol_error *err, smol_status code, int sys, uint64_t at, const char *where)
{
    err->code = code;
    err->sys = sys;
    err->at = at;
    err->where = where;
}

smol_status sm_fail(smol_error *err, smol_status code, int sys, uint64_t at, const char *where,
                    const char *fmt, ...)
{
    if (err && err->code == SMOL_OK) {
        va_list ap;
        fill(err, code, sys, at, where);
        va_start(ap, fmt);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        sm_text_clean(err->msg); /* sentences quote names from files */
    }
    return code;
}

smol_status sm_fail_errno(smol_error *err, const char *where, const char *fmt, ...)
{
    const int sys = errno;
    if (err && err->code == SMOL_OK) {
        va_list ap;
        fill(err, SMOL_IO, sys, UINT64_MAX, where);
        va_start(ap, fmt);
        (void)vsnprintf(err->msg, sizeof err->msg, fmt, ap);
        va_end(ap);
        const size_t used = strlen(err->msg);
        (void)snprintf(err->msg + used, sizeof err->msg - used, ": %s", strerror(sys));
        sm_text_clean(err->msg);
    }
    return SMOL_IO;
}

const char *smol_status_text(smol_status code)
{
    switch (code) {
#define X(name, num, text)                                                                         \
    case SMOL_##name: return text;
        SMOL_STATUS_LIST(X)
#undef X
    }
    return "unknown status";
}
