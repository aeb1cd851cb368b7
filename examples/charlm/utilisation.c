/* utilisation.c: --utilisation, the table of a training article. The same training, first as it is
 * often written: the host fetches each batch, copies it to the device and waits, reads loss and
 * norm after each step, and launches the optimizer tensor by tensor. Then, row by row, what keeps
 * the host out of the device's way is turned on. */
#include "charlm.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef struct Row {
    const char *name;
    bool resident, unread, together, graph;
} Row;
static const Row rows[] = {
    {"batches from the host, loss read, a launch per tensor", false, false, false, false},
    {"+ the text stays on the device, which draws", true, false, false, false},
    {"+ loss, norm and flags stay there", true, true, false, false},
    {"+ one launch for all tensors", true, true, true, false},
    {"+ one graph a step", true, true, true, true},
};

typedef struct Meter {
    Model *model;
    ls_monitor *monitor; /* NULL: it cannot be watched */
    Array counters;      /* of steps, for each tensor that is launched alone */
    Array text, start;   /* windows that the host fetched, one after the other */
    uint8_t *host;
    uint64_t seed;
    Pass fetched, resident;
    Tape apart, together;
    Routine graph;
} Meter;

enum { ROUNDS_MAX = 8 };
typedef struct Mean {
    double sum, count;
} Mean;
typedef struct Measured {
    double speeds[ROUNDS_MAX]; /* steps a second */
    int rounds;
    int64_t steps, portion; /* so many are queued at a time */
    double seconds, processor;
    uint64_t copies;
    Mean busy, power; /* %, W */
} Measured;

