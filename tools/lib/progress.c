/* SPDX-License-Identifier: MIT */
#include "progress.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool on, colour, drawn;
    char what[48];
    double next; /* seconds, when the bar may be drawn again */
} bar;

static double now(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void sm_progress_init(bool quiet)
{
    bar.on = !quiet && sm_terminal_moves(STDERR_FILENO);
    bar.colour = sm_terminal_colours(STDERR_FILENO);
}

void sm_progress_clear(void)
{
    if (!bar.drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    bar.drawn = false;
}

static unsigned columns(void)
{
    struct winsize w;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &w) || !w.ws_col) return 80;
    return w.ws_col;
}

static void draw(uint64_t done, uint64_t total)
{
    const double part = total ? (double)done / (double)total : 0;
    const unsigned wide = columns();
    const unsigned text = (unsigned)strlen(bar.what) + 8; /* " [" "] 100%" */
    const unsigned cells = wide > text + 11 ? (wide - text - 1 < 40 ? wide - text - 1 : 40) : 0;
    const unsigned full = (unsigned)(part * cells);
    fprintf(stderr, "\r%s [%s", bar.what, bar.colour ? "\033[32m" : "");
    for (unsigned i = 0; i < cells; i++) {
        if (i == full && bar.colour) fputs("\033[0m", stderr);
        fputc(i < full ? '#' : '.', stderr);
    }
    fprintf(stderr, "%s] %3.0f%%\033[K", bar.colour ? "\033[0m" : "", part * 100);
    fflush(stderr);
    bar.drawn = true;
}

void sm_progress_show(void *arg, const char *what, uint64_t done, uint64_t total)
{
    (void)arg;
    if (!bar.on) return;
    if (done >= total) {
        sm_progress_clear();
        bar.what[0] = 0;
        return;
    }
    const double t = now();
    const bool fresh = strcmp(bar.what, what) != 0;
    if (fresh) {
        sm_progress_clear();
        (void)snprintf(bar.what, sizeof bar.what, "%s", what);
        bar.next = t + 0.2; /* what is done sooner than that needs no bar */
    }
    if (t < bar.next) return;
    bar.next = t + 0.1;
    draw(done, total);
}
