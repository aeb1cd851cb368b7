/* dataset.c: arrays of samples, on the device where they fit.
 *
 * Loading goes through two pieces of page-locked memory: while the device takes one the host fills
 * the other. What the device can read where it lies is not copied. */
#include "runtime.h"
#include "file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_DEFAULT = 8 << 20, DENSE_ALIGNMENT = 16 };

static ls_status null_argument(ls_context *context, const char *call, const char *what) {
    return error_set(context ? &context->error : NULL, LS_ERROR_ARGUMENT, "%s: %s is NULL", call,
                     what);
}

/* ---- life ---- */

static void close_files(DataArray *array) {
    ls_file_close(array->file);
    free(array->decoded);
}

void ls_dataset_destroy(ls_dataset *dataset) {
    if (!dataset) return;
    for (size_t i = 0; dataset->arrays && i < dataset->count; i++) {
        DataArray *array = &dataset->arrays[i];
        if (array->owned) memory_free(dataset->context, array->device);
        for (size_t k = 0; k < array->part_count; k++) close_files(&array->parts[k]);
        close_files(array);
        free(array->parts);
        free(array->name);
    }
    free(dataset->arrays);
    free(dataset);
}

static bool is_contiguous(const ls_tensor *tensor) {
    Layout layout = {.element = ls_type_size(tensor->type),
                     .rank = tensor->rank,
                     .shape = tensor->shape,
                     .strides = tensor->strides};
    return !tensor->strides || layout_is_contiguous(&layout);
}

static ls_status map_array(ls_dataset *dataset, DataArray *array, const char *path,
                           ls_tensor *tensor) {
    if (dataset_has_parts(path)) return dataset_map_parts(dataset, array, path, tensor);
    const char *name;
    char *file = dataset_path(path, &name);
    if (!file) return error_memory(&dataset->context->error, "ls_dataset_create");
    ls_status status = dataset_map(dataset, array, file, name, tensor);
    free(file);
    return status;
}

/* Samples of archives are told apart by their names. */
static ls_status check_keys(ls_dataset *dataset, const DataArray *array) {
    for (const DataArray *other = dataset->arrays; other < array; other++)
        if (other->keys && array->keys && other->keys != array->keys)
            return error_set(&dataset->context->error, LS_ERROR_FILE,
                             "ls_dataset_create: the samples of arrays `%s` and `%s` have other "
                             "names in their archives, or another order",
                             other->name, array->name);
    return LS_OK;
}

static ls_status take_array(ls_dataset *dataset, const ls_dataset_array *given, size_t number) {
    static const char call[] = "ls_dataset_create";
    Error *error = &dataset->context->error;
    ls_tensor mapped;
    const ls_tensor *tensor = given->path ? &mapped : &given->tensor;
    DataArray *array = &dataset->arrays[number];
    if (given->path && given->name) {
        ls_status status = map_array(dataset, array, given->path, &mapped);
        if (status != LS_OK) return status;
    }
    if (!given->name || (!tensor->shape && tensor->rank > 0))
        return null_argument(dataset->context, call,
                             given->name ? "an array's shape" : "an array's name");
    if (!ls_type_size(tensor->type) || tensor->rank < 1 || tensor->rank > LS_RANK_MAX)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: array `%s` must have a type and 1 to %d axes, of which the first "
                         "counts the samples",
                         call, given->name, LS_RANK_MAX);
    array->name = text_copy(given->name, strlen(given->name));
    if (!array->name) return error_memory(error, call);
    array->type = tensor->type;
    array->rank = tensor->rank;
    array->row_bytes = ls_type_size(tensor->type);
    bool fits = true;
    for (uint32_t i = 0; i < tensor->rank; i++) {
        array->shape[i] = tensor->shape[i];
        fits = fits && tensor->shape[i] >= 0;
        fits = fits && (i == 0 || !__builtin_mul_overflow(array->row_bytes, tensor->shape[i],
                                                          &array->row_bytes));
    }
    fits = fits && !__builtin_mul_overflow(array->row_bytes, tensor->shape[0], &array->bytes);
    if (!fits)
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: array `%s`: no length is negative, and all must fit the address "
                         "space",
                         call, given->name);
    if (!tensor->data && array->bytes)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: array `%s`: its data are NULL", call,
                         given->name);
    if (!is_contiguous(tensor))
        return error_set(error, LS_ERROR_ARGUMENT,
                         "%s: array `%s` is not contiguous; copy it first", call, given->name);
    if (number > 0 && array->shape[0] != dataset->samples)
        return error_set(error, LS_ERROR_ARGUMENT, "%s: array `%s` has %lld samples, `%s` has %lld",
                         call, given->name, (long long)array->shape[0], dataset->arrays[0].name,
                         (long long)dataset->samples);
    dataset->samples = array->shape[0];
    bool on_device = given->on_device && !given->path;
    array->host = on_device ? NULL : tensor->data;
    if (on_device) array->device = tensor->data;
    return check_keys(dataset, array);
}

