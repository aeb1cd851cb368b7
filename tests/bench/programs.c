/* programs.c: programs of any number of statements, by shape. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "programs.h"

static _Noreturn void give_up(const char *message) {
    fprintf(stderr, "%s\n", message);
    exit(3);
}

void program_put(ProgramText *program, const char *format, ...) {
    va_list arguments;
    for (;;) {
        const size_t room = program->capacity - program->size;
        va_start(arguments, format);
        const int length = vsnprintf(program->text ? program->text + program->size : NULL,
                                     program->text ? room : 0, format, arguments);
        va_end(arguments);
        if (length >= 0 && program->text && (size_t)length < room) {
            program->size += (size_t)length;
            return;
        }
        program->capacity = program->capacity ? 2 * program->capacity : 1 << 16;
        program->text = realloc(program->text, program->capacity);
        if (!program->text) give_up("out of memory");
    }
}

void program_read(ProgramText *program, const char *path) {
    FILE *file = fopen(path, "rb");
    char part[4096];
    if (!file) give_up("the file cannot be read");
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        program_put(program, "%.*s", (int)got, part);
    fclose(file);
}

void program_free(ProgramText *program) {
    free(program->text);
    *program = (ProgramText){0};
}

double process_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* ---- of the front end ---- */

/* Each value from the one before it: one kernel with a long body. */
static void lets(ProgramText *p, int count) {
    program_put(p, "step s[n](x: f32[n], inout y: f32[n]) {\n    let v0 = x\n");
    for (int i = 1; i < count; i++) program_put(p, "    let v%d = v%d * %d.5 + x\n", i, i - 1, i);
    program_put(p, "    y = v%d\n}\n", count - 1);
}

/* The same arrays assigned again and again. */
static void assignments(ProgramText *p, int count) {
    program_put(p, "step s[n](g: f32[n], inout p: f32[n], inout m: f32[n]) {\n");
    for (int i = 0; i < count; i += 2)
        program_put(p, "    m = lerp(g, m, 0.%d)\n    p -= %d.25 * m\n", 10 + i % 80, i);
    program_put(p, "}\n");
}

/* Sums of one array that need nothing of each other, and a value of all of them. */
static void sums(ProgramText *p, int count) {
    program_put(p, "step s[n](x: f32[n], inout t: f32) {\n");
    for (int i = 0; i < count - 1; i++) program_put(p, "    t += sum[n](x * %d.5)\n", i);
    program_put(p, "    t = t / 2\n}\n");
}

/* A gradient through a long body. */
static void gradients(ProgramText *p, int count) {
    program_put(p, "step s[n](x: f32[n], out dx: f32[n]) {\n    let v0 = x\n");
    for (int i = 1; i < count - 1; i++)
        program_put(p, "    let v%d = tanh(v%d * 0.%d)\n", i, i - 1, 10 + i % 80);
    program_put(p, "    let loss = sum[n](v%d)\n    dx = grad(loss, x)\n}\n", count - 2);
}

/* The sums of rows of a long body, and the sums of its columns. */
static void reduced(ProgramText *p, int count, const char *axis, const char *other) {
    program_put(p, "step s[n, m](x: f32[n, m], out y: f32[%s]) {\n    let v0 = x\n", other);
    for (int i = 1; i < count - 1; i++)
        program_put(p, "    let v%d = v%d * v%d + %d.5\n", i, i - 1, i / 2, i);
    program_put(p, "    y = sum[%s](v%d)\n}\n", axis, count - 2);
}

static void rows(ProgramText *p, int count) {
    reduced(p, count, "m", "n");
}

static void columns(ProgramText *p, int count) {
    reduced(p, count, "n", "m");
}

/* Arithmetic on cells alone. */
static void cells(ProgramText *p, int count) {
    program_put(p, "step s(a: f32, inout t: f32) {\n");
    for (int i = 0; i < count; i++) program_put(p, "    t = t * a + %d.5\n", i);
    program_put(p, "}\n");
}

/* Steps of ten statements each. */
static void steps(ProgramText *p, int count) {
    for (int k = 0; k < count; k += 10) {
        program_put(p, "step s%d[n](x: f32[n], inout y: f32[n]) {\n", k);
        for (int i = 0; i < 10; i++) program_put(p, "    y = y * %d.5 + x\n", i + k);
        program_put(p, "}\n");
    }
}

