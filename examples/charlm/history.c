/* history.c: the losses so far, and their picture as an SVG. */
#include "charlm.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool history_add(History *history, Point point) {
    if (history->count == history->capacity) {
        const size_t capacity = history->capacity ? 2 * history->capacity : 64;
        Point *grown = realloc(history->points, capacity * sizeof *grown);
        if (!grown) return fail("out of memory for the loss curve");
        history->points = grown;
        history->capacity = capacity;
    }
    history->points[history->count++] = point;
    return true;
}

void history_close(History *history) {
    free(history->points);
    *history = (History){0};
}

enum { WIDTH = 760, HEIGHT = 440, LEFT = 64, RIGHT = 96, TOP = 56, BOTTOM = 64 };
#define BLUE "#2563a8"
#define ORANGE "#c2571a"
#define GREY "#6b7280"

typedef struct Frame { /* what the picture shows */
    const History *history;
    double steps, low, high, entropy;
    const char *title, *note;
} Frame;

static double across(const Frame *frame, double step) {
    return LEFT + (WIDTH - LEFT - RIGHT) * step / frame->steps;
}

static double down(const Frame *frame, double loss) {
    return TOP + (HEIGHT - TOP - BOTTOM) * (frame->high - loss) / (frame->high - frame->low);
}

/* 1, 2 or 5 times a power of ten, so that there are at most eight. */
static double tick(double range) {
    static const double factors[] = {1, 2, 5, 10};
    const double unit = pow(10, floor(log10(range / 8)));
    for (size_t i = 0; i < COUNT(factors); i++)
        if (range / (factors[i] * unit) <= 8) return factors[i] * unit;
    return 10 * unit;
}

static void escape(FILE *file, const char *text) {
    for (; *text; text++) {
        const char *instead =
            *text == '&' ? "&amp;" : (*text == '<' ? "&lt;" : (*text == '>' ? "&gt;" : NULL));
        if (instead)
            fputs(instead, file);
        else
            fputc(*text, file);
    }
}

static void grid(FILE *file, const Frame *frame) {
    const double every_loss = tick(frame->high - frame->low), every_step = tick(frame->steps);
    for (double loss = frame->low; loss < frame->high + 1e-9; loss += every_loss)
        fprintf(file,
                "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#e5e7eb'/>"
                "<text x='%d' y='%.1f' text-anchor='end' fill='" GREY "'>%.4g</text>\n",
                LEFT, down(frame, loss), WIDTH - RIGHT, down(frame, loss), LEFT - 10,
                down(frame, loss) + 4, loss);
    for (double step = 0; step < frame->steps + 1e-9; step += every_step)
        fprintf(file,
                "<line x1='%.1f' y1='%d' x2='%.1f' y2='%d' stroke='" GREY "'/>"
                "<text x='%.1f' y='%d' text-anchor='middle' fill='" GREY "'>%.6g</text>\n",
                across(frame, step), HEIGHT - BOTTOM, across(frame, step), HEIGHT - BOTTOM + 5,
                across(frame, step), HEIGHT - BOTTOM + 20, step);
    fprintf(file, "<line x1='%d' y1='%d' x2='%d' y2='%d' stroke='" GREY "'/>\n", LEFT,
            HEIGHT - BOTTOM, WIDTH - RIGHT, HEIGHT - BOTTOM);
}

/* One of a point's two losses, where it is known, as a line; its last value beside it, `shift` up
 * or down from where the other's may be. */
