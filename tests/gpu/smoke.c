/* smoke.c: what a trainer asks of the runtime, once each, on a device and then on the CPU, with the
 * bits compared: launches, captured graphs, feeds, streams, memory, the monitor.
 *
 *   gpu_smoke --list                     the names of the checks
 *   gpu_smoke NAME DEVICE [--tiny]       0: right. Prints what was found out on the way.
 *
 * Each check is a process, so that one that ends the device costs no other. */
#include <lockstep/lockstep.h>

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char text[] =
    "step walk[n](inout p: f32[n], inout count: i64 = 0) {\n"
    "    count += 1\n"
    "    p = p * 0.75 + f32(count % 7) / 3\n"
    "}\n"
    "step spread[n](inout p: f32[n], inout total: f32) {\n"
    "    let length = sum(p * p)\n"
    "    total += length\n"
    "    p = p / sqrt(length) + 0.25\n"
    "}\n"
    "step batch[b, n](x: f32[b, n], inout seen: f32[n], inout rows: i64 = 0) {\n"
    "    seen += sum[b](x * x)\n"
    "    rows += size(b)\n"
    "}\n";

enum { RESULT_MAX = 4 << 20 };

/* One run of a check: its device, and the bytes that must be the same on the CPU. */
typedef struct Run {
    const char *device;
    bool tiny, is_cpu;
    ls_context *context;
    ls_program *program;
    uint8_t *result;
    size_t size;
} Run;

