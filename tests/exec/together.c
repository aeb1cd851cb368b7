/* together.c: the texts of a program are compiled together, as the suite's programs are compiled
 * for longer than they run: a compiler starts once, and reads once what the texts have in common.
 * The texts for a CPU are compiled at two levels, and the compiler starts once for each: of a
 * program with few elements two texts of three are compiled without optimisation, the others as the
 * product compiles them. The code of an emulated GPU is text: every variant gets the text of all.
 */
#include "exec.h"
#include "batch.h"
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With more elements in its arrays a program runs for longer than it compiles. */
enum { ELEMENTS = 1000000 };

typedef enum Level { LEVEL_PLAIN, LEVEL_OPTIMISED, LEVELS } Level;

struct Together {
    Batch *batches[LEVELS]; /* NULL: no text has the level */
    size_t refused;         /* batches without code, whose texts are compiled one by one */
};

/* ---- which texts ---- */

static bool is_small_at(const ls_image *image, const SizeSet *set) {
    Sizes sizes;
    size_t elements = 0;
    const bool known = sizes_open(&sizes, set, image);
    for (uint32_t i = 0; known && i < image->parameter_count; i++) {
        Array array = {0};
        array_open(&array, &sizes, i);
        elements += array.count;
        array_close(&array);
    }
    sizes_close(&sizes);
    return known && elements <= ELEMENTS;
}

static bool is_small(const Program *program, ls_compilation *compilation) {
    Directives *directives = must_allocate(sizeof *directives);
    const ls_image *image = NULL;
    bool small = directives_read(program->text, directives);
    for (size_t s = 0; small && s < ls_compilation_step_count(compilation); s++) {
        small = ls_compilation_image(compilation, s, LS_TARGET_CPU, &image) == LS_OK;
        for (size_t i = 0; small && i < directives->set_count; i++)
            small = is_small_at(image, &directives->sets[i]);
    }
    free(directives);
    return small;
}

/* The level of a text. In a small program the text's first line, which names the step and the
 * variant, decides it, so that a text has the same level in every run. */
static Level level_of(const ls_image_variant *variant, bool small) {
    uint64_t number = 1469598103934665603u;
    for (const char *c = variant->source; *c && *c != '\n'; c++)
        number = (number ^ (uint8_t)*c) * 0x100000001b3u;
    return small && number % 3 ? LEVEL_PLAIN : LEVEL_OPTIMISED;
}

typedef void Visit(void *user, const ls_image *image, ls_image_variant *variant, size_t number);

/* Visits all variants with kernels of a step's image and of its parts; gives how many. The image's
 * tables are memory of the loaded program. A step with `math fast` is left out: the product
 * compiles it by another command line. */
static size_t visit_image(const ls_image *image, Visit *visit, void *user, size_t number) {
    for (uint32_t p = 0; p < image->part_count; p++)
        number = visit_image(image->parts[p].image, visit, user, number);
    for (uint32_t v = 0; v < image->variant_count; v++) {
        ls_image_variant *variant = (ls_image_variant *)(uintptr_t)&image->variants[v];
        if (variant->kernel_count && strcmp(image->math, "fast") != 0)
            visit(user, image, variant, number++);
    }
    return number;
}

static void visit_program(ls_compilation *compilation, ls_program *program, Visit *visit,
                          void *user) {
    size_t number = 0;
    for (size_t s = 0; s < ls_compilation_step_count(compilation); s++) {
        ls_step *step = NULL;
        if (ls_step_create(program, ls_compilation_step_name(compilation, s), &step) != LS_OK)
            continue; /* said where it runs */
        number = visit_image(ls_step_image(step), visit, user, number);
        ls_step_destroy(step);
    }
}

static void count_text(void *user, const ls_image *image, ls_image_variant *variant,
                       size_t number) {
    (void)image, (void)variant, (void)number;
    (*(size_t *)user)++;
}

size_t together_texts(ls_compilation *compilation, ls_program *program) {
    size_t count = 0;
    visit_program(compilation, program, count_text, &count);
    return count;
}

/* ---- the compiler ---- */

/* The command line of an optimised batch is the product's; the others differ in the level alone. */
static bool build_for_cpu(Batch *batch, Level level, char *message, size_t size) {
    static const char *const optimisation[LEVELS] = {"-O0", NULL};
    char maker[1024];
    RtcHostLine *line = must_allocate(sizeof *line);
    bool good = rtc_host_line(line, optimisation[level], message, size);
    if (good && !rtc_host.describe(maker, sizeof maker)) {
        snprintf(message, size, "%s", maker);
        good = false;
    }
    if (good) batch_keep(batch, maker);
    good = good && batch_build(batch, (const char *const *)line->words, message, size);
    free(line);
    return good;
}

/* On a GPU the driver has the compiler. */
static bool build(const Runner *runner, Batch *batch, Level level, char *message, size_t size) {
    if (strcmp(runner->device, LS_TARGET_CPU) == 0)
        return build_for_cpu(batch, level, message, size);
    return batch_build(batch, NULL, message, size);
}

/* ---- all of it ---- */

typedef struct Linker {
    Together *together;
    bool small;
    ls_image_variant **first; /* the variants of the first context */
    size_t count, capacity;
} Linker;

static bool link_text(Together *together, Level level, const ls_image *image,
                      ls_image_variant *variant) {
    Batch **batch = &together->batches[level];
    if (!*batch) *batch = batch_open(image->target, level == LEVEL_PLAIN);
    return batch_link(*batch, variant);
}

/* On a GPU texts ahead of which other macros are defined are in the other batch. */
static void link_first(void *user, const ls_image *image, ls_image_variant *variant,
                       size_t number) {
    Linker *linker = user;
    if (number == linker->capacity) {
        linker->capacity = linker->capacity ? 2 * linker->capacity : 64;
        linker->first = realloc(linker->first, linker->capacity * sizeof *linker->first);
        if (!linker->first) abort();
    }
    linker->first[linker->count++] = variant;
    const Level level = level_of(variant, linker->small);
    if (!link_text(linker->together, level, image, variant) && level == LEVEL_OPTIMISED)
        link_text(linker->together, LEVEL_PLAIN, image, variant);
}

static void link_other(void *user, const ls_image *image, ls_image_variant *variant,
                       size_t number) {
    const Linker *linker = user;
    (void)image;
    if (number < linker->count) variant->functions = linker->first[number]->functions;
}

Together *together_open(const Runner *runner, const Program *program, ls_compilation *compilation,
                        ls_program *const *loaded) {
    Together *together = must_allocate(sizeof *together);
    Linker linker = {.together = together};
    char message[4096] = "";
    linker.small = strcmp(runner->device, LS_TARGET_CPU) == 0 && is_small(program, compilation);
    visit_program(compilation, loaded[0], link_first, &linker);
    for (int level = 0; level < LEVELS; level++)
        if (together->batches[level] &&
            !build(runner, together->batches[level], (Level)level, message, sizeof message)) {
            printf("  texts of %s each on their own: %s\n", program->name, message);
            together->refused++;
        }
    for (size_t c = 1; c < runner->context_count; c++)
        visit_program(compilation, loaded[c], link_other, &linker);
    free(linker.first);
    return together;
}

size_t together_refused(const Together *together) {
    return together ? together->refused : 0;
}

void together_close(Together *together) {
    for (int level = 0; together && level < LEVELS; level++) batch_close(together->batches[level]);
    free(together);
}
