/* traffic.c: the traffic-only kernel as a .step program, for every device.
 *
 * One map per length reads every array that the step reads and writes every one that it writes. A
 * rank-0 `zero`, unknown to the compiler, makes the written bits those that were there. On the CPU
 * plain C threads are tried as well, and whichever is faster is the limit. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>

struct Traffic {
    ls_context *context;
    ls_program *program; /* NULL: the host's threads are in use */
    ls_step *step;
    HostTraffic *host;
};

/* How an element of each size is updated or written; @ is the array, $ its group's sum. An update
 * is by exclusive or: a compiler sees that a | (a & zero) is a, and moves nothing. */
static const struct {
    size_t size;
    ls_type type;
    const char *update, *write;
} elements[] = {
    {1, LS_U8, "a@ = u8(bit_xor(a@, i32(bit_and(s$, zero))))", "a@ = u8(i32(bit_and(s$, zero)))"},
    {2, LS_U16, "a@ = u16(bit_xor(a@, i32(bit_and(s$, zero))))",
     "a@ = u16(i32(bit_and(s$, zero)))"},
    {4, LS_U32, "a@ = bit_xor(a@, bit_and(s$, zero))", "a@ = bit_and(s$, zero)"},
    {8, LS_U64, "a@ = bit_xor(a@, u64(bit_and(s$, zero)))", "a@ = u64(bit_and(s$, zero))"},
};

static size_t element_row(const TrafficArray *array) {
    size_t row = 0;
    while (elements[row].size != array->element_size) row++;
    return row;
}

/* The group of an array is the first array with as many elements. */
static size_t group_of(const TrafficArray *arrays, size_t index) {
    for (size_t i = 0; i < index; i++)
        if (arrays[i].bytes / arrays[i].element_size ==
            arrays[index].bytes / arrays[index].element_size)
            return i;
    return index;
}

static void write_group(const TrafficArray *arrays, size_t count, size_t group, Buffer *text) {
    bool written = false, first = true;
    buffer_printf(text, "    let s%zu = ", group);
    for (size_t i = group; i < count; i++) {
        if (group_of(arrays, i) != group || !arrays[i].read) continue;
        buffer_printf(text, first ? "u32(a%zu)" : " + u32(a%zu)", i);
        first = false;
    }
    buffer_puts(text, first ? "zero\n" : "\n");
    for (size_t i = group; i < count; i++) {
        if (group_of(arrays, i) != group || !arrays[i].written) continue;
        size_t row = element_row(&arrays[i]);
        buffer_puts(text, "    ");
        for (const char *at = arrays[i].read ? elements[row].update : elements[row].write; *at;
             at++)
            if (*at == '@' || *at == '$')
                buffer_printf(text, "%zu", *at == '@' ? i : group);
            else
                buffer_add(text, at, 1);
        buffer_puts(text, "\n");
        written = true;
    }
    if (!written) buffer_printf(text, "    r%zu = max(s%zu)\n", group, group);
}

static bool group_written(const TrafficArray *arrays, size_t count, size_t group) {
    for (size_t i = group; i < count; i++)
        if (group_of(arrays, i) == group && arrays[i].written) return true;
    return false;
}

static void write_program(const TrafficArray *arrays, size_t count, Buffer *text) {
    buffer_puts(text, "step traffic[");
    for (size_t i = 0, axes = 0; i < count; i++)
        if (group_of(arrays, i) == i) buffer_printf(text, axes++ ? ", n%zu" : "n%zu", i);
    buffer_puts(text, "](\n    zero: u32 = 0,\n");
    for (size_t i = 0; i < count; i++) {
        size_t group = group_of(arrays, i);
        buffer_printf(text, "    %sa%zu: %s[n%zu],\n",
                      !arrays[i].written ? ""
                      : arrays[i].read   ? "inout "
                                         : "out ",
                      i, type_names[elements[element_row(&arrays[i])].type].name, group);
        if (group == i && !group_written(arrays, count, i))
            buffer_printf(text, "    out r%zu: u32,\n", i);
    }
    buffer_puts(text, ") {\n");
    for (size_t i = 0; i < count; i++)
        if (group_of(arrays, i) == i) write_group(arrays, count, i, text);
    buffer_puts(text, "}\n");
}