#define DO(call)                                        \
    do {                                                \
        if ((call) != LS_OK) return failed(run, #call); \
    } while (0)
#define EXPECT(truth, ...)                                                                      \
    do {                                                                                        \
        if (!(truth))                                                                           \
            return printf("FAILED on %s: ", run->device), printf(__VA_ARGS__), puts(""), false; \
    } while (0)

static bool failed(const Run *run, const char *call) {
    printf("FAILED on %s: %s: %s\n", run->device, call, ls_error_message(run->context));
    return false;
}

static double seconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static bool keep(Run *run, const void *bytes, size_t size) {
    EXPECT(run->size + size <= RESULT_MAX, "too many bytes to compare");
    memcpy(run->result + run->size, bytes, size);
    run->size += size;
    return true;
}

static bool keep_array(Run *run, const void *device, size_t bytes) {
    EXPECT(run->size + bytes <= RESULT_MAX, "too many bytes to compare");
    DO(ls_copy_out(run->context, run->result + run->size, device, bytes));
    run->size += bytes;
    return true;
}

static float value_at(uint64_t i) {
    return (float)((i * 2654435761u >> 8) % 2001) * 1e-3f - 1.0f;
}

/* A step with an array of `n` values bound as p. */
static bool make(Run *run, ls_context *context, ls_program *program, const char *name, int64_t n,
                 ls_step **step, void **memory) {
    float *values = malloc((size_t)n * sizeof *values);
    EXPECT(values, "out of memory");
    for (int64_t i = 0; i < n; i++) values[i] = value_at((uint64_t)i);
    ls_status status = ls_alloc(context, (size_t)n * sizeof *values, memory);
    if (status == LS_OK) status = ls_copy_in(context, *memory, values, (size_t)n * sizeof *values);
    free(values);
    const ls_tensor tensor = {.data = *memory, .type = LS_F32, .rank = 1, .shape = &n};
    if (status == LS_OK) status = ls_step_create(program, name, step);
    if (status == LS_OK) status = ls_step_bind(*step, "p", &tensor);
    if (status == LS_OK && strcmp(name, "spread") == 0)
        status = ls_step_set_number(*step, "total", 0);
    if (status == LS_OK) status = ls_step_prepare(*step);
    EXPECT(status == LS_OK, "%s: %s", name, ls_error_message(context));
    return true;
}

static bool keep_count(Run *run, ls_step *step, int64_t wanted) {
    int64_t count = -1;
    DO(ls_step_get(step, "count", &count));
    EXPECT(count == wanted, "%" PRId64 " launches were counted, not %" PRId64, count, wanted);
    return keep(run, &count, sizeof count);
}

/* ---- the checks ---- */

static bool check_devices(Run *run) {
    ls_device_info devices[16];
    const size_t found = ls_devices(devices, 16), shown = found < 16 ? found : 16;
    void *p = NULL;
    ls_step *step = NULL;
    for (size_t i = 0; i < shown && !run->is_cpu; i++)
        printf("%s: %s\n", devices[i].name, devices[i].description);
    if (!run->is_cpu) printf("opened %s\n", ls_context_describe(run->context));
    if (!make(run, run->context, run->program, "walk", 100003, &step, &p)) return false;
    for (int i = 0; i < 10; i++) DO(ls_step_launch(step));
    ls_step_destroy(step);
    return keep_array(run, p, 100003 * sizeof(float));
}

/* Three launches of two steps as a graph, replayed. */
static bool check_capture(Run *run) {
    enum { N = 50000, REPLAYS = 20 };
    ls_step *walk = NULL, *spread = NULL;
    ls_graph *graph = NULL;
    ls_graph_statistics statistics;
    void *p = NULL, *q = NULL;
    if (!make(run, run->context, run->program, "walk", N, &walk, &p) ||
        !make(run, run->context, run->program, "spread", N, &spread, &q))
        return false;
    DO(ls_graph_begin(run->context));
    DO(ls_step_launch(walk));
    DO(ls_step_launch(spread));
    DO(ls_step_launch(walk));
    DO(ls_graph_end(run->context, &graph));
    for (int i = 0; i < REPLAYS; i++) DO(ls_graph_launch(graph));
    DO(ls_synchronize(run->context));
    DO(ls_graph_stats(graph, &statistics));
    if (!run->is_cpu)
        printf("a graph of %" PRIu64 " launches, %s\n", statistics.launches,
               statistics.native ? "the driver's own" : "launched one by one");
    EXPECT(run->is_cpu || statistics.native, "the driver's graphs were not used");
    ls_graph_destroy(graph);
    return keep_count(run, walk, 2 * REPLAYS) && keep_array(run, p, N * sizeof(float)) &&
           keep_array(run, q, N * sizeof(float));
}

/* The arrays of a graph are changed between replays, without recording it again. */
static bool check_update(Run *run) {
    enum { N = 30000, TIMES = 6 };
    ls_step *walk = NULL, *unused = NULL;
    ls_graph *graph = NULL;
    ls_graph_statistics statistics;
    void *memory[2] = {NULL, NULL};
    const int64_t n = N;
    if (!make(run, run->context, run->program, "walk", N, &walk, &memory[0]) ||
        !make(run, run->context, run->program, "walk", N, &unused, &memory[1]))
        return false;
    DO(ls_graph_begin(run->context));
    DO(ls_step_launch(walk));
    DO(ls_graph_end(run->context, &graph));
    for (int i = 0; i < TIMES; i++) {
        const ls_tensor tensor = {.data = memory[i % 2], .type = LS_F32, .rank = 1, .shape = &n};
        DO(ls_step_bind(walk, "p", &tensor));
        DO(ls_graph_update(graph));
        DO(ls_graph_repeat(graph, (uint64_t)i + 1));
    }
    DO(ls_synchronize(run->context));
    DO(ls_graph_stats(graph, &statistics));
    if (!run->is_cpu)
        printf("%" PRIu64 " updates, %" PRIu64 " launches changed, instantiated again %" PRIu64
               " times\n",
               statistics.updates, statistics.updated, statistics.reinstantiations);
    EXPECT(statistics.updated >= TIMES - 1, "only %" PRIu64 " launches were changed",
           statistics.updated);
    ls_graph_destroy(graph);
    return keep_count(run, walk, TIMES * (TIMES + 1) / 2) &&
           keep_array(run, memory[0], N * sizeof(float)) &&
           keep_array(run, memory[1], N * sizeof(float));
}

/* A graph of one step, `times` times with one call: on CUDA a while loop on the device. */
static bool repeat(Run *run, const char *name, int64_t n, uint64_t times) {
    ls_step *step = NULL;
    ls_graph *graph = NULL;
    ls_graph_statistics statistics;
    ls_step_statistics of_step;
    void *p = NULL;
    if (!make(run, run->context, run->program, name, n, &step, &p)) return false;
    DO(ls_graph_begin(run->context));
    DO(ls_step_launch(step));
    DO(ls_graph_end(run->context, &graph));
    DO(ls_graph_repeat(graph, 100)); /* the loop is made here */
    DO(ls_synchronize(run->context));
    const double start = seconds();
    DO(ls_graph_repeat(graph, times - 100));
    DO(ls_synchronize(run->context));
    const double took = seconds() - start;
    DO(ls_graph_stats(graph, &statistics));
    DO(ls_step_stats(step, &of_step));
    if (!run->is_cpu)
        printf("%" PRIu64 " times in %.3f s, %.3f us each: %s; '%s', kernels %u, blocks %" PRIu64
               "\n",
               times, took, 1e6 * took / (double)(times - 100),
               statistics.loops ? "a loop on the device" : "replayed by the host", of_step.variant,
               of_step.launches, of_step.parts);
    EXPECT(strcmp(run->device, "cuda") != 0 || statistics.loops, "it was no loop on the device");
    ls_graph_destroy(graph);
    if (strcmp(name, "walk") == 0 && !keep_count(run, step, (int64_t)times)) return false;
    return keep_array(run, p, (size_t)n * sizeof(float));
}

static bool check_repeat(Run *run) {
    return repeat(run, "walk", 1000, run->tiny ? 1000 : 1000000);
}

/* The sum is wanted by all blocks before they go on. */
static bool check_cooperative(Run *run) {
    return repeat(run, "spread", run->tiny ? 100000 : 300000, run->tiny ? 110 : 5000);
}

/* Batches from the host, the last one short, copied while the device computes. */
static bool check_feed(Run *run) {
    enum { ROWS = 256, COLUMNS = 96 };
    const int batches = run->tiny ? 8 : 200;
    const int64_t shape[2] = {ROWS, COLUMNS}, columns = COLUMNS;
    const ls_feed_array array = {"x", LS_F32, 2, shape};
    ls_feed_statistics statistics;
    ls_feed *feed = NULL;
    ls_step *step = NULL;
    void *seen = NULL;
    int64_t rows = 0;
    DO(ls_alloc(run->context, COLUMNS * sizeof(float), &seen));
    DO(ls_fill_zero(run->context, seen, COLUMNS * sizeof(float)));
    const ls_tensor tensor = {.data = seen, .type = LS_F32, .rank = 1, .shape = &columns};
    DO(ls_step_create(run->program, "batch", &step));
    DO(ls_step_bind(step, "seen", &tensor));
    DO(ls_feed_create(run->context, &array, 1, 3, 0, &feed));
    DO(ls_feed_bind(feed, step));
    for (int i = 0; i < batches + 1; i++) { /* the copies are one batch ahead */
        if (i < batches) {
            void *host[1];
            const int64_t samples = i == batches - 1 ? 100 : ROWS;
            DO(ls_feed_acquire(feed, host));
            float *x = host[0];
            for (int64_t k = 0; k < samples * COLUMNS; k++)
                x[k] = value_at((uint64_t)i * ROWS * COLUMNS + (uint64_t)k);
            DO(ls_feed_submit(feed, samples));
        }
        if (i < 1) continue;
        DO(ls_feed_next(feed));
        DO(ls_step_launch(step));
    }
    DO(ls_synchronize(run->context));
    ls_feed_stats(feed, &statistics);
    if (!run->is_cpu)
        printf("%" PRIu64 " batches, %s memory, waited for %" PRIu64 " copies, %.3f ms\n",
               statistics.batches, statistics.pinned ? "page-locked" : "ordinary", statistics.waits,
               statistics.waited_ms);
    DO(ls_step_get(step, "rows", &rows));
    EXPECT(rows == (int64_t)(batches - 1) * ROWS + 100, "%" PRId64 " rows were seen", rows);
    const bool kept = keep_array(run, seen, COLUMNS * sizeof(float));
    ls_feed_destroy(feed);
    ls_step_destroy(step);
    return kept;
}

/* Two contexts whose streams work at the same time; then one goes over to the other's stream. */
static bool check_streams(Run *run) {
    enum { N = 200000, LAUNCHES = 50 };
    ls_context *other = NULL;
    ls_program *program = NULL;
    ls_step *steps[2] = {NULL, NULL};
    void *memory[2] = {NULL, NULL};
    DO(ls_context_create(run->device, NULL, &other));
    EXPECT(run->is_cpu || ls_context_stream(other) != ls_context_stream(run->context),
           "two contexts have one stream");
    EXPECT(ls_program_load_text(other, "smoke", text, sizeof text - 1, NULL, &program) == LS_OK,
           "%s", ls_error_message(other));
    if (!make(run, run->context, run->program, "walk", N, &steps[0], &memory[0]) ||
        !make(run, other, program, "walk", N, &steps[1], &memory[1]))
        return false;
    for (int i = 0; i < LAUNCHES; i++) {
        DO(ls_step_launch(steps[0]));
        EXPECT(ls_step_launch(steps[1]) == LS_OK, "%s", ls_error_message(other));
    }
    DO(ls_synchronize(run->context));
    EXPECT(ls_synchronize(other) == LS_OK, "%s", ls_error_message(other));
    DO(ls_context_use_stream(run->context, ls_context_stream(other)));
    for (int i = 0; i < LAUNCHES; i++) DO(ls_step_launch(steps[0]));
    DO(ls_synchronize(run->context));
    DO(ls_context_use_stream(run->context, NULL));
    for (int i = 0; i < LAUNCHES; i++) DO(ls_step_launch(steps[0]));
    if (!keep_count(run, steps[0], 3 * LAUNCHES) || !keep_count(run, steps[1], LAUNCHES) ||
        !keep_array(run, memory[0], N * sizeof(float)))
        return false;
    EXPECT(run->size + N * sizeof(float) <= RESULT_MAX, "too many bytes to compare");
    EXPECT(ls_copy_out(other, run->result + run->size, memory[1], N * sizeof(float)) == LS_OK, "%s",
           ls_error_message(other));
    run->size += N * sizeof(float);
    ls_step_destroy(steps[1]);
    ls_program_destroy(program);
    ls_context_destroy(other);
    return true;
}

/* The reserve hands out what was freed, adds up, and outlives a request that cannot be met. */
static bool check_memory(Run *run) {
    enum { PIECES = 64 };
    void *pieces[PIECES] = {NULL}, *none = NULL;
    ls_memory_statistics statistics;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < PIECES; i++) DO(ls_alloc(run->context, (i + 1) * 40000, &pieces[i]));
        for (size_t i = 0; i < PIECES; i++) ls_free(run->context, pieces[(i * 37) % PIECES]);
    }
    ls_memory_stats(run->context, &statistics);
    EXPECT(statistics.reserved == statistics.in_use + statistics.rounding + statistics.free_bytes,
           "the statistics do not add up");
    if (!run->is_cpu)
        printf("%" PRIu64 " allocations, the device was asked %" PRIu64 " times\n",
               statistics.served, statistics.driver_calls);
    DO(ls_memory_limit(run->context, statistics.reserved + (1 << 20)));
    EXPECT(ls_alloc(run->context, (size_t)1 << 40, &none) == LS_ERROR_MEMORY && !none,
           "a terabyte was given, or refused for another reason");
    DO(ls_memory_limit(run->context, 0));
    DO(ls_memory_trim(run->context, 0));
    DO(ls_alloc(run->context, 1000, &pieces[0]));
    DO(ls_fill_zero(run->context, pieces[0], 1000));
    return keep_array(run, pieces[0], 1000);
}

