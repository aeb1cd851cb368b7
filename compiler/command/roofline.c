/* roofline.c: the picture of `lockstep advise`: operations a second over operations a byte, on
 * logarithmic axes, under what memory and instructions allow. A kernel is a point with a number,
 * and the list below the chart has its name. Points that would cover each other are moved apart,
 * with a line to where they belong. */
#include "files.h"
#include "command.h"
#include "advise.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LEFT = 84,
    TOP = 44,
    WIDTH = 600,
    HEIGHT = 340,
    RADIUS = 10,
    LINE = 20,  /* of the list */
    LETTER = 8, /* the widest of its letters, on average */
    ROUNDS = 400
};

typedef struct Point {
    double x, y;       /* in the picture: where it belongs, */
    double at_x, at_y; /* and where it is drawn */
    bool shown;        /* a kernel without operations or bytes has no place */
} Point;

typedef struct Chart {
    double low_x, high_x, low_y, high_y; /* powers of ten, as exponents */
    double bandwidth, operations;        /* a second */
    Point *points;
    size_t count;
} Chart;

static double intensity(const ls_advice_kernel *kernel) {
    const double bytes = kernel->bytes_read + kernel->bytes_written;
    return bytes > 0 ? kernel->operations / bytes : 0;
}

static double rate(const ls_advice_kernel *kernel) {
    return kernel->time_s > 0 ? kernel->operations / kernel->time_s : 0;
}

static double place_x(const Chart *chart, double value) {
    return LEFT + WIDTH * (log10(value) - chart->low_x) / (chart->high_x - chart->low_x);
}

static double place_y(const Chart *chart, double value) {
    return TOP + HEIGHT * (chart->high_y - log10(value)) / (chart->high_y - chart->low_y);
}

/* The axes have all points, the ridge, and whole powers of ten. */
static void choose_axes(Chart *chart, const ls_advice *advice) {
    const double ridge = chart->operations / chart->bandwidth;
    double low = ridge / 100, high = ridge * 10, least = chart->operations / 100;
    for (size_t i = 0; i < advice->kernel_count; i++) {
        const double x = intensity(&advice->kernels[i]), y = rate(&advice->kernels[i]);
        if (x <= 0 || y <= 0) continue;
        if (x < low) low = x;
        if (x > high) high = x;
        if (y < least) least = y;
    }
    chart->low_x = floor(log10(low));
    chart->high_x = ceil(log10(high));
    chart->low_y = floor(log10(least));
    chart->high_y = ceil(log10(chart->operations) + 0.05);
}

static double within(double value, double low, double high) {
    return value < low ? low : value > high ? high : value;
}

/* Moves two points that cover each other apart by what is missing, half each. */
static bool part(Point *a, Point *b, size_t turn) {
    const double apart = 2 * RADIUS + 2;
    double x = b->at_x - a->at_x, y = b->at_y - a->at_y, length = hypot(x, y);
    if (length >= apart) return false;
    if (length < 1e-3) {
        x = cos((double)turn);
        y = sin((double)turn);
        length = 1;
    }
    const double half = (apart - hypot(b->at_x - a->at_x, b->at_y - a->at_y)) / 2 + 0.1;
    a->at_x -= x / length * half;
    a->at_y -= y / length * half;
    b->at_x += x / length * half;
    b->at_y += y / length * half;
    return true;
}

static void keep_inside(Point *point) {
    point->at_x = within(point->at_x, LEFT + RADIUS, LEFT + WIDTH - RADIUS);
    point->at_y = within(point->at_y, TOP + RADIUS, TOP + HEIGHT - RADIUS);
}

static void place_points(Chart *chart, const ls_advice *advice) {
    for (size_t i = 0; i < chart->count; i++) {
        Point *point = &chart->points[i];
        const double x = intensity(&advice->kernels[i]), y = rate(&advice->kernels[i]);
        point->shown = x > 0 && y > 0;
        if (!point->shown) continue;
        point->x = point->at_x = place_x(chart, x);
        point->y = point->at_y = place_y(chart, y);
        keep_inside(point);
    }
    bool moved = true;
    for (size_t round = 0; moved && round < ROUNDS; round++) {
        moved = false;
        for (size_t i = 0; i < chart->count; i++)
            for (size_t k = 0; k < i; k++)
                if (chart->points[i].shown && chart->points[k].shown)
                    moved |= part(&chart->points[k], &chart->points[i], i + round);
        for (size_t i = 0; i < chart->count; i++) keep_inside(&chart->points[i]);
    }
}

/* ---- drawing ---- */

static void put_escaped(Buffer *out, const char *text) {
    for (; *text; text++)
        if (*text == '<' || *text == '>' || *text == '&')
            buffer_puts(out, *text == '<' ? "&lt;" : *text == '>' ? "&gt;" : "&amp;");
        else
            buffer_add(out, text, 1);
}

/* "10 G" for 1e10 */
static void put_power(Buffer *out, int exponent) {
    static const char *const units[] = {"", " k", " M", " G", " T", " P"};
    static const char *const digits[] = {"1", "10", "100"};
    if (exponent >= 0 && exponent < 18)
        buffer_printf(out, "%s%s", digits[exponent % 3], units[exponent / 3]);
    else
        buffer_printf(out, "%g", pow(10, exponent));
}

