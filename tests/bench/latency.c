/* latency.c: how long a user waits, in milliseconds, as one JSON object on stdout.
 *   latency first FILE STEP LENGTHS [DEVICE]  a fresh process: context, file, bind, first launch
 *   latency compile FILE TARGET REPEATS       the toolchain alone, kernel after kernel, no cache
 *   latency steps FILE STEP LENGTHS COUNT [DEVICE]   steps a second once all is warm: COUNT
 * launches, COUNT replays, COUNT replays with one call; LENGTHS as b=256,k=64
 */
#include <lockstep/lockstep.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double milliseconds(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return 1e3 * (double)now.tv_sec + 1e-6 * (double)now.tv_nsec;
}

static int fail(const char *message) {
    fprintf(stderr, "latency: %s\n", message);
    return 3;
}

static size_t element_size(ls_type type) {
    static const size_t sizes[LS_TYPE_COUNT] = {
        [LS_F64] = 8,  [LS_F32] = 4,  [LS_I64] = 8, [LS_I32] = 4,  [LS_U64] = 8,
        [LS_U32] = 4,  [LS_BOOL] = 1, [LS_F16] = 2, [LS_BF16] = 2, [LS_E4M3] = 1,
        [LS_E5M2] = 1, [LS_I16] = 2,  [LS_I8] = 1,  [LS_U16] = 2,  [LS_U8] = 1};
    return sizes[type];
}

