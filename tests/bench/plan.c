/* plan.c: how long a plan takes and how much memory, and how both grow with the program.
 *   plan FILE[:STEP] [ROUNDS]         the steps of one file, or one of them
 *   plan grow [SHAPE [MOST [LEAST]]]  programs of 10, 30, 100, ... statements up to MOST (10,000)
 *   plan random COUNT [STATEMENTS [SEED [FIRST]]]  random programs: the slow ones, then all in one
 * Times are medians of processor time, from the simplified IR to the plan; memory is what the plan
 * and the search for it have at once at most, counted by the linker's --wrap of calloc and free.
 * One JSON object a line on stdout. */
#include <inttypes.h>
#include <locale.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "random_program.h"
#include "programs.h"

/* ---- memory ---- */

static ptrdiff_t live_bytes, most_bytes; /* of blocks that others allocated fewer than none */

void *__real_calloc(size_t count, size_t size);
void __real_free(void *block);
void *__wrap_calloc(size_t count, size_t size);
void __wrap_free(void *block);

void *__wrap_calloc(size_t count, size_t size) {
    void *block = __real_calloc(count, size);
    if (block) live_bytes += (ptrdiff_t)malloc_usable_size(block);
    if (live_bytes > most_bytes) most_bytes = live_bytes;
    return block;
}
void __wrap_free(void *block) {
    if (block) live_bytes -= (ptrdiff_t)malloc_usable_size(block);
    __real_free(block);
}

void *must_allocate(size_t bytes) {
    void *memory = calloc(bytes ? bytes : 1, 1);
    if (memory) return memory;
    fprintf(stderr, "plan: out of memory\n");
    exit(3);
}

/* ---- plans ---- */

enum { ROUNDS_MAX = 100 };

typedef struct Measure {
    double ms;    /* the median */
    size_t bytes; /* at once, at most */
    size_t values, phases, launches;
    bool stopped;
} Measure;

static int fail(const char *message) {
    fprintf(stderr, "plan: %s\n", message);
    return 3;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

/* One plan; false: the planner gave up. */
static bool plan_once(ls_compilation *c, size_t step, double *ms, Measure *measure) {
    const Function *f = c->steps[step].simplified;
    if (setjmp(c->compiler.unwind)) return false;
    const ptrdiff_t before = live_bytes;
    most_bytes = live_bytes;
    const double start = process_milliseconds();
    const Plan *plan = plan_build(f);
    *ms = process_milliseconds() - start;
    measure->bytes = (size_t)(most_bytes - before);
    measure->values = f->value_count;
    measure->phases = plan->phase_count;
    measure->launches = plan->kernel_count;
    measure->stopped = plan->stopped;
    return true;
}

/* Of a text, or without one of a file; each plan in a compilation of its own, which has its memory.
 */
static int measure_step(const char *name, const ProgramText *program, size_t step, int rounds,
                        Measure *measure) {
    double times[ROUNDS_MAX];
    for (int round = 0; round < rounds; round++) {
        ls_compilation *c = NULL;
        const ls_status status = program
                                     ? ls_compile_text(name, program->text, program->size, NULL, &c)
                                     : ls_compile_file(name, NULL, &c);
        const bool read = status == LS_OK;
        const bool made = read && plan_once(c, step, &times[round], measure);
        if (!made)
            fail(!c ? "no memory" : read ? c->compiler.failure_message : ls_compilation_message(c));
        ls_compilation_destroy(c);
        if (!made) return 3;
    }
    qsort(times, (size_t)rounds, sizeof *times, by_value);
    measure->ms = times[rounds / 2];
    return 0;
}

static void print_measure(const Measure *m) {
    printf("\"plan_ms\": %.4f, \"bytes\": %zu, \"values\": %zu, \"phases\": %zu, "
           "\"launches\": %zu, \"stopped\": %s}\n",
           m->ms, m->bytes, m->values, m->phases, m->launches, m->stopped ? "true" : "false");
    fflush(stdout);
}

/* ---- curves ---- */

static int grow(const char *wanted, int most, int least) {
    static const int counts[] = {10, 30, 100, 300, 1000, 3000, 10000};
    bool found = false;
    for (size_t i = 0; i < plan_shape_count; i++) {
        const ProgramShape *shape = &plan_shapes[i];
        if (strcmp(wanted, "all") != 0 && strcmp(wanted, shape->name) != 0) continue;
        found = true;
        for (size_t k = 0; k < COUNT(counts) && counts[k] <= most && counts[k] <= shape->most;
             k++) {
            ProgramText program = {0};
            Measure measure = {0};
            if (counts[k] < least) continue;
            shape->write(&program, counts[k]);
            const int rounds = counts[k] < 300 ? 11 : counts[k] < 3000 ? 5 : 3;
            const int failed = measure_step("grow.step", &program, shape->step, rounds, &measure);
            program_free(&program);
            if (failed) return failed;
            printf("{\"shape\": \"%s\", \"statements\": %d, ", shape->name, counts[k]);
            print_measure(&measure);
        }
    }
    return found ? 0 : fail("there is no such shape");
}

/* ---- random programs ---- */

enum { RANDOM_ROUNDS = 3 };
static const double slow_ms = 20;
static const size_t large_bytes = 50u << 20;

typedef struct Worst {
    double *times;
    size_t count, refused, stopped, slow, large, bytes;
} Worst;

/* The steps of one program, each with what it takes. */
static int random_steps(Worst *worst, const ProgramText *program, uint64_t number) {
    ls_compilation *c = NULL;
    const ls_status status = ls_compile_text("random.step", program->text, program->size, NULL, &c);
    const size_t count = status == LS_OK ? ls_compilation_step_count(c) : 0;
    if (status == LS_ERROR_PROGRAM) worst->refused++; /* too much of it is inlined */
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        Measure m = {0};
        failed = measure_step("random.step", program, i, RANDOM_ROUNDS, &m);
        worst->stopped += m.stopped;
        worst->slow += m.ms > slow_ms;
        worst->large += m.bytes > large_bytes;
        if (m.bytes > worst->bytes) worst->bytes = m.bytes;
        worst->times[worst->count++] = m.ms;
        if (m.ms <= slow_ms && m.bytes <= large_bytes) continue;
        printf("{\"number\": %" PRIu64 ", \"step\": \"%s\", ", number,
               ls_compilation_step_name(c, i));
        print_measure(&m);
    }
    ls_compilation_destroy(c);
    return failed;
}