static void draw_axes(const Chart *chart, Buffer *out) {
    for (int e = (int)chart->low_x; e <= (int)chart->high_x; e++) {
        const double x = place_x(chart, pow(10, e));
        buffer_printf(out,
                      "  <line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#e3e6ea\"/>\n"
                      "  <text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">",
                      x, TOP, x, TOP + HEIGHT, x, TOP + HEIGHT + 18);
        put_power(out, e);
        buffer_puts(out, "</text>\n");
    }
    for (int e = (int)chart->low_y; e <= (int)chart->high_y; e++) {
        const double y = place_y(chart, pow(10, e));
        buffer_printf(out,
                      "  <line x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\" stroke=\"#e3e6ea\"/>\n"
                      "  <text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">",
                      LEFT, y, LEFT + WIDTH, y, LEFT - 8, y + 4);
        put_power(out, e);
        buffer_puts(out, "</text>\n");
    }
    buffer_printf(out,
                  "  <text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations per byte</text>\n"
                  "  <text transform=\"translate(18 %d) rotate(-90)\" text-anchor=\"middle\">"
                  "operations per second</text>\n",
                  LEFT + WIDTH / 2, TOP + HEIGHT + 40, TOP + HEIGHT / 2);
}

/* The slope of the memory from the left or lower edge to the ridge, then what instructions allow.
 */
static void draw_roof(const Chart *chart, Buffer *out) {
    const double ridge = chart->operations / chart->bandwidth;
    double left = pow(10, chart->low_x);
    const double bottom = pow(10, chart->low_y) / chart->bandwidth;
    if (left < bottom) left = bottom;
    buffer_printf(
        out,
        "  <polyline points=\"%.1f,%.1f %.1f,%.1f %d,%.1f\" fill=\"none\" stroke=\"#444b55\" "
        "stroke-width=\"2\"/>\n",
        place_x(chart, left), place_y(chart, left * chart->bandwidth), place_x(chart, ridge),
        place_y(chart, chart->operations), LEFT + WIDTH, place_y(chart, chart->operations));
}

static void draw_points(const Chart *chart, Buffer *out) {
    for (size_t i = 0; i < chart->count; i++) {
        const Point *point = &chart->points[i];
        if (!point->shown || hypot(point->x - point->at_x, point->y - point->at_y) < 1) continue;
        buffer_printf(out,
                      "  <line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                      "stroke=\"#3b6ea8\"/>\n"
                      "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"2\" fill=\"#3b6ea8\"/>\n",
                      point->x, point->y, point->at_x, point->at_y, point->x, point->y);
    }
    for (size_t i = 0; i < chart->count; i++) {
        const Point *point = &chart->points[i];
        if (!point->shown) continue;
        buffer_printf(out,
                      "  <circle cx=\"%.1f\" cy=\"%.1f\" r=\"%d\" fill=\"#3b6ea8\"/>\n"
                      "  <text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" fill=\"white\" "
                      "font-size=\"10\">%zu</text>\n",
                      point->at_x, point->at_y, RADIUS, point->at_x, point->at_y + 3.5, i + 1);
    }
}

static void put_entry(const ls_advice_kernel *kernel, size_t number, Buffer *out) {
    char time[40];
    time_describe(kernel->time_s, time, sizeof time);
    buffer_printf(out, "%zu  %s: %s, bound by %s, ", number + 1, kernel->name, time, kernel->limit);
    if (intensity(kernel) > 0 && rate(kernel) > 0)
        buffer_printf(out, "%.3g operations per byte", intensity(kernel));
    else
        buffer_puts(out, "no operations, not in the chart");
}

static void put_title(const Advise *advise, Buffer *out) {
    buffer_printf(out, "%s on %s", advise->name, advise->device);
    if (advise->advice.device) buffer_printf(out, " (%s)", advise->advice.device);
    for (size_t i = 0; i < advise->sizes.count; i++)
        buffer_printf(out, ", %s", advise->sizes.items[i]);
    if (advise->vary.axis)
        buffer_printf(out, ", %s=%lld", advise->vary.axis, (long long)advise->chosen);
    buffer_printf(out, ": %.0f GB/s", advise->advice.memory_gb_s);
}

static void put_text_at(Buffer *out, int y, int size, const char *text) {
    buffer_printf(out, "  <text x=\"16\" y=\"%d\" font-size=\"%d\">", y, size);
    put_escaped(out, text);
    buffer_puts(out, "</text>\n");
}

void roofline_draw(const Advise *advise, Buffer *out) {
    const ls_advice *advice = &advise->advice;
    Chart chart = {.bandwidth = advice->memory_gb_s * 1e9,
                   .operations = advice->operations_per_s,
                   .count = advice->kernel_count};
    Buffer title = {0}, *entries = memory((chart.count + 1) * sizeof *entries);
    const int list = TOP + HEIGHT + 66, height = list + LINE * (int)chart.count + 8;
    size_t longest = 0;
    put_title(advise, &title);
    longest = title.size * 5 / 4; /* its letters are larger */
    for (size_t i = 0; i < chart.count; i++) {
        put_entry(&advice->kernels[i], i, &entries[i]);
        if (entries[i].size > longest) longest = entries[i].size;
    }
    const int chart_width = LEFT + WIDTH + 40, list_width = 32 + LETTER * (int)longest;
    const int width = list_width > chart_width ? list_width : chart_width;
    chart.points = memory((chart.count + 1) * sizeof *chart.points);
    choose_axes(&chart, advice);
    place_points(&chart, advice);
    buffer_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n"
                  "  <rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n",
                  width, height, width, height);
    put_text_at(out, 26, 15, title.data);
    draw_axes(&chart, out);
    draw_roof(&chart, out);
    draw_points(&chart, out);
    for (size_t i = 0; i < chart.count; i++) {
        put_text_at(out, list + LINE * (int)i, 12, entries[i].data);
        buffer_free(&entries[i]);
    }
    buffer_puts(out, "</svg>\n");
    buffer_free(&title);
    free(entries);
    free(chart.points);
}