static bool check_monitor(Run *run) {
    ls_monitor *monitor = NULL;
    ls_sample sample;
    EXPECT(ls_monitor_create(run->device, &monitor) == LS_OK, "%s", ls_error_message(NULL));
    EXPECT(ls_monitor_sample(monitor, &sample) == LS_OK, "%s", ls_error_message(NULL));
    for (int r = 0; r < LS_READING_COUNT && !run->is_cpu; r++)
        if (sample.known >> r & 1)
            printf("%s %.0f %s\n", ls_reading_name((ls_reading)r), sample.value[r],
                   ls_reading_unit((ls_reading)r));
    EXPECT(sample.known >> LS_READING_MEMORY_USED & 1, "the memory in use is not known");
    EXPECT(run->is_cpu || (sample.known >> LS_READING_CLOCK & 1), "the clock is not known");
    ls_monitor_destroy(monitor);
    return true;
}

static const struct {
    const char *name;
    bool (*run)(Run *run);
} checks[] = {
    {"devices", check_devices}, {"capture", check_capture},         {"update", check_update},
    {"repeat", check_repeat},   {"cooperative", check_cooperative}, {"feed", check_feed},
    {"streams", check_streams}, {"memory", check_memory},           {"monitor", check_monitor}};
enum { CHECKS = sizeof checks / sizeof checks[0] };

