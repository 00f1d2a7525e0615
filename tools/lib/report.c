/* SPDX-License-Identifier: MIT */
/* What a command says when it fails. */
#include "command.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int sm_complain(int exit_code, const char *fmt, ...)
{
    va_list ap;
    fputs("smol: ", stderr);
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return exit_code;
}

/* Of an earlier failure errno says nothing any more: the pipe does. */
static bool reader_went_away(void)
{
    struct pollfd out = {.fd = STDOUT_FILENO, .events = POLLOUT};
    return poll(&out, 1, 0) > 0 && (out.revents & POLLERR);
}

int sm_output_failed(const char *what)
{
    const int why = errno;
    if (why == EPIPE || reader_went_away()) return SM_EXIT_DONE;
    return sm_complain(SM_EXIT_FAILED, "cannot write %s: %s", what, strerror(why));
}

int sm_report(const smol_error *err)
{
    const char *text = err->msg[0] ? err->msg : smol_status_text(err->code);
    const int code = err->code == SMOL_NOMEM       ? SM_EXIT_NOMEM
                     : err->code == SMOL_ARG       ? SM_EXIT_USAGE
                     : err->code == SMOL_CANCELLED ? SM_EXIT_INTERRUPTED
                                                   : SM_EXIT_FAILED;
    /* most sentences about files name the byte themselves */
    if (err->code != SMOL_OK && err->at != UINT64_MAX && !strstr(text, "byte "))
        return sm_complain(code, "%s (at byte %llu)", text, (unsigned long long)err->at);
    return sm_complain(code, "%s", text);
}
