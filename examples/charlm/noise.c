/* noise.c: --batch auto: how many micro-batches make a step, chosen while it trains by the noise of
 * their gradients (McCandlish et al., 2018, arXiv:1812.06162): about as many windows as the noise
 * scale says, beyond which more would mostly repeat each other. More micro-batches need no more
 * memory. A step is three graphs, of which the middle one is replayed. */
#include "charlm.h"

#include <math.h>

static void open_first(Model *model, Noise *noise) {
    Parameters *all = &model->parameters;
    STEP(model->machine, model->machine->training, &noise->first, "square_of_first",
         LIST("g", all->gradients, all->count), BIND("scale", model->state.scale),
         BIND("parts", model->state.parts), BIND("square", noise->square));
}

static void open_last(Model *model, Noise *noise) {
    Parameters *all = &model->parameters;
    STEP(model->machine, model->machine->training, &noise->last, "watch_noise",
         LIST("g", all->gradients, all->count), BIND("scale", model->state.scale),
         BIND("parts", model->state.parts), BIND("square", noise->square),
         VALUE("windows", (double)model->options->batch), BIND("signal", noise->signal),
         BIND("noise", noise->noise), BIND("seen", noise->seen), BIND("variance", noise->variance),
         BIND("noise_scale", noise->scale));
}

static void set_parts(Model *model, Noise *noise, long micro) {
    const float parts = (float)micro;
    noise->micro = micro;
    array_write(model->machine, model->state.parts, &parts);
}

void noise_open(Model *model, const Pass *training, const Tape *update, Noise *noise) {
    Machine *machine = model->machine;
    const struct {
        Array *array;
        ls_type type;
    } cells[] = {{&noise->square, LS_F32}, {&noise->signal, LS_F64},   {&noise->noise, LS_F64},
                 {&noise->seen, LS_I64},   {&noise->variance, LS_F32}, {&noise->scale, LS_F32}};
    for (size_t i = 0; i < COUNT(cells); i++)
        *cells[i].array = machine_array(machine, cells[i].type, 0, NULL);
    set_parts(model, noise, NOISE_LEAST);
    open_first(model, noise);
    open_last(model, noise);
    routine_add(machine, &noise->begin, &training->tape);
    routine_add(machine, &noise->begin, &noise->first);
    routine_add(machine, &noise->more, &training->tape);
    routine_add(machine, &noise->end, &noise->last);
    routine_add(machine, &noise->end, update);
    routine_open(machine, &noise->begin);
    routine_open(machine, &noise->more);
    routine_open(machine, &noise->end);
}

bool noise_step(Machine *machine, const Noise *noise) {
    return routine_run(machine, &noise->begin, 1) &&
           routine_run(machine, &noise->more, noise->micro - 1) &&
           routine_run(machine, &noise->end, 1);
}

/* A step up or down is at most to the double or the half: the scale is an average that lags. */
void noise_choose(Model *model, Noise *noise) {
    const Options *o = model->options;
    float scale = 0;
    array_read(model->machine, noise->scale, &scale);
    if (model->machine->failed || !(scale > 0)) return;
    double wanted = round((double)scale / (double)o->batch);
    const double low = (double)noise->micro / 2, high = 2 * (double)noise->micro;
    wanted = wanted < low ? low : wanted > high ? high : wanted;
    long micro = (long)wanted;
    if (micro < NOISE_LEAST) micro = NOISE_LEAST;
    if (micro > o->micro) micro = o->micro;
    if (micro == noise->micro) return;
    printf("          batch   %ld windows from here on, for a noise scale of %.0f\n",
           micro * o->batch, (double)scale);
    set_parts(model, noise, micro);
}

void noise_close(Noise *noise) {
    routine_close(&noise->begin);
    routine_close(&noise->more);
    routine_close(&noise->end);
    tape_close(&noise->first);
    tape_close(&noise->last);
}
