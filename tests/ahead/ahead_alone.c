/* ahead_alone.c: a trainer of steps built ahead of time, linked with the runtime and no compiler.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "linreg.h"

enum { ROWS = 8, STEPS = 400 };

int main(void) {
    ls_context *context = NULL;
    ls_step *step = NULL;
    float x[2 * ROWS], y[ROWS], w[2] = {0, 0}, bias = 0;
    for (int i = 0; i < ROWS; i++) {
        x[2 * i] = (float)(i % 3) - 1;
        x[2 * i + 1] = (float)(i % 5) / 2 - 1;
        y[i] = 2 * x[2 * i] - 3 * x[2 * i + 1] + 0.5f;
    }
    if (ls_context_create("cpu", NULL, &context) != LS_OK) {
        fprintf(stderr, "%s\n", ls_error_message(NULL));
        return 1;
    }
    const struct linreg_args args = {.b = ROWS, .k = 2, .x = x, .y = y, .w = w, .bias = &bias};
    ls_status status = linreg_bind(context, &args, &step);
    if (status == LS_OK) status = ls_step_set_number(step, "lr", 0.1);
    if (status == LS_OK) status = ls_step_set_number(step, "loss_sum", 0);
    if (status == LS_OK) status = ls_step_set_number(step, "seen", 0);
    if (status == LS_OK) status = ls_step_set_number(step, "nan_seen", 0);
    for (int i = 0; i < STEPS && status == LS_OK; i++) status = ls_step_launch(step);
    if (status == LS_OK) status = ls_synchronize(context);
    if (status != LS_OK) fprintf(stderr, "%s\n", ls_error_message(context));
    printf("w = %g, %g; bias = %g\n", (double)w[0], (double)w[1], (double)bias);
    if (step) ls_step_destroy(step);
    ls_context_destroy(context);
    const bool near =
        fabsf(w[0] - 2) < 1e-3f && fabsf(w[1] + 3) < 1e-3f && fabsf(bias - 0.5f) < 1e-3f;
    return status == LS_OK && near ? 0 : 1;
}
