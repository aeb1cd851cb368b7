/* advice.c: what a step takes on a machine, before anything runs.
 *
 * Bytes and operations are the plan's (fuse/cost.c), registers and resident warps the machine
 * code's, and target/speed.c makes time of them. Beside its operations an element that is moved
 * takes some instructions: its address, its part of a load or store, what waits for the last lane.
 * The bytes that a thread has under way at once are what its schedule loads first: so many elements
 * of a row or a column, or of each item of a map. What all iterations of a launch keep near is
 * moved once by each launch.
 *
 * Memory is what a trainer allocates for the arrays and what the step does, as the runtime's memory
 * pool cuts it. Needs a plan. */
#include <locale.h>
#include <math.h>
#include <string.h>

#include "base/base.h"
#include "target/target.h"
#include "ir/ir.h"
#include "front/front.h"
#include "fuse/fuse.h"
#include "emit/emit.h"
#include "toolchain/toolchain.h"
#include "compile.h"
#include "report/report.h"

/* Fitted to the kernels of std/ whose machine code tests/machine/table/sm_90.txt has figures of. */
enum {
    MOVED = 4,      /* instructions of an element that is moved, beside its operations */
    CHAIN = 2,      /* cycles of a thread that waits for its own instruction before */
    MAP_AHEAD = 12, /* elements that a thread of a map has under way */
    ROW_SHARE = 4,  /* bytes of row_loads, of column_loads, for an element that is under way */
    COLUMN_SHARE = 2,
    PARTIAL = 4,       /* bytes of a column's partial result */
    UNKNOWN_WARPS = 24 /* resident, where no code was made */
};
/* Of a CPU, fitted by tests/bench/advise.py: what it computes and what it moves nearly add up. */
#define CPU_MEETING 1.2
enum { CPU_VECTOR = 16 }; /* elements that a loop of a CPU's takes at once */
/* As runtime/memory_pool.c cuts memory. */
enum { UNIT = 256, SMALL_LIMIT = 1 << 20, SMALL_CHUNK = 64 << 10, LARGE_UNIT = 2 << 20 };

typedef struct Advisor {
    ls_compilation *c;
    const ls_advise_options *options;
    const TargetSpeed *speed; /* NULL: a CPU, or the machine that the options describe */
    double lanes;
    ls_advice *advice;
    ls_advice_kernel *kernels;
} Advisor;

/* ---- the machine ---- */

/* Between two measured sizes by the logarithm of the bytes, beyond them what the nearest has. */
static void rates_at(const ls_machine *machine, double bytes, double *read, double *copy) {
    const ls_memory_rate *rates = machine->rates;
    size_t above = 0;
    while (above < machine->rate_count && rates[above].bytes < bytes) above++;
    const ls_memory_rate *high = &rates[above < machine->rate_count ? above : above - 1];
    const ls_memory_rate *low = &rates[above ? above - 1 : 0];
    const double span = log(high->bytes / low->bytes);
    const double share = low == high || span <= 0 ? 1 : log(bytes / low->bytes) / span;
    *read = 1e9 * (low->read_gb_s + share * (high->read_gb_s - low->read_gb_s));
    *copy = 1e9 * (low->copy_gb_s + share * (high->copy_gb_s - low->copy_gb_s));
}

static TargetMachine machine_at(const Advisor *a, double bytes) {
    const ls_machine *given = &a->options->machine;
    TargetMachine machine = {.ceiling = 1, .meeting = CPU_MEETING};
    if (a->speed) machine = target_machine(a->speed);
    if (given->rate_count) rates_at(given, bytes, &machine.read_rate, &machine.copy_rate);
    if (given->operations_per_s > 0) machine.instruction_rate = given->operations_per_s;
    if (given->launch_s > 0) machine.launch = given->launch_s;
    return machine;
}

static uint32_t processors(const Advisor *a) {
    const uint32_t given = a->options->machine.processors;
    return given ? given : a->speed ? a->speed->processors : 1;
}

