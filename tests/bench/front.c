/* front.c: how long text takes to become kernels' text, and how that grows.
 *   front FILE [TARGET [ROUNDS]]          one file: the best of ROUNDS of each part, in
 * milliseconds front grow [SHAPE [MOST [TARGET]]]    programs of 10 statements up to MOST (10,000),
 * by shape Nothing is compiled to machine code: that is latency.c's. One JSON object a line on
 * stdout. */
#include <lockstep/compiler.h>

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int fail(const char *message) {
    fprintf(stderr, "front: %s\n", message);
    return 3;
}

/* ---- programs ---- */

typedef struct Program {
    char *text;
    size_t size, capacity;
} Program;

static void put(Program *program, const char *format, ...) {
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
        if (!program->text) exit(fail("out of memory"));
    }
}

/* Each value from the one before it: one kernel with a long body. */
static void lets(Program *p, int count) {
    put(p, "step s[n](x: f32[n], inout y: f32[n]) {\n    let v0 = x\n");
    for (int i = 1; i < count; i++) put(p, "    let v%d = v%d * %d.5 + x\n", i, i - 1, i);
    put(p, "    y = v%d\n}\n", count - 1);
}

/* The same arrays assigned again and again. */
static void assignments(Program *p, int count) {
    put(p, "step s[n](g: f32[n], inout p: f32[n], inout m: f32[n]) {\n");
    for (int i = 0; i < count; i += 2)
        put(p, "    m = lerp(g, m, 0.%d)\n    p -= %d.25 * m\n", 10 + i % 80, i);
    put(p, "}\n");
}

/* Sums of one array that need nothing of each other, and a value of all of them. */
static void sums(Program *p, int count) {
    put(p, "step s[n](x: f32[n], inout t: f32) {\n");
    for (int i = 0; i < count - 1; i++) put(p, "    t += sum[n](x * %d.5)\n", i);
    put(p, "    t = t / 2\n}\n");
}

/* A gradient through a long body. */
static void gradients(Program *p, int count) {
    put(p, "step s[n](x: f32[n], out dx: f32[n]) {\n    let v0 = x\n");
    for (int i = 1; i < count - 1; i++)
        put(p, "    let v%d = tanh(v%d * 0.%d)\n", i, i - 1, 10 + i % 80);
    put(p, "    let loss = sum[n](v%d)\n    dx = grad(loss, x)\n}\n", count - 2);
}

/* Arithmetic on cells alone. */
static void cells(Program *p, int count) {
    put(p, "step s(a: f32, inout t: f32) {\n");
    for (int i = 0; i < count; i++) put(p, "    t = t * a + %d.5\n", i);
    put(p, "}\n");
}

/* Steps of ten statements each. */
static void steps(Program *p, int count) {
    for (int k = 0; k < count; k += 10) {
        put(p, "step s%d[n](x: f32[n], inout y: f32[n]) {\n", k);
        for (int i = 0; i < 10; i++) put(p, "    y = y * %d.5 + x\n", i + k);
        put(p, "}\n");
    }
}

/* A step of two statements called again and again. */
static void calls(Program *p, int count) {
    put(p, "step one[n](x: f32[n], a: f32, out y: f32[n]) {\n"
           "    let z = x * a\n    y = z * z + x\n}\n"
           "step s[n](x: f32[n], out y: f32[n]) {\n    let y0 = one(x = x, a = 0.5)\n");
    for (int i = 1; i < count / 3; i++)
        put(p, "    let y%d = one(x = y%d, a = %d.5)\n", i, i - 1, i);
    put(p, "    y = y%d\n}\n", count / 3 - 1);
}

/* `most`: of sums each has words of its own in a kernel's argument block, of which there are 480.
 */
static const struct Shape {
    const char *name;
    void (*write)(Program *program, int count);
    int most;
} shapes[] = {{"lets", lets, 10000},   {"assignments", assignments, 10000},
              {"sums", sums, 150},     {"gradients", gradients, 10000},
              {"cells", cells, 10000}, {"steps", steps, 10000},
              {"calls", calls, 10000}};