static ls_status bind(Traffic *traffic, const TrafficArray *arrays, size_t count) {
    ls_status status = LS_OK;
    for (size_t i = 0; i < count && status == LS_OK; i++) {
        char name[40];
        int64_t length = (int64_t)(arrays[i].bytes / arrays[i].element_size);
        ls_tensor tensor = {arrays[i].data, elements[element_row(&arrays[i])].type, 1, &length,
                            NULL};
        snprintf(name, sizeof name, "a%zu", i);
        status = ls_step_bind(traffic->step, name, &tensor);
        if (status != LS_OK || group_of(arrays, i) != i || group_written(arrays, count, i))
            continue;
        snprintf(name, sizeof name, "r%zu", i);
        status = ls_step_want(traffic->step, name);
    }
    return status;
}

static bool open_program(Traffic *traffic, const TrafficArray *arrays, size_t count,
                         Failure *failure) {
    Buffer text = {0};
    write_program(arrays, count, &text);
    ls_status status = ls_program_load_text(traffic->context, "traffic", text.data, text.size, NULL,
                                            &traffic->program);
    if (status == LS_OK) status = ls_step_create(traffic->program, "traffic", &traffic->step);
    if (status == LS_OK) status = bind(traffic, arrays, count);
    if (status == LS_OK) status = ls_step_prepare(traffic->step);
    buffer_free(&text);
    return status == LS_OK || fail_status(failure, traffic->context, status);
}

static void close_program(Traffic *traffic) {
    if (traffic->step) ls_step_destroy(traffic->step);
    if (traffic->program) ls_program_destroy(traffic->program);
    traffic->step = NULL;
    traffic->program = NULL;
}

static bool time_program(Traffic *traffic, uint64_t times, double *time, Failure *failure) {
    ls_status status = LS_OK;
    double began = seconds();
    for (uint64_t i = 0; i < times && status == LS_OK; i++) status = ls_step_launch(traffic->step);
    if (status == LS_OK) status = ls_synchronize(traffic->context);
    *time = (seconds() - began) / (double)times;
    return status == LS_OK || fail_status(failure, traffic->context, status);
}

static double time_host(Traffic *traffic, uint64_t times) {
    double began = seconds();
    host_traffic_run(traffic->host, times);
    return (seconds() - began) / (double)times;
}

/* The faster of the two on the CPU, each at its best of a few runs after one to warm up. */
static bool choose(Traffic *traffic, Failure *failure) {
    enum { TRIES = 5 };
    double program = 0, host = 0;
    for (int i = 0; i < TRIES; i++) {
        double time;
        if (!time_program(traffic, 1, &time, failure)) return false;
        if (i == 1 || time < program) program = time;
        time = time_host(traffic, 1);
        if (i == 1 || time < host) host = time;
    }
    if (host > program) {
        host_traffic_close(traffic->host);
        traffic->host = NULL;
    } else {
        close_program(traffic);
    }
    return true;
}

bool traffic_open(ls_context *context, const TrafficArray *arrays, size_t count, uint32_t threads,
                  Traffic **result, Failure *failure) {
    Traffic *traffic = memory(sizeof *traffic);
    traffic->context = context;
    bool good = open_program(traffic, arrays, count, failure);
    if (good && ls_context_kind(context) == LS_DEVICE_CPU) {
        traffic->host = host_traffic_open(arrays, count, threads);
        if (traffic->host) good = choose(traffic, failure);
    }
    if (good) {
        *result = traffic;
        return true;
    }
    traffic_close(traffic);
    return false;
}

bool traffic_time(Traffic *traffic, uint64_t times, double *time, Failure *failure) {
    if (traffic->program) return time_program(traffic, times, time, failure);
    *time = time_host(traffic, times);
    return true;
}

void traffic_close(Traffic *traffic) {
    if (!traffic) return;
    host_traffic_close(traffic->host);
    close_program(traffic);
    free(traffic);
}