static void read_part(const DataArray *part, size_t at, size_t bytes, void *argument) {
    char **to = argument;
    dataset_read(part, *to, at, bytes);
    *to += bytes;
}

void dataset_read(const DataArray *array, void *to, size_t at, size_t bytes) {
    if (array->parts) {
        char *next = to;
        dataset_each_part(array, at, at + bytes, read_part, &next);
        return;
    }
    if (bytes) memcpy(to, array->host + at, bytes);
    if (array->mapped) file_convert(array->type, array->swapped, to, bytes);
}

/* ---- loading ---- */

typedef struct Loading {
    ls_context *context;
    const ls_dataset_options *options;
    size_t chunk;
    bool pinned;
    void *stream, *allocated; /* the event behind an allocation */
    struct Piece {
        void *host, *event;
        bool in_flight;
    } pieces[2];
    size_t turn;
    uint64_t done, total;
} Loading;

/* Both pieces; what cannot be page-locked is plain memory. */
static ls_status open_loading(Loading *l) {
    const Driver *driver = l->context->driver;
    Device *device = l->context->device;
    ls_status status = driver->stream_create(device, &l->stream);
    if (status == LS_OK) status = driver->event_create(device, false, &l->allocated);
    l->pinned = true;
    for (size_t i = 0; i < COUNT(l->pieces) && status == LS_OK; i++) {
        struct Piece *piece = &l->pieces[i];
        status = driver->event_create(device, false, &piece->event);
        if (status == LS_OK && l->pinned) {
            status = driver->pinned_allocate(device, l->chunk, &piece->host);
            if (status == LS_ERROR_MEMORY && i == 0) {
                l->pinned = false;
                status = LS_OK;
                log_write(LOG_INFO, "data set on %s: no page-locked memory; loading is slower",
                          device->name);
            }
        }
        if (status == LS_OK && !l->pinned) {
            piece->host = malloc(l->chunk);
            if (!piece->host) status = LS_ERROR_MEMORY;
        }
    }
    if (status == LS_ERROR_MEMORY)
        return error_set(&l->context->error, status,
                         "ls_dataset_create: the host has no %zu bytes to load through; give a "
                         "smaller chunk_bytes",
                         2 * l->chunk);
    return status;
}

/* Waits for what is on its way: by an event behind all of it, or, should that fail, by the others.
 */
static ls_status close_loading(Loading *l, ls_status status) {
    const Driver *driver = l->context->driver;
    Device *device = l->context->device;
    for (size_t i = 0; i < COUNT(l->pieces); i++) {
        struct Piece *piece = &l->pieces[i];
        if (piece->in_flight) {
            ls_status recorded = driver->stream_record(device, l->stream, piece->event);
            ls_status waited = driver->event_wait(device, piece->event);
            if (status == LS_OK) status = recorded != LS_OK ? recorded : waited;
        }
    }
    for (size_t i = 0; i < COUNT(l->pieces); i++) {
        struct Piece *piece = &l->pieces[i];
        if (piece->event) driver->event_destroy(device, piece->event);
        if (piece->host && l->pinned)
            driver->pinned_release(device, piece->host);
        else
            free(piece->host);
    }
    if (l->allocated) driver->event_destroy(device, l->allocated);
    if (l->stream) driver->stream_destroy(device, l->stream);
    return status;
}

static ls_status report(Loading *l) {
    const ls_dataset_options *options = l->options;
    if (!options->progress || options->progress(options->argument, l->done, l->total) == 0)
        return LS_OK;
    return error_set(
        &l->context->error, LS_ERROR_STATE,
        "ls_dataset_create: given up by the progress function after %llu of %llu bytes",
        (unsigned long long)l->done, (unsigned long long)l->total);
}