static bool run_on(Run *run, size_t check) {
    if (ls_context_create(run->device, NULL, &run->context) != LS_OK) {
        printf("FAILED: %s cannot be opened: %s\n", run->device, ls_error_message(NULL));
        return false;
    }
    run->result = malloc(RESULT_MAX);
    EXPECT(run->result, "out of memory");
    DO(ls_program_load_text(run->context, "smoke", text, sizeof text - 1, NULL, &run->program));
    return checks[check].run(run);
}

int main(int count, char **words) {
    const bool tiny = count == 4 && strcmp(words[3], "--tiny") == 0;
    size_t check = 0;
    if (count == 2 && strcmp(words[1], "--list") == 0) {
        for (size_t i = 0; i < CHECKS; i++) puts(checks[i].name);
        return 0;
    }
    while (count >= 3 && check < CHECKS && strcmp(words[1], checks[check].name) != 0) check++;
    if (count < 3 || check == CHECKS || count > 3 + tiny) {
        fputs("usage: gpu_smoke --list | NAME DEVICE [--tiny]\n", stderr);
        return 2;
    }
    Run on_device = {.device = words[2], .tiny = tiny, .is_cpu = strcmp(words[2], "cpu") == 0};
    Run on_cpu = {.device = "cpu", .tiny = tiny, .is_cpu = true};
    if (!run_on(&on_device, check) || !run_on(&on_cpu, check)) return 1;
    size_t at = 0;
    while (at < on_device.size && on_device.result[at] == on_cpu.result[at]) at++;
    if (on_device.size != on_cpu.size || at < on_cpu.size) {
        printf("FAILED: %s and the CPU differ from byte %zu of %zu on\n", words[2], at,
               on_cpu.size);
        return 1;
    }
    printf("ok: %zu bytes as on the CPU\n", on_cpu.size);
    return 0; /* what is left goes with the process */
}
