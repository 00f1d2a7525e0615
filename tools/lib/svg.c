/* SPDX-License-Identifier: MIT */
#include "svg.h"

enum { WIDTH = 720, HEIGHT = 420, LEFT = 60, RIGHT = 130, TOP = 40, BOTTOM = 50 };

static double x_of(const struct sm_svg_chart *c, double x)
{
    const double span = c->x[c->n - 1] - c->x[0];
    return LEFT + (span > 0 ? (x - c->x[0]) / span : 0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const struct sm_svg_chart *c, double y)
{
    return HEIGHT - BOTTOM - y / c->y_max * (HEIGHT - TOP - BOTTOM);
}

static void axes(FILE *f, const struct sm_svg_chart *c)
{
    for (int i = 0; i <= 5; i++) {
        const double v = c->y_max * i / 5, y = y_of(c, v);
        fprintf(f, "<line x1='%d' x2='%d' y1='%.1f' y2='%.1f' stroke='#ddd'/>\n", LEFT,
                WIDTH - RIGHT, y, y);
        fprintf(f, "<text x='%d' y='%.1f' text-anchor='end'>%g</text>\n", LEFT - 6, y + 4, v);
    }
    for (size_t i = 0; i < c->n; i++)
        fprintf(f, "<text x='%.1f' y='%d' text-anchor='middle'>%g</text>\n", x_of(c, c->x[i]),
                HEIGHT - BOTTOM + 18, c->x[i]);
    fprintf(f, "<text x='%d' y='%d' text-anchor='middle'>%s</text>\n", (LEFT + WIDTH - RIGHT) / 2,
            HEIGHT - 10, c->x_name);
    fprintf(f, "<text x='14' y='%d' transform='rotate(-90 14 %d)' text-anchor='middle'>%s</text>\n",
            HEIGHT / 2, HEIGHT / 2, c->y_name);
    fprintf(f, "<text x='%d' y='22' font-size='15'>%s</text>\n", LEFT, c->title);
}

bool sm_svg_write(FILE *f, const struct sm_svg_chart *c)
{
    static const char *const colours[] = {"#333",    "#1f77b4", "#d62728",
                                          "#2ca02c", "#9467bd", "#ff7f0e"};
    fprintf(f, "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' "
               "font-family='sans-serif' font-size='12'>\n<rect width='100%%' height='100%%' "
               "fill='white'/>\n", WIDTH, HEIGHT);
    axes(f, c);
    for (size_t l = 0; l < c->n_lines; l++) {
        const char *colour = colours[l % (sizeof colours / sizeof *colours)];
        fprintf(f, "<polyline fill='none' stroke-width='2' stroke='%s' points='", colour);
        for (size_t i = 0; i < c->n; i++)
            fprintf(f, "%.1f,%.1f ", x_of(c, c->x[i]), y_of(c, c->lines[l].y[i]));
        fprintf(f, "'/>\n<text x='%d' y='%zu' fill='%s'>%s</text>\n", WIDTH - RIGHT + 12,
                TOP + 16 + 18 * l, colour, c->lines[l].name);
    }
    fputs("</svg>\n", f);
    return fflush(f) == 0 && !ferror(f);
}
