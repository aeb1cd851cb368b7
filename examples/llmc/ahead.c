/* ahead.c: steps built ahead of time: gpt2.c has their machine code, and nothing is compiled where
 * the program runs. */
#include "minigpt.h"

#define STEP(name)                                                  \
    static ls_status bind_##name(ls_context *context, Call *call) { \
        return name##_bind(context, &call->with.name, &call->step); \
    }
#include "steps.def"
#undef STEP

static ls_status (*const binds[STEPS])(ls_context *context, Call *call) = {
#define STEP(name) [STEP_##name] = bind_##name,
#include "steps.def"
#undef STEP
};

/* A structure has no field for the distance of rows: an array with gaps is bound once more. */
static ls_status bind_pitched(Call *call) {
    const struct classify_args *a = &call->with.classify;
    const int64_t shape[] = {a->r, a->v}, strides[] = {call->pitch, 1};
    const ls_tensor logits = {
        .data = a->logits, .type = LS_F32, .rank = 2, .shape = shape, .strides = strides};
    return ls_step_bind(call->step, "logits", &logits);
}

bool ahead_bind(Steps *steps, Call *call) {
    ls_status status = binds[call->kind](steps->context, call);
    if (status == LS_OK && call->kind == STEP_classify) status = bind_pitched(call);
    return steps_check(steps, status, step_name(call->kind));
}
