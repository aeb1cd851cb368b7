/* main.c: a trainer with one step, built ahead of time and, where the compiler is linked, compiled
 * from its text as well: the bits have to be equal. Prints the total. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decay.h"

enum { COUNT = 5000 };

static void stop(ls_context *context) {
    fprintf(stderr, "%s\n", ls_error_message(context));
    exit(1);
}

#ifdef WITH_COMPILER
static float compiled(ls_context *context, float *x) {
    static const char text[] = "step decay[n](inout x: f32[n], out total: f32) {\n"
                               "    x = 0.5 * x\n    total = sum[n](x)\n}\n";
    const int64_t shape[] = {COUNT};
    const ls_tensor tensor = {.data = x, .type = LS_F32, .rank = 1, .shape = shape};
    ls_program *program;
    ls_step *step;
    float total = 0;
    if (ls_program_load_text(NULL, "decay", text, strlen(text), NULL, &program) == LS_OK ||
        !strstr(ls_error_message(NULL), "ls_program_load_text: context is NULL") ||
        ls_program_load_text(context, "decay", text, strlen(text), NULL, &program) != LS_OK ||
        ls_step_create(program, "decay", &step) != LS_OK ||
        ls_step_bind(step, "x", &tensor) != LS_OK || ls_step_want(step, "total") != LS_OK ||
        ls_step_launch(step) != LS_OK || ls_step_get(step, "total", &total) != LS_OK)
        stop(context);
    ls_step_destroy(step);
    ls_program_destroy(program);
    return total;
}
#endif

int main(void) {
    static float x[COUNT], same[COUNT];
    float total = 0;
    ls_context *context;
    if (ls_context_create("cpu", NULL, &context) != LS_OK) stop(NULL);
    for (size_t i = 0; i < COUNT; i++) x[i] = same[i] = (float)(i % 17) + 1;
    const struct decay_args arguments = {.n = COUNT, .x = x, .total = &total};
    if (decay_launch(context, &arguments) != LS_OK || ls_synchronize(context) != LS_OK)
        stop(context);
    printf("ahead %g\n", (double)total);
#ifdef WITH_COMPILER
    printf("compiled %g\n", (double)compiled(context, same));
#endif
    ls_context_destroy(context);
    return 0;
}
