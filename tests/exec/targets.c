/* targets.c: compiles every kernel of a program with the real toolchains, for GPUs that need not be
 * there, and says how long it took. */
#include "exec.h"
#include "lint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

/* The text of the first variant, which has all phases: no instruction of other numbers in it. */
static bool lint_step(ls_compilation *compilation, size_t step, const char *target, char *reason,
                      size_t size) {
    const char *text = NULL;
    size_t text_size = 0;
    char form[48];
    snprintf(form, sizeof form, "%s:%s", strncmp(target, "gfx", 3) == 0 ? "asm" : "ptx", target);
    if (ls_compilation_emit(compilation, step, form, &text, &text_size) == LS_OK)
        return lint_assembly(target, text, reason, size);
    snprintf(reason, size, "%s", ls_compilation_message(compilation));
    return false;
}

/* Which variants are compiled: the first holds the text of every phase, the last has strides and a
 * kernel for each. */
typedef enum Extent { EXTENT_FIRST, EXTENT_ENDS, EXTENT_ALL } Extent;

static bool compile_step(ls_compilation *compilation, size_t step, const char *target,
                         Extent extent, size_t *kernels, char *reason, size_t reason_size) {
    const ls_image *image = NULL;
    if (ls_compilation_image(compilation, step, target, &image) != LS_OK) goto failed;
    for (size_t v = 0; v < image->variant_count; v++) {
        const void *code = NULL;
        size_t size = 0;
        const bool last = v + 1 == image->variant_count;
        if (extent != EXTENT_ALL && v != 0 && !(last && extent == EXTENT_ENDS)) continue;
        if (ls_compilation_code(compilation, image, v, &code, &size, NULL) != LS_OK) goto failed;
        if (!lint_image(target, code, size, reason, reason_size)) return false;
        *kernels += image->variants[v].kernel_count;
    }
    return true;
failed:
    snprintf(reason, reason_size, "%s", ls_compilation_message(compilation));
    return false;
}

static const char *const import_paths[] = {EXEC_SOURCE "/tests/exec/programs"};
const ls_compile_options exec_options = {.import_paths = import_paths, .import_path_count = 1};

bool compile_program(Runner *runner, const Program *program, const char *targets, bool thorough) {
    ls_compilation *compilation = NULL;
    if (ls_compile_text(program->name, program->text, strlen(program->text), &exec_options,
                        &compilation) != LS_OK) {
        printf("%s", compilation ? ls_compilation_message(compilation) : "out of memory\n");
        ls_compilation_destroy(compilation);
        return false;
    }
    bool ok = true;
    for (const char *at = targets; *at != '\0'; at += strspn(at, ",")) {
        const bool first = at == targets; /* one text is read; every image is */
        char target[32];
        snprintf(target, sizeof target, "%.*s", (int)strcspn(at, ","), at);
        at += strlen(target);
        const Extent extent = thorough ? EXTENT_ALL : first ? EXTENT_ENDS : EXTENT_FIRST;
        const double start = milliseconds();
        size_t kernels = 0;
        char reason[1024] = "";
        for (size_t s = 0; s < ls_compilation_step_count(compilation); s++) {
            if (compile_step(compilation, s, target, extent, &kernels, reason, sizeof reason) &&
                (!first || lint_step(compilation, s, target, reason, sizeof reason)))
                continue;
            printf("  FAILED %s:%s for %s: %s\n", program->name,
                   ls_compilation_step_name(compilation, s), target, reason);
            ok = false;
        }
        runner->runs += kernels;
        if (runner->verbose)
            printf("  %s: %zu kernels, %.0f ms\n", target, kernels, milliseconds() - start);
    }
    ls_compilation_destroy(compilation);
    return ok;
}
