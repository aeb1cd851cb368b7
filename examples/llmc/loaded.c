/* loaded.c: the device, and steps that are compiled when the program starts, from gpt2.step as it
 * is then. What was compiled once comes from the cache. */
#include "minigpt.h"

bool steps_check(const Steps *steps, ls_status status, const char *what) {
    return status == LS_OK || fail("%s: %s", what, ls_error_message(steps->context));
}

bool steps_open(Steps *steps, const Options *options) {
    *steps = (Steps){0};
    if (!steps_check(steps, ls_context_create("cpu", NULL, &steps->context), "opening the device"))
        return false;
    if (!options->load) return true;
    return steps_check(steps, ls_program_load(steps->context, GPT2_STEP, NULL, &steps->program),
                       "reading gpt2.step");
}

void steps_close(Steps *steps) {
    if (steps->program) ls_program_destroy(steps->program);
    if (steps->context) ls_context_destroy(steps->context);
    *steps = (Steps){0};
}

/* The step that is bound, and the first failure. */
typedef struct Binding {
    ls_step *step;
    ls_status status;
} Binding;

static void bind_array(Binding *to, const char *name, const void *data, ls_type type, uint32_t rank,
                       const int64_t *shape, const int64_t *strides) {
    const ls_tensor tensor = {
        .data = (void *)(uintptr_t)data, /* what a step only reads, it does not write */
        .type = type,
        .rank = rank,
        .shape = shape,
        .strides = strides};
    if (to->status == LS_OK) to->status = ls_step_bind(to->step, name, &tensor);
}

static void bind_list(Binding *to, const char *name, const struct update_args *a,
                      float *const *data) {
    ls_tensor tensors[TENSORS];
    for (int64_t i = 0; i < a->t; i++)
        tensors[i] = (ls_tensor){.data = data[i], .type = LS_F32, .rank = 1, .shape = &a->n[i]};
    if (to->status == LS_OK) to->status = ls_step_bind_list(to->step, name, tensors, (size_t)a->t);
}

static void set_number(Binding *to, const char *name, double value) {
    if (to->status == LS_OK) to->status = ls_step_set_number(to->step, name, value);
}

/* A field of the arguments by the parameter's name, which is the same; its shape follows. */
#define TYPED(type, field, ...)                                                                 \
    bind_array(to, #field, a->field, (type), (uint32_t)COUNT(((const int64_t[]){__VA_ARGS__})), \
               (const int64_t[]){__VA_ARGS__}, NULL)
#define ARRAY(field, ...) TYPED(LS_F32, field, __VA_ARGS__)
#define INTEGERS(field, ...) TYPED(LS_I32, field, __VA_ARGS__)
#define SCALAR(field, type) bind_array(to, #field, a->field, (type), 0, NULL, NULL)

static void bind_encode(Binding *to, const struct encode_args *a) {
    INTEGERS(token, a->b, a->t);
    ARRAY(classes, a->v, a->c);
    ARRAY(places, a->t, a->c);
    ARRAY(x, a->b, a->t, a->c);
}

static void bind_encode_backward(Binding *to, const struct encode_backward_args *a) {
    INTEGERS(token, a->b, a->t);
    ARRAY(dx, a->b, a->t, a->c);
    ARRAY(dclasses, a->v, a->c);
    ARRAY(dplaces, a->t, a->c);
}

static void bind_norm(Binding *to, const struct norm_args *a) {
    ARRAY(x, a->r, a->c);
    ARRAY(gain, a->c);
    ARRAY(shift, a->c);
    ARRAY(y, a->r, a->c);
    ARRAY(mean, a->r);
    ARRAY(rstd, a->r);
}

static void bind_add_norm(Binding *to, const struct add_norm_args *a) {
    ARRAY(x, a->r, a->c);
    ARRAY(branch, a->r, a->c);
    ARRAY(bias, a->c);
    ARRAY(gain, a->c);
    ARRAY(shift, a->c);
    ARRAY(h, a->r, a->c);
    ARRAY(y, a->r, a->c);
    ARRAY(mean, a->r);
    ARRAY(rstd, a->r);
}

static void bind_norm_backward(Binding *to, const struct norm_backward_args *a) {
    ARRAY(h, a->r, a->c);
    ARRAY(gain, a->c);
    ARRAY(mean, a->r);
    ARRAY(rstd, a->r);
    ARRAY(dy, a->r, a->c);
    ARRAY(dh, a->r, a->c);
    ARRAY(dgain, a->c);
    ARRAY(dshift, a->c);
}

static void bind_add_norm_backward(Binding *to, const struct add_norm_backward_args *a) {
    ARRAY(h, a->r, a->c);
    ARRAY(gain, a->c);
    ARRAY(mean, a->r);
    ARRAY(rstd, a->r);
    ARRAY(dy, a->r, a->c);
    ARRAY(dh, a->r, a->c);
    ARRAY(dgain, a->c);
    ARRAY(dshift, a->c);
    ARRAY(dbias, a->c);
}

static void bind_add_bias(Binding *to, const struct add_bias_args *a) {
    ARRAY(y, a->r, a->d);
    ARRAY(bias, a->d);
}

static void bind_add_bias_backward(Binding *to, const struct add_bias_backward_args *a) {
    ARRAY(dy, a->r, a->d);
    ARRAY(dbias, a->d);
}

static void bind_activate(Binding *to, const struct activate_args *a) {
    ARRAY(up, a->r, a->d);
    ARRAY(bias, a->d);
    ARRAY(y, a->r, a->d);
}

static void bind_activate_backward(Binding *to, const struct activate_backward_args *a) {
    ARRAY(up, a->r, a->d);
    ARRAY(bias, a->d);
    ARRAY(dup, a->r, a->d);
    ARRAY(dbias, a->d);
}

static void bind_attend(Binding *to, const struct attend_args *a) {
    ARRAY(weight, a->g, a->q, a->k);
    set_number(to, "scale", (double)a->scale);
}

static void bind_attend_backward(Binding *to, const struct attend_backward_args *a) {
    ARRAY(weight, a->g, a->q, a->k);
    ARRAY(d, a->g, a->q, a->k);
    set_number(to, "scale", (double)a->scale);
}

static void bind_classify(Binding *to, const struct classify_args *a, int64_t pitch) {
    bind_array(to, "logits", a->logits, LS_F32, 2, (const int64_t[]){a->r, a->v},
               (const int64_t[]){pitch, 1});
    INTEGERS(target, a->r);
    SCALAR(loss, LS_F32);
}

static void bind_clear(Binding *to, const struct clear_args *a) {
    ARRAY(x, a->n);
}

static void bind_update(Binding *to, const struct update_args *a) {
    bind_list(to, "p", a, a->p);
    bind_list(to, "m", a, a->m);
    bind_list(to, "v", a, a->v);
    bind_list(to, "g", a, a->g);
    ARRAY(decay, a->t);
    SCALAR(count, LS_I32);
    set_number(to, "lr", (double)a->lr);
}

bool loaded_bind(Steps *steps, Call *call) {
    const char *name = step_name(call->kind);
    Binding to = {.status = ls_step_create(steps->program, name, &call->step)};
    to.step = call->step;
    if (to.status == LS_OK) switch (call->kind) {
#define STEP(name)                          \
    case STEP_##name:                       \
        bind_##name(&to, &call->with.name); \
        break;
#define bind_classify(to, a) bind_classify((to), (a), call->pitch)
#include "steps.def"
#undef STEP
        }
    if (to.status == LS_OK) to.status = ls_step_prepare(call->step);
    return steps_check(steps, to.status, name);
}