/* ---- timing ---- */

typedef struct Times {
    double read, emit; /* text to IR of every step; plans and text of every kernel */
    size_t bytes;      /* of that text */
} Times;

static int measure(const char *name, const char *text, size_t size, const char *target,
                   Times *times) {
    ls_compilation *compilation = NULL;
    const double start = milliseconds();
    ls_status status = ls_compile_text(name, text, size, NULL, &compilation);
    times->read = milliseconds() - start;
    times->bytes = 0;
    for (size_t i = 0; status == LS_OK && i < ls_compilation_step_count(compilation); i++) {
        const ls_image *image = NULL;
        status = ls_compilation_image(compilation, i, target, &image);
        for (uint32_t v = 0; status == LS_OK && v < image->variant_count; v++)
            times->bytes += strlen(image->variants[v].source);
    }
    times->emit = milliseconds() - start - times->read;
    const int result =
        status == LS_OK ? 0 : fail(compilation ? ls_compilation_message(compilation) : "no memory");
    ls_compilation_destroy(compilation);
    return result;
}

/* The best of several rounds of a program of so many statements. */
static int measure_shape(const struct Shape *shape, int count, int rounds, const char *target,
                         Times *best) {
    Program program = {0};
    Times times = {0};
    int failed = 0;
    shape->write(&program, count);
    for (int round = 0; round < rounds && !failed; round++) {
        failed = measure("grow.step", program.text, program.size, target, &times);
        if (round == 0 || times.read + times.emit < best->read + best->emit) *best = times;
    }
    free(program.text);
    return failed;
}

static int grow(const char *wanted, int most, const char *target) {
    int found = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        if (wanted && strcmp(wanted, "all") != 0 && strcmp(wanted, shapes[i].name) != 0) continue;
        found = 1;
        for (int count = 10; count <= most && count <= shapes[i].most; count *= 10) {
            Times best = {0};
            const int failed = measure_shape(&shapes[i], count, count > 100 ? 2 : 5, target, &best);
            if (failed) return failed;
            printf("{\"shape\": \"%s\", \"statements\": %d, \"read_ms\": %.3f, \"emit_ms\": %.3f, "
                   "\"us_per_statement\": %.2f, \"bytes\": %zu}\n",
                   shapes[i].name, count, best.read, best.emit,
                   (best.read + best.emit) * 1e3 / count, best.bytes);
            fflush(stdout);
        }
    }
    return found ? 0 : fail("there is no such shape");
}

static int check(void) {
    int slow = 0;
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const int many = shapes[i].most < 4000 ? shapes[i].most : 4000;
        Times few = {0}, all = {0};
        int failed = measure_shape(&shapes[i], many / 8, 3, "cpu", &few);
        if (!failed) failed = measure_shape(&shapes[i], many, 2, "cpu", &all);
        if (failed) return failed;
        const double growth = (all.read + all.emit) / (few.read + few.emit);
        printf("%s: %d statements take %.1f times as long as %d\n", shapes[i].name, many, growth,
               many / 8);
        slow += growth > 20;
    }
    return slow ? fail("a part of the front end is not linear") : 0;
}

static int one_file(const char *path, const char *target, int rounds) {
    Program program = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return fail("the file cannot be read");
    char part[4096];
    for (size_t got; (got = fread(part, 1, sizeof part, file)) > 0;)
        put(&program, "%.*s", (int)got, part);
    fclose(file);
    Times times = {0}, first = {0}, best = {0};
    for (int round = 0; round < rounds; round++) {
        const int failed = measure(path, program.text, program.size, target, &times);
        if (failed) return failed;
        if (round == 0) first = times;
        if (round == 0 || times.read + times.emit < best.read + best.emit) best = times;
    }
    free(program.text);
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
