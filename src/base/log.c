/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

static struct {
    sm_log_fn fn;
    void *arg;
    int max_level;
} sink;

void sm_log_set(sm_log_fn fn, void *arg, int max_level)
{
    sink.fn = fn;
    sink.arg = arg;
    sink.max_level = fn ? max_level : 0;
}

void sm_log_note(int level, const char *fmt, ...)
{
    char text[400];
    va_list ap;
    if (level > sink.max_level) return;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    sm_text_clean(text);
    sink.fn(sink.arg, level, text);
}
