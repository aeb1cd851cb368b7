/* pass.c: lists of calls, each a matrix product, a function of plain.c or a step of Lockstep's. */
#include "minigpt.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Of the processor: what other programs do changes it little. */
double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

Call *pass_add(Pass *pass, int kind) {
    static Call nowhere; /* the caller writes to what it gets */
    if (pass->count == pass->capacity) {
        const size_t larger = pass->capacity ? 2 * pass->capacity : 64;
        Call *grown = realloc(pass->calls, larger * sizeof *grown);
        if (!grown) {
            pass->failed = true;
            return &nowhere;
        }
        pass->calls = grown;
        pass->capacity = larger;
    }
    Call *call = &pass->calls[pass->count++];
    *call = (Call){.kind = kind};
    return call;
}

bool pass_bind(Pass *pass, Steps *steps, const Options *options) {
    if (pass->failed) return fail("out of memory");
    pass->plain = options->fast ? fast_steps : plain_steps;
    pass->context = steps->context;
    for (size_t i = 0; i < pass->count; i++) {
        Call *call = &pass->calls[i];
        if (call->kind == PRODUCT || !options->taken[call->kind]) continue;
        if (!(steps->program ? loaded_bind(steps, call) : ahead_bind(steps, call))) return false;
    }
    return true;
}

/* On a CPU a launch has finished when it returns. */
bool pass_run(const Pass *pass, double *seconds) {
    double last = now();
    for (size_t i = 0; i < pass->count; i++) {
        const Call *call = &pass->calls[i];
        if (call->kind == PRODUCT)
            product_run(&call->with.product);
        else if (!call->step)
            pass->plain[call->kind](call);
        else if (ls_step_launch(call->step) != LS_OK)
            return fail("launching %s: %s", step_name(call->kind), ls_error_message(pass->context));
        const double time = now();
        seconds[call->kind] += time - last;
        last = time;
    }
    return true;
}

void pass_close(Pass *pass) {
    for (size_t i = 0; i < pass->count; i++)
        if (pass->calls[i].step) ls_step_destroy(pass->calls[i].step);
    free(pass->calls);
    *pass = (Pass){0};
}
