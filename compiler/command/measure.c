/* measure.c: what `bench` and `tune` share: a step on random data, and timing its launches. */
#include "files.h"
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Numbers from 0 to 1, small integers, flags: nothing that makes arithmetic slow. */
static void random_elements(ls_type type, void *data, size_t count) {
    static const bool floats[LS_TYPE_COUNT] = {
        [LS_F64] = true,  [LS_F32] = true,  [LS_F16] = true,
        [LS_BF16] = true, [LS_E4M3] = true, [LS_E5M2] = true};
    Value value;
    Array array;
    Failure failure = {0};
    char text[60];
    size_t size = type_names[type].size;
    if (floats[type]) {
        snprintf(text, sizeof text, "uniform(%zu; 1)", count);
        bool good = value_parse(text, &value, &failure) &&
                    value_load(&value, "", type, 1, NULL, &array, &failure);
        if (good) memcpy(data, array.data, count * size);
        if (good) array_free(&array);
        value_free(&value);
        return;
    }
    uint64_t state = 1;
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_next(&state) >> 57;
        if (type == LS_BOOL) bits &= 1;
        memcpy((char *)data + i * size, &bits, size);
    }
}

/* A block of random elements, repeated: memory does not know. */
static bool fill(const Session *session, const Binding *binding, Failure *failure) {
    enum { BLOCK = 1 << 20 };
    ls_context *context = session->context;
    size_t size = type_names[binding->parameter->type].size;
    size_t count = binding->held / size < BLOCK ? binding->held / size : BLOCK;
    void *block = memory(count * size);
    random_elements(binding->parameter->type, block, count);
    ls_status status = LS_OK;
    for (size_t done = 0; done < binding->held && status == LS_OK;) {
        size_t piece = binding->held - done < count * size ? binding->held - done : count * size;
        status = ls_copy_in(context, (char *)binding->device + done, block, piece);
        done += piece;
    }
    free(block);
    return status == LS_OK || fail_status(failure, context, status);
}

/* A rank-0 parameter without a value: 1, or false. */
static bool set_device_scalar(const Session *session, const Binding *binding, Failure *failure) {
    const ls_image_parameter *parameter = binding->parameter;
    unsigned char element[8];
    char reason[100];
    number_parse(parameter->type == LS_BOOL ? "false" : "1", parameter->type, element, reason,
                 sizeof reason);
    ls_status status = ls_step_set(session->step, parameter->name, element);
    return status == LS_OK || fail_status(failure, session->context, status);
}

static bool check_sizes(const Bindings *bindings, Failure *failure) {
    const ls_image *image = bindings->session->image;
    Buffer missing = {0}, example = {0};
    for (size_t i = 0; i < image->axis_count; i++) {
        if (sizes_known(&bindings->sizes, i)) continue;
        if (image->axes[i].whole || image->axes[i].terms) continue; /* follows from another */
        buffer_printf(&missing, "%s%s", missing.size ? ", " : "", image->axes[i].name);
        buffer_printf(&example, "%s%s=%s", example.size ? "," : "", image->axes[i].name,
                      example.size ? "1K" : "1M");
    }
    bool good = missing.size == 0;
    if (!good) {
        fail(failure, STATUS_USAGE, "step '%s' needs the length of axis %s", image->step,
             missing.data);
        fail_help(failure, "--size %s", example.data);
    }
    buffer_free(&missing);
    buffer_free(&example);
    return good;
}

bool bind_random(Bindings *bindings, uint64_t *bytes, Failure *failure) {
    const Session *session = bindings->session;
    const ls_image *image = session->image;
    *bytes = 0;
    if (!bindings_load(bindings, failure) || !check_sizes(bindings, failure)) return false;
    for (size_t i = 0; i < image->parameter_count; i++) {
        Binding *binding = &bindings->items[i];
        const ls_image_parameter *parameter = binding->parameter;
        if (!bindings_allocate(bindings, i, failure)) return false;
        bool array = parameter->rank > 0;
        bool given = binding->text || parameter->has_default || parameter->role == LS_OUT;
        if (array) *bytes += binding->bytes * (parameter->role == LS_INOUT ? 2 : 1);
        if (!array && !given && !set_device_scalar(session, binding, failure)) return false;
        if (array && !binding->text && binding->bytes && !fill(session, binding, failure))
            return false;
    }
    ls_status status = ls_step_prepare(session->step);
    return status == LS_OK || fail_status(failure, session->context, status);
}

bool time_launches(const Session *session, uint64_t times, double *time, Failure *failure) {
    ls_status status = LS_OK;
    double began = seconds();
    for (uint64_t i = 0; i < times && status == LS_OK; i++) status = ls_step_launch(session->step);
    if (status == LS_OK) status = ls_synchronize(session->context);
    *time = (seconds() - began) / (double)times;
    return status == LS_OK || fail_status(failure, session->context, status);
}

bool time_enough(const Session *session, double enough, uint64_t *launches, Failure *failure) {
    double time;
    uint64_t times = 1;
    for (;;) {
        if (!time_launches(session, times, &time, failure)) return false;
        if (time * (double)times > enough || times >= (uint64_t)1 << 24) break;
        times *= 2;
    }
    *launches = times;
    return true;
}

double others_seconds(void) {
    unsigned long long user, nice, system, idle, wait, interrupt, soft, steal;
    struct rusage own;
    FILE *file = fopen("/proc/stat", "r");
    if (!file) return -1;
    int fields = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
                        &idle, &wait, &interrupt, &soft, &steal);
    fclose(file);
    if (fields != 8 || user + system == 0 || getrusage(RUSAGE_SELF, &own) != 0) return -1;
    double busy = (double)(user + nice + system + steal) / (double)sysconf(_SC_CLK_TCK);
    return busy - (double)(own.ru_utime.tv_sec + own.ru_stime.tv_sec) -
           1e-6 * (double)(own.ru_utime.tv_usec + own.ru_stime.tv_usec);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double median_of(double *values, size_t count) {
    qsort(values, count, sizeof *values, by_value);
    return count % 2 ? values[count / 2] : (values[count / 2 - 1] + values[count / 2]) / 2;
}

/* One number, or one per tensor where they differ. */
static void write_size(const Sizes *sizes, size_t axis, JsonWriter *json) {
    const char *name = sizes->image->axes[axis].name;
    size_t count = sizes_tensors(sizes, axis), differing = 0;
    for (size_t i = 1; i < count; i++)
        differing += sizes_at(sizes, axis, i) != sizes_at(sizes, axis, 0);
    if (!differing) {
        json_integer(json, name, count ? sizes_at(sizes, axis, 0) : 0);
        return;
    }
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) json_integer(json, NULL, sizes_at(sizes, axis, i));
    json_close(json, ']');
}

void sizes_json(const Sizes *sizes, JsonWriter *json) {
    json_open(json, "sizes", '{');
    for (size_t i = 0; i < sizes->image->axis_count; i++) write_size(sizes, i, json);
    json_close(json, '}');
}

void sizes_text(const Sizes *sizes, const char *separator, Buffer *out) {
    for (size_t i = 0; i < sizes->image->axis_count; i++) {
        buffer_printf(out, "%s%s=", separator, sizes->image->axes[i].name);
        sizes_describe(sizes, i, out);
    }
}
