/* front.c: how long text takes to become kernels' text, and how that grows.
 *   front FILE [TARGET [ROUNDS]]          one file: the best of ROUNDS of each part, in
 * milliseconds front grow [SHAPE [MOST [TARGET]]]    programs of 10 statements up to MOST (10,000),
 * by shape Nothing is compiled to machine code: that is latency.c's. One JSON object a line on
 * stdout. */
#include <lockstep/compiler.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "programs.h"

static int fail(const char *message) {
    fprintf(stderr, "front: %s\n", message);
    return 3;
}

/* ---- timing ---- */

typedef struct Times {
    double read, emit; /* text to IR of every step; plans and text of every kernel */
    size_t bytes;      /* of that text */
} Times;

static int measure(const char *name, const char *text, size_t size, const char *target,
                   Times *times) {
    ls_compilation *compilation = NULL;
    const double start = process_milliseconds();
    ls_status status = ls_compile_text(name, text, size, NULL, &compilation);
    times->read = process_milliseconds() - start;
    times->bytes = 0;
    for (size_t i = 0; status == LS_OK && i < ls_compilation_step_count(compilation); i++) {
        const ls_image *image = NULL;
        status = ls_compilation_image(compilation, i, target, &image);
        for (uint32_t v = 0; status == LS_OK && v < image->variant_count; v++)
            times->bytes += strlen(image->variants[v].source);
    }
    times->emit = process_milliseconds() - start - times->read;
    const int result =
        status == LS_OK ? 0 : fail(compilation ? ls_compilation_message(compilation) : "no memory");
    ls_compilation_destroy(compilation);
    return result;
}

/* The best of several rounds of a program of so many statements. */
static int measure_shape(const ProgramShape *shape, int count, int rounds, const char *target,
                         Times *best) {
    ProgramText program = {0};
    Times times = {0};
    int failed = 0;
    shape->write(&program, count);
    for (int round = 0; round < rounds && !failed; round++) {
        failed = measure("grow.step", program.text, program.size, target, &times);
        if (round == 0 || times.read + times.emit < best->read + best->emit) *best = times;
    }
    program_free(&program);
    return failed;
}

static int grow(const char *wanted, int most, const char *target) {
    int found = 0;
    for (size_t i = 0; i < front_shape_count; i++) {
        if (wanted && strcmp(wanted, "all") != 0 && strcmp(wanted, front_shapes[i].name) != 0)
            continue;
        found = 1;
        for (int count = 10; count <= most && count <= front_shapes[i].most; count *= 10) {
            Times best = {0};
            const int failed =
                measure_shape(&front_shapes[i], count, count > 100 ? 2 : 5, target, &best);
            if (failed) return failed;
            printf("{\"shape\": \"%s\", \"statements\": %d, \"read_ms\": %.3f, \"emit_ms\": %.3f, "
                   "\"us_per_statement\": %.2f, \"bytes\": %zu}\n",
                   front_shapes[i].name, count, best.read, best.emit,
                   (best.read + best.emit) * 1e3 / count, best.bytes);
            fflush(stdout);
        }
    }
    return found ? 0 : fail("there is no such shape");
}

static int check(void) {
    int slow = 0;
    for (size_t i = 0; i < front_shape_count; i++) {
        const int many = front_shapes[i].most < 4000 ? front_shapes[i].most : 4000;
        Times few = {0}, all = {0};
        int failed = measure_shape(&front_shapes[i], many / 8, 3, "cpu", &few);
        if (!failed) failed = measure_shape(&front_shapes[i], many, 2, "cpu", &all);
        if (failed) return failed;
        const double growth = (all.read + all.emit) / (few.read + few.emit);
        printf("%s: %d statements take %.1f times as long as %d\n", front_shapes[i].name, many,
               growth, many / 8);
        slow += growth > 20;
    }
    return slow ? fail("a part of the front end is not linear") : 0;
}

static int one_file(const char *path, const char *target, int rounds) {
    ProgramText program = {0};
    program_read(&program, path);
    Times times = {0}, first = {0}, best = {0};
    for (int round = 0; round < rounds; round++) {
        const int failed = measure(path, program.text, program.size, target, &times);
        if (failed) return failed;
        if (round == 0) first = times;
        if (round == 0 || times.read + times.emit < best.read + best.emit) best = times;
    }
    program_free(&program);
    printf("{\"file\": \"%s\", \"target\": \"%s\", \"read_ms\": %.3f, \"emit_ms\": %.3f, "
           "\"first_ms\": %.3f, \"bytes\": %zu}\n",
           path, target, best.read, best.emit, first.read + first.emit, best.bytes);
    return 0;
}

int main(int count, char **arguments) {
    if (count == 2 && strcmp(arguments[1], "check") == 0) return check();
    if (count >= 2 && strcmp(arguments[1], "grow") == 0)
        return grow(count > 2 ? arguments[2] : NULL, count > 3 ? atoi(arguments[3]) : 10000,
                    count > 4 ? arguments[4] : "cpu");
    if (count >= 2)
        return one_file(arguments[1], count > 2 ? arguments[2] : "cpu",
                        count > 3 ? atoi(arguments[3]) : 20);
    fprintf(stderr, "usage: front FILE [TARGET [ROUNDS]] | front grow [SHAPE [MOST [TARGET]]] |\n"
                    "       front check\n");
    return 2;
}
