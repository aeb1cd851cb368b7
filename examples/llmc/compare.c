/* compare.c: the forms side by side. Their windows and first weights are the same, and so are
 * their products; what differs is the arithmetic between them. */
#include "minigpt.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

bool trainer_open(Trainer *trainer, const Options *options, const Text *text) {
    *trainer = (Trainer){.options = *options, .seed = (uint64_t)options->seed};
    Model *model = &trainer->model;
    if (text->size <= (size_t)options->context)
        return fail("the text has %zu characters, and a window of %ld needs one more than that",
                    text->size, options->context);
    if (!steps_open(&trainer->steps, &trainer->options) ||
        !model_open(model, &trainer->options, text->classes))
        return false;
    Pass *const passes[] = {&model->forward, &model->backward, &model->update};
    for (size_t i = 0; i < COUNT(passes); i++)
        if (!pass_bind(passes[i], &trainer->steps, &trainer->options)) return false;
    return true;
}

void trainer_close(Trainer *trainer) {
    model_close(&trainer->model);
    steps_close(&trainer->steps);
}

bool trainer_gradients(Trainer *trainer, const Text *text, double *seconds) {
    const Options *o = &trainer->options;
    Model *model = &trainer->model;
    text_draw(text, &trainer->seed, o->batch, o->context, model->token, model->target);
    return pass_run(&model->forward, seconds) && pass_run(&model->backward, seconds);
}

bool trainer_update(Trainer *trainer, double *seconds) {
    return pass_run(&trainer->model.update, seconds);
}

/* The largest difference, of the largest value. */
static double difference(const float *a, const float *b, int64_t count) {
    double most = 0, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        largest = fmax(largest, fabs((double)b[i]));
        most = fmax(most, fabs((double)a[i] - (double)b[i]));
        if (!isfinite(a[i]) || !isfinite(b[i])) return INFINITY;
    }
    return largest > 0 ? most / largest : most;
}

static double gradient_difference(const Model *a, const Model *b) {
    double most = 0;
    for (int i = 0; i < TENSORS; i++)
        most = fmax(most, difference(a->of_gradient[i], b->of_gradient[i], a->sizes[i]));
    return most;
}

/* ---- --compare ---- */

enum { LOCKSTEP, PLAIN, FAST, FORMS };

typedef struct Race {
    Trainer trainers[FORMS];
    double *seconds[FORMS];           /* of each step the seconds of each kind */
    double losses, gradients, values; /* how much Lockstep and plain C differ at most */
} Race;