/* A step of two statements called again and again. */
static void calls(ProgramText *p, int count) {
    program_put(p, "step one[n](x: f32[n], a: f32, out y: f32[n]) {\n"
                   "    let z = x * a\n    y = z * z + x\n}\n"
                   "step s[n](x: f32[n], out y: f32[n]) {\n    let y0 = one(x = x, a = 0.5)\n");
    for (int i = 1; i < count / 3; i++)
        program_put(p, "    let y%d = one(x = y%d, a = %d.5)\n", i, i - 1, i);
    program_put(p, "    y = y%d\n}\n", count / 3 - 1);
}

const ProgramShape front_shapes[] = {
    {"lets", lets, 0, 10000},   {"assignments", assignments, 0, 10000},
    {"sums", sums, 0, 150},     {"gradients", gradients, 0, 10000},
    {"rows", rows, 0, 10000},   {"columns", columns, 0, 10000},
    {"cells", cells, 0, 10000}, {"steps", steps, 0, 10000},
    {"calls", calls, 1, 10000}};
const size_t front_shape_count = sizeof front_shapes / sizeof *front_shapes;

/* ---- of plans ---- */

/* Sums over every set of axes that need nothing of each other. */
static void wide(ProgramText *p, int count) {
    static const char *const over[] = {"a", "b", "c", "a, b", "b, c", "a, c", "a, b, c"};
    program_put(p, "step s[a, b, c](x: f32[a, b, c], inout y: f32[a, b, c]) {\n");
    for (int i = 0; i < count; i += 2)
        program_put(p, "    let s%d = sum[%s](x * %d.5)\n    y += tanh(s%d)\n", i, over[i / 2 % 7],
                    i, i);
    program_put(p, "}\n");
}

/* Each sum waits for the one before it. */
static void dependent(ProgramText *p, int count) {
    program_put(p, "step s[n](x: f32[n], out y: f32) {\n    let a0 = sum(x)\n");
    for (int i = 1; i < count - 1; i++) program_put(p, "    let a%d = sum(x * a%d)\n", i, i - 1);
    program_put(p, "    y = a%d\n}\n", count - 2);
}

/* Two products of matrices a statement. */
static void layers(ProgramText *p, int count) {
    program_put(p, "step s[b, i, h](inout x: f32[b, i], w: f32[i, h], v: f32[i, h]) {\n");
    for (int i = 0; i < count; i++)
        program_put(p, "    x = tanh(sum[h](tanh(sum[i](x * w)) * v) + x)\n");
    program_put(p, "}\n");
}

/* The largest of a row is read and taken out. */
static void choices(ProgramText *p, int count) {
    program_put(p, "step s[b, f](inout x: f32[b, f], inout s: f32[b]) {\n");
    for (int i = 0; i < count; i += 3)
        program_put(p,
                    "    let k%d = argmax[f](x)\n    s += x[b, k%d]\n"
                    "    x = if index(f) == k%d then 0.0 else x + s\n",
                    i, i, i);
    program_put(p, "}\n");
}

/* A step of five statements on the same arrays, called again and again. */
static void unrolled(ProgramText *p, int count) {
    program_put(
        p, "step tick[b, f](inout x: f32[b, f], inout live: bool[b], w: f32[f], out r: f32[b]) {\n"
           "    let best = max[f](x * w)\n    let i = argmax[f](if live then x else -x)\n"
           "    r = tanh(best) + x[b, i]\n    live &= r < 2\n"
           "    x = if live then x * 0.5 + r else x\n}\n"
           "step s[b, f](inout x: f32[b, f], inout live: bool[b], w: f32[f]");
    for (int i = 0; i < count / 5; i++) program_put(p, ", out r%d: f32[b]", i);
    program_put(p, ") {\n");
    for (int i = 0; i < count / 5; i++)
        program_put(p, "    tick(x = x, live = live, w = w, r = r%d)\n", i);
    program_put(p, "}\n");
}

const ProgramShape plan_shapes[] = {
    {"lets", lets, 0, 10000},           {"sums", sums, 0, 10000},    {"wide", wide, 0, 10000},
    {"dependent", dependent, 0, 10000}, {"layers", layers, 0, 3000}, {"choices", choices, 0, 1000},
    {"unrolled", unrolled, 1, 1000}};
const size_t plan_shape_count = sizeof plan_shapes / sizeof *plan_shapes;