static double lanes_of(const char *target) {
    const ls_target *chip;
    for (size_t i = 0; (chip = ls_target_at(i)) != NULL; i++)
        if (target_is_variant(target, chip->name)) return chip->lanes;
    return 32;
}

static void open_machine(Advisor *a) {
    const ls_machine *given = &a->options->machine;
    const char *target = a->options->target;
    const Target *dialect = target_for(target);
    if (!dialect || !target_is_well_formed(target)) {
        Text kinds = text_open(&a->c->compiler.arena);
        target_put_kinds(&kinds);
        compiler_fail(&a->c->compiler, LS_ERROR_ARGUMENT, "unknown target %s: targets are %s",
                      target, kinds.data);
    }
    a->speed = target_speed(target);
    a->lanes = dialect->gpu ? lanes_of(target) : 1;
    if (dialect->gpu && !a->speed) {
        Text known = text_open(&a->c->compiler.arena);
        target_put_speeds(&known);
        compiler_fail(&a->c->compiler, LS_ERROR_ARGUMENT,
                      "no figures are known of what %s can do; they are of %s", target, known.data);
    }
    const bool described = given->rate_count && given->operations_per_s > 0 && given->launch_s > 0;
    if (!a->speed && !described)
        compiler_fail(&a->c->compiler, LS_ERROR_ARGUMENT,
                      "a CPU needs its memory's rates, operations a second and launch time");
}

/* ---- a kernel ---- */

/* The elements that a kernel's arrays have, by their bytes on average. */
static double element_bytes(const Report *r, const KernelReport *kernel) {
    double bytes = 0, elements = 0;
    for (uint32_t i = 0; i < r->plan->array_count; i++) {
        const Array *array = &r->plan->arrays[i];
        if (!plan_kernel_reads(r->plan, &kernel->plan, i) &&
            !plan_kernel_writes(r->plan, &kernel->plan, i))
            continue;
        const double own = plan_sizes_array_bytes(&r->sizes, array);
        bytes += own;
        elements += own / type_info[array->type].size;
    }
    return elements > 0 ? bytes / elements : 4;
}

/* The bytes of loads that a thread has under way at once. */
static double thread_ahead(const Report *r, const KernelReport *kernel, double element) {
    const Target *target = target_for(r->image->target);
    const Shape shape = r->plan->phases[kernel->plan.first].shape;
    if (shape == SHAPE_ROWS) return target->row_loads / (double)ROW_SHARE * element;
    if (shape == SHAPE_COLUMNS) return target->column_loads / (double)COLUMN_SHARE * element;
    return MAP_AHEAD * element;
}

/* Of a GPU: instructions of warps, and what its threads have under way. A launch of few blocks has
 * few threads, and processors that idle. */
static TargetLoad gpu_load(const Advisor *a, const Report *r, const KernelReport *kernel,
                           const Figures *figures, KernelBytes moved, double operations) {
    const double count = processors(a), bytes = moved.read + moved.written;
    const double element = element_bytes(r, kernel);
    const double of_block = ceil((double)kernel->threads / a->lanes);
    const double resident = figures->occupancy.max ? figures->occupancy.warps : UNKNOWN_WARPS;
    const double all = (double)kernel->blocks * of_block;
    const double warps = all < resident * count ? all : resident * count;
    const double busy = (double)kernel->blocks < count ? (double)kernel->blocks / count : 1;
    const double instructions = operations + MOVED * bytes / element;
    const double ahead = thread_ahead(r, kernel, element);
    const double item = moved.read > 0 ? ahead / moved.read : 0; /* share of the whole */
    return (TargetLoad){.read = moved.read,
                        .written = moved.written,
                        .instructions = instructions / a->lanes / (busy > 0 ? busy : 1),
                        .in_flight = warps * a->lanes * ahead,
                        .item = instructions * item * CHAIN / (a->speed->clock * 1e9)};
}

/* How many elements a phase goes along at once: those of its fastest axis, and of the axes ahead of
 * it that every array has or lacks alike. */
