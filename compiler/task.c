/* task.c: a task on a compilation, as the public functions run it: from the point that passes
 * unwind to, so that a broken invariant or a lack of memory comes back as a status with its
 * message. */
#include <locale.h>
#include <stdio.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "task.h"

ls_status task_keep_message(ls_compilation *c, ls_status status, const char *message) {
    snprintf(c->message, sizeof c->message, "%s", message);
    return status;
}

/* Runs a task to its end or to where a pass unwinds, with numbers read and written as in the C
 * locale, whatever the program has set. */
ls_status task_run(ls_compilation *c, ls_status (*task)(ls_compilation *c, void *job), void *job) {
    locale_t before = c->locale ? uselocale(c->locale) : (locale_t)0;
    ls_status status;
    if (setjmp(c->compiler.unwind))
        status = task_keep_message(c, c->compiler.failure, c->compiler.failure_message);
    else
        status = task(c, job);
    if (before) uselocale(before);
    return status;
}

/* A step of the library, of which a program may import a hundred, is compiled when it is first
 * asked for. */
ls_status task_compile_late(ls_compilation *c, void *job) {
    const size_t step = *(const size_t *)job;
    if (step >= c->step_count || !c->steps[step].late) return LS_OK;
    c->steps[step].late = false;
    compile_step(c, step);
    if (c->compiler.error_count) diagnostics_sort(&c->compiler);
    return c->compiler.error_count ? LS_ERROR_PROGRAM : LS_OK;
}

ls_status task_find_step(ls_compilation *c, size_t step) {
    if (c->compiler.error_count) return LS_ERROR_PROGRAM;
    ls_status status = task_run(c, task_compile_late, &step);
    if (status != LS_OK) return status;
    if (step < c->step_count && c->steps[step].simplified) return LS_OK;
    return task_keep_message(c, LS_ERROR_ARGUMENT, "the file has no step of that number");
}
