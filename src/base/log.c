/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

static smol_note_fn note_fn;
static void *note_arg;

void sm_log_set(smol_note_fn fn, void *arg)
{
    note_fn = fn;
    note_arg = arg;
}

void sm_log_note(const char *fmt, ...)
{
    char text[400];
    va_list ap;
    if (!note_fn) return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sm_text_clean(text);
    note_fn(note_arg, text);
}
