/* advise_machine.c: what the device in hand can do, for the model of `lockstep advise`.
 *
 * Memory is measured by the traffic-only kernel of `bench`, at a few sizes, since caches are faster
 * than what lies behind them. A CPU's operations are those of a map on all threads, whose arrays
 * stay in the caches near them, counted by the table that all kernels are counted by: threads that
 * share a core, or a machine that is busy, show in it. A launch is one of a single element.
 */
#include "files.h"
#include "command.h"
#include "advise.h"

#include <stdlib.h>
#include <string.h>

enum {
    FIRST_BYTES = 256 << 10, /* of the smallest size; each next has 8 times as many */
    GROWTH = 8,
    TIMINGS = 7,
    PROBE = 128 << 10 /* elements of a thread: both arrays have a MiB */
};
#define TIMING 1e-3       /* seconds of a timing, */
#define PROBE_TIMING 5e-3 /* of the probe: as long as it takes to meet what else runs here */
/* Of the probe's operations a second, which are a vector's without a fold or a branch: what kernels
 * of rows, of narrow types and of draws come to, by tests/bench/advise.py. */
#define USUAL_SHARE 0.65

/* ---- memory ---- */

static bool time_traffic(ls_context *context, const TrafficArray *arrays, size_t count,
                         uint32_t threads, double *best, Failure *failure) {
    Traffic *traffic = NULL;
    double times[TIMINGS], once;
    if (!traffic_open(context, arrays, count, threads, &traffic, failure)) return false;
    bool good = traffic_time(traffic, 1, &once, failure);
    const uint64_t repeat = once > 0 && once < TIMING ? (uint64_t)(TIMING / once) + 1 : 1;
    for (size_t i = 0; good && i < TIMINGS; i++)
        good = traffic_time(traffic, repeat, &times[i], failure);
    traffic_close(traffic);
    if (good) *best = median_of(times, TIMINGS);
    return good;
}

/* At one size: an array that is read alone, and one that is read beside one that is written. */
static bool measure_rate(ls_context *context, size_t bytes, uint32_t threads, ls_memory_rate *rate,
                         Failure *failure) {
    void *data = NULL;
    double read = 0, copy = 0;
    ls_status status = ls_alloc(context, bytes, &data);
    if (status == LS_OK) status = ls_fill_zero(context, data, bytes);
    if (status != LS_OK) {
        ls_free(context, data);
        return fail_status(failure, context, status);
    }
    const TrafficArray whole = {data, bytes, sizeof(uint32_t), true, false};
    const TrafficArray halves[] = {
        {data, bytes / 2, sizeof(uint32_t), true, false},
        {(char *)data + bytes / 2, bytes / 2, sizeof(uint32_t), false, true}};
    const bool good = time_traffic(context, &whole, 1, threads, &read, failure) &&
                      time_traffic(context, halves, 2, threads, &copy, failure);
    ls_free(context, data);
    if (good)
        *rate = (ls_memory_rate){(double)bytes, 1e-9 * (double)bytes / read,
                                 1e-9 * (double)bytes / copy};
    return good;
}

static bool measure_rates(ls_context *context, uint32_t threads, size_t sizes, Measured *measured,
                          Failure *failure) {
    uint64_t free_bytes, bytes = FIRST_BYTES;
    if (!machine_free(ls_context_device(context), &free_bytes, failure)) return false;
    for (size_t i = 0; i < sizes; i++, bytes *= GROWTH) {
        if (i && bytes > free_bytes / 4) break;
        if (!measure_rate(context, (size_t)bytes, threads, &measured->rates[i], failure))
            return false;
        measured->machine.rate_count++;
    }
    return true;
}

bool machine_free(const char *device, uint64_t *bytes, Failure *failure) {
    ls_monitor *monitor;
    ls_sample sample;
    ls_status status = ls_monitor_create(device, &monitor);
    if (status != LS_OK) return fail_status(failure, NULL, status);
    status = ls_monitor_sample(monitor, &sample);
    ls_monitor_destroy(monitor);
    const bool known = status == LS_OK && sample.known >> LS_READING_MEMORY_USED & 1 &&
                       sample.known >> LS_READING_MEMORY_TOTAL & 1;
    if (!known) {
        fail(failure, STATUS_DEVICE, "how much memory is free on %s is not known", device);
        fail_help(failure, "give --memory, as in --memory 24G");
        return false;
    }
    const double free_bytes =
        sample.value[LS_READING_MEMORY_TOTAL] - sample.value[LS_READING_MEMORY_USED];
    *bytes = free_bytes > 0 ? (uint64_t)free_bytes : 0;
    return true;
}

/* ---- operations and launches of a CPU ---- */

static const char probe_text[] = "step probe[n](x: f32[n], out y: f32[n]) {\n"
                                 "    y = 0.5 * x * (1 + tanh(0.7978846 * (x + 0.044715 * x ** 3)))"
                                 " * exp(-x * x) / (1 + x * x)\n"
                                 "}\n";

