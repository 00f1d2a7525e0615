/* SPDX-License-Identifier: MIT */
/* A plain line chart as SVG. */
#ifndef SM_TOOLS_SVG_H
#define SM_TOOLS_SVG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct sm_svg_line { const char *name; const double *y; }; /* n points over the chart's x */
struct sm_svg_chart {
    const char *title, *x_name, *y_name;
    const double *x; /* [n] ascending */
    size_t n;
    double y_max;    /* 0 is the bottom */
    const struct sm_svg_line *lines;
    size_t n_lines;
};
/* False when a write failed. Names must need no escaping in XML. */
bool sm_svg_write(FILE *f, const struct sm_svg_chart *c);

#endif