static ls_status load_piece(Loading *l, const DataArray *array, size_t at, size_t bytes) {
    const Driver *driver = l->context->driver;
    Device *device = l->context->device;
    struct Piece *piece = &l->pieces[l->turn];
    ls_status status = LS_OK;
    if (piece->in_flight) status = driver->event_wait(device, piece->event);
    if (status != LS_OK) return status;
    dataset_read(array, piece->host, at, bytes);
    dataset_forget(array, at, at + bytes);
    status = copy_bytes(
        l->context, &(CopyRun){COPY_IN, array->device + at, piece->host, bytes, l->stream, NULL});
    if (status != LS_OK) return status;
    piece->in_flight = true;
    status = driver->stream_record(device, l->stream, piece->event);
    l->turn = (l->turn + 1) % COUNT(l->pieces);
    l->done += bytes;
    return status == LS_OK ? report(l) : status;
}

static ls_status load_array(Loading *l, DataArray *array) {
    void *memory;
    char label[64];
    snprintf(label, sizeof label, "data set: %.48s", array->name);
    ls_status status =
        memory_allocate_for(l->context, "ls_dataset_create", label, array->bytes, &memory);
    if (status != LS_OK) return status;
    array->device = memory;
    array->owned = true;
    /* the memory is there for what is queued on the context's stream from now on */
    const Driver *driver = l->context->driver;
    status = driver->event_record(l->context->device, l->allocated);
    if (status == LS_OK) status = driver->stream_wait(l->context->device, l->stream, l->allocated);
    dataset_read_along(array, true);
    for (size_t at = 0; at < array->bytes && status == LS_OK;) {
        size_t left = array->bytes - at, bytes = left < l->chunk ? left : l->chunk;
        status = load_piece(l, array, at, bytes);
        at += bytes;
    }
    return status;
}

static ls_status load(ls_dataset *dataset, const ls_dataset_options *options, uint64_t total) {
    Loading loading = {.context = dataset->context, .options = options, .total = total};
    loading.chunk = options->chunk_bytes ? options->chunk_bytes : CHUNK_DEFAULT;
    if (loading.chunk > total) loading.chunk = (size_t)total;
    loading.chunk = (loading.chunk + 7) / 8 * 8; /* no element is cut */
    ls_status status = open_loading(&loading);
    if (status == LS_OK) status = report(&loading);
    for (size_t i = 0; i < dataset->count && status == LS_OK; i++)
        if (!dataset->arrays[i].device) status = load_array(&loading, &dataset->arrays[i]);
    return close_loading(&loading, status);
}

/* What the device reads where it lies: as it is there. */
static bool lies_well(const ls_dataset *dataset, const DataArray *array) {
    bool converted = array->mapped && (array->swapped || array->type == LS_BOOL);
    return dataset->context->device->reads_host && !converted && !array->parts &&
           (uintptr_t)array->host % DENSE_ALIGNMENT == 0;
}

static uint64_t allowance(const ls_dataset *dataset, const ls_dataset_options *options) {
    uint64_t free_bytes = 0, total_bytes = 0;
    ls_context *context = dataset->context;
    if (options->device_bytes) return options->device_bytes;
    if (!context->driver->available(context->device, &free_bytes, &total_bytes)) return UINT64_MAX;
    return free_bytes - free_bytes / 10;
}

/* What was loaded is given back; every array must lie on the host. */
static ls_status come_in_batches(ls_dataset *dataset, uint64_t total) {
    dataset->resident = false;
    for (size_t i = 0; i < dataset->count; i++) {
        DataArray *array = &dataset->arrays[i];
        if (!array->host)
            return error_set(&dataset->context->error, LS_ERROR_MEMORY,
                             "ls_dataset_create: array `%s` lies on the device, and %llu bytes of "
                             "the others do not fit there: make two data sets of them",
                             array->name, (unsigned long long)total);
        if (array->owned) memory_free(dataset->context, array->device);
        if (array->owned) array->device = NULL;
        array->owned = false;
        dataset_read_along(array, false);
    }
    log_write(LOG_INFO, "data set on %s: %llu bytes do not fit; batches come through a feed",
              dataset->context->device->name, (unsigned long long)total);
    return LS_OK;
}

static ls_status place(ls_dataset *dataset, const ls_dataset_options *options) {
    uint64_t total = 0;
    for (size_t i = 0; i < dataset->count; i++) {
        DataArray *array = &dataset->arrays[i];
        if (!array->device && lies_well(dataset, array)) {
            union { /* nobody writes it: see dataset_check_role */
                const char *given;
                char *read;
            } where = {.given = array->host};
            array->device = where.read;
            dataset_read_along(array, false); /* the step picks rows, here and there */
        }
        if (!array->device) total += array->bytes;
    }
    dataset->resident = total == 0 || total <= allowance(dataset, options);
    if (!dataset->resident) return come_in_batches(dataset, total);
    ls_status status = total ? load(dataset, options, total) : LS_OK;
    /* what is free is not always to be had: the context may have a limit */
    bool full = status == LS_ERROR_MEMORY && !options->device_bytes;
    return full ? come_in_batches(dataset, total) : status;
}