static bool race_step(Race *race, const Text *text, long step) {
    const Model *a = &race->trainers[LOCKSTEP].model, *b = &race->trainers[PLAIN].model;
    for (int k = 0; k < FORMS; k++) { /* who is first changes */
        const int form = (int)((k + step) % FORMS);
        if (!trainer_gradients(&race->trainers[form], text, race->seconds[form] + step * KINDS))
            return false;
    }
    race->losses = fmax(race->losses, fabs((double)a->loss - (double)b->loss) / (double)b->loss);
    if (step == 0) race->gradients = gradient_difference(a, b);
    for (int form = 0; form < FORMS; form++)
        if (!trainer_update(&race->trainers[form], race->seconds[form] + step * KINDS))
            return false;
    if (!isfinite(a->loss) || !isfinite(b->loss))
        return fail("the loss is not finite any more: try a smaller --rate");
    race->values = difference(a->values, b->values, a->parameters);
    return true;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median over the steps of the sum of some kinds, in ms. The first step is to warm up. */
static double median(const double *seconds, long steps, int first, int last) {
    const long begin = steps > 1;
    double *sums = calloc((size_t)steps, sizeof *sums), middle = NAN;
    for (long step = begin; sums && step < steps; step++)
        for (int kind = first; kind < last; kind++)
            sums[step - begin] += 1e3 * seconds[step * KINDS + kind];
    if (sums) {
        qsort(sums, (size_t)(steps - begin), sizeof *sums, ascending);
        middle = sums[(steps - begin) / 2];
    }
    free(sums);
    return middle;
}

static void print_times(const Race *race, const char *name, int first, int last) {
    const Model *model = &race->trainers[LOCKSTEP].model;
    const Options *o = &race->trainers[LOCKSTEP].options;
    const Pass *const passes[] = {&model->forward, &model->backward, &model->update};
    int calls = 0;
    double times[FORMS];
    for (size_t p = 0; p < COUNT(passes); p++)
        for (size_t i = 0; i < passes[p]->count; i++)
            calls += passes[p]->calls[i].kind >= first && passes[p]->calls[i].kind < last;
    for (int form = 0; form < FORMS; form++)
        times[form] = median(race->seconds[form], o->steps, first, last);
    printf("%-22s %5d %9.4f %9.4f %9.4f %7.2f %7.2f%s\n", name, calls, times[PLAIN], times[FAST],
           times[LOCKSTEP], times[PLAIN] / times[LOCKSTEP], times[FAST] / times[LOCKSTEP],
           last - first == 1 && first < STEPS && !o->taken[first] ? "  not taken" : "");
}

static void print_race(const Race *race) {
    printf("%-22s %5s %9s %9s %9s   plain / Lockstep\n", "ms of a training step", "calls",
           "plain C", "-Ofast", "Lockstep");
    for (int kind = 0; kind < KINDS; kind++) print_times(race, step_name(kind), kind, kind + 1);
    print_times(race, "all but the products", 0, STEPS);
    printf("Lockstep and plain C differ by at most %.2g in the losses, %.2g in the first step's\n"
           "gradients, %.2g in the parameters at the end, as shares of the largest\n",
           race->losses, race->gradients, race->values);
}

static bool race_open(Race *race, const Options *options, const Text *text) {
    for (int form = 0; form < FORMS; form++) {
        Options own = *options;
        race->seconds[form] = calloc((size_t)options->steps * KINDS, sizeof(double));
        if (!race->seconds[form])
            return fail("out of memory for the times of %ld steps", options->steps);
        for (int i = 0; i < STEPS && form != LOCKSTEP; i++) own.taken[i] = false;
        own.fast = form == FAST;
        own.load = options->load && form == LOCKSTEP;
        if (!trainer_open(&race->trainers[form], &own, text)) return false;
    }
    return true;
}

bool compare(const Options *options, const Text *text) {
    Race race = {0};
    bool ok = race_open(&race, options, text);
    for (long step = 1; ok && step <= options->steps; step++) {
        ok = race_step(&race, text, step - 1);
        if (ok && (step % options->report == 0 || step == options->steps))
            printf("step %6ld   loss %.4f, plain C %.4f\n", step,
                   (double)race.trainers[LOCKSTEP].model.loss,
                   (double)race.trainers[PLAIN].model.loss);
    }
    if (ok) print_race(&race);
    for (int form = 0; form < FORMS; form++) {
        trainer_close(&race.trainers[form]);
        free(race.seconds[form]);
    }
    return ok;
}

/* ---- --check ---- */

/* The loss with a tensor moved by so much along its gradient. */
static bool loss_at(Trainer *trainer, int tensor, const float *values, const float *gradient,
                    double distance, double *loss) {
    Model *model = &trainer->model;
    double unused[KINDS] = {0};
    float *moved = model->of_value[tensor];
    for (int64_t i = 0; i < model->sizes[tensor]; i++)
        moved[i] = values[i] + (float)(distance * (double)gradient[i]);
    const bool ok = pass_run(&model->forward, unused);
    *loss = (double)model->loss;
    for (int64_t i = 0; i < model->sizes[tensor]; i++) moved[i] = values[i];
    return ok;
}

/* By central differences at two distances, whose error of second order cancels. The loss changes by
 * about 0.01, ten thousand times what an f32 tells apart. */
static bool check_tensor(Trainer *trainer, int tensor, const float *all, const float *gradients,
                         double *error) {
    const Model *model = &trainer->model;
    const int64_t offset = model->of_value[tensor] - model->values;
    const float *values = all + offset, *gradient = gradients + offset;
    double square = 0, slopes[2];
    for (int64_t i = 0; i < model->sizes[tensor]; i++)
        square += (double)gradient[i] * (double)gradient[i];
    for (int k = 0; k < 2; k++) {
        const double distance = (k ? 0.01 : 0.005) / square;
        double above, below;
        if (!loss_at(trainer, tensor, values, gradient, distance, &above) ||
            !loss_at(trainer, tensor, values, gradient, -distance, &below))
            return false;
        slopes[k] = (above - below) / (2 * distance);
    }
    const double slope = (4 * slopes[0] - slopes[1]) / 3;
    *error = square > 0 ? fabs(slope / square - 1) : INFINITY;
    printf("%-12s %12.5g %12.5g %9.2g\n", tensor_name(tensor), sqrt(square), slope / sqrt(square),
           *error);
    return true;
}

static bool check_all(Trainer *trainer, const Text *text, const Model *plain) {
    enum { PER_CENT = 3 };
    Model *model = &trainer->model;
    const size_t bytes = (size_t)model->parameters * sizeof(float);
    float *values = malloc(bytes), *gradients = malloc(bytes);
    double unused[KINDS] = {0}, error = 0, most = 0;
    bool ok = (values && gradients) || fail("out of memory");
    ok = ok && trainer_gradients(trainer, text, unused);
    for (int64_t i = 0; ok && i < model->parameters; i++) {
        values[i] = model->values[i];
        gradients[i] = model->gradients[i];
    }
    const double from_plain = ok ? gradient_difference(model, plain) : 0;
    if (ok) printf("%-12s %12s %12s %9s\n", "gradient of", "its norm", "difference", "error");
    for (int i = 0; ok && i < TENSORS; i++) {
        ok = check_tensor(trainer, i, values, gradients, &error);
        most = fmax(most, error);
    }
    if (ok) printf("plain C's gradients differ by %.2g of the largest\n", from_plain);
    free(values);
    free(gradients);
    if (ok && from_plain > 1e-5) return fail("the two forms differ by more than 1e-5");
    return ok && (most <= 0.01 * PER_CENT ||
                  fail("finite differences are off by more than %d %%", PER_CENT));
}

bool check(const Options *options, const Text *text) {
    Trainer lockstep = {0}, plain = {0};
    Options none = *options;
    double unused[KINDS] = {0};
    none.load = 0;
    for (int i = 0; i < STEPS; i++) none.taken[i] = false;
    const bool ok = trainer_open(&lockstep, options, text) && trainer_open(&plain, &none, text) &&
                    trainer_gradients(&plain, text, unused) &&
                    check_all(&lockstep, text, &plain.model);
    trainer_close(&lockstep);
    trainer_close(&plain);
    return ok;
}