/* The length of an axis in "b=256,k=64"; a number alone is that of every axis. */
static int64_t length_of(const char *lengths, const char *axis) {
    const size_t size = strlen(axis);
    for (const char *at = lengths; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
        if (strncmp(at, axis, size) == 0 && at[size] == '=')
            return strtoll(at + size + 1, NULL, 10);
    return strtoll(lengths, NULL, 10);
}

/* Every cell without a default is 1, every array zeros. */
static ls_status bind_all(ls_context *context, ls_step *step, const char *lengths) {
    const ls_image *image = ls_step_image(step);
    ls_status status = LS_OK;
    for (uint32_t i = 0; i < image->parameter_count && status == LS_OK; i++) {
        const ls_image_parameter *parameter = &image->parameters[i];
        int64_t shape[LS_RANK_MAX];
        size_t bytes = element_size(parameter->type);
        for (uint32_t a = 0; a < parameter->rank; a++) {
            shape[a] = length_of(lengths, image->axes[parameter->axes[a]].name);
            bytes *= (size_t)shape[a];
        }
        if (parameter->rank == 0) {
            if (!parameter->has_default && parameter->role != LS_OUT)
                status = ls_step_set_number(step, parameter->name, 1);
            continue;
        }
        ls_tensor tensor = {.type = parameter->type, .rank = parameter->rank, .shape = shape};
        status = ls_alloc(context, bytes, &tensor.data);
        if (status == LS_OK) status = ls_fill_zero(context, tensor.data, bytes);
        if (status == LS_OK) status = ls_step_bind(step, parameter->name, &tensor);
    }
    return status;
}

static int first_launch(const char *file, const char *name, const char *lengths,
                        const char *device) {
    const double start = milliseconds();
    ls_context *context = NULL;
    ls_program *program = NULL;
    ls_step *step = NULL;
    if (ls_context_create(device, NULL, &context) != LS_OK) return fail(ls_error_message(NULL));
    const double opened = milliseconds();
    if (ls_program_load(context, file, NULL, &program) != LS_OK ||
        ls_step_create(program, name, &step) != LS_OK || bind_all(context, step, lengths) != LS_OK)
        return fail(ls_error_message(context));
    const double bound = milliseconds();
    if (ls_step_launch(step) != LS_OK || ls_synchronize(context) != LS_OK)
        return fail(ls_error_message(context));
    const double launched = milliseconds();
    ls_step_statistics statistics;
    if (ls_step_stats(step, &statistics) != LS_OK) return fail(ls_error_message(context));
    printf("{\"open_ms\": %.3f, \"load_ms\": %.3f, \"first_launch_ms\": %.3f, \"total_ms\": %.3f, "
           "\"compile_ms\": %.3f, \"cache\": \"%s\"}\n",
           opened - start, bound - opened, launched - bound, launched - start,
           statistics.compile_ms, statistics.from_cache ? "hit" : "miss");
    return 0;
}

typedef struct Loop {
    ls_context *context;
    ls_step *step;
    ls_graph *graph;
    uint64_t count;
} Loop;

static ls_status launch_each(const Loop *loop) {
    ls_status status = LS_OK;
    for (uint64_t i = 0; i < loop->count && status == LS_OK; i++)
        status = ls_step_launch(loop->step);
    return status;
}

static ls_status replay_each(const Loop *loop) {
    ls_status status = LS_OK;
    for (uint64_t i = 0; i < loop->count && status == LS_OK; i++)
        status = ls_graph_launch(loop->graph);
    return status;
}

static ls_status repeat_all(const Loop *loop) {
    return ls_graph_repeat(loop->graph, loop->count);
}

static int steps_a_second(const char *file, const char *name, const char *lengths, uint64_t count,
                          const char *device) {
    static const struct {
        const char *name;
        ls_status (*run)(const Loop *loop);
    } groupings[] = {{"launches", launch_each}, {"replays", replay_each}, {"repeat", repeat_all}};
    Loop loop = {.count = count};
    ls_program *program = NULL;
    if (ls_context_create(device, NULL, &loop.context) != LS_OK)
        return fail(ls_error_message(NULL));
    if (ls_program_load(loop.context, file, NULL, &program) != LS_OK ||
        ls_step_create(program, name, &loop.step) != LS_OK ||
        bind_all(loop.context, loop.step, lengths) != LS_OK ||
        ls_step_prepare(loop.step) != LS_OK || ls_graph_begin(loop.context) != LS_OK ||
        ls_step_launch(loop.step) != LS_OK || ls_graph_end(loop.context, &loop.graph) != LS_OK)
        return fail(ls_error_message(loop.context));
    for (size_t way = 0; way < sizeof groupings / sizeof *groupings; way++) {
        double best = 0;
        for (int round = 0; round < 5; round++) {
            const double start = milliseconds();
            if (groupings[way].run(&loop) != LS_OK || ls_synchronize(loop.context) != LS_OK)
                return fail(ls_error_message(loop.context));
            const double rate = (double)count / (milliseconds() - start) * 1e3;
            if (rate > best) best = rate;
        }
        printf("%s\"%s\": %.1f", way ? ", " : "{", groupings[way].name, best);
    }
    puts("}");
    return 0;
}

static int compile_times(const char *file, const char *target, int repeats) {
    const ls_compile_options options = {.no_cache = 1};
    printf("{\"target\": \"%s\", \"kernels\": [", target);
    for (int round = 0; round < repeats; round++) {
        ls_compilation *compilation = NULL;
        const ls_image *image = NULL;
        if (ls_compile_file(file, &options, &compilation) != LS_OK ||
            ls_compilation_image(compilation, 0, target, &image) != LS_OK)
            return fail(compilation ? ls_compilation_message(compilation) : "out of memory");
        for (size_t v = 0; v < image->variant_count; v++) {
            const void *code;
            size_t size;
            const double start = milliseconds();
            if (ls_compilation_code(compilation, image, v, &code, &size, NULL) != LS_OK)
                return fail(ls_compilation_message(compilation));
            printf("%s{\"round\": %d, \"plan\": \"%s\", \"ms\": %.3f, \"bytes\": %zu}",
                   round || v ? ", " : "", round, image->variants[v].name, milliseconds() - start,
                   size);
        }
        ls_compilation_destroy(compilation);
    }
    printf("]}\n");
    return 0;
}

int main(int count, char **arguments) {
    if (count >= 5 && strcmp(arguments[1], "first") == 0)
        return first_launch(arguments[2], arguments[3], arguments[4],
                            count > 5 ? arguments[5] : "cpu");
    if (count >= 6 && strcmp(arguments[1], "steps") == 0)
        return steps_a_second(arguments[2], arguments[3], arguments[4],
                              strtoull(arguments[5], NULL, 10), count > 6 ? arguments[6] : "cpu");
    if (count == 5 && strcmp(arguments[1], "compile") == 0)
        return compile_times(arguments[2], arguments[3], atoi(arguments[4]));
    fprintf(stderr,
            "usage: latency first FILE STEP LENGTHS [DEVICE] | compile FILE TARGET REPEATS |\n"
            "       steps FILE STEP LENGTHS COUNT [DEVICE]\n");
    return 2;
}
