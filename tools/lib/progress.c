/* SPDX-License-Identifier: MIT */
#include "progress.h"
#include "terminal.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

static struct {
    bool on, colour, drawn, timed;
    char what[48];
    double start;     /* of this bar */
    uint64_t first;   /* done then */
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

/* ", 3 min left" once a few seconds say something; "" before. */
static void time_left(char *buf, size_t n, uint64_t done, uint64_t total)
{
    const double t = now() - bar.start;
    buf[0] = 0;
    if (!bar.timed || t < 3 || done <= bar.first) return;
    const double left = t / (double)(done - bar.first) * (double)(total - done);
    if (left < 90) (void)snprintf(buf, n, ", %.0f s left", left);
    else if (left < 5400) (void)snprintf(buf, n, ", %.0f min left", left / 60);
    else (void)snprintf(buf, n, ", %.1f h left", left / 3600);
}

static void draw(uint64_t done, uint64_t total)
{
    char left[32];
    const double part = total ? (double)done / (double)total : 0;
    const unsigned wide = columns();
    time_left(left, sizeof left, done, total);
    /* " [" "] 100%" */
    const unsigned text = (unsigned)strlen(bar.what) + 8 + (unsigned)strlen(left);
    const unsigned cells = wide > text + 11 ? (wide - text - 1 < 40 ? wide - text - 1 : 40) : 0;
    const unsigned full = (unsigned)(part * cells);
    fprintf(stderr, "\r%s [%s", bar.what, bar.colour ? "\033[32m" : "");
    for (unsigned i = 0; i < cells; i++) {
        if (i == full && bar.colour) fputs("\033[0m", stderr);
        fputc(i < full ? '#' : '.', stderr);
    }
    fprintf(stderr, "%s] %3.0f%%%s\033[K", bar.colour ? "\033[0m" : "", part * 100, left);
    fflush(stderr);
    bar.drawn = true;
}

static void show(const char *what, uint64_t done, uint64_t total, bool timed)
{
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
        bar.start = t;
        bar.first = done;
    }
    bar.timed = timed;
    if (t < bar.next) return;
    bar.next = t + 0.1;
    draw(done, total);
}

void sm_progress_show(void *arg, const char *what, uint64_t done, uint64_t total)
{
    (void)arg;
    show(what, done, total, false);
}

void sm_progress_timed(const char *what, uint64_t done, uint64_t total)
{
    show(what, done, total, true);
}
