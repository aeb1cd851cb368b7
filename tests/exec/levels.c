/* levels.c: two texts of three are compiled without optimisation, which takes a third of the time:
 * the suite's programs are compiled for longer than they run. */
#include "exec.h"
#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "toolchain/toolchain.h"

#include <stdio.h>
#include <stdlib.h>

/* Longer ones run for longer than they compile. */
enum { LONGEST = 200000 };

static double longest_length(const SizeSet *set, size_t axis) {
    int64_t length = 0;
    for (size_t i = 0; i < set->axis[axis].count; i++)
        if (set->axis[axis].sizes[i] > length) length = set->axis[axis].sizes[i];
    return (double)length;
}

/* Whether no array of the program has more elements: an array has at most all axes. */
static bool is_short(const Program *program) {
    Directives *directives = must_allocate(sizeof *directives);
    bool within = directives_read(program->text, directives);
    for (size_t s = 0; within && s < directives->set_count; s++) {
        const SizeSet *set = &directives->sets[s];
        double product = 1;
        for (size_t a = 0; a < set->count; a++) product *= longest_length(set, a);
        within = product <= LONGEST;
    }
    free(directives);
    return within;
}

void levels_use(const Program *program) {
    static const char *const compilers[] = {"clang", "gcc", "cc"}; /* as the library's own */
    const char *compiler = getenv("LOCKSTEP_CC"), *folders = getenv("PATH");
    char found[RTC_PATH_SIZE], words[RTC_PATH_SIZE + 16], *path = NULL;
    for (size_t i = 0; !(compiler && *compiler) && i < sizeof compilers / sizeof *compilers; i++)
        if (rtc_find_program(compilers[i], found, sizeof found)) compiler = compilers[i];
    if (!is_short(program) || !compiler) return;
    if (asprintf(&path, EXEC_SOURCE "/tests/exec:%s", folders ? folders : "") < 0) return;
    snprintf(words, sizeof words, "levels.sh %s", compiler);
    setenv("PATH", path, 1); /* LOCKSTEP_CC has no name with spaces, as a checkout's may be */
    setenv("LOCKSTEP_CC", words, 1);
    free(path);
}