static int random_all(size_t count, unsigned statements, uint64_t seed, uint64_t first) {
    Worst worst = {.times = must_allocate((2 * count + 1) * sizeof *worst.times)};
    int failed = 0;
    for (size_t i = 0; i < count && !failed; i++) {
        char *text = random_program(first + i, seed, true, statements);
        failed = random_steps(&worst, &(ProgramText){text, strlen(text), 0}, first + i);
        free(text);
    }
    qsort(worst.times, worst.count, sizeof *worst.times, by_value);
    if (!failed && worst.count)
        printf("{\"programs\": %zu, \"statements\": %u, \"steps\": %zu, \"refused\": %zu, "
               "\"median_ms\": %.3f, \"p99_ms\": %.3f, \"most_ms\": %.3f, \"slow\": %zu, "
               "\"most_bytes\": %zu, \"large\": %zu, \"stopped\": %zu}\n",
               count, statements, worst.count, worst.refused, worst.times[worst.count / 2],
               worst.times[worst.count * 99 / 100], worst.times[worst.count - 1], worst.slow,
               worst.bytes, worst.large, worst.stopped);
    free(worst.times);
    return failed;
}

/* ---- one file ---- */

static int one_file(char *path, int rounds) {
    char *wanted = strrchr(path, ':');
    ls_compilation *c = NULL;
    if (wanted) *wanted++ = '\0';
    if (rounds < 1 || rounds > ROUNDS_MAX) return fail("1 to 100 rounds");
    const ls_status status = ls_compile_file(path, NULL, &c);
    if (status != LS_OK) return fail(c ? ls_compilation_message(c) : "no memory");
    int failed = 0;
    for (size_t i = 0; i < ls_compilation_own_step_count(c) && !failed; i++) {
        Measure measure = {0};
        const char *name = ls_compilation_step_name(c, i);
        if (wanted && strcmp(wanted, name) != 0) continue;
        failed = measure_step(path, NULL, i, rounds, &measure);
        if (failed) break;
        printf("{\"file\": \"%s\", \"step\": \"%s\", ", path, name);
        print_measure(&measure);
    }
    ls_compilation_destroy(c);
    return failed;
}

int main(int count, char **arguments) {
    if (count >= 2 && strcmp(arguments[1], "grow") == 0)
        return grow(count > 2 ? arguments[2] : "all", count > 3 ? atoi(arguments[3]) : 10000,
                    count > 4 ? atoi(arguments[4]) : 0);
    if (count >= 3 && strcmp(arguments[1], "random") == 0)
        return random_all(strtoull(arguments[2], NULL, 10),
                          count > 3 ? (unsigned)atoi(arguments[3]) : 100,
                          count > 4 ? strtoull(arguments[4], NULL, 10) : 1,
                          count > 5 ? strtoull(arguments[5], NULL, 10) : 1);
    if (count >= 2) return one_file(arguments[1], count > 2 ? atoi(arguments[2]) : 21);
    fprintf(stderr, "usage: plan FILE[:STEP] [ROUNDS] | plan grow [SHAPE [MOST [LEAST]]] |\n"
                    "       plan random COUNT [STATEMENTS [SEED [FIRST]]]\n");
    return 2;
}