ls_status ls_dataset_create(ls_context *context, const ls_dataset_array *arrays, size_t count,
                            const ls_dataset_options *options, ls_dataset **dataset) {
    static const char call[] = "ls_dataset_create";
    static const ls_dataset_options none = {0};
    if (dataset) *dataset = NULL;
    if (!context || !arrays || !dataset)
        return null_argument(context, call,
                             !context ? "context" : (!arrays ? "arrays" : "dataset"));
    if (count == 0)
        return error_set(&context->error, LS_ERROR_ARGUMENT,
                         "%s: a data set has at least one array", call);
    ls_status status = context_not_capturing(context, call);
    if (status != LS_OK) return status;
    ls_dataset *made = calloc(1, sizeof *made);
    if (!made) return error_memory(&context->error, call);
    made->context = context;
    made->count = count;
    made->arrays = calloc(count, sizeof *made->arrays);
    if (!made->arrays) status = error_memory(&context->error, call);
    for (size_t i = 0; i < count && status == LS_OK; i++) status = take_array(made, &arrays[i], i);
    if (status == LS_OK) status = place(made, options ? options : &none);
    if (status == LS_OK)
        *dataset = made;
    else
        ls_dataset_destroy(made);
    return status;
}

/* ---- use ---- */

bool dataset_in_place(const DataArray *array) {
    return (array->mapped || array->parts) && (!array->device || array->device == array->host);
}

int64_t ls_dataset_samples(const ls_dataset *dataset) {
    return dataset ? dataset->samples : 0;
}

int ls_dataset_resident(const ls_dataset *dataset) {
    return dataset && dataset->resident;
}

ls_status ls_dataset_tensor(const ls_dataset *dataset, const char *array, ls_tensor *tensor) {
    static const char call[] = "ls_dataset_tensor";
    if (!dataset || !array || !tensor)
        return null_argument(dataset ? dataset->context : NULL, call,
                             !dataset ? "dataset" : (!array ? "array" : "tensor"));
    Error *error = &dataset->context->error;
    if (!dataset->resident)
        return error_set(error, LS_ERROR_STATE,
                         "%s: the data set does not fit the device; read it by ls_split_bind and "
                         "ls_split_next",
                         call);
    for (size_t i = 0; i < dataset->count; i++) {
        const DataArray *found = &dataset->arrays[i];
        if (strcmp(found->name, array) != 0) continue;
        *tensor = (ls_tensor){
            .data = found->device, .type = found->type, .rank = found->rank, .shape = found->shape};
        return LS_OK;
    }
    return error_set(error, LS_ERROR_ARGUMENT,
                     "%s: the data set has no array `%s`; its first is `%s`", call, array,
                     dataset->arrays[0].name);
}

ls_status dataset_check_role(const ls_dataset *dataset, const ls_step *step, const char *call,
                             size_t parameter) {
    const ls_image_parameter *found = &step->image->parameters[parameter];
    if (step->context != dataset->context)
        return error_set(&dataset->context->error, LS_ERROR_ARGUMENT,
                         "%s: the data set and step `%s` belong to different contexts", call,
                         step->image->step);
    if (found->role == LS_IN) return LS_OK;
    return error_set(&dataset->context->error, LS_ERROR_BIND,
                     "%s: step `%s` writes `%s`, and a data set is only read", call,
                     step->image->step, found->name);
}

ls_status ls_dataset_bind(const ls_dataset *dataset, ls_step *step, const char *array) {
    static const char call[] = "ls_dataset_bind";
    ls_tensor tensor;
    size_t parameter;
    if (!dataset || !step || !array)
        return null_argument(dataset ? dataset->context : NULL, call,
                             !dataset ? "dataset" : (!step ? "step" : "array"));
    ls_status status = step_parameter(step, call, array, &parameter);
    if (status == LS_OK) status = dataset_check_role(dataset, step, call, parameter);
    if (status == LS_OK) status = ls_dataset_tensor(dataset, array, &tensor);
    return status == LS_OK ? ls_step_bind(step, array, &tensor) : status;
}