static void line(FILE *file, const Frame *frame, bool validation, const char *colour,
                 const char *name, double shift) {
    Point last = {0};
    double value = 0;
    fprintf(file,
            "<polyline fill='none' stroke='%s' stroke-width='%s' stroke-linejoin='round' "
            "points='",
            colour, validation ? "2.2" : "1.4");
    for (size_t i = 0; i < frame->history->count; i++) {
        const Point *point = &frame->history->points[i];
        const double loss = validation ? point->validation : point->training;
        if (!isfinite(loss)) continue;
        value = loss;
        last = *point;
        fprintf(file, "%.1f,%.1f ", across(frame, point->step),
                down(frame, fmin(fmax(loss, frame->low), frame->high)));
    }
    fprintf(file, "'/>\n");
    for (size_t i = 0; validation && i < frame->history->count; i++) {
        const Point *point = &frame->history->points[i];
        if (isfinite(point->validation))
            fprintf(file, "<circle cx='%.1f' cy='%.1f' r='3' fill='%s'/>\n",
                    across(frame, point->step), down(frame, point->validation), colour);
    }
    fprintf(file, "<text x='%.1f' y='%.1f' fill='%s'>%s %.3f</text>\n",
            across(frame, last.step) + 8, down(frame, value) + 4 + shift, colour, name, value);
}

static bool draw(FILE *file, void *what) {
    const Frame *frame = what;
    const double level = down(frame, frame->entropy);
    fprintf(file,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='system-ui, sans-serif' font-size='12'>\n"
            "<rect width='%d' height='%d' rx='6' fill='#ffffff'/>\n"
            "<text x='%d' y='30' font-size='16' font-weight='600' fill='#111827'>",
            WIDTH, HEIGHT, WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT);
    escape(file, frame->title);
    fprintf(file, "</text>\n");
    grid(file, frame);
    fprintf(file,
            "<line x1='%d' y1='%.1f' x2='%d' y2='%.1f' stroke='#111827' stroke-dasharray='5 4'/>"
            "<text x='%d' y='%.1f' text-anchor='end' fill='#111827'>unigram entropy %.3f</text>\n",
            LEFT, level, WIDTH - RIGHT, level, WIDTH - RIGHT, level - 6, frame->entropy);
    Point last = {0};
    for (size_t i = 0; i < frame->history->count; i++) {
        const Point *point = &frame->history->points[i];
        if (isfinite(point->training)) last.training = point->training;
        if (isfinite(point->validation)) last.validation = point->validation;
    }
    double apart = fabs(down(frame, last.training) - down(frame, last.validation));
    const double shift = apart < 14 ? (14 - apart) / 2 : 0;
    const bool above = last.validation > last.training;
    line(file, frame, false, ORANGE, "train", above ? shift : -shift);
    line(file, frame, true, BLUE, "val", above ? -shift : shift);
    fprintf(file,
            "<text x='%d' y='%d' text-anchor='middle' fill='" GREY "'>step</text>\n"
            "<text transform='translate(18 %d) rotate(-90)' text-anchor='middle' fill='" GREY
            "'>loss, nats per character</text>\n<text x='%d' y='%d' font-size='11' fill='" GREY
            "'>",
            (LEFT + WIDTH - RIGHT) / 2, HEIGHT - BOTTOM + 36, (TOP + HEIGHT - BOTTOM) / 2, LEFT,
            HEIGHT - 10);
    escape(file, frame->note);
    fprintf(file, "</text>\n</svg>\n");
    return true;
}

bool curve_write(const char *path, const History *history, double entropy, const char *title,
                 const char *note) {
    Frame frame = {.history = history, .entropy = entropy, .title = title, .note = note};
    frame.low = frame.high = entropy;
    frame.steps = 1;
    for (size_t i = 0; i < history->count; i++) {
        const Point *point = &history->points[i];
        const double losses[] = {point->training, point->validation};
        frame.steps = fmax(frame.steps, point->step);
        for (int k = 0; k < 2; k++) {
            if (!isfinite(losses[k])) continue;
            frame.low = fmin(frame.low, losses[k]);
            frame.high = fmax(frame.high, losses[k]);
        }
    }
    frame.low = fmax(0, floor(frame.low * 2 - 0.3) / 2);
    frame.high = ceil(frame.high * 2 + 0.1) / 2;
    return file_replace(path, draw, &frame);
}