static double now(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* ---- a step ---- */

/* As a loader does that stands on the step's path: windows from the text, and a copy to wait for.
 */
static void fetch(Meter *meter) {
    const Options *o = meter->model->options;
    const Text *text = meter->model->text;
    const size_t window = (size_t)o->context + 1;
    for (long b = 0; b < o->batch; b++) {
        meter->seed = meter->seed * 6364136223846793005u + 1442695040888963407u;
        const size_t first = (size_t)(meter->seed >> 24) % (text->training - window + 1);
        for (size_t t = 0; t < window; t++)
            meter->host[(size_t)b * window + t] = text->letters[first + t];
    }
    array_write(meter->model->machine, meter->text, meter->host);
}

/* What a trainer looks at that decides on the host: it waits for the device. */
static void look(Meter *meter) {
    Machine *machine = meter->model->machine;
    float loss = 0, norm = 0;
    array_read(machine, meter->model->state.total, &loss);
    array_read(machine, meter->model->state.norm, &norm);
}

static bool step(Meter *meter, const Row *row) {
    Machine *machine = meter->model->machine;
    if (row->graph) return routine_run(machine, &meter->graph, 1);
    for (long i = 0; i < meter->model->options->micro; i++) {
        if (!row->resident) fetch(meter);
        tape_run(machine, row->resident ? &meter->resident.tape : &meter->fetched.tape);
    }
    tape_run(machine, row->together ? &meter->together : &meter->apart);
    if (!row->unread) look(meter);
    return !machine->failed;
}

static bool steps_and_wait(Meter *meter, const Row *row, int64_t count) {
    Machine *machine = meter->model->machine;
    bool ok = true;
    for (int64_t i = 0; i < count && ok; i++) ok = step(meter, row);
    return ok && machine_check(machine, ls_synchronize(machine->context), "waiting");
}

/* ---- measuring ---- */

/* Launches of steps and products a training step. */
static double count_launches(const Meter *meter, const Row *row) {
    const Tape *pass = row->resident ? &meter->resident.tape : &meter->fetched.tape;
    const Tape *update = row->together ? &meter->together : &meter->apart;
    if (row->graph) return 1;
    return (double)((size_t)meter->model->options->micro * pass->count + update->count);
}

static uint64_t copies_of(const Machine *machine) {
    ls_copy_statistics copies;
    ls_copy_stats(machine->context, &copies);
    return copies.to_device + copies.from_device;
}

/* On a GPU its driver says how much of the time a kernel ran. On the CPU the device is what this
 * process may use of the processors, and its processor time is what it used. */
static double workers(void) {
    const char *told = getenv("LOCKSTEP_THREADS");
    const double count = told ? atof(told) : 0;
    return count >= 1 ? count : (double)sysconf(_SC_NPROCESSORS_ONLN);
}

static void add(Mean *mean, const ls_sample *sample, ls_reading reading) {
    if (!(sample->known >> reading & 1)) return;
    mean->sum += sample->value[reading];
    mean->count++;
}

/* Launches that are alone count their steps alone, too: those of the other rows are added. */
static void count_again(Meter *meter) {
    Machine *machine = meter->model->machine;
    const int64_t count = array_size(meter->counters);
    int32_t steps = 0, *counts = calloc((size_t)count, sizeof *counts);
    if (!counts) machine->failed = !fail("out of host memory");
    array_read(machine, meter->model->state.count, &steps);
    for (int64_t i = 0; counts && i < count; i++) counts[i] = steps;
    array_write(machine, meter->counters, counts);
    free(counts);
}

/* Trains for `wanted` seconds, in portions behind each of which the device is looked at. The first
 * two steps are to warm up. */
static bool measure(Meter *meter, const Row *row, double wanted, Measured *measured) {
    const Machine *machine = meter->model->machine;
    ls_sample sample = {0};
    double seconds = 0;
    int64_t steps = 0;
    count_again(meter);
    bool ok = steps_and_wait(meter, row, 2);
    if (meter->monitor) ls_monitor_sample(meter->monitor, &sample);
    const uint64_t copied = copies_of(machine);
    const double begun = now(CLOCK_MONOTONIC), used = now(CLOCK_PROCESS_CPUTIME_ID);
    if (measured->portion == 0) measured->portion = 1;
    while (ok && seconds < wanted) {
        const double before = seconds;
        ok = steps_and_wait(meter, row, measured->portion);
        steps += measured->portion;
        seconds = now(CLOCK_MONOTONIC) - begun;
        if (seconds - before < wanted / 16 && measured->portion < INT32_MAX) measured->portion *= 2;
        if (!meter->monitor || ls_monitor_sample(meter->monitor, &sample) != LS_OK) continue;
        add(&measured->busy, &sample, LS_READING_UTILISATION);
        add(&measured->power, &sample, LS_READING_POWER);
    }
    measured->speeds[measured->rounds++] = (double)steps / seconds;
    measured->steps += steps;
    measured->seconds += seconds;
    measured->processor += now(CLOCK_PROCESS_CPUTIME_ID) - used;
    measured->copies += copies_of(machine) - copied;
    return ok && !machine->failed;
}

/* In rounds on a CPU, whose neighbours come and go; at one go on a GPU, whose utilisation is that
 * of the latest second. */
static bool measure_all(Meter *meter, Measured *measured) {
    const Model *model = meter->model;
    const bool is_cpu = ls_context_kind(model->machine->context) == LS_DEVICE_CPU;
    const int rounds = is_cpu ? ROUNDS_MAX : 1;
    bool ok = true;
    for (int round = 0; round < rounds; round++)
        for (size_t i = 0; i < COUNT(rows) && ok; i++) {
            if (rows[i].graph && !meter->graph.graph) continue;
            ok = measure(meter, &rows[i], model->options->seconds / rounds, &measured[i]);
        }
    return ok;
}

/* ---- the table ---- */

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_speed(const Measured *measured) {
    double speeds[ROUNDS_MAX];
    memcpy(speeds, measured->speeds, sizeof speeds);
    qsort(speeds, (size_t)measured->rounds, sizeof *speeds, ascending);
    return speeds[measured->rounds / 2];
}

static void print_row(const Meter *meter, size_t number, const Measured *measured) {
    char busy[16] = "-", energy[16] = "-";
    const Measured *mine = &measured[number];
    const Row *row = &rows[number];
    if (mine->rounds == 0) {
        printf("%-54s not on this driver, which has no graphs to rely on\n", row->name);
        return;
    }
    const double speed = median_speed(mine);
    const bool is_cpu = ls_context_kind(meter->model->machine->context) == LS_DEVICE_CPU;
    if (is_cpu)
        snprintf(busy, sizeof busy, "%.0f %%", 100 * mine->processor / (mine->seconds * workers()));
    else if (mine->busy.count > 0)
        snprintf(busy, sizeof busy, "%.0f %%", mine->busy.sum / mine->busy.count);
    if (mine->power.count > 0)
        snprintf(energy, sizeof energy, "%.3g J", mine->power.sum / mine->power.count / speed);
    printf("%-54s %9.2f %6.2f %9.0f %7.0f %7s %9s\n", row->name, speed,
           speed / median_speed(&measured[0]), count_launches(meter, row),
           (double)mine->copies / (double)mine->steps, busy, energy);
}

static bool open_meter(Meter *meter, Model *model) {
    const Options *o = model->options;
    Machine *machine = model->machine;
    const int64_t window = o->context + 1;
    int64_t *starts = calloc((size_t)o->batch, sizeof *starts);
    *meter = (Meter){.model = model, .seed = (uint64_t)o->seed};
    meter->host = malloc((size_t)(o->batch * window));
    meter->text = ARRAY(machine, LS_U8, o->batch * window);
    meter->start = ARRAY(machine, LS_I64, o->batch);
    if (!starts || !meter->host) {
        free(starts);
        return fail("out of host memory");
    }
    for (long b = 0; b < o->batch; b++) starts[b] = b * window;
    array_write(machine, meter->start, starts);
    free(starts);
    pass_open(model, PASS_TRAINING, (PassInput){.text = meter->text, .start = meter->start},
              &meter->fetched);
    pass_open(model, PASS_TRAINING, (PassInput){.gradients = NULL}, &meter->resident);
    model_update(model, &meter->together);
    meter->counters = ARRAY(machine, LS_I32, (int64_t)model->parameters.count);
    model_update_apart(model, meter->counters, &meter->apart);
    for (long i = 0; i < o->micro; i++) routine_add(machine, &meter->graph, &meter->resident.tape);
    routine_add(machine, &meter->graph, &meter->together);
    routine_open(machine, &meter->graph);
    ls_monitor_create(ls_context_device(machine->context), &meter->monitor); /* NULL: unknown */
    machine_told(machine);
    return !machine->failed;
}

static void close_meter(Meter *meter) {
    routine_close(&meter->graph);
    tape_close(&meter->apart);
    tape_close(&meter->together);
    pass_close(&meter->fetched);
    pass_close(&meter->resident);
    ls_monitor_destroy(meter->monitor);
    free(meter->host);
}

static void print_head(const Model *model) {
    const Options *o = model->options;
    const Machine *machine = model->machine;
    printf("device   %s, %s; products by %s in %s\n", ls_context_device(machine->context),
           ls_context_describe(machine->context), products_name(machine->products), o->type);
    printf("model    %ld layers, %ld channels, %ld heads, context %ld: %lld parameters; %ld x %ld "
           "windows a step\n\n",
           o->layers, o->channels, o->heads, o->context, (long long)model_size(model), o->micro,
           o->batch);
    printf("%-54s %9s %6s %9s %7s %7s %9s\n", "", "steps/s", "times", "launches", "copies", "busy",
           "energy");
}

/* What was measured was a training: its loss, after so many steps. */
static bool explain(Meter *meter) {
    const Model *model = meter->model;
    const bool is_cpu = ls_context_kind(model->machine->context) == LS_DEVICE_CPU;
    int32_t count = 0;
    float loss = 0;
    array_write(model->machine, model->state.total, &loss);
    const bool ok = steps_and_wait(meter, &rows[3], 1);
    array_read(model->machine, model->state.total, &loss);
    array_read(model->machine, model->state.count, &count);
    printf("\nlaunches and copies: what the host asks for in a step; busy: %s;\nenergy: of a step; "
           "-: not known. After %d steps in all the loss is %.3f.\n",
           is_cpu ? "the share of the workers' time" : "what the driver says", (int)count,
           (double)loss / (double)model->options->micro);
    return ok;
}

bool utilisation(Model *model) {
    Meter meter;
    Measured measured[COUNT(rows)];
    memset(measured, 0, sizeof measured);
    bool ok = open_meter(&meter, model);
    if (ok) print_head(model);
    fflush(stdout);
    ok = ok && measure_all(&meter, measured);
    for (size_t i = 0; i < COUNT(rows) && ok; i++) print_row(&meter, i, measured);
    ok = ok && explain(&meter);
    close_meter(&meter);
    return ok;
}
