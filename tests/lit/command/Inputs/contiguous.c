/* contiguous.c: launches the step s on arrays on a boundary of 16 bytes, and off one. */
#include "s.h"

#include <stdio.h>

int main(void) {
    static _Alignas(64) float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[8];
    ls_context *context;
    if (ls_context_create("cpu", NULL, &context) != LS_OK) return 1;
    for (int at = 0; at < 2; at++) {
        const struct s_args args = {.n = 4, .x = x + at, .y = y};
        ls_status status = s_launch(context, &args);
        if (status == LS_OK) status = ls_synchronize(context);
        printf("%d: ", (int)status);
        if (status == LS_OK)
            printf("%g %g %g %g\n", (double)y[0], (double)y[1], (double)y[2], (double)y[3]);
        else
            printf("%s\n", ls_error_message(context));
    }
    ls_context_destroy(context);
    return 0;
}
