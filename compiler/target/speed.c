/* speed.c: how long a kernel takes on a machine, from its bytes and instructions: the model that
 * tests/machine/chips.py has too, with the same constants, which change by a measurement on a
 * device alone. There the figures of a kernel are those of its machine code, instruction by
 * instruction; here they are the plan's.
 *
 * Memory, issue slots and the loads that are under way each bound the rate; the three meet softly,
 * on a GPU as the cube root of the sum of cubes. What waits for memory waits the longer the busier
 * that is, so the rate is a fixed point. A launch comes on top. */
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"

#define COPY (4.3 / 4.8) /* of the datasheet's bandwidth: what a copy reaches on an H200 */
#define CEILING 0.93     /* of a copy, for the best of kernels */
#define MEETING 3
#define ISSUE 0.85      /* of the issue slots */
#define LATENCY 0.35e-6 /* seconds of a load from an idle memory, and what a busy one adds */
#define QUEUEING 0.06e-6
#define LAUNCH 2.5e-6 /* seconds from a kernel to the next on its stream */

const char *const target_limit_names[TARGET_LIMIT_COUNT] = {"memory", "instructions", "latency",
                                                            "launch"};

static const TargetSpeed rows[] = {
#define SPEED(target, ...) {.name = target, __VA_ARGS__},
#include "target/targets.def"
};

const TargetSpeed *target_speed(const char *target) {
    for (size_t i = 0; i < COUNT(rows); i++)
        if (target_is_variant(target, rows[i].name)) return &rows[i];
    return NULL;
}

void target_put_speeds(Text *out) {
    for (size_t i = 0; i < COUNT(rows); i++)
        text_printf(out, "%s%s", i == 0 ? "" : i + 1 == COUNT(rows) ? " and " : ", ", rows[i].name);
}

TargetMachine target_machine(const TargetSpeed *speed) {
    const double copy = COPY * speed->bandwidth * 1e9;
    return (TargetMachine){.read_rate = copy,
                           .copy_rate = copy,
                           .ceiling = CEILING,
                           .instruction_rate =
                               ISSUE * speed->issue * speed->clock * 1e9 * speed->processors,
                           .launch = LAUNCH,
                           .latency = LATENCY,
                           .queueing = QUEUEING,
                           .meeting = MEETING};
}

/* What is read and written side by side goes at the rate of a copy, the rest at its own. */
double target_traffic(const TargetMachine *machine, double read, double written) {
    const double both = read < written ? read : written;
    return (both + written) / machine->copy_rate + (read - both) / machine->read_rate;
}

static double meet(const double *bounds, double power) {
    double sum = 0;
    for (int i = 0; i < TARGET_LAUNCH; i++) sum += pow(bounds[i], power);
    return pow(sum, 1 / power);
}

TargetTime target_time(const TargetMachine *machine, const TargetLoad *load) {
    enum { ROUNDS = 60 };
    const double traffic = target_traffic(machine, load->read, load->written);
    TargetTime time = {.bound = {traffic / machine->ceiling,
                                 load->instructions / machine->instruction_rate, 0,
                                 load->launches * machine->launch}};
    double use = 0.3, body = 0;
    for (int i = 0; i < ROUNDS; i++) {
        const double idle = 1 - (use < 0.97 ? use : 0.97);
        const double latency = machine->latency + machine->queueing * use / idle;
        if (machine->latency > 0 && load->in_flight > 0)
            time.bound[TARGET_LATENCY] = load->read * (latency + load->item) / load->in_flight;
        body = meet(time.bound, machine->meeting);
        const double reached = body > 0 ? traffic / body : 0;
        use = 0.5 * use + 0.5 * (reached < 0.96 ? reached : 0.96);
    }
    time.total = body + time.bound[TARGET_LAUNCH];
    for (int i = 0; i < TARGET_LIMIT_COUNT; i++)
        if (time.bound[i] > time.bound[time.limit]) time.limit = (TargetLimit)i;
    return time;
}
