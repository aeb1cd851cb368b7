/* accumulate.c: --micro 0, a batch in as many micro-batches as pay, whose gradients are added up.
 *
 * They pay where the whole batch does not fit the device's memory, and on a CPU where its
 * activations do not stay in the caches: rows of 256 tokens do, and still keep some workers busy. A
 * checkpoint holds what was chosen, so a run goes on with it on any device. */
#include "charlm.h"

enum { CPU_ROWS = 256 };

/* Bytes of the arrays of a training step and of a validation. */
static size_t count_bytes(Model *model) {
    Machine *machine = model->machine;
    const PassKind kinds[] = {PASS_TRAINING, PASS_VALIDATION};
    const size_t before = machine->bytes;
    machine->counts = true;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        Pass pass;
        pass_open(model, kinds[i], (PassInput){.gradients = NULL}, &pass);
        pass_close(&pass);
    }
    machine->counts = false;
    const size_t counted = machine->bytes - before;
    machine->bytes = before;
    return counted;
}

/* Asks the device; what it gives is given back. Steps have some memory of their own: about a
 * quarter of the arrays beside, and as much as there are parameters. */
static bool fits(Model *model) {
    ls_context *context = model->machine->context;
    const size_t counted = count_bytes(model);
    const size_t own = counted / 4 + (size_t)model_size(model) * sizeof(float);
    void *memory = NULL;
    const bool there = ls_alloc(context, counted + own, &memory) == LS_OK;
    ls_free(context, memory);
    return there;
}

static bool is_small(const Model *model) {
    const Options *o = model->options;
    return ls_context_kind(model->machine->context) != LS_DEVICE_CPU ||
           o->batch * o->context < 2 * CPU_ROWS;
}

bool accumulate(Model *model, Options *options) {
    if (options->micro != 0) return true;
    options->micro = 1;
    while (options->batch % 2 == 0 && options->micro < 2048 && !(is_small(model) && fits(model))) {
        options->batch /= 2;
        options->micro *= 2;
    }
    return !model->machine->failed;
}