static double run_length(const Report *r, const Phase *phase) {
    AxisSet left = phase->outer | phase->inner, run = 0;
    while (left) {
        const AxisSet axis = (AxisSet)1 << (31 - __builtin_clz(left)), last = run & -run;
        for (size_t i = 0; run && i < phase->touch_count; i++) {
            const AxisSet axes = r->plan->arrays[phase->touches[i].array].axes;
            if (!(axes & axis) != !(axes & last)) return plan_sizes_elements(&r->sizes, run);
        }
        run |= axis;
        left &= ~axis;
    }
    return plan_sizes_elements(&r->sizes, run);
}

/* How many times as long a CPU takes for a map whose runs fill no vectors, or few: each run is
 * whole vectors, and to begin it takes as long as one. */
static double map_stretch(const Report *r, const KernelReport *kernel) {
    const Phase *phase = &r->plan->phases[kernel->plan.first];
    const double run = phase->shape == SHAPE_MAP ? run_length(r, phase) : 0;
    return run > 0 ? (ceil(run / CPU_VECTOR) + 1) * CPU_VECTOR / run : 1;
}

static TargetLoad cpu_load(const Advisor *a, const Report *r, const KernelReport *kernel,
                           KernelBytes moved, double operations) {
    const double count = processors(a);
    const double busy = (double)kernel->blocks < count ? (double)kernel->blocks / count : 1;
    return (TargetLoad){.read = moved.read,
                        .written = moved.written,
                        .instructions =
                            operations * map_stretch(r, kernel) / (busy > 0 ? busy : 1)};
}

/* In so many launches, which have so many iterations together. */
static void advise_kernel(Advisor *a, Report *r, size_t number, double times, double turns) {
    const KernelReport *kernel = &r->kernels[number];
    const bool gpu = target_for(a->options->target)->gpu;
    Figures figures;
    if (!report_inspect(r, a->options->target, number, &figures))
        compiler_fail(&a->c->compiler, LS_ERROR_TOOLCHAIN, "%s",
                      arena_copy(&a->c->compiler.arena, a->c->message, strlen(a->c->message)));
    Operations sums = {kernel->read / PARTIAL, kernel->read / PARTIAL}; /* additions of partials */
    if (kernel->plan.kind != KERNEL_FINISH)
        sums = plan_kernel_operations(r->plan, &r->sizes, &kernel->plan, &a->c->compiler.arena);
    const double operations = turns * (gpu ? sums.cost : sums.work);
    const KernelBytes moved = {turns * kernel->read + times * kernel->once.read,
                               turns * kernel->written + times * kernel->once.written};
    const TargetMachine machine = machine_at(a, r->moved + r->once);
    TargetLoad load = gpu ? gpu_load(a, r, kernel, &figures, moved, operations)
                          : cpu_load(a, r, kernel, moved, operations);
    load.launches = times;
    const TargetTime time = target_time(&machine, &load);
    a->kernels[a->advice->kernel_count++] =
        (ls_advice_kernel){.name = kernel->name,
                           .partition = kernel->share,
                           .limit = target_limit_names[time.limit],
                           .launches = times,
                           .bytes_read = load.read,
                           .bytes_written = load.written,
                           .operations = operations,
                           .registers = figures.stats.registers,
                           .spill_bytes = figures.stats.spill_bytes,
                           .shared_bytes = figures.stats.shared_bytes,
                           .warps = figures.occupancy.warps,
                           .warps_max = figures.occupancy.max,
                           .blocks = (double)kernel->blocks,
                           .memory_s = time.bound[TARGET_MEMORY],
                           .instructions_s = time.bound[TARGET_INSTRUCTIONS],
                           .latency_s = time.bound[TARGET_LATENCY],
                           .launch_s = time.bound[TARGET_LAUNCH],
                           .time_s = time.total};
    a->advice->time_s += time.total;
}

/* ---- memory ---- */

typedef struct Held {
    double large, small;
} Held;

static double up(double bytes, double unit) {
    return ceil(bytes / unit) * unit;
}

