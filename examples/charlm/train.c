/* train.c: the loop, validation, and samples of text. Every training step is one launch of a graph;
 * the host looks at the device every --report steps. */
#include "charlm.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct Trainer {
    Model *model;
    Checkpoint *checkpoint;
    Pass training, validation;
    Tape update;
    Noise noise;              /* with --batch auto, in place of: */
    Routine step, evaluation; /* a training step, a batch of the validation text */
    int64_t batches;          /* of validation */
    double began;
} Trainer;

static volatile sig_atomic_t interrupted;

static void interrupt(int number) {
    (void)number;
    interrupted = 1;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* The mean loss of the batches since the last call. */
static double take_loss(Machine *machine, const Pass *pass) {
    const float no_total = 0;
    const int64_t no_batches = 0;
    float total = 0;
    int64_t batches = 0;
    array_read(machine, pass->total, &total);
    array_read(machine, pass->batches, &batches);
    array_write(machine, pass->total, &no_total);
    array_write(machine, pass->batches, &no_batches);
    return batches && !machine->failed ? (double)total / (double)batches : NAN;
}

static double evaluate(Trainer *trainer) {
    Machine *machine = trainer->model->machine;
    if (machine->failed) return NAN;
    machine_check(machine, ls_step_set_number(trainer->validation.windows, "windows", 0),
                  "going back to the first window");
    routine_run(machine, &trainer->evaluation, trainer->batches);
    return take_loss(machine, &trainer->validation);
}

static bool open_trainer(Trainer *trainer) {
    Model *model = trainer->model;
    const Options *o = model->options;
    const int64_t windows = (array_size(model->validation_text) - 1) / o->context;
    Machine *machine = model->machine;
    trainer->batches = windows / o->batch;
    if (trainer->batches == 0)
        return fail("the text's last tenth, %lld characters, does not fill a batch of %ld windows "
                    "of %ld: choose a smaller --batch or --context, or a longer text",
                    (long long)array_size(model->validation_text), o->batch, o->context);
    pass_open(model, PASS_VALIDATION, (PassInput){.gradients = NULL}, &trainer->validation);
    routine_add(machine, &trainer->evaluation, &trainer->validation.tape);
    if (model->slots) {
        slots_fill(model, &trainer->step);
        trainer->training.total = model->state.total;
        trainer->training.batches = model->state.batches;
    } else {
        pass_open(model, PASS_TRAINING, (PassInput){.gradients = NULL}, &trainer->training);
        if (!model->offload) model_update(model, &trainer->update);
        for (long i = 0; i < o->micro && !o->automatic; i++)
            routine_add(machine, &trainer->step, &trainer->training.tape);
        if (o->automatic)
            noise_open(model, &trainer->training, &trainer->update, &trainer->noise);
        else if (model->offload)
            offload_fill(model, &trainer->step);
        else
            routine_add(machine, &trainer->step, &trainer->update);
    }
    if (!o->automatic) routine_open(machine, &trainer->step);
    routine_open(machine, &trainer->evaluation);
    slots_begin(model);
    offload_begin(model);
    return !machine->failed;
}

static void close_trainer(Trainer *trainer) {
    routine_close(&trainer->step);
    noise_close(&trainer->noise);
    routine_close(&trainer->evaluation);
    tape_close(&trainer->update);
    pass_close(&trainer->training);
    pass_close(&trainer->validation);
}

static void count_kinds(const Tape *tape, size_t *steps, size_t *products) {
    for (size_t i = 0; i < tape->count; i++) {
        *steps += tape->operations[i].step != NULL;
        *products += tape->operations[i].product != NULL;
    }
}

static void introduce(const Trainer *trainer) {
    const Model *model = trainer->model;
    const Options *o = model->options;
    size_t steps = 0, products = 0;
    for (size_t i = 0; i < trainer->step.count && model->slots; i++)
        count_kinds(trainer->step.tapes[i], &steps, &products);
    if (!model->slots) count_kinds(&trainer->training.tape, &steps, &products);
    const bool widened =
        model->type != LS_F32 && ls_context_kind(model->machine->context) == LS_DEVICE_CPU;
    printf("device   %s, %s; products by %s in %s%s\n", ls_context_device(model->machine->context),
           ls_context_describe(model->machine->context), products_name(model->machine->products),
           o->type, widened ? ", widened to f32" : "");
    printf("text     %s: %zu characters, %d different, the last tenth for validation\n", o->text,
           model->text->size, model->text->count);
    printf("model    %ld layers, %ld channels, %ld heads, context %ld: %lld parameters\n",
           o->layers, o->channels, o->heads, o->context, (long long)model_size(model));
    printf("step     %s: ", !model->machine->graphs ? "no graphs here"
                            : o->automatic          ? "three graphs"
                                                    : "one graph");
    if (model->slots)
        printf("%zu steps and %zu products on each rank", steps, products);
    else
        printf("%s%ld x (%zu steps, %zu products) and the update", o->automatic ? "2 to " : "",
               o->micro, steps, products);
    printf("; %s%ld characters\n", o->automatic ? "up to " : "", o->micro * o->batch * o->context);
    printf("memory   %.1f MiB of arrays; --checkpoint %s\n",
           (double)model->machine->bytes / 1048576, o->checkpoint);
    if (model->slots) slots_describe(model);
    if (o->offload) offload_describe(model);
    printf("unigram entropy of the text: %.3f nats per character\n\n", model->text->entropy);
    printf("   step    loss     val       rate   norm     scale   char/s    time\n");
}

static void report(const Trainer *trainer, double loss, double validation, double speed) {
    const Model *model = trainer->model;
    float rate = 0, norm = 0, scale = 0;
    char measured[16] = "     ", trained[16] = "     ";
    array_read(model->machine, model->state.rate, &rate);
    array_read(model->machine, model->state.norm, &norm);
    array_read(model->machine, model->state.scale, &scale);
    if (!isnan(validation)) snprintf(measured, sizeof measured, "%.3f", validation);
    if (!isnan(loss)) snprintf(trained, sizeof trained, "%.3f", loss);
    printf("%7lld   %5s   %5s   %8.2e  %5.2f  %8.3g  %7.0f  %5.1f s\n",
           (long long)trainer->checkpoint->step, trained, measured, (double)rate, (double)norm,
           (double)scale, speed, seconds() - trainer->began);
    fflush(stdout);
}

/* Whether this process writes and prints; the others know the same weights. */
static bool reports(const Trainer *trainer) {
    return ls_comm_rank(trainer->model->machine->comm) == 0;
}

static bool save(const Trainer *trainer) {
    const Options *o = trainer->model->options;
    offload_wait(trainer->model);
    if (!checkpoint_write(o->save, trainer->model, trainer->checkpoint)) return false;
    printf("saved    %s after step %lld\n", o->save, (long long)trainer->checkpoint->step);
    fflush(stdout); /* who reads a pipe knows it now */
    return true;
}

static bool draw_curve(const Trainer *trainer) {
    const Model *model = trainer->model;
    const Options *o = model->options;
    char title[128], note[256];
    const char *name = strrchr(o->text, '/');
    snprintf(title, sizeof title, "charlm: %.2g million parameters learning %.60s",
             (double)model_size(model) * 1e-6, name ? name + 1 : o->text);
    snprintf(
        note, sizeof note, "%ld layers, %ld channels, context %ld, %s%ld characters a step, %s, %s",
        o->layers, o->channels, o->context, o->automatic ? "up to " : "",
        o->micro * o->batch * o->context, o->type, ls_context_describe(model->machine->context));
    return curve_write(o->curve, &trainer->checkpoint->history, model->text->entropy, title, note);
}

/* Whether to go on after the line of progress for this step. */
static bool look(Trainer *trainer, bool last, double *since, int64_t *windows) {
    const Options *o = trainer->model->options;
    Machine *machine = trainer->model->machine;
    Checkpoint *checkpoint = trainer->checkpoint;
    const bool measure = last || checkpoint->step % o->evaluate == 0;
    if (!measure && checkpoint->step % o->report != 0) return true;
    const double loss = take_loss(machine, &trainer->training); /* waits */
    const double speed = (double)*windows * (double)o->context / (seconds() - *since);
    const double validation = measure && reports(trainer) ? evaluate(trainer) : NAN;
    if (machine->failed ||
        !history_add(&checkpoint->history, (Point){(double)checkpoint->step, loss, validation}))
        return false;
    report(trainer, loss, validation, speed);
    if (o->automatic && !last) noise_choose(trainer->model, &trainer->noise);
    *since = seconds();
    *windows = 0;
    if (isfinite(loss)) return true;
    return fail("the loss is not finite any more: try a smaller --rate");
}

/* Between host and device, of the steps but the first, in which arrays come to the device: what a
 * step that is trained again and again has none of, but for --offload. */
typedef struct Copied {
    uint64_t calls, to_device, from_device; /* and bytes */
    int64_t steps;
} Copied;

static void add_copies(const Machine *machine, const ls_copy_statistics *before, Copied *copied) {
    ls_copy_statistics after;
    ls_copy_stats(machine->context, &after);
    copied->calls += after.to_device + after.from_device - before->to_device - before->from_device;
    copied->to_device += after.to_device_bytes - before->to_device_bytes;
    copied->from_device += after.from_device_bytes - before->from_device_bytes;
    copied->steps++;
}

static void print_copies(const Trainer *trainer, const Copied *copied) {
    const uint64_t steps = (uint64_t)copied->steps;
    if (trainer->model->offload && steps)
        printf("offload: %" PRIu64 " copies a step, %" PRIu64 " bytes to the device and %" PRIu64
               " back\n",
               copied->calls / steps, copied->to_device / steps, copied->from_device / steps);
    else if (copied->calls && ls_comm_size(trainer->model->machine->comm) == 1)
        printf("%" PRIu64 " copies between host and device within the steps\n", copied->calls);
}

static bool train_once(Trainer *trainer) {
    Model *model = trainer->model;
    if (model->offload) return offload_step(model, &trainer->step);
    if (model->options->automatic) return noise_step(model->machine, &trainer->noise);
    return routine_run(model->machine, &trainer->step, 1);
}

static bool run(Trainer *trainer) {
    const Options *o = trainer->model->options;
    Machine *machine = trainer->model->machine;
    Checkpoint *checkpoint = trainer->checkpoint;
    const int64_t end = o->stop > 0 && o->stop < o->steps ? o->stop : o->steps;
    if (checkpoint->step == 0) {
        const double validation = reports(trainer) ? evaluate(trainer) : NAN;
        if (machine->failed || !history_add(&checkpoint->history, (Point){0, NAN, validation}))
            return false;
        report(trainer, NAN, validation, 0);
    }
    double since = seconds();
    int64_t windows = 0;
    const int64_t begun = checkpoint->step; /* in the first step, arrays come to the device */
    Copied copied = {0, 0, 0, 0};
    while (checkpoint->step < end && !slots_agree(trainer->model, interrupted)) {
        ls_copy_statistics before;
        ls_copy_stats(machine->context, &before);
        if (!train_once(trainer)) return false;
        if (checkpoint->step > begun) add_copies(machine, &before, &copied);
        checkpoint->step++;
        windows += o->batch * (o->automatic ? trainer->noise.micro : o->micro);
        if (!look(trainer, checkpoint->step == o->steps, &since, &windows)) return false;
        if (o->every > 0 && checkpoint->step % o->every == 0 && checkpoint->step < end &&
            !save(trainer))
            return false;
    }
    int64_t skipped = 0;
    array_read(machine, trainer->model->state.skipped, &skipped);
    print_copies(trainer, &copied);
    if (interrupted) printf("interrupted after step %lld\n", (long long)checkpoint->step);
    if (skipped > 0)
        printf("%lld steps overflowed and changed the loss scale only\n", (long long)skipped);
    return !machine->failed && (!o->save || save(trainer));
}

/* The last validation loss against the text's entropy. */
static void conclude(const Trainer *trainer) {
    const History *history = &trainer->checkpoint->history;
    const double entropy = trainer->model->text->entropy;
    for (size_t i = history->count; i-- > 0;) {
        const double loss = history->points[i].validation;
        if (isnan(loss)) continue;
        printf("validation loss %.3f, %.3f %s the unigram entropy of %.3f\n", loss,
               fabs(entropy - loss), loss < entropy ? "below" : "above", entropy);
        return;
    }
}

static bool print_hash(const Trainer *trainer) {
    uint64_t hash;
    slots_gather_moments(trainer->model);
    offload_wait(trainer->model);
    if (!reports(trainer)) return !trainer->model->machine->failed;
    if (!checkpoint_hash(trainer->model, trainer->checkpoint, &hash)) return false;
    printf("hash %016" PRIx64 "\n", hash);
    return true;
}

/* What runs from here on, for the trace. */
static bool begin_trace(const Machine *machine, const Options *options) {
    return !options->trace || ls_profile_begin(machine->context) == LS_OK ||
           fail("--trace: %s", ls_error_message(machine->context));
}

static bool write_trace(Machine *machine, const Options *options) {
    if (!options->trace) return true;
    ls_status status = ls_profile_end(machine->context);
    if (status == LS_OK) status = ls_comm_trace(machine->comm, options->trace);
    if (status != LS_OK) return machine_all_failed(machine, status, "--trace");
    printf("traced   %s\n", options->trace);
    return true;
}

bool train(Model *model, Checkpoint *checkpoint) {
    Trainer trainer = {.model = model, .checkpoint = checkpoint, .began = seconds()};
    bool ok = open_trainer(&trainer);
    machine_told(model->machine);
    if (ok) {
        introduce(&trainer);
        void (*before)(int) = signal(SIGINT, interrupt);
        ok = begin_trace(model->machine, model->options) && run(&trainer) &&
             write_trace(model->machine, model->options);
        signal(SIGINT, before);
    }
    if (ok) conclude(&trainer);
    if (ok && model->options->hash) ok = print_hash(&trainer);
    if (ok && model->options->curve && reports(&trainer)) ok = draw_curve(&trainer);
    close_trainer(&trainer);
    return ok;
}

/* ---- samples ---- */

static bool print_sample(Model *model, Array text, int64_t length) {
    uint8_t *letters = calloc(1, (size_t)array_size(text));
    if (!letters) return fail("out of host memory");
    array_read(model->machine, text, letters);
    printf("\n");
    for (int64_t i = 0; i < length && !model->machine->failed; i++)
        putchar(model->text->alphabet[letters[i]]);
    printf("\n");
    free(letters);
    return !model->machine->failed;
}

bool sample(Model *model) {
    const Options *o = model->options;
    Machine *machine = model->machine;
    const int64_t begun = (int64_t)strlen(o->prompt), length = begun + o->sample;
    uint8_t *letters = calloc(1, (size_t)length + 1);
    if (!letters) return fail("out of host memory");
    Array text = ARRAY(machine, LS_U8, length);
    Array start = ARRAY(machine, LS_I64, 1), end = machine_array(machine, LS_I64, 0, NULL);
    const int64_t first = begun > o->context ? begun - o->context : 0;
    if (!text_encode(model->text, o->prompt, letters)) { /* main has looked */
        free(letters);
        return fail("--prompt has a character that the text lacks");
    }
    array_write(machine, text, letters);
    array_write(machine, start, &first);
    array_write(machine, end, &begun);
    free(letters);
    Pass pass;
    pass_open(model, PASS_SAMPLING, (PassInput){.text = text, .start = start}, &pass);
    STEP(machine, machine->plain, &pass.tape, "choose",
         BIND("logits", AS(pass.logits, 1, o->context, model->letters)), BIND("text", text),
         BIND("start", start), BIND("end", end), VALUE("seed", (double)(o->seed * 1000)),
         VALUE("temperature", o->temperature));
    Routine routine = {0};
    routine_add(machine, &routine, &pass.tape);
    routine_open(machine, &routine);
    const bool ok =
        routine_run(machine, &routine, length - begun) && print_sample(model, text, length);
    routine_close(&routine);
    pass_close(&pass);
    return ok;
}