/* The operations of the probe on so many elements, as the model counts them. */
static bool count_operations(int64_t elements, double *operations, Failure *failure) {
    static const ls_memory_rate any = {1, 1, 1};
    ls_compilation *compilation;
    ls_advice advice;
    char size[32];
    const char *word = size;
    snprintf(size, sizeof size, "n=%lld", (long long)elements);
    const ls_advise_options options = {.target = ls_target_at(0)->name,
                                       .sizes = &word,
                                       .size_count = 1,
                                       .plan_only = 1,
                                       .machine = {&any, 1, 1, 1, 1}};
    ls_status status =
        ls_compile_text("probe", probe_text, sizeof probe_text - 1, NULL, &compilation);
    if (status == LS_OK) status = ls_compilation_advise(compilation, 0, &options, &advice);
    const bool good = status == LS_OK && advice.kernel_count == 1;
    if (good)
        *operations = advice.kernels[0].operations;
    else
        fail(failure, STATUS_DEVICE, "operations are not counted: %s",
             ls_compilation_message(compilation));
    ls_compilation_destroy(compilation);
    return good;
}

static bool time_bound(Session *session, int64_t elements, void *data, double *time,
                       Failure *failure) {
    const ls_tensor x = {data, LS_F32, 1, &elements, NULL};
    const ls_tensor y = {(float *)data + elements, LS_F32, 1, &elements, NULL};
    double times[TIMINGS];
    uint64_t launches;
    ls_status status = ls_step_bind(session->step, "x", &x);
    if (status == LS_OK) status = ls_step_bind(session->step, "y", &y);
    if (status == LS_OK) status = ls_step_prepare(session->step);
    if (status != LS_OK) return fail_status(failure, session->context, status);
    const double least = elements > 1 ? PROBE_TIMING : TIMING;
    if (!time_enough(session, least, &launches, failure)) return false;
    for (size_t i = 0; i < TIMINGS; i++)
        if (!time_launches(session, launches, &times[i], failure)) return false;
    *time = median_of(times, TIMINGS);
    return true;
}

/* Of zeros and the like functions take the short way: numbers between -3 and 3, in no order. */
static ls_status fill_probe(ls_context *context, void *data, int64_t elements) {
    const size_t bytes = (size_t)elements * sizeof(float);
    float *numbers = memory(bytes);
    uint32_t state = 1;
    for (int64_t i = 0; i < elements; i++) {
        state = state * 1664525 + 1013904223; /* a linear congruential generator */
        numbers[i] = (float)(6.0 * state / UINT32_MAX - 3);
    }
    ls_status status = ls_copy_in(context, data, numbers, bytes);
    free(numbers);
    return status;
}

static bool time_probe(Session *session, int64_t elements, double *time, Failure *failure) {
    void *data = NULL;
    ls_status status = ls_alloc(session->context, 2 * (size_t)elements * sizeof(float), &data);
    if (status == LS_OK) status = fill_probe(session->context, data, elements);
    const bool good = status == LS_OK ? time_bound(session, elements, data, time, failure)
                                      : fail_status(failure, session->context, status);
    ls_free(session->context, data);
    return good;
}

static bool time_both(Session *session, Measured *measured, Failure *failure) {
    double one = 0, all = 0, operations = 0;
    ls_step_statistics statistics;
    ls_machine *machine = &measured->machine;
    if (!time_probe(session, 1, &one, failure)) return false;
    ls_status status = ls_step_stats(session->step, &statistics);
    if (status != LS_OK) return fail_status(failure, session->context, status);
    const int64_t elements = PROBE * (int64_t)statistics.threads;
    if (!time_probe(session, elements, &all, failure) ||
        !count_operations(elements, &operations, failure))
        return false;
    machine->processors = statistics.threads;
    machine->launch_s = one;
    machine->operations_per_s =
        USUAL_SHARE * operations / (all > 1.01 * one ? all - one : 0.01 * one);
    return true;
}

static bool measure_processor(ls_context *context, Measured *measured, Failure *failure) {
    Session session = {.context = context};
    ls_status status = ls_program_load_text(context, "probe", probe_text, sizeof probe_text - 1,
                                            NULL, &session.program);
    if (status == LS_OK) status = ls_step_create(session.program, "probe", &session.step);
    const bool good = status == LS_OK ? time_both(&session, measured, failure)
                                      : fail_status(failure, context, status);
    if (session.step) ls_step_destroy(session.step);
    if (session.program) ls_program_destroy(session.program);
    return good;
}

bool machine_measure(ls_context *context, double peak, size_t sizes, Measured *measured,
                     Failure *failure) {
    *measured = (Measured){.machine.rates = measured->rates};
    const bool cpu = ls_context_kind(context) == LS_DEVICE_CPU;
    if (cpu && !measure_processor(context, measured, failure)) return false;
    if (peak <= 0)
        return measure_rates(context, measured->machine.processors, sizes, measured, failure);
    measured->rates[0] = (ls_memory_rate){1, peak, peak};
    measured->machine.rate_count = 1;
    return true;
}