static void hold(Held *held, double bytes) {
    const double cut = up(bytes > 1 ? bytes : 1, UNIT);
    if (cut < SMALL_LIMIT)
        held->small += cut;
    else
        held->large += up(cut, LARGE_UNIT);
}

static uint64_t held_bytes(const Held *held) {
    const double bytes = held->large + up(held->small, SMALL_CHUNK);
    return bytes < 9e18 ? (uint64_t)bytes : (uint64_t)9e18;
}

static void count_memory(Advisor *a, const Function *f, const PlanSizes *sizes, double temporary) {
    Held arrays = {0}, all = {0};
    for (size_t i = 0; i < f->parameter_count; i++) {
        const Parameter *row = &f->parameters[i];
        hold(&arrays, plan_sizes_elements(sizes, row->axes) * type_info[row->type].size);
    }
    all = arrays;
    if (temporary > 0) hold(&all, temporary);
    a->advice->array_bytes = held_bytes(&arrays);
    a->advice->temporary_bytes = held_bytes(&all) - a->advice->array_bytes;
}

/* ---- a step ---- */

static void advise_parts(Advisor *a, Report *parts, size_t count, const double *times,
                         const double *turns) {
    size_t kernels = 0;
    for (size_t i = 0; i < count; i++) kernels += parts[i].kernel_count;
    a->kernels = arena_alloc(&a->c->compiler.arena, (kernels + 1) * sizeof *a->kernels);
    a->advice->kernels = a->kernels;
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; times[i] > 0 && k < parts[i].kernel_count; k++)
            advise_kernel(a, &parts[i], k, times[i], turns[i]);
}

/* What a kernel that only moves them does with the arrays: reads those that are given, writes those
 * that are made. */
static void count_traffic(Advisor *a, const Function *f, const PlanSizes *sizes) {
    ls_advice *advice = a->advice;
    double read = 0, written = 0;
    for (size_t i = 0; i < f->parameter_count; i++) {
        const Parameter *row = &f->parameters[i];
        const double bytes = plan_sizes_elements(sizes, row->axes) * type_info[row->type].size;
        if (row->role != LS_OUT) read += bytes;
        if (row->role != LS_IN) written += bytes;
    }
    const TargetMachine machine = machine_at(a, read + written);
    advice->traffic_s = target_traffic(&machine, read, written) + machine.launch;
    advice->memory_gb_s = machine.copy_rate * 1e-9;
    advice->operations_per_s = machine.instruction_rate * a->lanes;
    advice->device = a->speed ? a->speed->device : NULL;
    advice->device_bytes = a->speed ? a->speed->memory * (uint64_t)1000000000 : 0;
}

void report_advise(ls_compilation *c, size_t number, const ls_advise_options *options,
                   ls_advice *advice) {
    static const double once = 1;
    Advisor a = {.c = c, .options = options, .advice = advice};
    const StepState *step = &c->steps[number];
    open_machine(&a);
    const ls_explain_options explain = {.sizes = options->sizes,
                                        .size_count = options->size_count,
                                        .targets = &options->target,
                                        .target_count = 1,
                                        .plan_only = options->plan_only,
                                        .processors = processors(&a)};
    if (step->sequence) {
        SequenceReport r = report_sequence_open(c, number, &explain);
        count_traffic(&a, step->simplified, &r.sizes);
        advise_parts(&a, r.parts, r.sequence->part_count, r.times, r.turns);
        count_memory(&a, step->simplified, &r.sizes, r.temporary);
        advice->launches = r.launches;
        advice->bytes_moved = r.moved;
        advice->bytes_minimum = r.minimum;
    } else {
        Report r = report_open(c, number, &explain, options->sizes, options->size_count);
        count_traffic(&a, r.plan->function, &r.sizes);
        advise_parts(&a, &r, 1, &once, &once);
        count_memory(&a, r.plan->function, &r.sizes, r.temporary);
        advice->launches = (double)r.kernel_count;
        advice->bytes_moved = r.moved;
        advice->bytes_minimum = r.minimum;
    }
}
