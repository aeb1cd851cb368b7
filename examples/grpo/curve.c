/* curve.c: what was measured on the way, and its picture as an SVG. */
#include "grpo.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool curve_add(Curve *curve, Point point) {
    if (curve->count == curve->capacity) {
        const size_t capacity = curve->capacity ? 2 * curve->capacity : 64;
        Point *grown = realloc(curve->points, capacity * sizeof *grown);
        if (!grown) return fail("out of memory for the learning curve");
        curve->points = grown;
        curve->capacity = capacity;
    }
    curve->points[curve->count++] = point;
    return true;
}

void curve_close(Curve *curve) {
    free(curve->points);
    *curve = (Curve){0};
}

enum { WIDTH = 760, HEIGHT = 400, LEFT = 64, RIGHT = 96, TOP = 56, BOTTOM = 56 };
#define BLUE "#2563a8"
#define GREY "#6b7280"

static double across(const Curve *curve, double iteration) {
    return LEFT + (WIDTH - LEFT - RIGHT) * iteration / curve->points[curve->count - 1].iteration;
}

static double down(double share) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - share);
}

static void grid(FILE *file, const Curve *curve) {
    const double last = curve->points[curve->count - 1].iteration;
    for (int tenth = 0; tenth <= 10; tenth += 2)
        fprintf(file,
                "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#e5e7eb'/>"
                "<text x='%d' y='%.1f' text-anchor='end' fill='" GREY "'>%d %%</text>\n",
                LEFT, down(tenth / 10.0), WIDTH - RIGHT, down(tenth / 10.0), LEFT - 10,
                down(tenth / 10.0) + 4, 10 * tenth);
    for (int quarter = 0; quarter <= 4; quarter++)
        fprintf(file, "<text x='%.1f' y='%d' text-anchor='middle' fill='" GREY "'>%.6g</text>\n",
                across(curve, last * quarter / 4), HEIGHT - BOTTOM + 20, last * quarter / 4);
}

static void draw(FILE *file, const Curve *curve) {
    const Point *last = &curve->points[curve->count - 1];
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='system-ui, sans-serif' font-size='12'>\n"
            "<rect width='%d' height='%d' rx='6' fill='#ffffff'/>\n"
            "<text x='%d' y='30' font-size='16' font-weight='600' fill='#111827'>"
            "Fruits caught, of those that the best player would catch</text>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    grid(file, curve);
    fputs("<polyline fill='none' stroke='" BLUE "' stroke-width='2.2' stroke-linejoin='round' "
          "points='",
          file);
    for (size_t i = 0; i < curve->count; i++)
        fprintf(file, "%.1f,%.1f ", across(curve, curve->points[i].iteration),
                down(fmin(fmax(curve->points[i].caught, 0), 1)));
    fprintf(file,
            "'/>\n<text x='%.1f' y='%.1f' fill='" BLUE "'>%.1f %%</text>\n"
            "<text x='%d' y='%d' text-anchor='middle' fill='" GREY "'>iteration</text>\n</svg>\n",
            across(curve, last->iteration) + 8, down(last->caught) + 4, 100 * last->caught,
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 40);
}

bool curve_write(const Curve *curve, const char *path) {
    if (!curve->count) return fail("%s: nothing was measured", path);
    FILE *file = fopen(path, "w");
    if (!file) return fail("%s cannot be written: %s", path, strerror(errno));
    draw(file, curve);
    const bool whole = !ferror(file);
    if (fclose(file) != 0 || !whole) return fail("%s cannot be written: %s", path, strerror(errno));
    return true;
}
