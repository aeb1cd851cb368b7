/* levels.c: two texts of three are compiled without optimisation, which takes a third of the time:
 * the suite's programs are compiled for longer than they run. */
#include "exec.h"
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* With more elements in its arrays a program runs for longer than it compiles. */
enum { ELEMENTS = 300000 };

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

/* What cannot be read is said where the program runs. */
static bool is_small(const Program *program) {
    Directives *directives = must_allocate(sizeof *directives);
    ls_compilation *compilation = NULL;
    const ls_image *image = NULL;
    bool small = directives_read(program->text, directives) &&
                 ls_compile_text(program->name, program->text, strlen(program->text), &exec_options,
                                 &compilation) == LS_OK;
    for (size_t s = 0; small && s < ls_compilation_step_count(compilation); s++) {
        small = ls_compilation_image(compilation, s, LS_TARGET_CPU, &image) == LS_OK;
        for (size_t i = 0; small && i < directives->set_count; i++)
            small = is_small_at(image, &directives->sets[i]);
    }
    if (compilation) ls_compilation_destroy(compilation);
    free(directives);
    return small;
}

void levels_use(const Program *program) {
    static const char *const compilers[] = {"clang", "gcc", "cc"}; /* as the library's own */
    const char *compiler = getenv("LOCKSTEP_CC"), *folders = getenv("PATH");
    char found[RTC_PATH_SIZE], words[RTC_PATH_SIZE + 16], *path = NULL;
    for (size_t i = 0; !(compiler && *compiler) && i < sizeof compilers / sizeof *compilers; i++)
        if (rtc_find_program(compilers[i], found, sizeof found)) compiler = compilers[i];
    if (!compiler || !is_small(program)) return;
    if (asprintf(&path, EXEC_SOURCE "/tests/exec:%s", folders ? folders : "") < 0) return;
    snprintf(words, sizeof words, "levels.sh %s", compiler);
    setenv("PATH", path, 1); /* LOCKSTEP_CC has no name with spaces, as a checkout's may be */
    setenv("LOCKSTEP_CC", words, 1);
    free(path);
}
