/* targets.c: compiles every kernel of a program with the real toolchains, for GPUs that need not be
 * there, and says how long it took. */
#include "exec.h"
#include "lint.h"
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

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

/* Which variants of a step are made for a target, all of them or one: they differ in how the same
 * phases are put together, and each way has its turn among the programs. */
typedef struct Extent {
    bool all;
    size_t turn;
} Extent;

/* No instruction of other numbers than ours in a variant. */
static bool lint_variant(ls_compilation *compilation, size_t step, size_t variant,
                         const char *target, const void *code, size_t size, char *reason,
                         size_t reason_size) {
    RtcOutput output = {0};
    const char *text = NULL;
    char form[48];
    bool made, good = false;
    if (target_kind(target)->code == TARGET_CODE_OBJECT) {
        made = rtc_disassemble(target, code, size, &output) == LS_OK;
        text = made ? output.data : output.log;
    } else {
        snprintf(form, sizeof form, "ptx:%s#%zu", target, variant);
        made = ls_compilation_emit(compilation, step, form, &text, &size) == LS_OK;
        if (!made) text = ls_compilation_message(compilation);
    }
    if (made)
        good = lint_assembly(target, text, reason, reason_size);
    else
        snprintf(reason, reason_size, "%s", text ? text : "out of memory");
    rtc_output_free(&output);
    return good;
}

/* Of a step with `for` the images of its parts; what the toolchain reads back has no part's name.
 */
static bool compile_image(ls_compilation *compilation, const ls_image *image, size_t step,
                          Extent extent, bool read, size_t *kernels, char *reason,
                          size_t reason_size) {
    for (uint32_t p = 0; p < image->part_count; p++)
        if (!compile_image(compilation, image->parts[p].image, step,
                           (Extent){extent.all, extent.turn + p}, false, kernels, reason,
                           reason_size))
            return false;
    for (size_t v = 0; v < image->variant_count && !image->part_count; v++) {
        const void *code = NULL;
        size_t size = 0;
        if (!extent.all && v != extent.turn % image->variant_count) continue;
        if (ls_compilation_code(compilation, image, v, &code, &size, NULL) != LS_OK) {
            snprintf(reason, reason_size, "%s", ls_compilation_message(compilation));
            return false;
        }
        if (!lint_image(image->target, code, size, reason, reason_size)) return false;
        *kernels += image->variants[v].kernel_count;
        if (read &&
            !lint_variant(compilation, step, v, image->target, code, size, reason, reason_size))
            return false;
    }
    return true;
}

static bool compile_step(ls_compilation *compilation, size_t step, const char *target,
                         Extent extent, bool read, size_t *kernels, char *reason,
                         size_t reason_size) {
    const ls_image *image = NULL;
    if (ls_compilation_image(compilation, step, target, &image) == LS_OK)
        return compile_image(compilation, image, step, extent, read, kernels, reason, reason_size);
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
    size_t turn = 0;
    for (const char *c = program->name; *c; c++) turn = 31 * turn + (unsigned char)*c;
    const size_t steps = ls_compilation_step_count(compilation);
    const size_t count = runner->suite && steps > STEPS_MOST ? STEPS_MOST : steps;
    const size_t begin = steps ? turn % steps : 0;
    for (const char *at = targets; *at != '\0'; at += strspn(at, ",")) {
        const bool first = at == targets; /* for one target the instructions are read */
        char target[32];
        snprintf(target, sizeof target, "%.*s", (int)strcspn(at, ","), at);
        at += strlen(target);
        const Extent extent = {thorough && (first || !runner->suite), turn++};
        const double start = milliseconds();
        size_t kernels = 0;
        char reason[1024] = "";
        for (size_t i = 0; i < count; i++) {
            const size_t s = (begin + i) % steps;
            if (compile_step(compilation, s, target, (Extent){extent.all, extent.turn + s}, first,
                             &kernels, reason, sizeof reason))
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
